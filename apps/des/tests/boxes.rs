//! Calls the boxes one after the other, as the network does.

use app_des::des::{Subkeys, encrypt};
use thalweg_box::{BoxEntry, Bytes, Value};

const KEY: [u8; 8] = 0x1334_5779_9BBC_DFF1_u64.to_be_bytes();

struct Boxes(Vec<BoxEntry>);

impl Boxes {
    fn call(&self, name: &str, arguments: Vec<Value>) -> Result<Vec<Value>, String> {
        let start = format!("box {name} ");
        let entry = self.0.iter().find(|entry| entry.signature().unwrap().starts_with(&start)).unwrap();
        let emitted = entry.run(arguments, 2)?;
        let [(1, values)] = &emitted[..] else { panic!("{name} emitted {emitted:?}") };
        Ok(values.clone())
    }

    /// Sends one chunk through the whole network.
    fn chunk(&self, data: &[u8], last: bool, decrypt: bool) -> Result<Vec<u8>, String> {
        let (last, decrypt) = (Value::from(last), Value::from(decrypt));
        let mut values = self.call("schedule", vec![KEY.to_vec().into(), decrypt.clone()])?;
        let mut subkeys = values.swap_remove(0);
        values = self.call("initial", vec![data.to_vec().into(), last.clone(), decrypt.clone()])?;
        let mut round = values.pop().unwrap();
        let mut data = values.swap_remove(0);
        while round != Value::Int(16) {
            values = self.call("round", vec![data, subkeys, round])?;
            [data, subkeys, round] = values.try_into().unwrap();
        }
        match self.call("final", vec![data, subkeys, last, decrypt, round])?.swap_remove(0) {
            Value::Bytes(bytes) => Ok(bytes.into_vec()),
            other => panic!("data is {}", other.kind()),
        }
    }

    /// A file cut into chunks of `chunk` bytes, the last one marked.
    fn file(&self, data: &[u8], chunk: usize, decrypt: bool) -> Vec<u8> {
        let mut chunks: Vec<&[u8]> = data.chunks(chunk).collect();
        if chunks.is_empty() {
            chunks.push(&[]);
        }
        let last = chunks.len() - 1;
        let done = chunks.iter().enumerate().map(|(n, part)| self.chunk(part, n == last, decrypt).unwrap());
        done.collect::<Vec<_>>().concat()
    }
}

fn boxes() -> Boxes {
    Boxes(app_des::thalweg_box_entries())
}

#[test]
fn chunks_through_the_boxes_are_the_file_through_the_loop() {
    let chunk = 64;
    for length in [0, 1, 7, 8, 9, chunk - 1, chunk, chunk + 1, 5 * chunk, 5 * chunk + 13] {
        let plain: Vec<u8> = (0..length).map(|n| (n * n + n / 7) as u8).collect();
        let secret = boxes().file(&plain, chunk, false);
        assert_eq!(secret, encrypt(&Subkeys::new(KEY), &plain), "{length} bytes");
        assert_eq!(boxes().file(&secret, chunk, true), plain, "{length} bytes and back");
    }
}

#[test]
fn a_chunk_that_nobody_shares_is_changed_in_place() {
    let data = Bytes::from_vec(vec![5; 64]);
    let place = data.as_slice().as_ptr();
    let values = boxes().call("initial", vec![data.into(), Value::Int(0), Value::Int(0)]).unwrap();
    let Value::Bytes(data) = &values[0] else { panic!("no data") };
    assert_eq!(data.as_slice().as_ptr(), place);
}

#[test]
fn a_shared_chunk_stays_what_it_was() {
    let data = Bytes::from_vec(vec![5; 64]);
    boxes().call("initial", vec![data.clone().into(), Value::Int(0), Value::Int(0)]).unwrap();
    assert_eq!(data.as_slice(), [5; 64]);
}

#[test]
fn wrong_arguments_are_reported() {
    let fails = |name, arguments| boxes().call(name, arguments).unwrap_err();
    let (zero, one, sixteen) = (Value::Int(0), Value::Int(1), Value::Int(16));
    let seven: Value = vec![0_u8; 7].into();
    assert_eq!(fails("schedule", vec![seven.clone(), zero.clone()]), "a DES key has 8 bytes, this one has 7");
    assert_eq!(
        fails("initial", vec![seven.clone(), zero.clone(), zero.clone()]),
        "7 bytes are not a whole number of 8-byte blocks: cut the data into chunks of a multiple of 8"
    );
    let (block, subkeys): (Value, Value) = (vec![0_u8; 8].into(), vec![0_u8; 128].into());
    assert_eq!(
        fails("round", vec![block.clone(), seven, zero.clone()]),
        "a DES key schedule has 128 bytes, this one has 7"
    );
    assert_eq!(
        fails("round", vec![block.clone(), subkeys.clone(), sixteen.clone()]),
        "DES has rounds 0 to 15, not 16"
    );
    assert_eq!(
        fails("final", vec![block, subkeys, one.clone(), one, sixteen]),
        "the decrypted data does not end in PKCS#7 padding: wrong key, or damaged data"
    );
}
