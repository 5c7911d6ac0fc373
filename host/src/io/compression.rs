//! Compressed files. An input is recognised as compressed by its first bytes, and an output is compressed if
//! the end of its name says so.

use std::fs::File;
use std::io::{self, BufRead, Write};
use std::path::Path;

use flate2::write::GzEncoder;
use flate2::{Decompress, FlushDecompress, Status};
use zstd::stream::raw::{self, Operation};

/// The number of bytes that are decoded at once.
const ROOM_BYTES: usize = 1 << 17;
/// The greatest distance to which gzip's data may refer back, as a power of two.
const GZIP_WINDOW_BITS: u8 = 15;
/// The default level of Zstandard.
const ZSTD_LEVEL: i32 = 3;

/// The compression of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    Gzip,
    Zstd,
}

impl Compression {
    const ALL: [(&[u8], &str, Compression); 2] =
        [(&[0x1f, 0x8b], "gz", Compression::Gzip), (&[0x28, 0xb5, 0x2f, 0xfd], "zst", Compression::Zstd)];

    /// The compression of data that begin with the bytes `begin`; `Err` if more bytes are needed to decide.
    pub(super) fn of_data(begin: &[u8]) -> Result<Option<Compression>, ()> {
        for (magic, _, compression) in Compression::ALL {
            if begin.starts_with(magic) {
                return Ok(Some(compression));
            }
            if !begin.is_empty() && magic.starts_with(begin) {
                return Err(());
            }
        }
        Ok(None)
    }

    /// The compression that the end of a file's name requests, and the name without that end.
    pub(super) fn of_name(path: &Path) -> (Option<Compression>, &Path) {
        let known = |(_, extension, compression): &(_, &str, Compression)| {
            let has_it = path.extension().is_some_and(|it| it.eq_ignore_ascii_case(extension));
            has_it
                .then(|| Path::new(path.file_stem().unwrap_or_default()))
                .map(|rest| (Some(*compression), rest))
        };
        Compression::ALL.iter().find_map(known).unwrap_or((None, path))
    }

    fn name(self) -> &'static str {
        match self {
            Compression::Gzip => "gzip",
            Compression::Zstd => "zstd",
        }
    }
}

/// Decodes an input as it arrives.
pub(super) struct Decoder {
    compression: Compression,
    decoding: Decoding,
    decoded: Vec<u8>,
    /// The position in the output of the first byte that was not consumed yet.
    begin: usize,
    end: usize,
    /// Whether the bytes read so far end with a complete member (gzip) or frame (Zstandard), of which a file
    /// may have several.
    is_whole: bool,
    is_over: bool,
}

enum Decoding {
    Gzip(Decompress),
    Zstd(raw::Decoder<'static>),
}

impl Decoder {
    pub(super) fn new(compression: Compression) -> io::Result<Decoder> {
        let decoding = match compression {
            Compression::Gzip => Decoding::Gzip(Decompress::new_gzip(GZIP_WINDOW_BITS)),
            Compression::Zstd => Decoding::Zstd(raw::Decoder::new()?),
        };
        let decoded = vec![0; ROOM_BYTES];
        Ok(Decoder { compression, decoding, decoded, begin: 0, end: 0, is_whole: true, is_over: false })
    }

    /// The bytes that were decoded and not consumed yet.
    pub(super) fn buffer(&self) -> &[u8] {
        &self.decoded[self.begin..self.end]
    }

    /// Consumes `count` bytes of the buffer.
    pub(super) fn consume(&mut self, count: usize) {
        self.begin += count;
    }

    /// Whether the data have ended.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Decodes available input from `from`, if the buffer is empty; several calls may be needed to fill it.
    pub(super) fn fill(&mut self, from: &mut impl BufRead) -> io::Result<()> {
        if self.begin < self.end || self.is_over {
            return Ok(());
        }
        let input = from.fill_buf()?;
        if input.is_empty() {
            self.is_over = true;
            return if self.is_whole { Ok(()) } else { Err(self.cut_off()) };
        }
        if self.is_whole && self.is_padding(input) {
            let length = input.len();
            from.consume(length);
            return Ok(());
        }
        let decoded = match &mut self.decoding {
            Decoding::Gzip(gzip) => {
                if self.is_whole {
                    *gzip = Decompress::new_gzip(GZIP_WINDOW_BITS);
                }
                let before = (gzip.total_in(), gzip.total_out());
                gzip.decompress(input, &mut self.decoded, FlushDecompress::None).map_err(io::Error::from).map(
                    |status| {
                        let taken = (gzip.total_in() - before.0) as usize;
                        (taken, (gzip.total_out() - before.1) as usize, status == Status::StreamEnd)
                    },
                )
            }
            Decoding::Zstd(zstd) => zstd
                .run_on_buffers(input, &mut self.decoded)
                .map(|status| (status.bytes_read, status.bytes_written, status.remaining == 0)),
        };
        let (taken, written, is_whole) = decoded.map_err(|error| self.damaged(&error))?;
        if taken == 0 && written == 0 && !is_whole {
            return Err(self.damaged(&"it makes no progress"));
        }
        from.consume(taken);
        (self.begin, self.end, self.is_whole) = (0, written, is_whole);
        Ok(())
    }

    /// Whether the rest of the input is padding with zeros, as at the end of archives on tapes.
    fn is_padding(&self, input: &[u8]) -> bool {
        self.compression == Compression::Gzip && input.iter().all(|&byte| byte == 0)
    }

    #[cold]
    fn cut_off(&self) -> io::Error {
        let name = self.compression.name();
        io::Error::new(
            io::ErrorKind::UnexpectedEof,
            format!("its {name} data end in their middle: the file was cut off; what came before was read"),
        )
    }

    #[cold]
    fn damaged(&self, what: &dyn std::fmt::Display) -> io::Error {
        let name = self.compression.name();
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("its {name} data are damaged ({what}); what came before was read"),
        )
    }
}

/// An output file, compressed if its name ends accordingly.
pub(super) enum Encoded {
    Plain(File),
    Gzip(GzEncoder<File>),
    Zstd(zstd::Encoder<'static, File>),
}

impl Encoded {
    pub(super) fn new(file: File, compression: Option<Compression>) -> io::Result<Encoded> {
        Ok(match compression {
            None => Encoded::Plain(file),
            Some(Compression::Gzip) => Encoded::Gzip(GzEncoder::new(file, flate2::Compression::default())),
            Some(Compression::Zstd) => Encoded::Zstd(zstd::Encoder::new(file, ZSTD_LEVEL)?),
        })
    }

    /// Writes the end of the compressed data; nothing may be written after this call.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        match self {
            Encoded::Plain(_) => Ok(()),
            Encoded::Gzip(gzip) => gzip.try_finish(),
            Encoded::Zstd(zstd) => zstd.do_finish(),
        }
    }
}

impl Write for Encoded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Encoded::Plain(file) => file.write(bytes),
            Encoded::Gzip(gzip) => gzip.write(bytes),
            Encoded::Zstd(zstd) => zstd.write(bytes),
        }
    }

    /// Flushes the file and not the encoder. The encoder keeps data until it has enough to compress well; if
    /// it were flushed, a slow stream of records would hardly be compressed.
    fn flush(&mut self) -> io::Result<()> {
        match self {
            Encoded::Plain(file) => file.flush(),
            Encoded::Gzip(_) | Encoded::Zstd(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes `data`, which is given to the decoder in pieces of `at_once` bytes.
    fn decoded(compression: Compression, data: &[u8], at_once: usize) -> io::Result<Vec<u8>> {
        let mut from = io::BufReader::with_capacity(at_once, data);
        let mut decoder = Decoder::new(compression)?;
        let mut all = Vec::new();
        while !decoder.is_over() {
            decoder.fill(&mut from)?;
            all.extend_from_slice(decoder.buffer());
            decoder.consume(decoder.buffer().len());
        }
        Ok(all)
    }

    fn encoded(compression: Compression, text: &[u8]) -> Vec<u8> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let mut encoder = Encoded::new(file.reopen().unwrap(), Some(compression)).unwrap();
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap();
        let mut data = Vec::new();
        io::Read::read_to_end(&mut file, &mut data).unwrap();
        data
    }

    #[test]
    fn what_is_encoded_is_decoded_in_any_pieces() {
        let text: Vec<u8> = (0..300_000_u32).flat_map(|n| (n.wrapping_mul(n) >> 8).to_le_bytes()).collect();
        for (magic, _, compression) in Compression::ALL {
            let data = encoded(compression, &text);
            assert_eq!(Compression::of_data(&data), Ok(Some(compression)));
            assert_eq!(Compression::of_data(&magic[..1]), Err(()));
            // Two concatenated files are one valid file.
            let twice = [data.as_slice(), data.as_slice()].concat();
            for at_once in [1, 7, 1 << 16] {
                let size = if at_once == 1 { 10_000 } else { text.len() };
                let small = encoded(compression, &text[..size]);
                assert!(decoded(compression, &small, at_once).unwrap() == text[..size]);
            }
            assert!(decoded(compression, &twice, 4096).unwrap() == [text.as_slice(), &text].concat());
            let cut = decoded(compression, &data[..data.len() - 3], 4096).unwrap_err();
            assert!(cut.to_string().contains("end in their middle"), "{cut}");
            let mut wrong = data.clone();
            wrong[data.len() / 2..].iter_mut().for_each(|byte| *byte ^= 0x55);
            assert!(decoded(compression, &wrong, 4096).unwrap_err().to_string().contains("are damaged"));
            assert_eq!(decoded(compression, &encoded(compression, b""), 4096).unwrap(), b"");
        }
        let padded = [encoded(Compression::Gzip, b"x"), vec![0; 512]].concat();
        assert_eq!(decoded(Compression::Gzip, &padded, 4096).unwrap(), b"x");
    }

    #[test]
    fn names_imply_their_compression() {
        let of = |name: &'static str| Compression::of_name(Path::new(name));
        assert_eq!(of("a/b.csv.gz"), (Some(Compression::Gzip), Path::new("b.csv")));
        assert_eq!(of("b.jsonl.ZST"), (Some(Compression::Zstd), Path::new("b.jsonl")));
        assert_eq!(of("gz"), (None, Path::new("gz")));
    }
}
