//! Compares the plain loop with OpenSSL's `des-ecb`, byte for byte, on files of many lengths; and checks that
//! decryption undoes encryption.

use std::io::Write;
use std::process::{Command, Stdio};

use app_des::des::{self, Error, Subkeys};
use proptest::prelude::*;
use thalweg_chance::Chance;

const KEY: u64 = 0x1334_5779_9BBC_DFF1;
const CHUNK: usize = 16384;
const MISSING: &str = "this test compares with OpenSSL 3 and its legacy provider: install both \
    (Debian, Ubuntu: `apt-get install openssl libssl3`; Fedora: `dnf install openssl openssl-libs`)";

/// The output of `openssl enc -des-ecb` for `data`.
fn openssl(direction: &str, key: u64, data: &[u8]) -> Vec<u8> {
    let mut child = Command::new("openssl")
        .args(["enc", direction, "-des-ecb", "-K", &format!("{key:016X}")])
        .args(["-provider", "legacy", "-provider", "default"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("cannot run `openssl`: {error}; {MISSING}"));
    let mut input = child.stdin.take().unwrap();
    let result = std::thread::scope(|scope| {
        // If writing fails, openssl's output shows it.
        scope.spawn(move || input.write_all(data).ok());
        child.wait_with_output().unwrap()
    });
    let stderr = String::from_utf8_lossy(&result.stderr);
    assert!(result.status.success(), "openssl failed: {stderr}\n{MISSING}");
    result.stdout
}

/// Random bytes, the same in every run.
fn noise(count: usize) -> Vec<u8> {
    Chance::new(count as u64).bytes(count)
}

#[test]
fn equals_openssl_at_every_length_that_matters() {
    let keys = Subkeys::new(KEY.to_be_bytes());
    let small = [0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 39, 40, 41];
    let large = [CHUNK - 8, CHUNK - 1, CHUNK, CHUNK + 1, CHUNK + 8, 3 * CHUNK, 10 * CHUNK + 12345];
    for length in small.into_iter().chain(large) {
        let plain = noise(length);
        let secret = des::encrypt(&keys, &plain);
        assert!(secret == openssl("-e", KEY, &plain), "{length} bytes encrypted differ from OpenSSL's");
        let back = des::decrypt(&keys.clone().reversed(), &secret).unwrap();
        assert!(back == plain, "{length} bytes did not come back");
    }
}

#[test]
fn openssl_decrypts_ours() {
    let key = 0x0E32_9232_EA6D_0D73_u64;
    let plain = noise(100_003);
    let secret = des::encrypt(&Subkeys::new(key.to_be_bytes()), &plain);
    assert!(openssl("-d", key, &secret) == plain);
}

#[test]
fn the_wrong_key_is_noticed() {
    let secret = des::encrypt(&Subkeys::new(KEY.to_be_bytes()), b"some text");
    let wrong = Subkeys::new((KEY ^ 2).to_be_bytes()).reversed();
    assert_eq!(des::decrypt(&wrong, &secret), Err(Error::Padding));
    assert_eq!(des::decrypt(&wrong, &secret[..15]), Err(Error::Length { bytes: 15 }));
}

proptest! {
    #[test]
    fn decrypting_undoes_encrypting(key: [u8; 8], plain in prop::collection::vec(any::<u8>(), 0..300)) {
        let keys = Subkeys::new(key);
        let secret = des::encrypt(&keys, &plain);
        prop_assert_eq!(secret.len(), des::padded_bytes(plain.len()));
        prop_assert_eq!(des::decrypt(&keys.reversed(), &secret), Ok(plain));
    }

    #[test]
    fn passes_equal_the_loop(key: [u8; 8], blocks in prop::collection::vec(any::<[u8; 8]>(), 0..40)) {
        let keys = Subkeys::new(key);
        let mut by_loop = blocks.concat();
        let mut by_passes = by_loop.clone();
        des::cipher(&keys, &mut by_loop);
        des::initial(&mut by_passes).unwrap();
        for round in 0..16 {
            des::round(&keys, round, &mut by_passes).unwrap();
        }
        des::finish(&mut by_passes).unwrap();
        prop_assert_eq!(by_loop, by_passes);
    }
}
