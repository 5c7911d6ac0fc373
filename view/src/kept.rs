//! The data stored beside a run's events for its pictures: the page, and the sums of all lanes in full
//! detail.
//!
//! Computing these data needs a pass over all events, so the data are computed once for a run that has ended.
//! The source of the data is stored with the data (the files of the run, their sizes and times, and the
//! version of this program): if any of these differ, the stored data are not used.

use std::io::Read as _;

use flate2::read::ZlibDecoder;

use crate::levels::Levels;
use crate::page::{Made, VERSION, packed};
use crate::summary::taken;

/// The magic number at the beginning of the bytes.
const MAGIC: [u8; 8] = *b"thalwegV";
/// The version of the format, which is raised when the format of these data or the content of a page changes.
const KEPT_VERSION: u64 = 3;
/// A stored length above this limit is taken for damage.
const BYTES_MAX: u64 = 1 << 30;

/// The stored page and sums of a run: see the module.
#[derive(Clone, Debug)]
pub struct Kept {
    /// The source of the data: a list of the run's files and the version of this program.
    pub of: String,
    /// The page.
    pub page: Made,
    /// The lanes of each process, in the order of the feed, each preceded by the start of the process
    /// relative to the start of the page, in nanoseconds.
    pub levels: Vec<(f64, Levels)>,
}

impl Kept {
    /// Encodes all data as bytes.
    pub fn write(&self) -> Vec<u8> {
        let mut levels = Vec::new();
        for (later, of) in &self.levels {
            levels.extend(later.to_bits().to_le_bytes());
            of.write(&mut levels);
        }
        let levels = packed(&levels);
        let mut out = MAGIC.to_vec();
        out.extend((KEPT_VERSION << 32 | u64::from(VERSION)).to_le_bytes());
        out.extend((self.levels.len() as u64).to_le_bytes());
        for part in [
            self.of.as_bytes(),
            self.page.name.as_bytes(),
            self.page.text.as_bytes(),
            &self.page.packed,
            &levels,
        ] {
            out.extend((part.len() as u64).to_le_bytes());
            out.extend(part);
        }
        out
    }

    /// Decodes the bytes of [`Kept::write`]; `None` if they are damaged, of another version, or made from
    /// another source than `of`.
    pub fn read(mut bytes: &[u8], of: &str) -> Option<Kept> {
        let bytes = &mut bytes;
        fn word(bytes: &mut &[u8]) -> Option<u64> {
            Some(u64::from_le_bytes(taken(bytes)?))
        }
        fn part<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
            let length = usize::try_from(word(bytes)?).ok()?;
            let (part, rest) = bytes.split_at_checked(length)?;
            *bytes = rest;
            Some(part)
        }
        let text = |part: &[u8]| String::from_utf8(part.to_vec()).ok();
        if taken::<8>(bytes)? != MAGIC || word(bytes)? != KEPT_VERSION << 32 | u64::from(VERSION) {
            return None;
        }
        let processes = word(bytes)?;
        if part(bytes)? != of.as_bytes() {
            return None;
        }
        let page =
            Made { name: text(part(bytes)?)?, text: text(part(bytes)?)?, packed: part(bytes)?.to_vec() };
        let mut unpacked = Vec::new();
        ZlibDecoder::new(part(bytes)?).take(BYTES_MAX).read_to_end(&mut unpacked).ok()?;
        let mut rest = &unpacked[..];
        let mut levels = Vec::new();
        for _ in 0..processes {
            let later = f64::from_bits(word(&mut rest)?);
            levels.push((later.is_finite().then_some(later)?, Levels::read(&mut rest)?));
        }
        (bytes.is_empty() && rest.is_empty()).then_some(Kept { of: of.to_owned(), page, levels })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::levels::KnownTask;
    use crate::summary::{State, Summary};
    use thalweg_chance::Chance;

    fn kept() -> Kept {
        let mut summary = Summary::new(5, 2, 64);
        (0..50).for_each(|n| summary.add(State::Busy, 5 + 3 * n, 6 + 3 * n));
        let levels = Levels {
            zero: 5,
            ns_per_tick: 0.3,
            end: 160,
            known: vec![KnownTask { id: 4, component: 2, replica: None, worker: None }],
            called: vec![crate::lanes::TaskLane::default()],
            gaps: Vec::new(),
            tasks: vec![summary.clone()],
            workers: vec![(0, summary)],
        };
        let page =
            Made { name: "net".to_owned(), text: "a report".to_owned(), packed: packed(b"{\"live\":null}") };
        Kept { of: "0001.segment 17 4".to_owned(), page, levels: vec![(0.0, levels.clone()), (7.5, levels)] }
    }

    #[test]
    fn what_was_kept_is_read_for_the_same_run_alone() {
        let kept = kept();
        let bytes = kept.write();
        let read = Kept::read(&bytes, &kept.of).unwrap();
        assert_eq!((read.page.clone(), read.levels.len(), read.levels[1].0), (kept.page.clone(), 2, 7.5));
        assert_eq!(read.levels[1].1.known, kept.levels[1].1.known);
        assert_eq!(read.write(), bytes);
        assert!(Kept::read(&bytes, "0001.segment 17 5").is_none());
        let live = crate::page::Live { sequence: 3, ..crate::page::Live::default() };
        let json = read.page.json().unwrap().with(&live).unwrap();
        assert!(
            json.starts_with("{\"live\":{") && json.ends_with("}}") && json.contains("\"sequence\":3"),
            "{json}"
        );
    }

    #[test]
    fn damage_is_noticed_or_does_no_harm() {
        let kept = kept();
        let bytes = kept.write();
        for cut in 0..bytes.len() {
            assert!(Kept::read(&bytes[..cut], &kept.of).is_none(), "{cut} bytes");
        }
        let mut chance = Chance::new(4);
        for _ in 0..20_000 {
            let mut damaged = bytes.clone();
            for _ in 0..=chance.below(3) {
                let at = chance.below(damaged.len() as u64) as usize;
                damaged[at] = chance.below(256) as u8;
            }
            if let Some(read) = Kept::read(&damaged, &kept.of) {
                for (_, levels) in &read.levels {
                    levels.window(0.0, 1e9);
                }
            }
        }
    }
}
