//! The catalog: append-only files, one per writer and one for the process, which describe what ids mean.
//!
//! A record is appended by one `write` before any data refers to it, so a reader that sees an id finds its
//! record. A record whose end is missing is still being written, or its writer was killed. A record with a
//! wrong hash is damaged.

use crate::error::Error;
use crate::kind::{FieldSpec, FieldType, Fnv, schema_hash};
use crate::layout::{VERSION, catalog};
use crate::row::RowSpec;
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The appending end of a catalog.
#[derive(Debug)]
pub(crate) struct Catalog {
    file: File,
    path: PathBuf,
    pid: u32,
}

impl Catalog {
    pub(crate) fn create(path: PathBuf, writer: u32) -> Result<Catalog, Error> {
        let mut file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .map_err(|e| Error::io("create", &path, e))?;
        let mut header = [0; catalog::HEADER];
        header[..8].copy_from_slice(&catalog::MAGIC_VALUE.to_le_bytes());
        header[8..12].copy_from_slice(&VERSION.to_le_bytes());
        header[16..20].copy_from_slice(&writer.to_le_bytes());
        file.write_all(&header).map_err(|e| Error::io("write", &path, e))?;
        Ok(Catalog { file, path, pid: std::process::id() })
    }

    pub(crate) fn append(&mut self, record: &Record) -> Result<(), Error> {
        if std::process::id() != self.pid {
            return Err(Error::new(
                "this process is a fork of the one that made the space, and may not write into it: \
                 make a space of its own",
            ));
        }
        let bytes = record.encode();
        if bytes.len() > catalog::RECORD_BYTES_MAX {
            return Err(Error::new(
                "a catalog record may have 1 MiB: shorten the names or the documentation",
            ));
        }
        self.file.write_all(&bytes).map_err(|e| Error::io("write", &self.path, e))
    }
}

/// A field as the catalog describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldInfo {
    /// The field's name.
    pub name: String,
    /// The field's type.
    pub field_type: FieldType,
    /// The field's unit, or an empty text.
    pub unit: String,
    /// What the field means.
    pub doc: String,
    /// An enum's choices: value and name.
    pub choices: Vec<(u64, String)>,
}

impl FieldInfo {
    fn of(field: &FieldSpec) -> FieldInfo {
        FieldInfo {
            name: field.name.to_string(),
            field_type: field.field_type,
            unit: field.unit.to_string(),
            doc: field.doc.to_string(),
            choices: field.choices.iter().map(|(value, name)| (*value, name.to_string())).collect(),
        }
    }
}

/// A record of a catalog.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Record {
    Kind {
        id: u16,
        hash: u64,
        name: String,
        doc: String,
        fields: Vec<FieldInfo>,
    },
    Name {
        id: u64,
        text: String,
    },
    Site {
        id: u64,
        parent: u64,
        line: u32,
        column: u32,
        name: String,
        kind: String,
        file: String,
    },
    Setting(SettingRecord),
    Probe {
        name: String,
        on: bool,
    },
    Switch(Switch),
    Joined(Joined),
    Left {
        uuid: [u8; 16],
        time_ns: u64,
    },
    Row {
        code: u8,
        name: String,
        doc: String,
        cells: Vec<FieldInfo>,
    },
    /// A record of a type that this version does not know; readers skip it.
    Unknown,
}

/// The description of a setting in the catalog.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SettingRecord {
    pub(crate) index: u64,
    pub(crate) min: u64,
    pub(crate) max: u64,
    pub(crate) default: u64,
    pub(crate) name: String,
    pub(crate) doc: String,
    pub(crate) unit: String,
    pub(crate) choices: Vec<String>,
    /// The names of the values of `Affects`, `Adoption` and `Undo`; empty in records of former versions.
    pub(crate) affects: String,
    pub(crate) adoption: String,
    pub(crate) undo: String,
}

/// A request to switch probes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Switch {
    pub(crate) pattern: String,
    pub(crate) on: bool,
    pub(crate) pid: u32,
    pub(crate) user: u32,
}

/// A process that joined a session.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Joined {
    pub(crate) uuid: [u8; 16],
    pub(crate) pid: u32,
    pub(crate) parent_pid: u32,
    pub(crate) process_start: u64,
    pub(crate) parent_start: u64,
    pub(crate) boot_id: [u8; 16],
    pub(crate) time_ns: u64,
    pub(crate) directory: String,
    pub(crate) name: String,
    pub(crate) host: String,
    pub(crate) architecture: String,
}

impl Record {
    pub(crate) fn kind(id: u16, name: &str, doc: &str, fields: &[FieldSpec]) -> Record {
        let hash = schema_hash(name, fields.iter().map(|f| (f.name, f.field_type, f.unit)));
        let fields = fields.iter().map(FieldInfo::of).collect();
        Record::Kind { id, hash, name: name.to_string(), doc: doc.to_string(), fields }
    }

    pub(crate) fn row(code: u8, spec: &RowSpec) -> Record {
        let cells = spec.cells.iter().map(FieldInfo::of).collect();
        Record::Row { code, name: spec.name.to_string(), doc: spec.doc.to_string(), cells }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Encoder(vec![0; catalog::RECORD_HEADER]);
        let record_type = match self {
            Record::Kind { id, hash, name, doc, fields } => {
                out.u32(u32::from(*id));
                out.u64(*hash);
                out.text(name);
                out.text(doc);
                out.fields(fields);
                catalog::KIND
            }
            Record::Name { id, text } => {
                out.u64(*id);
                out.text(text);
                catalog::NAME
            }
            Record::Site { id, parent, line, column, name, kind, file } => {
                out.u64(*id);
                out.u64(*parent);
                out.u32(*line);
                out.u32(*column);
                out.text(name);
                out.text(kind);
                out.text(file);
                catalog::SITE
            }
            Record::Setting(setting) => {
                out.setting(setting);
                catalog::SETTING
            }
            Record::Probe { name, on } => {
                out.u32(u32::from(*on));
                out.text(name);
                catalog::PROBE
            }
            Record::Switch(Switch { pattern, on, pid, user }) => {
                out.u32(u32::from(*on));
                out.u32(*pid);
                out.u32(*user);
                out.text(pattern);
                catalog::SWITCH
            }
            Record::Joined(joined) => {
                out.0.extend(joined.uuid);
                out.u32(joined.pid);
                out.u32(joined.parent_pid);
                out.u64(joined.process_start);
                out.u64(joined.parent_start);
                out.0.extend(joined.boot_id);
                out.u64(joined.time_ns);
                out.text(&joined.directory);
                out.text(&joined.name);
                out.text(&joined.host);
                out.text(&joined.architecture);
                catalog::JOINED
            }
            Record::Left { uuid, time_ns } => {
                out.0.extend(uuid);
                out.u64(*time_ns);
                catalog::LEFT
            }
            Record::Row { code, name, doc, cells } => {
                out.u32(u32::from(*code));
                out.text(name);
                out.text(doc);
                out.fields(cells);
                catalog::ROW
            }
            Record::Unknown => unreachable!("an unknown record is only ever read"),
        };
        out.seal(record_type)
    }

    fn decode(record_type: u32, payload: &[u8]) -> Option<Record> {
        let mut input = Decoder(payload);
        Some(match record_type {
            catalog::KIND => Record::Kind {
                id: u16::try_from(input.u32()?).ok()?,
                hash: input.u64()?,
                name: input.text()?,
                doc: input.text()?,
                fields: input.fields()?,
            },
            catalog::NAME => Record::Name { id: input.u64()?, text: input.text()? },
            catalog::SITE => Record::Site {
                id: input.u64()?,
                parent: input.u64()?,
                line: input.u32()?,
                column: input.u32()?,
                name: input.text()?,
                kind: input.text()?,
                file: input.text()?,
            },
            catalog::SETTING => Record::Setting(SettingRecord {
                index: input.u64()?,
                min: input.u64()?,
                max: input.u64()?,
                default: input.u64()?,
                name: input.text()?,
                doc: input.text()?,
                unit: input.text()?,
                choices: input.list(Decoder::text)?,
                affects: input.text_or_end()?,
                adoption: input.text_or_end()?,
                undo: input.text_or_end()?,
            }),
            catalog::PROBE => Record::Probe { on: input.u32()? != 0, name: input.text()? },
            catalog::SWITCH => Record::Switch(Switch {
                on: input.u32()? != 0,
                pid: input.u32()?,
                user: input.u32()?,
                pattern: input.text()?,
            }),
            catalog::JOINED => Record::Joined(Joined {
                uuid: input.take()?,
                pid: input.u32()?,
                parent_pid: input.u32()?,
                process_start: input.u64()?,
                parent_start: input.u64()?,
                boot_id: input.take()?,
                time_ns: input.u64()?,
                directory: input.text()?,
                name: input.text()?,
                host: input.text()?,
                architecture: input.text()?,
            }),
            catalog::LEFT => Record::Left { uuid: input.take()?, time_ns: input.u64()? },
            catalog::ROW => Record::Row {
                code: u8::try_from(input.u32()?).ok()?,
                name: input.text()?,
                doc: input.text()?,
                cells: input.fields()?,
            },
            _ => Record::Unknown,
        })
    }
}

/// Appends a record to a catalog that several processes write, each under a lock that the caller holds.
pub(crate) fn append_under_lock(path: &Path, record: &Record, bytes_max: u64) -> Result<(), Error> {
    let mut reader = CatalogReader::open(path)?;
    reader.read_new(&mut |_| {})?;
    let mut file =
        crate::file::open(path, OpenOptions::new().append(true)).map_err(|e| Error::io("open", path, e))?;
    // An incomplete record of a killed process would make all later records unreadable, so it is cut off.
    file.set_len(reader.position).map_err(|e| Error::io("shorten", path, e))?;
    if reader.position > bytes_max {
        return Err(Error::new(format!("{} is full: it has {} bytes", path.display(), reader.position)));
    }
    file.write_all(&record.encode()).map_err(|e| Error::io("write", path, e))
}

/// Reads the records that were appended to a catalog file since the last look. Nothing in the file is
/// trusted.
#[derive(Debug)]
pub(crate) struct CatalogReader {
    path: PathBuf,
    file: File,
    position: u64,
}

/// The number of bytes of a catalog that are read at a time, if it has that many.
const READ_AHEAD_BYTES: usize = 1 << 16;

impl CatalogReader {
    pub(crate) fn open(path: &Path) -> Result<CatalogReader, Error> {
        let file = crate::file::open_to_read(path).map_err(|e| Error::io("open", path, e))?;
        let mut header = [0; catalog::HEADER];
        crate::file::read_exact_at(&file, path, &mut header, 0)?;
        crate::file::check_magic(path, &header, catalog::MAGIC_VALUE, "a catalog")?;
        Ok(CatalogReader { path: path.to_path_buf(), file, position: catalog::HEADER as u64 })
    }

    /// Hands each new record to `take`. An incomplete record is left for the next call.
    pub(crate) fn read_new(&mut self, take: &mut dyn FnMut(Record)) -> Result<(), Error> {
        let length = crate::file::length(&self.file, &self.path)?;
        let mut ahead = (0, Vec::new());
        loop {
            if self.position + catalog::RECORD_HEADER as u64 > length {
                return Ok(());
            }
            let header = self.at_least(catalog::RECORD_HEADER, length, &mut ahead)?;
            let bytes = u32::from_le_bytes(header[..4].try_into().expect("4 bytes")) as usize;
            let record_type = u32::from_le_bytes(header[4..8].try_into().expect("4 bytes"));
            let hash = u64::from_le_bytes(header[8..16].try_into().expect("8 bytes"));
            let fits = (catalog::RECORD_HEADER..=catalog::RECORD_BYTES_MAX).contains(&bytes);
            if !fits || !bytes.is_multiple_of(8) {
                return Err(self.damaged(&format!("a record of {bytes} bytes")));
            }
            if self.position + bytes as u64 > length {
                return Ok(());
            }
            let payload = &self.at_least(bytes, length, &mut ahead)?[catalog::RECORD_HEADER..bytes];
            if record_hash(record_type, payload) != hash {
                return Err(self.damaged("a record whose hash is wrong"));
            }
            let record = Record::decode(record_type, payload);
            take(record.ok_or_else(|| self.damaged("a record that does not decode"))?);
            self.position += bytes as u64;
        }
    }

    /// At least `bytes` bytes from the current position, and maybe more, all before `length`; `ahead` holds
    /// the bytes that were read last.
    fn at_least<'a>(
        &self,
        bytes: usize,
        length: u64,
        ahead: &'a mut (u64, Vec<u8>),
    ) -> Result<&'a [u8], Error> {
        let (start, held) = ahead;
        let end = *start + held.len() as u64;
        if self.position + bytes as u64 > end {
            let left = usize::try_from(length - self.position).unwrap_or(usize::MAX);
            held.resize(left.min(READ_AHEAD_BYTES.max(bytes)), 0);
            *start = self.position;
            crate::file::read_exact_at(&self.file, &self.path, held, *start)?;
        }
        Ok(&held[(self.position - *start) as usize..])
    }

    fn damaged(&self, what: &str) -> Error {
        Error::new(format!("{} is damaged at byte {}: {what}", self.path.display(), self.position))
    }
}

fn record_hash(record_type: u32, payload: &[u8]) -> u64 {
    let mut hash = Fnv::new();
    hash.bytes(&record_type.to_le_bytes());
    hash.bytes(payload);
    hash.0
}

/// Writes numbers and texts one after another.
#[derive(Default)]
pub(crate) struct Encoder(Vec<u8>);

impl Encoder {
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    fn setting(&mut self, setting: &SettingRecord) {
        self.u64(setting.index);
        self.u64(setting.min);
        self.u64(setting.max);
        self.u64(setting.default);
        self.text(&setting.name);
        self.text(&setting.doc);
        self.text(&setting.unit);
        self.u32(setting.choices.len() as u32);
        for text in setting.choices.iter().chain([&setting.affects, &setting.adoption, &setting.undo]) {
            self.text(text);
        }
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.0.extend(value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.0.extend(value.to_le_bytes());
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.u32(text.len() as u32);
        self.0.extend(text.as_bytes());
    }

    fn fields(&mut self, fields: &[FieldInfo]) {
        self.u32(fields.len() as u32);
        for field in fields {
            self.u32(field.field_type as u32);
            self.text(&field.name);
            self.text(&field.unit);
            self.text(&field.doc);
            self.u32(field.choices.len() as u32);
            for (value, name) in &field.choices {
                self.u64(*value);
                self.text(name);
            }
        }
    }

    fn seal(mut self, record_type: u32) -> Vec<u8> {
        self.0.resize(self.0.len().next_multiple_of(8), 0);
        let hash = record_hash(record_type, &self.0[catalog::RECORD_HEADER..]);
        let bytes = self.0.len() as u32;
        self.0[..4].copy_from_slice(&bytes.to_le_bytes());
        self.0[4..8].copy_from_slice(&record_type.to_le_bytes());
        self.0[8..16].copy_from_slice(&hash.to_le_bytes());
        self.0
    }
}

/// Reads the output of an [`Encoder`]; any other bytes are safe to decode, too.
pub(crate) struct Decoder<'a>(&'a [u8]);

impl<'a> Decoder<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Decoder<'a> {
        Decoder(bytes)
    }

    /// Whether all bytes were read.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    pub(crate) fn text(&mut self) -> Option<String> {
        let bytes = self.u32()? as usize;
        let (text, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(String::from_utf8_lossy(text).into_owned())
    }

    /// A text that former versions did not write: their records have only padding here.
    fn text_or_end(&mut self) -> Option<String> {
        if self.0.len() < 8 && self.0.iter().all(|byte| *byte == 0) {
            return Some(String::new());
        }
        self.text()
    }

    fn fields(&mut self) -> Option<Vec<FieldInfo>> {
        self.list(|input| {
            Some(FieldInfo {
                field_type: FieldType::from_code(u8::try_from(input.u32()?).ok()?)?,
                name: input.text()?,
                unit: input.text()?,
                doc: input.text()?,
                choices: input.list(|input| Some((input.u64()?, input.text()?)))?,
            })
        })
    }

    /// A list with its count before it. The remaining bytes bound the count, because no item is empty.
    pub(crate) fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.u32()? as usize;
        if count > self.0.len() {
            return None;
        }
        (0..count).map(|_| item(self)).collect()
    }
}

/// The ids of names by their text, so that each text has one id.
pub(crate) type Names = HashMap<String, u64>;
