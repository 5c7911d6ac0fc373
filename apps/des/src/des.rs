//! The block cipher DES (FIPS PUB 46-3), single, electronic code book.
//!
//! Every 8-byte block is enciphered separately, so blocks may be processed in any order and by any number of
//! workers. This module has two implementations of the sixteen rounds, which share all their parts:
//!
//! - [`encrypt`] and [`decrypt`] are the plain loop: a few blocks at a time go through all sixteen rounds in
//!   registers;
//! - [`initial`], [`round`] and [`finish`] are *passes*: each goes once over a whole chunk of blocks and
//!   leaves the state of every block in the chunk's own bytes. The network of `des.snet` consists of these
//!   passes.
//!
//! Between [`initial`] and [`finish`] the 8 bytes of a block hold its halves L and R as two little-endian
//! 32-bit words, each rotated right by 3. With this rotation, the six input bits of each of the selection
//! functions S1, S3, S5, S7 are the low six bits of a byte of the word, and those of S2, S4, S6, S8 the low
//! six bits of a byte of the word rotated left by 4. Subkeys have the same layout, so a round needs no
//! expansion E. P is folded into the tables of S. Halves never swap: odd rounds change R, even rounds change
//! L.
//!
//! ```
//! use app_des::des::{decrypt, encrypt, Subkeys};
//! let keys = Subkeys::new(*b"8 bytes!");
//! let secret = encrypt(&keys, b"any number of bytes");
//! assert_eq!(secret.len(), 24);
//! assert_eq!(decrypt(&keys.reversed(), &secret).unwrap(), b"any number of bytes");
//! ```
#![forbid(unsafe_code)]

use std::fmt;

/// Bytes of a block, and of a key.
pub const BLOCK_BYTES: usize = 8;
/// Rounds of the cipher.
pub const ROUNDS: usize = 16;
/// Bytes of a key schedule laid out flat: see [`Subkeys::to_bytes`].
pub const SUBKEYS_BYTES: usize = ROUNDS * 8;

/// Blocks that the plain loop keeps in registers at a time. A single block waits for its own table lookups,
/// further blocks fill these gaps, and too many blocks spill registers.
const LANES: usize = 4;

/// The sixteen 48-bit subkeys of a key, in the order in which the rounds use them.
#[derive(Clone, PartialEq, Eq)]
pub struct Subkeys([Subkey; ROUNDS]);

/// A subkey in the layout of a round: `odd` for S1, S3, S5, S7 (six bits in each byte, S1 in the highest),
/// `even` for the other four.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Subkey {
    odd: u32,
    even: u32,
}

impl Subkeys {
    /// The schedule of `key` for encryption. The key's parity bits are ignored, as OpenSSL does.
    pub fn new(key: [u8; BLOCK_BYTES]) -> Subkeys {
        let mut halves = permute(u64::from_be_bytes(key), 64, &PC1);
        let subkeys = SHIFTS.map(|count| {
            halves = rotate_halves(halves, count);
            let word = compress(halves);
            Subkey { odd: (word >> 32) as u32, even: word as u32 }
        });
        Subkeys(subkeys)
    }

    /// The subkeys in the opposite order, with which the cipher decrypts.
    pub fn reversed(mut self) -> Subkeys {
        self.0.reverse();
        self
    }

    /// The schedule as bytes, 8 a round, little-endian.
    pub fn to_bytes(&self) -> [u8; SUBKEYS_BYTES] {
        let mut bytes = [0; SUBKEYS_BYTES];
        for (subkey, place) in self.0.iter().zip(bytes.chunks_exact_mut(8)) {
            place[..4].copy_from_slice(&subkey.odd.to_le_bytes());
            place[4..].copy_from_slice(&subkey.even.to_le_bytes());
        }
        bytes
    }

    /// Reads what [`to_bytes`](Subkeys::to_bytes) wrote.
    pub fn from_bytes(bytes: &[u8]) -> Result<Subkeys, Error> {
        if bytes.len() != SUBKEYS_BYTES {
            return Err(Error::Subkeys { bytes: bytes.len() });
        }
        let mut subkeys = [Subkey::default(); ROUNDS];
        for (subkey, place) in subkeys.iter_mut().zip(bytes.chunks_exact(8)) {
            *subkey = Subkey { odd: word_at(place, 0), even: word_at(place, 4) };
        }
        Ok(Subkeys(subkeys))
    }
}

/// Prints no key, so that keys do not get into logs.
impl fmt::Debug for Subkeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Subkeys(..)")
    }
}

/// An error in the bytes that a caller passed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// A key that is not 8 bytes long.
    Key {
        /// The key's length.
        bytes: usize,
    },
    /// A key schedule that is not 128 bytes long.
    Subkeys {
        /// The key schedule's length.
        bytes: usize,
    },
    /// The number of a round is outside 0..16.
    Round {
        /// The round asked for.
        round: i64,
    },
    /// The data is not a whole number of blocks.
    Length {
        /// The data's length.
        bytes: usize,
    },
    /// The decrypted data does not end in PKCS#7 padding: the key is wrong, or the data was not encrypted
    /// with it.
    Padding,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Key { bytes } => write!(f, "a DES key has 8 bytes, this one has {bytes}"),
            Error::Subkeys { bytes } => {
                write!(f, "a DES key schedule has {SUBKEYS_BYTES} bytes, this one has {bytes}")
            }
            Error::Round { round } => write!(f, "DES has rounds 0 to 15, not {round}"),
            Error::Length { bytes } => {
                write!(
                    f,
                    "{bytes} bytes are not a whole number of 8-byte blocks: cut the data into chunks of a multiple of 8"
                )
            }
            Error::Padding => {
                f.write_str("the decrypted data does not end in PKCS#7 padding: wrong key, or damaged data")
            }
        }
    }
}

impl std::error::Error for Error {}

/// Encrypts `plain` with PKCS#7 padding, as `openssl enc -des-ecb` does: the result is 1 to 8 bytes longer.
pub fn encrypt(keys: &Subkeys, plain: &[u8]) -> Vec<u8> {
    let mut data = Vec::with_capacity(padded_bytes(plain.len()));
    data.extend_from_slice(plain);
    pad(&mut data);
    cipher(keys, &mut data);
    data
}

/// Decrypts the output of [`encrypt`] and removes the padding. `keys` must be [reversed](Subkeys::reversed).
pub fn decrypt(keys: &Subkeys, secret: &[u8]) -> Result<Vec<u8>, Error> {
    whole_blocks(secret)?;
    let mut data = secret.to_vec();
    cipher(keys, &mut data);
    unpad(&mut data)?;
    Ok(data)
}

/// The length of the output of [`encrypt`] for `bytes` bytes.
pub const fn padded_bytes(bytes: usize) -> usize {
    (bytes / BLOCK_BYTES + 1) * BLOCK_BYTES
}

/// Adds PKCS#7 padding: 1 to 8 bytes, each with the number of padding bytes as its value.
pub fn pad(data: &mut Vec<u8>) {
    let bytes = padded_bytes(data.len());
    let fill = (bytes - data.len()) as u8;
    data.resize(bytes, fill);
}

/// Removes PKCS#7 padding.
pub fn unpad(data: &mut Vec<u8>) -> Result<(), Error> {
    let kept = data.len() - padding(data)?;
    data.truncate(kept);
    Ok(())
}

/// The number of bytes of PKCS#7 padding at the end of `data`.
fn padding(data: &[u8]) -> Result<usize, Error> {
    let fill = *data.last().ok_or(Error::Padding)?;
    let count = usize::from(fill);
    let found = (1..=BLOCK_BYTES).contains(&count)
        && data.len() >= count
        && data[data.len() - count..].iter().all(|&byte| byte == fill);
    if found { Ok(count) } else { Err(Error::Padding) }
}

/// The plain loop: all sixteen rounds over whole blocks, in place. Bytes after the last whole block are not
/// changed.
pub fn cipher(keys: &Subkeys, data: &mut [u8]) {
    let (groups, rest) = data.as_chunks_mut::<{ LANES * BLOCK_BYTES }>();
    for group in groups {
        cipher_lanes::<LANES>(keys, group.as_chunks_mut().0);
    }
    for block in rest.as_chunks_mut::<BLOCK_BYTES>().0 {
        cipher_lanes::<1>(keys, std::slice::from_mut(block));
    }
}

#[inline(always)]
fn cipher_lanes<const N: usize>(keys: &Subkeys, blocks: &mut [[u8; BLOCK_BYTES]]) {
    let mut left = [0; N];
    let mut right = [0; N];
    for (lane, block) in blocks.iter().enumerate().take(N) {
        (left[lane], right[lane]) = split(enter(u64::from_le_bytes(*block)));
    }
    for pair in keys.0.as_chunks::<2>().0 {
        for lane in 0..N {
            left[lane] ^= select(right[lane], pair[0]);
        }
        for lane in 0..N {
            right[lane] ^= select(left[lane], pair[1]);
        }
    }
    for (lane, block) in blocks.iter_mut().enumerate().take(N) {
        *block = leave(join(left[lane], right[lane])).to_le_bytes();
    }
}

/// First pass: the initial permutation of every block. `data` must be whole blocks.
pub fn initial(data: &mut [u8]) -> Result<(), Error> {
    for block in whole_blocks_mut(data)? {
        *block = enter(u64::from_le_bytes(*block)).to_le_bytes();
    }
    Ok(())
}

/// One of the sixteen middle passes: `round` 0 to 15 of every block.
pub fn round(keys: &Subkeys, round: i64, data: &mut [u8]) -> Result<(), Error> {
    let subkey = usize::try_from(round).ok().and_then(|n| keys.0.get(n)).ok_or(Error::Round { round })?;
    let blocks = whole_blocks_mut(data)?;
    if round % 2 == 0 {
        change_left(blocks, *subkey)
    } else {
        change_right(blocks, *subkey)
    }
    Ok(())
}

fn change_left(blocks: &mut [[u8; BLOCK_BYTES]], subkey: Subkey) {
    for block in blocks {
        let left = word_at(block, 0) ^ select(word_at(block, 4), subkey);
        block[..4].copy_from_slice(&left.to_le_bytes());
    }
}

fn change_right(blocks: &mut [[u8; BLOCK_BYTES]], subkey: Subkey) {
    for block in blocks {
        let right = word_at(block, 4) ^ select(word_at(block, 0), subkey);
        block[4..].copy_from_slice(&right.to_le_bytes());
    }
}

/// Last pass: the halves of every block swap and go through the final permutation.
pub fn finish(data: &mut [u8]) -> Result<(), Error> {
    for block in whole_blocks_mut(data)? {
        *block = leave(u64::from_le_bytes(*block)).to_le_bytes();
    }
    Ok(())
}

/// Checks that `data` is a whole number of blocks.
pub fn whole_blocks(data: &[u8]) -> Result<(), Error> {
    if data.len().is_multiple_of(BLOCK_BYTES) { Ok(()) } else { Err(Error::Length { bytes: data.len() }) }
}

fn whole_blocks_mut(data: &mut [u8]) -> Result<&mut [[u8; BLOCK_BYTES]], Error> {
    whole_blocks(data)?;
    Ok(data.as_chunks_mut().0)
}

/// The function f of the standard: E, the subkey, S1 to S8 and P.
#[inline(always)]
fn select(half: u32, subkey: Subkey) -> u32 {
    let [s7, s5, s3, s1] = (half ^ subkey.odd).to_le_bytes();
    let [s8, s6, s4, s2] = (half.rotate_left(4) ^ subkey.even).to_le_bytes();
    let look = |table: usize, byte: u8| SELECT[table][usize::from(byte)];
    (look(0, s1) ^ look(1, s2))
        ^ (look(2, s3) ^ look(3, s4))
        ^ (look(4, s5) ^ look(5, s6))
        ^ (look(6, s7) ^ look(7, s8))
}

/// The initial permutation of a block, read little-endian, then both halves rotated right by 3; L low, R
/// high.
///
/// The permutation only permutes the six bits of a bit's index: with the byte's number b and the bit's number
/// c within the byte, the bit at (b2 b1 b0 c2 c1 c0) goes to (c0 c2 c1 b2 b1 b0). The initial permutation can
/// therefore be computed by five exchanges of two index bits.
#[inline(always)]
fn enter(block: u64) -> u64 {
    let x = swap_index_bits::<1, 0>(block);
    let x = swap_index_bits::<2, 1>(x);
    let x = swap_index_bits::<3, 0>(x);
    let x = swap_index_bits::<4, 1>(x);
    let x = swap_index_bits::<5, 2>(x);
    (x >> 3 & 0x1fff_ffff_1fff_ffff) | (x << 29 & 0xe000_0000_e000_0000)
}

/// Undoes [`enter`], with the halves exchanged: the pre-output of the standard is R16 L16.
#[inline(always)]
fn leave(state: u64) -> u64 {
    let x = state.rotate_left(32);
    let x = (x << 3 & 0xffff_fff8_ffff_fff8) | (x >> 29 & 0x0000_0007_0000_0007);
    let x = swap_index_bits::<5, 2>(x);
    let x = swap_index_bits::<4, 1>(x);
    let x = swap_index_bits::<3, 0>(x);
    let x = swap_index_bits::<2, 1>(x);
    swap_index_bits::<1, 0>(x)
}

/// Moves each bit of `x` to the place whose number has bits `HIGH` and `LOW` exchanged.
#[inline(always)]
fn swap_index_bits<const HIGH: u32, const LOW: u32>(x: u64) -> u64 {
    let distance = (1 << HIGH) - (1 << LOW);
    let differ = (x >> distance ^ x) & const { places_with::<HIGH, LOW>() };
    x ^ differ ^ differ << distance
}

/// The places among 64 whose number has bit `LOW` but not bit `HIGH`.
const fn places_with<const HIGH: u32, const LOW: u32>() -> u64 {
    let mut mask = 0;
    let mut place = 0;
    while place < 64 {
        mask |= ((place >> LOW & 1) & !(place >> HIGH) & 1) << place;
        place += 1;
    }
    mask
}

#[inline(always)]
fn split(state: u64) -> (u32, u32) {
    (state as u32, (state >> 32) as u32)
}

#[inline(always)]
fn join(left: u32, right: u32) -> u64 {
    u64::from(right) << 32 | u64::from(left)
}

#[inline(always)]
fn word_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Both 28-bit halves of a 56-bit key rotated left.
fn rotate_halves(halves: u64, count: u32) -> u64 {
    const LOW: u64 = 0x0fff_ffff;
    let rotate = |half: u64| (half << count | half >> (28 - count)) & LOW;
    rotate(halves >> 28) << 28 | rotate(halves & LOW)
}

/// PC-2 of 56 bits, seven bits at a time; the result has the layout of a round, with `odd` in the high word.
fn compress(halves: u64) -> u64 {
    (0..8).fold(0, |word, part| word | COMPRESS[part][(halves >> (49 - 7 * part)) as usize & 0x7f])
}

/// `table` of the standard applied to the low `width` bits of `x`: bit n of the result is bit `table[n]` of
/// `x`, bits counted from 1 at the highest.
const fn permute(x: u64, width: u32, table: &[u8]) -> u64 {
    let mut result = 0;
    let mut n = 0;
    while n < table.len() {
        result = result << 1 | (x >> (width - table[n] as u32)) & 1;
        n += 1;
    }
    result
}

/// S and P together: `SELECT[s][byte]` is what selection function s + 1 adds to the other half for the low
/// six bits of `byte`, rotated right by 3. The upper two bits of `byte` belong to neighbours and do not
/// change the result: a table of four times the size (8 KiB, well within the first-level cache) saves a mask
/// in every lookup, which is a sixth of the time.
static SELECT: [[u32; 256]; 8] = select_tables();

const fn select_tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut s = 0;
    while s < 8 {
        let mut byte = 0;
        while byte < 256 {
            let row = (byte >> 4 & 2) | (byte & 1);
            let column = byte >> 1 & 15;
            let four = S[s][row * 16 + column] as u64;
            tables[s][byte] = (permute(four << (28 - 4 * s), 32, &P) as u32).rotate_right(3);
            byte += 1;
        }
        s += 1;
    }
    tables
}

/// PC-2 by groups of seven key bits.
static COMPRESS: [[u64; 128]; 8] = compress_tables();

const fn compress_tables() -> [[u64; 128]; 8] {
    let mut tables = [[0; 128]; 8];
    let mut part = 0;
    while part < 8 {
        let mut seven = 0;
        while seven < 128 {
            tables[part][seven] = spread(permute((seven as u64) << (49 - 7 * part), 56, &PC2));
            seven += 1;
        }
        part += 1;
    }
    tables
}

/// 48 bits, six for each of S1 to S8, put into the bytes of two words: S1 S3 S5 S7 high, S2 S4 S6 S8 low.
const fn spread(subkey: u64) -> u64 {
    let mut word = 0;
    let mut s = 0;
    while s < 8 {
        let six = subkey >> (42 - 6 * s) & 0x3f;
        let place = if s % 2 == 0 { 56 - 4 * s } else { 24 - 4 * (s - 1) };
        word |= six << place;
        s += 1;
    }
    word
}

/// Left shifts of the key's halves before each round.
const SHIFTS: [u32; ROUNDS] = [1, 1, 2, 2, 2, 2, 2, 2, 1, 2, 2, 2, 2, 2, 2, 1];

#[rustfmt::skip]
const PC1: [u8; 56] = [
    57, 49, 41, 33, 25, 17,  9,  1, 58, 50, 42, 34, 26, 18, 10,  2, 59, 51, 43, 35, 27, 19, 11,  3, 60, 52, 44, 36,
    63, 55, 47, 39, 31, 23, 15,  7, 62, 54, 46, 38, 30, 22, 14,  6, 61, 53, 45, 37, 29, 21, 13,  5, 28, 20, 12,  4,
];

#[rustfmt::skip]
const PC2: [u8; 48] = [
    14, 17, 11, 24,  1,  5,  3, 28, 15,  6, 21, 10, 23, 19, 12,  4, 26,  8, 16,  7, 27, 20, 13,  2,
    41, 52, 31, 37, 47, 55, 30, 40, 51, 45, 33, 48, 44, 49, 39, 56, 34, 53, 46, 42, 50, 36, 29, 32,
];

#[rustfmt::skip]
const P: [u8; 32] = [
    16,  7, 20, 21, 29, 12, 28, 17,  1, 15, 23, 26,  5, 18, 31, 10,
     2,  8, 24, 14, 32, 27,  3,  9, 19, 13, 30,  6, 22, 11,  4, 25,
];

/// The selection functions S1 to S8, four rows of sixteen each.
#[rustfmt::skip]
const S: [[u8; 64]; 8] = [
    [
        14,  4, 13,  1,  2, 15, 11,  8,  3, 10,  6, 12,  5,  9,  0,  7,
         0, 15,  7,  4, 14,  2, 13,  1, 10,  6, 12, 11,  9,  5,  3,  8,
         4,  1, 14,  8, 13,  6,  2, 11, 15, 12,  9,  7,  3, 10,  5,  0,
        15, 12,  8,  2,  4,  9,  1,  7,  5, 11,  3, 14, 10,  0,  6, 13,
    ],
    [
        15,  1,  8, 14,  6, 11,  3,  4,  9,  7,  2, 13, 12,  0,  5, 10,
         3, 13,  4,  7, 15,  2,  8, 14, 12,  0,  1, 10,  6,  9, 11,  5,
         0, 14,  7, 11, 10,  4, 13,  1,  5,  8, 12,  6,  9,  3,  2, 15,
        13,  8, 10,  1,  3, 15,  4,  2, 11,  6,  7, 12,  0,  5, 14,  9,
    ],
    [
        10,  0,  9, 14,  6,  3, 15,  5,  1, 13, 12,  7, 11,  4,  2,  8,
        13,  7,  0,  9,  3,  4,  6, 10,  2,  8,  5, 14, 12, 11, 15,  1,
        13,  6,  4,  9,  8, 15,  3,  0, 11,  1,  2, 12,  5, 10, 14,  7,
         1, 10, 13,  0,  6,  9,  8,  7,  4, 15, 14,  3, 11,  5,  2, 12,
    ],
    [
         7, 13, 14,  3,  0,  6,  9, 10,  1,  2,  8,  5, 11, 12,  4, 15,
        13,  8, 11,  5,  6, 15,  0,  3,  4,  7,  2, 12,  1, 10, 14,  9,
        10,  6,  9,  0, 12, 11,  7, 13, 15,  1,  3, 14,  5,  2,  8,  4,
         3, 15,  0,  6, 10,  1, 13,  8,  9,  4,  5, 11, 12,  7,  2, 14,
    ],
    [
         2, 12,  4,  1,  7, 10, 11,  6,  8,  5,  3, 15, 13,  0, 14,  9,
        14, 11,  2, 12,  4,  7, 13,  1,  5,  0, 15, 10,  3,  9,  8,  6,
         4,  2,  1, 11, 10, 13,  7,  8, 15,  9, 12,  5,  6,  3,  0, 14,
        11,  8, 12,  7,  1, 14,  2, 13,  6, 15,  0,  9, 10,  4,  5,  3,
    ],
    [
        12,  1, 10, 15,  9,  2,  6,  8,  0, 13,  3,  4, 14,  7,  5, 11,
        10, 15,  4,  2,  7, 12,  9,  5,  6,  1, 13, 14,  0, 11,  3,  8,
         9, 14, 15,  5,  2,  8, 12,  3,  7,  0,  4, 10,  1, 13, 11,  6,
         4,  3,  2, 12,  9,  5, 15, 10, 11, 14,  1,  7,  6,  0,  8, 13,
    ],
    [
         4, 11,  2, 14, 15,  0,  8, 13,  3, 12,  9,  7,  5, 10,  6,  1,
        13,  0, 11,  7,  4,  9,  1, 10, 14,  3,  5, 12,  2, 15,  8,  6,
         1,  4, 11, 13, 12,  3,  7, 14, 10, 15,  6,  8,  0,  5,  9,  2,
         6, 11, 13,  8,  1,  4, 10,  7,  9,  5,  0, 15, 14,  2,  3, 12,
    ],
    [
        13,  2,  8,  4,  6, 15, 11,  1, 10,  9,  3, 14,  5,  0, 12,  7,
         1, 15, 13,  8, 10,  3,  7,  4, 12,  5,  6, 11,  0, 14,  9,  2,
         7, 11,  4,  1,  9, 12, 14,  2,  0,  6, 10, 13, 15,  3,  5,  8,
         2,  1, 14,  7,  4, 10,  8, 13, 15, 12,  9,  0,  3,  5,  6, 11,
    ],
];

#[cfg(test)]
mod tests {
    use super::*;

    /// The initial permutation as the standard writes it.
    #[rustfmt::skip]
    const IP: [u8; 64] = [
        58, 50, 42, 34, 26, 18, 10, 2, 60, 52, 44, 36, 28, 20, 12, 4, 62, 54, 46, 38, 30, 22, 14, 6, 64, 56, 48, 40, 32, 24, 16, 8,
        57, 49, 41, 33, 25, 17,  9, 1, 59, 51, 43, 35, 27, 19, 11, 3, 61, 53, 45, 37, 29, 21, 13, 5, 63, 55, 47, 39, 31, 23, 15, 7,
    ];

    #[test]
    fn entering_is_the_initial_permutation_of_the_standard() {
        for bit in 0..64 {
            let expected = permute(1 << bit, 64, &IP);
            let block = (1_u64 << bit).swap_bytes();
            let (left, right) = split(enter(block));
            assert_eq!(u64::from(left.rotate_left(3)) << 32 | u64::from(right.rotate_left(3)), expected);
            assert_eq!(leave(join(right, left)), block, "leaving undoes entering, with the halves exchanged");
        }
    }

    #[test]
    fn the_schedule_by_sevens_is_the_permuted_choice_of_the_standard() {
        for bit in 0..56 {
            assert_eq!(compress(1 << bit), spread(permute(1 << bit, 56, &PC2)));
        }
        // These are the first and last subkeys of the worked example 133457799BBCDFF1.
        let keys = Subkeys::new(0x1334_5779_9bbc_dff1_u64.to_be_bytes());
        for (round, subkey) in [
            (0, 0b000110_110000_001011_101111_111111_000111_000001_110010),
            (15, 0b110010_110011_110110_001011_000011_100001_011111_110101),
        ] {
            let word = spread(subkey);
            assert_eq!(
                (keys.0[round].odd, keys.0[round].even),
                ((word >> 32) as u32, word as u32),
                "round {round}"
            );
        }
    }

    #[test]
    fn the_subkeys_survive_the_way_through_bytes() {
        let keys = Subkeys::new(*b"some key");
        assert_eq!(Subkeys::from_bytes(&keys.to_bytes()).unwrap(), keys);
        assert_eq!(Subkeys::from_bytes(&[0; 127]), Err(Error::Subkeys { bytes: 127 }));
    }

    #[test]
    fn what_is_not_padding_is_refused() {
        for bad in [&b""[..], &[0; 8], &[9; 16], &[1, 2, 3, 4, 5, 6, 3, 2], &[3, 3]] {
            assert_eq!(padding(bad), Err(Error::Padding), "{bad:?}");
        }
        assert_eq!(padding(&[8; 8]), Ok(8));
        assert_eq!(padding(&[8, 1]), Ok(1));
    }

    #[test]
    fn passes_refuse_parts_of_blocks_and_rounds_that_are_none() {
        let keys = Subkeys::new([0; 8]);
        assert_eq!(initial(&mut [0; 9]), Err(Error::Length { bytes: 9 }));
        assert_eq!(finish(&mut [0; 7]), Err(Error::Length { bytes: 7 }));
        assert_eq!(round(&keys, 16, &mut [0; 8]), Err(Error::Round { round: 16 }));
        assert_eq!(round(&keys, -1, &mut [0; 8]), Err(Error::Round { round: -1 }));
        assert_eq!(round(&keys, 3, &mut [0; 12]), Err(Error::Length { bytes: 12 }));
    }
}
