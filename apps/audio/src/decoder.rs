//! Reads an Ogg Vorbis file as pieces of sound, decoded by `lewton`.

use crate::DELAY;
use lewton::inside_ogg::OggStreamReader;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;

/// The least number of frames in a piece; the last piece may have fewer.
const PIECE_FRAMES: usize = 2048;
/// The upper bound of an Ogg page's length.
const PAGE_BYTES_MAX: u64 = 65_307;

/// A piece of sound: interleaved samples of all channels, from -1 to 1.
pub struct Piece {
    /// The index of the piece's first frame.
    pub at: u64,
    /// The sound.
    pub samples: Vec<f32>,
    /// The samples from [`DELAY`] earlier, as many as in the piece; silence before the beginning of the file.
    pub past: Vec<f32>,
}

/// Reads a file, piece by piece.
pub struct Decoder {
    reader: OggStreamReader<BufReader<File>>,
    frames: u64,
    at: u64,
    /// Decoded samples that are not yet in a piece.
    waiting: Vec<f32>,
    /// The last second of sound before `waiting`.
    past: VecDeque<f32>,
    ended: bool,
}

impl Decoder {
    /// # Errors
    /// The file cannot be read, or is not Ogg Vorbis.
    pub fn open(path: &Path) -> Result<Decoder, String> {
        let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let mut file = File::open(path).map_err(|error| failed(&error))?;
        let frames = frames(&mut file).map_err(|error| failed(&error))?;
        let reader = OggStreamReader::new(BufReader::new(file)).map_err(|error| failed(&error))?;
        if reader.ident_hdr.audio_sample_rate == 0 || reader.ident_hdr.audio_channels == 0 {
            return Err(failed(&"it has no channel, or no rate"));
        }
        let second =
            reader.ident_hdr.audio_sample_rate as usize * usize::from(reader.ident_hdr.audio_channels);
        let past = std::iter::repeat_n(0.0, second).collect();
        Ok(Decoder { reader, frames, at: 0, waiting: Vec::new(), past, ended: false })
    }

    /// The number of frames of the file, from its last page.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// The number of frames a second.
    pub fn rate(&self) -> u32 {
        self.reader.ident_hdr.audio_sample_rate
    }

    /// The number of samples in a frame.
    pub fn channels(&self) -> usize {
        self.reader.ident_hdr.audio_channels.into()
    }

    /// Decodes until there is enough for a piece, or the file ends.
    fn fill(&mut self) -> Result<(), String> {
        while !self.ended && self.waiting.len() < PIECE_FRAMES * self.channels() {
            let packet = self.reader.read_dec_packet_generic::<Vec<Vec<f32>>>();
            match packet.map_err(|error| error.to_string())? {
                Some(channels) => interleave(&channels, &mut self.waiting),
                None => self.ended = true,
            }
        }
        // The last packet may decode to more frames than the file states.
        let left = (self.frames - self.at).saturating_mul(self.channels() as u64);
        self.waiting.truncate(usize::try_from(left).unwrap_or(usize::MAX));
        Ok(())
    }

    /// The samples that were [`DELAY`] before the samples in `waiting`.
    fn delayed(&self, samples: usize) -> Vec<f32> {
        let all = self.past.iter().chain(&self.waiting);
        all.skip(self.past.len() - samples.min(self.past.len())).take(self.waiting.len()).copied().collect()
    }
}

impl Iterator for Decoder {
    type Item = Result<Piece, String>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Err(error) = self.fill() {
            (self.ended, self.waiting) = (true, Vec::new());
            return Some(Err(error));
        }
        if self.waiting.is_empty() {
            return None;
        }
        let delay = DELAY.get() as usize * self.rate() as usize / 1000 * self.channels();
        let past = self.delayed(delay);
        let samples = std::mem::take(&mut self.waiting);
        let second = self.past.len();
        self.past.extend(&samples);
        self.past.drain(..self.past.len() - second);
        let at = self.at;
        self.at += (samples.len() / self.channels()) as u64;
        Some(Ok(Piece { at, samples, past }))
    }
}

fn interleave(channels: &[Vec<f32>], into: &mut Vec<f32>) {
    let frames = channels.first().map_or(0, Vec::len);
    into.extend((0..frames).flat_map(|frame| channels.iter().map(move |channel| channel[frame])));
}

/// The number of frames of a Vorbis file, which is the position in the header of its last page (RFC 3533, 6).
fn frames(file: &mut File) -> std::io::Result<u64> {
    let length = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(length.saturating_sub(PAGE_BYTES_MAX)))?;
    let mut end = Vec::new();
    file.take(PAGE_BYTES_MAX).read_to_end(&mut end)?;
    file.seek(SeekFrom::Start(0))?;
    let page = end.windows(14).rev().find(|window| window.starts_with(b"OggS"));
    let position = page.map(|page| u64::from_le_bytes(page[6..14].try_into().expect("eight bytes")));
    position.ok_or_else(|| std::io::Error::other("it has no Ogg page"))
}
