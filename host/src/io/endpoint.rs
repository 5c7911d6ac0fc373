//! The values of `--input` and `--output`: where records come from or go to, and in which form.
//!
//! ```text
//! [NAME=]PLACE          a path, `-`, or one of the schemes below
//! [NAME=]SCHEME:…[?OPTION[=VALUE][&OPTION…]]
//! ```
//! Schemes are `file:PATH`, `tcp://HOST:PORT`, `tcp-listen://[HOST]:PORT`, `unix:PATH` and
//! `unix-listen:PATH`. Only places with a scheme have options, so any path may be written unchanged. In the
//! value of an option, `%26` stands for `&`.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use thalweg_net::label::Label;

use super::compression::Compression;
use crate::amount::per_second;
use crate::error::Error;

/// The form of the records of an input or output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// JSON Lines: one object a line.
    Json,
    /// S-Net's XML, ended by a record of type "terminate".
    Xml,
    /// Comma-separated values; the first line has the labels. Files named *.tsv have tabs instead of commas.
    Csv,
    /// Text: each line is the field `line`, without its end.
    Lines,
    /// Bytes: the field `data`, cut into chunks when read.
    Bytes,
    /// A directory: each file is a record with the file's `name` and `data`.
    Files,
}

impl Format {
    /// Every format, with its word.
    pub const ALL: [(&str, Format); 6] = [
        ("json", Format::Json),
        ("xml", Format::Xml),
        ("csv", Format::Csv),
        ("lines", Format::Lines),
        ("bytes", Format::Bytes),
        ("files", Format::Files),
    ];

    /// The format with the word `word`.
    pub fn named(word: &str) -> Option<Format> {
        Format::ALL.iter().find(|(known, _)| *known == word).map(|(_, format)| *format)
    }

    /// The format that the name of a file implies.
    pub(crate) fn of(path: &Path) -> Option<Format> {
        let (_, path) = Compression::of_name(path);
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        match extension.as_str() {
            "xml" => Some(Format::Xml),
            "csv" | "tsv" => Some(Format::Csv),
            "json" | "jsonl" | "ndjson" => Some(Format::Json),
            _ => None,
        }
    }
}

/// The place of an input or output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Standard input or output.
    Standard,
    /// A file, a directory, a device.
    Path(PathBuf),
    /// A peer that listens at the given address.
    Tcp(String),
    /// The peer that connects to the given address.
    TcpListen(String),
    /// A peer that listens at the given socket.
    Unix(PathBuf),
    /// The peer that connects to the given socket.
    UnixListen(PathBuf),
}

/// One `--input` or `--output`.
#[derive(Clone, Debug, PartialEq)]
pub struct Endpoint {
    /// The endpoint's name in reports.
    pub name: Option<String>,
    /// The place.
    pub place: Place,
    /// The options.
    pub options: Options,
}

/// The options of an endpoint; options that the endpoint lacks are taken from the program's other arguments.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// The form of the endpoint's records.
    pub format: Option<Format>,
    /// The field of a line or chunk.
    pub label: Option<String>,
    /// The number of bytes of a chunk.
    pub chunk: Option<usize>,
    /// The number of records a second.
    pub rate: Option<f64>,
    /// Labels for records that lack them, as JSON.
    pub with: Option<String>,
    /// Whether a listening input waits for another peer after a peer has disconnected.
    pub keep: bool,
    /// The labels that a record must have so that an output accepts it.
    pub accepts: Option<Vec<Label>>,
}

/// The argument that an endpoint belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// `--input`.
    Input,
    /// `--output`.
    Output,
}

impl Side {
    fn argument(self) -> &'static str {
        match self {
            Side::Input => "--input",
            Side::Output => "--output",
        }
    }
}

impl Endpoint {
    /// Parses the value of `--input` or `--output`.
    ///
    /// # Errors
    /// An error with the code E0902 if the scheme or option does not exist, the address is incomplete, or the
    /// option's value is invalid.
    pub fn parse(text: &OsStr, side: Side) -> Result<Endpoint, Error> {
        let wrong = |what: String| {
            let text = text.display();
            Error::coded("E0902", format!("{} {text}: {what}", side.argument()))
        };
        let Some(written) = text.to_str() else { return Ok(Endpoint::path(text.to_owned())) };
        let (name, rest) = match written.split_once('=') {
            Some((name, rest)) if is_name(name) => (Some(name.to_owned()), rest),
            _ => (None, written),
        };
        let Some((scheme, rest)) = scheme(rest) else {
            return match foreign_scheme(rest) {
                Some(scheme) => Err(wrong(no_such_scheme(scheme))),
                None => Ok(Endpoint { name, ..Endpoint::path(rest.into()) }),
            };
        };
        let (address, options) = rest.split_once('?').unwrap_or((rest, ""));
        let place = scheme.place(address).map_err(wrong)?;
        let options = Options::parse(options, side).map_err(wrong)?;
        if options.keep && !matches!(place, Place::TcpListen(_) | Place::UnixListen(_)) {
            return Err(wrong("`keep` is for tcp-listen and unix-listen: it waits for the next peer".into()));
        }
        Ok(Endpoint { name, place, options })
    }

    fn path(path: OsString) -> Endpoint {
        let place = if path == "-" { Place::Standard } else { Place::Path(path.into()) };
        Endpoint { name: None, place, options: Options::default() }
    }

    /// The format of the endpoint: its own if it has one, else `asked` (the format for all endpoints), else
    /// the format that the file's name implies, else JSON Lines.
    pub(crate) fn format(&self, asked: Option<Format>) -> Format {
        let implied = match &self.place {
            Place::Path(path) => Format::of(path),
            _ => None,
        };
        self.options.format.or(asked).or(implied).unwrap_or(Format::Json)
    }
}

/// Whether a text can be the name of an input or output, which must have the form of a label.
fn is_name(text: &str) -> bool {
    let mut characters = text.chars();
    characters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && characters.all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

#[derive(Clone, Copy)]
enum Scheme {
    File,
    Tcp,
    TcpListen,
    Unix,
    UnixListen,
}

/// The scheme at the beginning of a text, and the rest of the text.
fn scheme(text: &str) -> Option<(Scheme, &str)> {
    const SCHEMES: [(&str, Scheme); 5] = [
        ("file:", Scheme::File),
        ("tcp://", Scheme::Tcp),
        ("tcp-listen://", Scheme::TcpListen),
        ("unix:", Scheme::Unix),
        ("unix-listen:", Scheme::UnixListen),
    ];
    SCHEMES.iter().find_map(|(prefix, scheme)| Some((*scheme, text.strip_prefix(prefix)?)))
}

/// The scheme of a text that has the form of an address, and not of a path.
fn foreign_scheme(text: &str) -> Option<&str> {
    let (scheme, _) = text.split_once("://")?;
    let is_letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    (!scheme.is_empty() && scheme.chars().all(is_letter)).then_some(scheme)
}

fn no_such_scheme(scheme: &str) -> String {
    const KNOWN: &str =
        "there are file:PATH, tcp://HOST:PORT, tcp-listen://[HOST]:PORT, unix:PATH and unix-listen:PATH";
    let pipe = match scheme {
        "http" | "https" | "ftp" => {
            "; let a program fetch it into a pipe: `curl -sS ADDRESS | thalweg run …`"
        }
        _ => "",
    };
    format!("`{scheme}://` is no scheme of a place: {KNOWN}{pipe}")
}

impl Scheme {
    fn place(self, address: &str) -> Result<Place, String> {
        let path = || match address {
            "" => Err("a path is missing".to_owned()),
            path => Ok(PathBuf::from(path)),
        };
        Ok(match self {
            Scheme::File => Place::Path(path()?),
            Scheme::Unix => Place::Unix(path()?),
            Scheme::UnixListen => Place::UnixListen(path()?),
            Scheme::Tcp => Place::Tcp(with_port(address, "tcp://localhost:7000")?),
            // An address without a host means the loopback interface; listening on all interfaces must be
            // requested explicitly.
            Scheme::TcpListen if address.starts_with(':') => {
                Place::TcpListen(with_port(&format!("localhost{address}"), "tcp-listen://:7000")?)
            }
            Scheme::TcpListen => Place::TcpListen(with_port(address, "tcp-listen://:7000")?),
        })
    }
}

fn with_port(address: &str, example: &str) -> Result<String, String> {
    match address.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => Ok(address.to_owned()),
        _ => Err(format!("expected a host and a port, as in {example}")),
    }
}

impl Options {
    fn parse(text: &str, side: Side) -> Result<Options, String> {
        let mut options = Options::default();
        for part in text.split('&').filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            options.set(key, decoded(value)?, side)?;
        }
        Ok(options)
    }

    fn set(&mut self, key: &str, value: String, side: Side) -> Result<(), String> {
        match (key, side) {
            ("format", _) => {
                let format = Format::named(&value).ok_or_else(|| {
                    format!("no format {value:?}; there are json, xml, csv, lines, bytes and files")
                })?;
                self.format = Some(format);
            }
            ("label", _) => self.label = Some(name_of_field(&value)?),
            ("chunk", Side::Input) => self.chunk = Some(positive(key, &value)?),
            ("rate", Side::Input) => self.rate = Some(per_second(&value)?),
            ("with", Side::Input) => self.with = Some(value),
            ("keep", _) => self.keep = true,
            ("type", Side::Output) => self.accepts = Some(type_of(&value)?),
            (_, Side::Input) => {
                return Err(format!(
                    "no option {key:?}; there are format, label, chunk, rate, with and keep"
                ));
            }
            (_, Side::Output) => {
                return Err(format!("no option {key:?}; there are format, label, type and keep"));
            }
        }
        Ok(())
    }
}

/// Parses the name of a label that is a field.
///
/// # Errors
/// If the text is no name of a field.
pub fn label_name(text: &str) -> Result<String, Error> {
    name_of_field(text).map_err(Error::usage)
}

fn name_of_field(text: &str) -> Result<String, String> {
    match Label::parse(text) {
        Ok(label) if !label.is_integer() => Ok(text.to_owned()),
        _ => Err(format!("{text:?} is no name of a field")),
    }
}

fn positive(key: &str, value: &str) -> Result<usize, String> {
    match crate::amount::size(value).map(usize::try_from) {
        Ok(Ok(number)) if number > 0 => Ok(number),
        _ => Err(format!("{key}={value}: expected a number of bytes, at least 1, such as 65536 or 64KiB")),
    }
}

/// Parses a rate in records a second.
///
/// # Errors
/// If the text is no number above 0.
pub fn rate(text: &str) -> Result<f64, Error> {
    per_second(text).map_err(Error::usage)
}

/// Parses a type of records, such as `{a, <n>}`.
fn type_of(text: &str) -> Result<Vec<Label>, String> {
    let inside = text.trim().strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    let inside = inside.ok_or_else(|| format!("{text:?} is no type; expected labels, as in {{a,<n>}}"))?;
    let labels = inside.split(',').map(str::trim).filter(|label| !label.is_empty());
    labels.map(|label| Label::parse(label).map_err(|error| format!("{label:?} is {error}"))).collect()
}

/// The text with escapes such as `%26` decoded.
fn decoded(text: &str) -> Result<String, String> {
    let wrong = || format!("{text:?}: after `%` stand two digits, as in %26; `%` itself is %25");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2).ok_or_else(wrong)?;
        let digits = std::str::from_utf8(digits).map_err(|_| wrong())?;
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| wrong())?);
        rest = after;
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str, side: Side) -> Result<Endpoint, String> {
        Endpoint::parse(OsStr::new(text), side).map_err(|error| error.to_string())
    }

    fn input(text: &str) -> Endpoint {
        parse(text, Side::Input).expect(text)
    }

    #[test]
    fn paths_are_taken_as_they_are_written() {
        for path in ["data.jsonl", "a b?c=d&e", "./x=y", "/tmp/é", "C:odd"] {
            assert_eq!(input(path).place, Place::Path(path.into()));
            assert_eq!(input(path).name, None);
        }
        assert_eq!(input("-").place, Place::Standard);
    }

    #[test]
    fn a_name_stands_before_the_place() {
        let sensors = input("sensors=data=1.csv");
        assert_eq!(sensors.name.as_deref(), Some("sensors"));
        assert_eq!(sensors.place, Place::Path("data=1.csv".into()));
        assert_eq!(sensors.format(None), Format::Csv);
        assert_eq!(sensors.format(Some(Format::Lines)), Format::Lines);
        assert_eq!(input("in=-").place, Place::Standard);
    }

    #[test]
    fn sockets_listen_on_loopback_by_default() {
        assert_eq!(input("tcp-listen://:7000").place, Place::TcpListen("localhost:7000".into()));
        assert_eq!(input("tcp-listen://0.0.0.0:7000?keep").place, Place::TcpListen("0.0.0.0:7000".into()));
        assert_eq!(input("tcp://[::1]:80").place, Place::Tcp("[::1]:80".into()));
        assert_eq!(input("unix:/run/a.sock").place, Place::Unix("/run/a.sock".into()));
    }

    #[test]
    fn options_stand_behind_a_scheme() {
        let all = input("a=file:x.log?format=lines&label=text&rate=2.5&chunk=7&with={\"k\":\"a%26b\"}");
        let options = all.options;
        assert_eq!((options.format, options.label.as_deref()), (Some(Format::Lines), Some("text")));
        assert_eq!((options.rate, options.chunk), (Some(2.5), Some(7)));
        assert_eq!(options.with.as_deref(), Some("{\"k\":\"a&b\"}"));
        let bad = parse("bad=file:x?type={error,<n>}", Side::Output).expect("an output");
        assert_eq!(bad.options.accepts, Some(vec![Label::field("error"), Label::tag("n")]));
    }

    #[test]
    fn wrong_endpoints_are_reported() {
        let wrong = |text: &str| parse(text, Side::Input).expect_err(text);
        assert!(wrong("tcp://here").contains("expected a host and a port"));
        assert!(wrong("tcp-listen://:99999").contains("expected a host and a port"));
        assert!(wrong("file:").contains("a path is missing"));
        assert!(
            wrong("http://x").contains("`http://` is no scheme of a place")
                && wrong("http://x").contains("curl")
        );
        assert!(wrong("a=s3://bucket/x").contains("`s3://` is no scheme of a place: there are file:PATH"));
        assert!(wrong("file:a?speed=1").contains("no option \"speed\"; there are format"));
        assert!(wrong("file:a?rate=-1").contains("is no rate"));
        assert!(wrong("file:a?chunk=0").contains("at least 1"));
        assert!(wrong("file:a?label=<n>").contains("no name of a field"));
        assert!(wrong("file:a?format=yaml").contains("there are json, xml, csv"));
        assert!(wrong("file:a?with=%2").contains("two digits"));
        assert!(wrong("file:a?keep").contains("`keep` is for"));
        assert!(wrong("file:a?type={b}").contains("no option \"type\""));
    }
}
