//! The private keys of certificates: Ed25519, which shares most of its code with X25519, by which connections
//! agree on their keys.

use std::sync::Arc;

use ring::rand::{SecureRandom as _, SystemRandom};
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use rustls::crypto::ring::{cipher_suite, kx_group, sign};
use rustls::crypto::{CryptoProvider, GetRandomFailed, KeyProvider, SecureRandom, WebPkiSupportedAlgorithms};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivateKeyDer, SignatureVerificationAlgorithm};
use rustls::sign::SigningKey;
use rustls::{Error, SignatureScheme};
use webpki::ring::ED25519;

/// The bytes of a public key.
pub const PUBLIC_BYTES: usize = 32;

/// The private key of a certificate.
#[derive(Debug)]
pub struct PrivateKey {
    pkcs8: Vec<u8>,
    pair: Ed25519KeyPair,
}

impl PrivateKey {
    /// Makes a new key.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn generate() -> Result<PrivateKey, String> {
        let made = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new());
        PrivateKey::new(made.map_err(|_| "the system gives no random numbers")?.as_ref().to_vec())
    }

    /// Reads a key in PEM.
    ///
    /// # Errors
    /// The text is no key of this kind.
    pub fn from_pem(text: &str) -> Result<PrivateKey, String> {
        let key = PrivateKeyDer::from_pem_slice(text.as_bytes()).map_err(|error| error.to_string())?;
        PrivateKey::new(key.secret_der().to_vec())
    }

    fn new(pkcs8: Vec<u8>) -> Result<PrivateKey, String> {
        let pair = Ed25519KeyPair::from_pkcs8(&pkcs8);
        Ok(PrivateKey { pair: pair.map_err(|error| format!("it is no key for Ed25519: {error}"))?, pkcs8 })
    }

    /// The key in PEM.
    pub fn pem(&self) -> String {
        pem("PRIVATE KEY", &self.pkcs8)
    }

    /// The public key.
    pub fn public(&self) -> &[u8] {
        self.pair.public_key().as_ref()
    }

    /// The signature of a message.
    pub fn sign(&self, message: &[u8]) -> Vec<u8> {
        self.pair.sign(message).as_ref().to_vec()
    }
}

/// Bytes in PEM, with this label.
pub fn pem(label: &str, bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = format!("-----BEGIN {label}-----\n");
    // 48 bytes are the 64 digits of a line.
    for line in bytes.chunks(48) {
        for three in line.chunks(3) {
            let word = three.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte))
                << (8 * (3 - three.len()));
            for digit in 0..4 {
                let value = word >> (18 - 6 * digit) & 63;
                text.push(if digit <= three.len() { char::from(DIGITS[value as usize]) } else { '=' });
            }
        }
        text.push('\n');
    }
    text + &format!("-----END {label}-----\n")
}

static ALL: &[&dyn SignatureVerificationAlgorithm] = &[ED25519];
static ALGORITHMS: WebPkiSupportedAlgorithms =
    WebPkiSupportedAlgorithms { all: ALL, mapping: &[(SignatureScheme::ED25519, ALL)] };

/// The cryptography of all connections: one suite, because both ends are always of the same version.
pub(super) fn provider() -> Arc<CryptoProvider> {
    Arc::new(CryptoProvider {
        cipher_suites: vec![cipher_suite::TLS13_AES_128_GCM_SHA256],
        kx_groups: vec![kx_group::X25519],
        signature_verification_algorithms: ALGORITHMS,
        secure_random: &OfTheSystem,
        key_provider: &OfTheSystem,
    })
}

#[derive(Debug)]
struct OfTheSystem;

impl SecureRandom for OfTheSystem {
    fn fill(&self, into: &mut [u8]) -> Result<(), GetRandomFailed> {
        SystemRandom::new().fill(into).map_err(|_| GetRandomFailed)
    }
}

impl KeyProvider for OfTheSystem {
    fn load_private_key(&self, key: PrivateKeyDer<'static>) -> Result<Arc<dyn SigningKey>, Error> {
        sign::any_eddsa_type(match &key {
            PrivateKeyDer::Pkcs8(key) => key,
            _ => return Err(Error::General("the key is not in PKCS #8".into())),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::pki_types::CertificateDer;

    #[test]
    fn pem_has_what_its_readers_expect() {
        for count in 0..200 {
            let bytes: Vec<u8> = (0..count).map(|n| (n * 37) as u8).collect();
            let text = pem("CERTIFICATE", &bytes);
            assert!(text.lines().all(|line| line.len() <= 64), "{text}");
            let read = CertificateDer::from_pem_slice(text.as_bytes()).unwrap();
            assert_eq!(read.as_ref(), bytes);
        }
    }

    #[test]
    fn a_key_is_the_same_after_it_was_written() {
        let key = PrivateKey::generate().unwrap();
        let read = PrivateKey::from_pem(&key.pem()).unwrap();
        assert_eq!(read.public(), key.public());
        assert_eq!(read.public().len(), PUBLIC_BYTES);
        assert!(PrivateKey::from_pem(&pem("PRIVATE KEY", b"water")).is_err());
    }
}
