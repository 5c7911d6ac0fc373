//! Certificates with a time of validity that `thalweg node init` does not make.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, PKCS_ED25519, PublicKeyData,
    SignatureAlgorithm, SigningKey,
};
use thalweg_link::secure::{MEMBER, PrivateKey, pem};

/// The key of an authority, as it was kept.
struct Signing(PrivateKey);

impl PublicKeyData for Signing {
    fn der_bytes(&self) -> &[u8] {
        self.0.public()
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ED25519
    }
}

impl SigningKey for Signing {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        Ok(self.0.sign(message))
    }
}

/// Puts a certificate for 127.0.0.1, signed by the authority in the folder `first`, into another folder, in
/// place of the one there. It expires this long after the beginning of 1970.
pub(crate) fn certify(first: &Path, folder: &Path, expires: Duration) {
    let key = std::fs::read_to_string(first.join("authority.key")).expect("the first machine");
    let key = Signing(PrivateKey::from_pem(&key).expect("a key"));
    let mut authority = CertificateParams::default();
    // The name of an authority follows from its key; the first bytes of the hash of the key are not computed
    // here, but taken from the certificate.
    let shown = Command::new("openssl")
        .args(["x509", "-noout", "-subject", "-nameopt", "multiline", "-in"])
        .arg(first.join("authority.pem"))
        .output()
        .expect("openssl");
    let shown = String::from_utf8(shown.stdout).expect("text");
    let (_, name) = shown.rsplit_once("= ").expect("a name");
    authority.distinguished_name = rcgen::DistinguishedName::new();
    authority.distinguished_name.push(DnType::CommonName, name.trim());
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    let own = KeyPair::generate_for(&PKCS_ED25519).expect("a key");
    let mut params = CertificateParams::new(["127.0.0.1".to_owned(), MEMBER.to_owned()]).expect("a host");
    params.not_after = rcgen::date_time_ymd(1970, 1, 1) + expires;
    let certificate = params.signed_by(&own, &Issuer::new(authority, key)).expect("a certificate");
    std::fs::write(folder.join("node.pem"), pem("CERTIFICATE", certificate.der())).expect("a folder");
    std::fs::write(folder.join("node.key"), pem("PRIVATE KEY", &own.serialize_der())).expect("a folder");
}
