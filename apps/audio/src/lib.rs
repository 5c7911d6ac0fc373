//! Sound as a network: the boxes of `audio.snet`. The parameters are read once for each piece of sound (about
//! 50 ms), so a change by `thalweg set box.audio.gain 50` is heard with the next piece.
//!
//! Boxes have no state, so the echo cannot keep earlier samples: the decoder, which makes all pieces from one
//! record, adds the samples from [`DELAY`] earlier to each piece.
#![deny(unsafe_code)]

pub mod decoder;

use decoder::{Decoder, Piece};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use thalweg_box::{Array, EventField, EventKind, Out, Parameter};

/// The loudness of the result.
pub static GAIN: Parameter =
    Parameter::new(c"audio.gain", c"percent", c"How loud the result is", 0..=400, 100);
/// The loudness of the echo.
pub static ECHO: Parameter = Parameter::new(c"audio.echo", c"percent", c"How loud the echo is", 0..=100, 30);
/// The delay of the echo.
pub static DELAY: Parameter =
    Parameter::new(c"audio.delay", c"ms", c"How much later the echo comes", 1..=1000, 250);
/// The end of the latest piece in the file.
pub static PLAYED: Parameter =
    Parameter::new(c"audio.played", c"ms", c"How much of the file has left the network", 0..=u64::MAX, 0);
/// The loudest sample of the latest piece.
pub static PEAK: Parameter =
    Parameter::new(c"audio.peak", c"percent", c"The loudest sample of the latest piece", 0..=u64::MAX, 0);
/// An event for samples that were clipped.
pub static CLIPPED: EventKind = EventKind::new(
    c"audio.clipped",
    c"Samples of a piece were too loud and cut",
    &[EventField::integer(c"samples", c""), EventField::float(c"peak", c"")],
);

#[allow(unsafe_code, reason = "the table is found by its unmangled name")]
mod exported {
    use super::{CLIPPED, DELAY, ECHO, GAIN, PEAK, PLAYED, decode, echo, scale, wav};

    thalweg_box::library! {
        parameters GAIN, ECHO, DELAY, PLAYED, PEAK;
        events CLIPPED;
        "box decode ((file, <pace>) -> (samples, past, <at>, <frames>, <rate>, <channels>))" => blocking decode,
        "box echo ((samples, past) -> (samples))" => echo,
        "box scale ((samples) -> (samples))" => scale,
        "box wav ((samples, <at>, <frames>, <rate>, <channels>) -> (data, <at>, <frames>, <rate>, <channels>))" => wav,
    }
}

pub use exported::{thalweg_box_entries, thalweg_boxes};

/// Emits the pieces of a file, each at the time when it has to be played.
fn decode(file: String, pace: i64, out: &mut Out) -> Result<(), String> {
    if pace < 0 {
        return Err(format!("<pace> is {pace}: it is a percentage of real time, or 0"));
    }
    let decoder = Decoder::open(&PathBuf::from(file))?;
    let (frames, rate, channels) = (decoder.frames() as i64, decoder.rate(), decoder.channels() as i64);
    let begun = Instant::now();
    out.generate(decoder.map(move |piece| {
        let Piece { at, samples, past } = piece?;
        if pace > 0 {
            let due = Duration::from_secs_f64(at as f64 / f64::from(rate) * 100.0 / pace as f64);
            std::thread::sleep(due.saturating_sub(begun.elapsed()));
        }
        let (samples, past) = (Array::from_slice(&samples), Array::from_slice(&past));
        Ok((samples, past, at as i64, frames, i64::from(rate), channels))
    }));
    Ok(())
}

/// Adds the sound from [`DELAY`] earlier, at a lower volume.
fn echo(mut samples: Array, past: Array, out: &mut Out) -> Result<(), String> {
    let loud = ECHO.get() as f32 / 100.0;
    let past = past.as_slice::<f32>().ok_or(WRONG_TYPE)?;
    let sound = samples.make_mut::<f32>().ok_or(WRONG_TYPE)?;
    sound.iter_mut().zip(past).for_each(|(sample, past)| *sample += loud * past);
    out.emit((samples,));
    Ok(())
}

/// Scales the sound, and clips samples that are too loud.
fn scale(mut samples: Array, out: &mut Out) -> Result<(), String> {
    let gain = GAIN.get() as f32 / 100.0;
    let (mut clipped, mut peak) = (0_i64, 0.0_f32);
    for sample in samples.make_mut::<f32>().ok_or(WRONG_TYPE)? {
        *sample *= gain;
        peak = peak.max(sample.abs());
        clipped += i64::from(sample.abs() > 1.0);
        *sample = sample.clamp(-1.0, 1.0);
    }
    if clipped > 0 {
        CLIPPED.write([clipped.into(), f64::from(peak).into()]);
    }
    PEAK.set((100.0 * peak) as u64);
    out.emit((samples,));
    Ok(())
}

const WRONG_TYPE: &str = "expected an array of floats of 32 bits";

/// Converts the sound to samples of 16 bits, preceded by the header of a WAV file in the first piece.
fn wav(samples: Array, at: i64, frames: i64, rate: i64, channels: i64, out: &mut Out) -> Result<(), String> {
    let sound = samples.as_slice::<f32>().ok_or(WRONG_TYPE)?;
    let mut bytes = if at == 0 { head(frames, rate, channels)? } else { Vec::new() };
    bytes.extend(sound.iter().flat_map(|sample| pcm(*sample).to_le_bytes()));
    let reached = at + sound.len() as i64 / channels.max(1);
    PLAYED.set((1000 * reached / rate.max(1)) as u64);
    out.emit((bytes, at, frames, rate, channels));
    Ok(())
}

/// A sample between -1 and 1 as an integer of 16 bits.
pub fn pcm(sample: f32) -> i16 {
    (sample * 32767.0).round() as i16
}

/// The header of a WAV file with this number of frames (RIFF, a `fmt ` chunk of PCM, and the beginning of
/// `data`).
fn head(frames: i64, rate: i64, channels: i64) -> Result<Vec<u8>, String> {
    let too_large = |_| format!("{frames} frames at {rate} Hz in {channels} channels are no WAV file");
    let rate = u32::try_from(rate).map_err(too_large)?;
    let frame_bytes = u16::try_from(2 * channels).map_err(too_large)?;
    let data_bytes = u32::try_from(frames.saturating_mul(frame_bytes.into())).map_err(too_large)?;
    let mut head = Vec::with_capacity(44);
    head.extend(b"RIFF");
    head.extend(data_bytes.saturating_add(36).to_le_bytes());
    head.extend(b"WAVEfmt ");
    head.extend(16_u32.to_le_bytes());
    head.extend(1_u16.to_le_bytes());
    head.extend((frame_bytes / 2).to_le_bytes());
    head.extend(rate.to_le_bytes());
    head.extend(rate.saturating_mul(frame_bytes.into()).to_le_bytes());
    head.extend(frame_bytes.to_le_bytes());
    head.extend(16_u16.to_le_bytes());
    head.extend(b"data");
    head.extend(data_bytes.to_le_bytes());
    Ok(head)
}
