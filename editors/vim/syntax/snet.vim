" Vim syntax file: S-Net, as Thalweg reads it.

if exists('b:current_syntax')
  finish
endif

syntax case match

" What is defined later wins where two items start at one place.
syntax match snetName "\<[A-Za-z_][A-Za-z0-9_]*\>"
syntax match snetNumber "\<\(0[xX]\x\+\|\d\+\)\>"
syntax match snetBracket "[()\[\]{};,]"
syntax match snetOperator "[|*!:=+\-/%?<>@\\]"
syntax match snetOperator "<#\|&&\|==\|!=\|<=\|>="
syntax match snetCombinator "\.\.\.\|\.\.\|::\|||\|\*\*\|!!@\|!!\|!@\|->"
syntax match snetCell "\[|\||\]"
syntax match snetTag "\(<#\|<\)\s*[A-Za-z_][A-Za-z0-9_]*>=\@!"

syntax keyword snetDeclaration net box type typesig connect
syntax keyword snetConditional if then else
syntax keyword snetFunction abs min max

syntax match snetComment "//.*$" contains=snetTodo,@Spell
syntax region snetComment start="/\*" end="\*/" contains=snetTodo,@Spell
syntax keyword snetTodo contained TODO FIXME XXX
syntax region snetMetadata start="<metadata>\(\s*[,}]\)\@!" end="</metadata>"
syntax region snetCode start="<<<" end=">>>"

highlight default link snetNumber Number
highlight default link snetBracket Delimiter
highlight default link snetOperator Operator
highlight default link snetCombinator Operator
highlight default link snetCell Delimiter
highlight default link snetTag Identifier
highlight default link snetDeclaration Keyword
highlight default link snetConditional Conditional
highlight default link snetFunction Function
highlight default link snetComment Comment
highlight default link snetTodo Todo
highlight default link snetMetadata PreProc
highlight default link snetCode String

let b:current_syntax = 'snet'
