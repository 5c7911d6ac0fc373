autocmd BufNewFile,BufRead *.snet setfiletype snet
