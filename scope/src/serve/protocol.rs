//! The protocol between a scope server and its clients. All numbers are little-endian.
//!
//! ```text
//! client    = greeting open { pull } .
//! server    = ( greeting { answer } | line of text ) .
//! greeting  = "thalwegS" u32 version u32 zero .       a server of another version answers with a line of text, and closes
//! frame     = u32 bytes of what follows, u8 type, … .
//! open      = frame type 1: u8 target (0 space, 1 session, 2 all), text path, u8 backlog (0 all, 1 nothing, 2 last), u64 ns, text view .
//! pull      = frame type 2: u8 how (0 as the view says, 1 since, 2 latest) .
//! answer    = frame type 0: text error, after which the server closes
//!           | frame type 1: text name of the view
//!           | frame type 2: 5 × u64 (lost, late, left out, bound + 1 or 0, processor time), u8 over,
//!             u32 problems { text } u32 batches { batch } .
//! ```
//! `tuple/wire.rs` describes the format of a batch.

use crate::error::Error;
use crate::leaf::Target;
use crate::tree::{Backlog, Pulled};
use crate::tuple::{Batch, Damaged, Legend, Reader, put_batch, put_text, put_u32};
use crate::view::Pull;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The version of the protocol.
pub const VERSION: u32 = 1;

const MAGIC: &[u8; 8] = b"thalwegS";
pub(crate) const GREETING_BYTES: usize = 16;
/// The most bytes of a client's frame: more than any view needs.
pub(crate) const REQUEST_BYTES_MAX: usize = 1 << 20;
/// The most bytes of a server's frame.
pub(crate) const ANSWER_BYTES_MAX: usize = 1 << 30;

pub(crate) const ERROR: u8 = 0;
pub(crate) const OPEN: u8 = 1;
pub(crate) const PULL: u8 = 2;

/// The first request of a client: a view and its target.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ask {
    /// The view, in TOML.
    pub view: String,
    /// The processes to read.
    pub target: Target,
    /// Which earlier events to read.
    pub backlog: Backlog,
}

pub(crate) fn greeting(version: u32) -> [u8; GREETING_BYTES] {
    let mut greeting = [0; GREETING_BYTES];
    greeting[..8].copy_from_slice(MAGIC);
    greeting[8..12].copy_from_slice(&version.to_le_bytes());
    greeting
}

/// The version in a greeting; `None` if the bytes are no greeting.
pub(crate) fn greeted(bytes: &[u8; GREETING_BYTES]) -> Option<u32> {
    bytes.starts_with(MAGIC).then(|| u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]))
}

/// Writes a frame.
pub(crate) fn put(stream: &mut impl Write, kind: u8, body: &[u8]) -> io::Result<()> {
    let mut head = [0; 5];
    head[..4].copy_from_slice(&(body.len() as u32 + 1).to_le_bytes());
    head[4] = kind;
    stream.write_all(&head)?;
    stream.write_all(body)
}

/// Reads a frame of at most `most` bytes; `None`: the other side has closed.
pub(crate) fn take(stream: &mut impl Read, most: usize) -> io::Result<Option<(u8, Vec<u8>)>> {
    let mut length = [0; 4];
    match stream.read_exact(&mut length) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let length = u32::from_le_bytes(length) as usize;
    if length == 0 || length > most {
        let what = format!("a frame of {length} bytes: 1 to {most} are allowed");
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    }
    let mut body = Vec::new();
    // Memory grows with the bytes that arrive, not with the announced length.
    if stream.take(length as u64).read_to_end(&mut body)? < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let kind = body.remove(0);
    Ok(Some((kind, body)))
}

impl Ask {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let (number, path) = match &self.target {
            Target::Space(path) => (0, path),
            Target::Session(path) => (1, path),
            Target::All(path) => (2, path),
        };
        out.push(number);
        put_text(&mut out, &path.to_string_lossy());
        let (number, ns) = match self.backlog {
            Backlog::All => (0, 0),
            Backlog::Nothing => (1, 0),
            Backlog::Last(span) => (2, span.as_nanos() as u64),
        };
        out.push(number);
        out.extend_from_slice(&ns.to_le_bytes());
        put_text(&mut out, &self.view);
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Ask, Damaged> {
        let mut reader = Reader::new(bytes);
        let (number, path) = (reader.u8()?, PathBuf::from(reader.text()?));
        let target = match number {
            0 => Target::Space(path),
            1 => Target::Session(path),
            2 => Target::All(path),
            _ => return Err(Damaged("it names an unknown kind of target")),
        };
        let backlog = match (reader.u8()?, reader.u64()?) {
            (0, _) => Backlog::All,
            (1, _) => Backlog::Nothing,
            (2, ns) => Backlog::Last(Duration::from_nanos(ns)),
            _ => return Err(Damaged("it names an unknown backlog")),
        };
        let view = reader.text()?.to_owned();
        if reader.is_empty() {
            Ok(Ask { view, target, backlog })
        } else {
            Err(Damaged("something follows it"))
        }
    }
}

/// Decodes how a client wants to pull.
pub(crate) fn how(body: &[u8]) -> Result<Option<Pull>, Damaged> {
    match body {
        [0] => Ok(None),
        [1] => Ok(Some(Pull::Since)),
        [2] => Ok(Some(Pull::Latest)),
        _ => Err(Damaged("it asks for an unknown kind of pull")),
    }
}

/// Encodes the result of a pull.
pub(crate) fn encode(pulled: &Pulled, sent: &mut [usize; 3]) -> Vec<u8> {
    let mut out = Vec::new();
    let bound = pulled.bound_ns.map_or(0, |bound| bound + 1);
    let numbers = [pulled.lost, pulled.late, pulled.left_out, bound, pulled.cost_ns];
    numbers.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
    out.push(u8::from(pulled.is_over));
    put_u32(&mut out, pulled.problems.len());
    pulled.problems.iter().for_each(|problem| put_text(&mut out, problem));
    // The number of batches; older servers sent several.
    put_u32(&mut out, 1);
    put_batch(&mut out, &pulled.batch, sent);
    out
}

pub(crate) fn decode(bytes: &[u8], legend: &mut Arc<Legend>) -> Result<Pulled, Error> {
    let damaged = |damaged: Damaged| Error::because("the scope server's answer cannot be read", damaged);
    read(bytes, legend).map_err(damaged)
}

fn read(bytes: &[u8], legend: &mut Arc<Legend>) -> Result<Pulled, Damaged> {
    let mut reader = Reader::new(bytes);
    let (lost, late, left_out) = (reader.u64()?, reader.u64()?, reader.u64()?);
    let (bound, cost_ns) = (reader.u64()?, reader.u64()?);
    let is_over = reader.u8()? != 0;
    let mut problems = Vec::new();
    for _ in 0..reader.u32()? {
        problems.push(reader.text()?.to_owned());
    }
    let mut batch = Batch::default();
    for _ in 0..reader.u32()? {
        let more = reader.batch(legend)?;
        batch.append(more, &legend.kinds);
    }
    batch.legend = legend.clone();
    let bound_ns = bound.checked_sub(1);
    Ok(Pulled { batch, lost, late, left_out, bound_ns, cost_ns, problems, is_over, ..Pulled::default() })
}

/// For fuzzing: reads bytes as a server reads requests, and as a client reads answers. A valid frame is
/// written and read again, and the result must be equal.
#[doc(hidden)]
pub fn read_as_peers_do(bytes: &[u8]) {
    let mut rest = bytes;
    while let Ok(Some((_, body))) = take(&mut rest, REQUEST_BYTES_MAX) {
        if let Ok(ask) = Ask::decode(&body) {
            assert_eq!(Ask::decode(&ask.encode()).as_ref(), Ok(&ask), "an ask");
        }
        let _ = how(&body);
        let mut legend = Arc::default();
        let Ok(pulled) = read(&body, &mut legend) else { continue };
        let shown = |pulled: &Pulled| {
            let tuples = pulled.batch.tuples();
            let of = |tuple: crate::tuple::Tuple<'_>| {
                let values: Vec<String> =
                    (0..tuple.kind().fields.len()).map(|n| format!("{:?}", tuple.value(n))).collect();
                (tuple.head().time_ns, tuple.head().sequence, tuple.element().cloned(), values)
            };
            (pulled.lost, pulled.is_over, pulled.problems.clone(), tuples.map(of).collect::<Vec<_>>())
        };
        let (first, mut sent) = (shown(&pulled), [1; 3]);
        let again = encode(&pulled, &mut sent);
        let again = read(&again, &mut Arc::default()).expect("what was written can be read");
        assert_eq!(shown(&again), first);
    }
}
