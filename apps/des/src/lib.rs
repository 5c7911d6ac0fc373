//! The DES cipher, twice: as a plain loop and as the boxes of the network `des.snet`.
//!
//! Each box processes a chunk of many blocks; a chunk that no other record shares is changed in place. The
//! tag `<round>` counts the rounds done, and ends the serial replication.
//!
//! ```
//! use app_des::des::{encrypt, Subkeys};
//! use thalweg_box::{Bytes, Value};
//!
//! // The steps of the network, box by box, for the last chunk of a file.
//! let boxes = app_des::thalweg_box_entries();
//! let mut call = |name: &str, arguments: Vec<Value>| {
//!     let named = format!("box {name} ");
//!     let entry = boxes.iter().find(|entry| entry.signature().unwrap().starts_with(&named)).unwrap();
//!     entry.run(arguments, 1).unwrap().remove(0).1
//! };
//! let (last, decrypt) = (Value::Int(1), Value::Int(0));
//! let subkeys = call("schedule", vec![Bytes::from_vec(b"8 bytes!".to_vec()).into(), decrypt.clone()])[0].clone();
//! let mut state = call("initial", vec![b"any data".to_vec().into(), last.clone(), decrypt.clone()]);
//! let (mut data, mut round) = (state.remove(0), state.pop().unwrap());
//! while round != Value::Int(16) {
//!     let mut state = call("round", vec![data, subkeys.clone(), round]);
//!     (data, round) = (state.remove(0), state.pop().unwrap());
//! }
//! let result = call("final", vec![data, subkeys, last, decrypt, round]);
//! assert_eq!(result[0], encrypt(&Subkeys::new(*b"8 bytes!"), b"any data").into());
//! ```
#![deny(unsafe_code)]

pub mod des;
#[allow(unsafe_code, reason = "the table is found by its unmangled name")]
mod exported {
    use super::{finish, initial, round, schedule};

    thalweg_box::library! {
        "box schedule ((key, <decrypt>) -> (subkeys, <decrypt>))" => schedule,
        "box initial ((data, <last>, <decrypt>) -> (data, <last>, <decrypt>, <round>))" => initial,
        "box round ((data, subkeys, <round>) -> (data, subkeys, <round>))" => round,
        "box final ((data, subkeys, <last>, <decrypt>, <round>) -> (data, <last>))" => finish,
    }
}

pub use exported::{thalweg_box_entries, thalweg_boxes};

use des::{Error, Subkeys};
use thalweg_box::{Bytes, Out};

/// The subkeys of a key, in the order of the rounds: from last to first for decryption.
fn schedule(key: Bytes, decrypt: i64, out: &mut Out) -> Result<(), Error> {
    let key: [u8; des::BLOCK_BYTES] =
        key.as_slice().try_into().map_err(|_| Error::Key { bytes: key.as_slice().len() })?;
    let subkeys = Subkeys::new(key);
    let subkeys = if decrypt == 0 { subkeys } else { subkeys.reversed() };
    out.emit((subkeys.to_bytes().to_vec(), decrypt));
    Ok(())
}

/// The initial permutation; before it, padding if this is the last chunk to encrypt.
fn initial(data: Bytes, last: i64, decrypt: i64, out: &mut Out) -> Result<(), Error> {
    let mut data = if last != 0 && decrypt == 0 { padded(data) } else { data };
    des::initial(data.make_mut())?;
    out.emit((data, last, decrypt, 0i64));
    Ok(())
}

/// Executes the round with the number `<round>`.
fn round(mut data: Bytes, subkeys: Bytes, round: i64, out: &mut Out) -> Result<(), Error> {
    des::round(&Subkeys::from_bytes(subkeys.as_slice())?, round, data.make_mut())?;
    out.emit((data, subkeys, round + 1));
    Ok(())
}

/// The final permutation; after it, the padding is removed if this is the last chunk to decrypt.
fn finish(
    mut data: Bytes,
    _subkeys: Bytes,
    last: i64,
    decrypt: i64,
    _round: i64,
    out: &mut Out,
) -> Result<(), Error> {
    des::finish(data.make_mut())?;
    let data = if last != 0 && decrypt != 0 { unpadded(data)? } else { data };
    out.emit((data, last));
    Ok(())
}

fn padded(data: Bytes) -> Bytes {
    let mut bytes = data.into_vec();
    des::pad(&mut bytes);
    Bytes::from_vec(bytes)
}

fn unpadded(data: Bytes) -> Result<Bytes, Error> {
    let mut bytes = data.into_vec();
    des::unpad(&mut bytes)?;
    Ok(Bytes::from_vec(bytes))
}
