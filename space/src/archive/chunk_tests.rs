//! Tests that chunks of random blocks decode to the same bytes.

use super::chunk::{Decoder, Division, Encoder, Extent};
use crate::layout::{block, event};
use proptest::prelude::*;
use std::sync::Arc;
use thalweg_chance::Chance;

/// The bytes that readers use: bytes after the last event of a block are ignored.
fn seen(bytes: &[u8], extent: Extent) -> Vec<u8> {
    let mut seen = bytes.to_vec();
    let mut at = 0;
    while at < seen.len() {
        let position = extent.from as usize + at;
        let block = extent.block_bytes as usize;
        let end = ((position / block + 1) * block - extent.from as usize).min(seen.len());
        at += if position.is_multiple_of(block) { block::HEADER } else { 0 };
        while at < end {
            let first = u64::from_le_bytes(seen[at..at + 8].try_into().unwrap());
            let (kind, words) = (first >> 32 & 0xffff, (first >> 48 & 0xfff) as usize);
            if kind == 0 && words == 0 {
                seen[at..at + 4].fill(0);
                seen[at + 8..end].fill(0);
                at = end;
            } else if words == 0 || at + 8 * words > end {
                at = end;
            } else {
                at += 8 * words;
            }
        }
        at = end;
    }
    seen
}

/// The described kinds, each divided into fields of different widths.
fn division(kind: u16) -> Option<Arc<Division>> {
    let fields: &[(usize, usize)] = match kind {
        16 => &[(0, 8), (8, 8)],
        17 => &[(0, 4), (4, 1), (6, 2), (8, 8)],
        18 => &[(0, 1)],
        19 => &[(0, 4), (8, 4)],
        20 => &[],
        _ => return None,
    };
    let words = fields.last().map_or(0, |(offset, width)| (offset + width).div_ceil(8));
    Some(Arc::new(Division::new(fields.iter().copied(), words)))
}

/// Makes blocks with events of all sorts; returns their bytes and the ends of their events.
fn blocks(random: &mut Chance, block_bytes: usize, count: usize, first: u64) -> (Vec<u8>, Vec<usize>) {
    let mut bytes = Vec::new();
    let mut ends = vec![0];
    let mut counter = random.below(1 << 40);
    for number in 0..count {
        let start = bytes.len();
        for word in [first + number as u64 + 1, random.below(1 << 50), counter, random.below(3)] {
            bytes.extend(word.to_le_bytes());
        }
        ends.push(bytes.len());
        let fill = if random.below(4) == 0 { random.below(block_bytes as u64) as usize } else { block_bytes };
        while bytes.len() - start < fill.min(block_bytes - 8) {
            let room = (block_bytes - (bytes.len() - start)) / 8;
            let kind = [16, 17, 18, 19, 20, 16, 17, 1, 2, 3, 30 + random.below(3)][random.below(11) as usize];
            let long = if random.below(200) == 0 { random.below(400) } else { random.below(6) } as usize;
            let words = match kind {
                event if event == u64::from(event::KIND_FULL_TIME) => 2,
                event if event == u64::from(event::KIND_OWNER) => event::OWNER_WORDS,
                _ => 1 + long,
            };
            if words > room {
                break;
            }
            let flags = if random.below(3) == 0 { random.below(16) } else { 0 };
            let time = if random.below(50) == 0 { random.below(1 << 32) } else { counter & 0xffff_ffff };
            bytes.extend((time | kind << 32 | (words as u64) << 48 | flags << 60).to_le_bytes());
            for n in 1..words {
                let argument = match random.below(4) {
                    0 => random.next(),
                    1 => counter,
                    2 => random.below(5),
                    _ => n as u64,
                };
                bytes.extend(argument.to_le_bytes());
            }
            counter += random.below(1000);
            ends.push(bytes.len());
        }
        // The rest of the block: zeros, former bytes, or bytes that are no event.
        let rest = block_bytes - (bytes.len() - start);
        if rest >= 8 {
            let marked = [0, random.below(1 << 32), u64::MAX][random.below(3) as usize];
            bytes.extend(marked.to_le_bytes());
            bytes.extend((8..rest).map(|_| random.below(256) as u8));
        }
        ends.push(bytes.len());
    }
    (bytes, ends)
}

fn check(bytes: &[u8], extent: Extent) -> usize {
    let mut chunk = Vec::new();
    let contents = Encoder::new(1).unwrap().encode(bytes, extent, 0, &mut division, &mut chunk);
    let mut back = vec![7; 3];
    Decoder::new().unwrap().decode(&chunk, extent, &mut back).expect("what was coded is read");
    assert!(back == seen(bytes, extent), "chunk of {} bytes differs", bytes.len());
    let mut plain = Vec::new();
    let survey = Encoder::new(0).unwrap().encode(bytes, extent, 0, &mut division, &mut plain);
    Decoder::new().unwrap().decode(&plain, extent, &mut back).expect("what was kept as it is is read");
    assert!(back == bytes, "chunk of {} bytes differs where it is kept as it is", bytes.len());
    assert_eq!(survey, contents, "what is reported of the events does not follow from how they are kept");
    chunk.len()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Events of described kinds and of others, long ones, full times, owners, flags, damaged rests; cut where events end.
    #[test]
    fn chunks_come_back(seed: u64, log in 9_u32..14, count in 1_usize..6, first in 0_u64..1 << 30) {
        let mut random = Chance::new(seed);
        let block_bytes = 1_usize << log;
        let (bytes, ends) = blocks(&mut random, block_bytes, count, first);
        let start = first * block_bytes as u64;
        for _ in 0..4 {
            let (a, b) = (random.below(ends.len() as u64), random.below(ends.len() as u64));
            let (from, to) = (ends[a.min(b) as usize], ends[a.max(b) as usize]);
            let extent = Extent { from: start + from as u64, to: start + to as u64, block_bytes: block_bytes as u64 };
            check(&bytes[from..to], extent);
        }
    }

    /// Bytes that form no blocks decode to themselves.
    #[test]
    fn any_words_come_back(words in prop::collection::vec(any::<u64>(), 0..300)) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let extent = Extent { from: 0, to: bytes.len() as u64, block_bytes: 512 };
        let mut chunk = Vec::new();
        Encoder::new(1).unwrap().encode(&bytes, extent, 0, &mut division, &mut chunk);
        let mut back = Vec::new();
        Decoder::new().unwrap().decode(&chunk, extent, &mut back).unwrap();
        // The bytes are stored unchanged, unless the first word happens to be a block's number.
        prop_assert!(back == bytes || words.first() == Some(&1));
    }

    /// A damaged chunk decodes to an error, or to other bytes of the right number.
    #[test]
    fn damaged_chunks_are_errors(seed: u64, changes in 1_usize..5) {
        let mut random = Chance::new(seed);
        let (bytes, _) = blocks(&mut random, 1024, 3, 5);
        let extent = Extent { from: 5 * 1024, to: 8 * 1024, block_bytes: 1024 };
        let mut chunk = Vec::new();
        Encoder::new(1).unwrap().encode(&bytes, extent, 0, &mut division, &mut chunk);
        for _ in 0..changes {
            let at = random.below(chunk.len() as u64) as usize;
            chunk[at] = random.below(256) as u8;
        }
        chunk.truncate(chunk.len() - random.below(8).min(random.below(8)) as usize);
        let mut back = Vec::new();
        if Decoder::new().unwrap().decode(&chunk, extent, &mut back).is_ok() {
            prop_assert_eq!(back.len(), 3 * 1024);
        }
    }
}

/// Values at the limits of each width, which the arithmetic of predictions has to handle.
#[test]
fn extreme_values_come_back() {
    for pattern in 0..6_u64 {
        let mut bytes = Vec::new();
        for word in [1, 0, 0, 0_u64] {
            bytes.extend(word.to_le_bytes());
        }
        for n in 0..500_u64 {
            let value = match pattern {
                0 => {
                    if n % 2 == 0 {
                        u64::MAX
                    } else {
                        0
                    }
                }
                1 => n.wrapping_mul(1 << 63),
                2 => u64::MAX - n * n,
                3 => i64::MIN as u64 + n,
                4 => n * 1_000_003,
                _ => n.wrapping_mul(n).wrapping_mul(0x1234_5678_9abc),
            };
            bytes.extend((value & 0xffff_ffff | 17 << 32 | 3 << 48).to_le_bytes());
            bytes.extend(value.to_le_bytes());
            bytes.extend((!value).to_le_bytes());
        }
        bytes.resize(1 << 14, 0);
        check(&bytes, Extent { from: 0, to: 1 << 14, block_bytes: 1 << 14 });
    }
}
