//! Texts as the language-server protocol describes them: addresses (URIs), and positions in lines and UTF-16
//! units.

use std::path::{Path, PathBuf};
use std::str::FromStr as _;

use lsp_types::{Position, Range, Uri};
use thalweg_net::syntax::Span;

/// The positions at which the lines of a text start.
///
/// The protocol counts lines from 0, ends them at `\n`, `\r\n` or `\r`, and counts columns in UTF-16 units.
#[derive(Clone, Debug)]
pub(super) struct Lines {
    starts: Vec<u32>,
}

impl Lines {
    pub(super) fn of(text: &str) -> Lines {
        let bytes = text.as_bytes();
        let ends = |(i, b): (usize, &u8)| match b {
            b'\n' => true,
            b'\r' => bytes.get(i + 1) != Some(&b'\n'),
            _ => false,
        };
        let after = bytes.iter().enumerate().filter(|&at| ends(at)).map(|(i, _)| i as u32 + 1);
        Lines { starts: std::iter::once(0).chain(after).collect() }
    }

    /// The byte of a position; a position after the end of its line or text stands for that end.
    pub(super) fn byte(&self, text: &str, position: Position) -> u32 {
        let Some(&start) = self.starts.get(position.line as usize) else { return text.len() as u32 };
        let line = self.line(text, position.line as usize);
        let mut units = 0;
        for (at, c) in line.char_indices() {
            units += c.len_utf16() as u32;
            if units > position.character {
                return start + at as u32;
            }
        }
        start + line.len() as u32
    }

    pub(super) fn position(&self, text: &str, byte: u32) -> Position {
        let mut byte = (byte as usize).min(text.len());
        while !text.is_char_boundary(byte) {
            byte -= 1;
        }
        let line = self.starts.partition_point(|&start| start as usize <= byte) - 1;
        let before = &text[self.starts[line] as usize..byte];
        Position::new(line as u32, before.chars().map(|c| c.len_utf16() as u32).sum())
    }

    pub(super) fn range(&self, text: &str, span: Span) -> Range {
        Range::new(self.position(text, span.start), self.position(text, span.end.max(span.start)))
    }

    /// A line without its line break.
    fn line<'a>(&self, text: &'a str, line: usize) -> &'a str {
        let end = self.starts.get(line + 1).map_or(text.len(), |&next| next as usize);
        text[self.starts[line] as usize..end].trim_end_matches(['\n', '\r'])
    }
}

/// The path of an address; if the address is not that of a file, the address itself as a path.
pub(super) fn path_of(uri: &Uri) -> PathBuf {
    let Some(rest) = uri.as_str().strip_prefix("file://") else { return PathBuf::from(uri.as_str()) };
    let path = &rest[rest.find('/').unwrap_or(rest.len())..];
    let mut bytes = Vec::with_capacity(path.len());
    let mut at = path.as_bytes().iter();
    while let Some(&byte) = at.next() {
        let hex = |b: Option<&u8>| b.and_then(|&b| (b as char).to_digit(16)).map(|d| d as u8);
        match (byte, hex(at.as_slice().first()), hex(at.as_slice().get(1))) {
            (b'%', Some(high), Some(low)) => {
                bytes.push(high << 4 | low);
                at.nth(1);
            }
            _ => bytes.push(byte),
        }
    }
    PathBuf::from(String::from_utf8_lossy(&bytes).into_owned())
}

/// The address of a file; `None` if the path cannot be written as an address.
pub(super) fn uri_of(path: &Path) -> Option<Uri> {
    let absolute = std::path::absolute(path).ok()?;
    let mut text = "file://".to_owned();
    for byte in absolute.to_str()?.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'~' => {
                text.push(byte as char)
            }
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    Uri::from_str(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_utf16_units() {
        let text = "aä🌊b\r\nx\ry\n";
        let lines = Lines::of(text);
        let there_and_back = |byte: u32, line: u32, character: u32| {
            let position = Position::new(line, character);
            assert_eq!(lines.position(text, byte), position, "byte {byte}");
            assert_eq!(lines.byte(text, position), byte, "{line}:{character}");
        };
        there_and_back(0, 0, 0);
        there_and_back(1, 0, 1);
        there_and_back(3, 0, 2);
        there_and_back(7, 0, 4);
        there_and_back(8, 0, 5);
        there_and_back(10, 1, 0);
        there_and_back(12, 2, 0);
        there_and_back(14, 3, 0);
        let byte = |line, character| lines.byte(text, Position::new(line, character));
        assert_eq!(byte(0, 3), 3, "inside of a character is its start");
        assert_eq!(byte(0, 99), 8, "behind a line is its end");
        assert_eq!((byte(3, 99), byte(99, 0)), (14, 14), "behind the text is its end");
        assert_eq!(lines.position(text, 5), Position::new(0, 2), "inside of a character is its start");
        assert_eq!(lines.position(text, 999), Position::new(3, 0));
    }

    #[test]
    fn addresses_and_paths() {
        for path in ["/a/b.snet", "/with space/ä#%25?.snet", "/a:b/c@d.snet"] {
            let uri = uri_of(Path::new(path)).unwrap();
            assert_eq!(path_of(&uri), Path::new(path), "{}", uri.as_str());
        }
        let path = |uri: &str| path_of(&Uri::from_str(uri).unwrap());
        assert_eq!(path("file:///a%20b/%C3%A4.snet"), Path::new("/a b/ä.snet"));
        assert_eq!(path("file://host/a.snet"), Path::new("/a.snet"));
        assert_eq!(path("untitled:Untitled-1"), Path::new("untitled:Untitled-1"));
    }
}
