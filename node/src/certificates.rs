//! The certificates of a cluster, in the cluster's folder. The machine on which `thalweg node init` ran first
//! has the authority's key, and signs the certificates of the other machines, each of which shows an
//! invitation of that machine.
//!
//! ```text
//!   authority.pem   the authority's certificate                     every machine
//!   authority.key   the authority's private key                     the first machine alone
//!   node.pem        the machine's certificate                       every machine
//!   node.key        the machine's private key                       every machine
//!   invitations/    the hash of each invitation's secret, and how long it is valid
//!   signed/         by the fingerprint of each certificate that was signed here, the hosts that it is for
//!   machines/       by the name of each node, the fingerprint of the certificate that it showed last
//!   revoked/        the fingerprints of certificates that are revoked; every machine
//! ```

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyUsagePurpose,
    PKCS_ED25519, PublicKeyData, SerialNumber, SignatureAlgorithm, SigningKey, date_time_ymd,
};
use ring::digest::{SHA256, digest};
use thalweg_host::Error;
use thalweg_link::secure::{self, Identity, MEMBER, PrivateKey};

use crate::channel::{hex, random, unhex};

/// The time for which a machine's certificate is valid at most, in days.
pub const DAYS_MAX: u32 = 3650;
/// The time for which the authority's certificate is valid.
const AUTHORITY_DAYS: u32 = 7300;
/// Certificates are valid from this long before they are made, because clocks of other machines may be
/// behind.
const BEFORE: Duration = Duration::from_secs(86_400);
/// The folders of fingerprints.
const SIGNED: &str = "signed";
const MACHINES: &str = "machines";
const REVOKED: &str = "revoked";
/// The folder of invitations.
const INVITATIONS: &str = "invitations";
const DAY: Duration = Duration::from_secs(86_400);

/// What a machine may do in a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum May {
    /// See which nodes there are.
    See,
    /// Run programs on all nodes, and have nodes.
    Run,
}

impl May {
    /// The word for it in invitations.
    fn word(self) -> &'static str {
        match self {
            May::See => "see",
            May::Run => "run",
        }
    }
}

/// The certificates in a cluster's folder.
#[derive(Clone, Debug)]
pub(crate) struct Certificates {
    folder: PathBuf,
}

/// What an invitation says: a secret that is good once, and the fingerprint of the authority's certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Invitation {
    pub(crate) secret: [u8; 16],
    pub(crate) fingerprint: [u8; 32],
}

impl Invitation {
    pub(crate) fn parse(text: &str) -> Result<Invitation, Error> {
        let parts = text.trim().split_once('.').and_then(|(secret, fingerprint)| {
            Some(Invitation { secret: unhex(secret)?, fingerprint: unhex(fingerprint)? })
        });
        parts.ok_or_else(|| {
            Error::usage("this is no token of `thalweg node invite`: 32 and 64 digits with a dot")
        })
    }

    /// What is known of the secret where the invitation was made.
    pub(crate) fn hash(&self) -> [u8; 32] {
        hash(&self.secret)
    }

    fn text(&self) -> String {
        format!("{}.{}", hex(&self.secret), hex(&self.fingerprint))
    }
}

/// A public key of the kind that all certificates of a cluster have.
struct PublicKey<'a>(&'a [u8]);

impl PublicKeyData for PublicKey<'_> {
    fn der_bytes(&self) -> &[u8] {
        self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ED25519
    }
}

/// The key of the cluster's authority.
struct AuthorityKey(PrivateKey);

impl PublicKeyData for AuthorityKey {
    fn der_bytes(&self) -> &[u8] {
        self.0.public()
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ED25519
    }
}

impl SigningKey for AuthorityKey {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        Ok(self.0.sign(message))
    }
}

impl Certificates {
    pub(crate) fn of(folder: &Path) -> Certificates {
        Certificates { folder: folder.to_owned() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn read(&self, name: &str) -> Result<String, Error> {
        let path = self.path(name);
        std::fs::read_to_string(&path)
            .map_err(|error| Error::usage(format!("cannot read {}", path.display())).because(error))
    }

    /// Writes a file that only its owner may read, in place of the one before.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<(), Error> {
        let path = self.path(name);
        let new = path.with_extension(format!("new{}", std::process::id()));
        let write = || {
            let mut file =
                OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
            file.write_all(text.as_bytes())?;
            file.sync_data()?;
            std::fs::rename(&new, &path)
        };
        write().map_err(|error: io::Error| {
            Error::usage(format!("cannot write {}", path.display())).because(error)
        })
    }

    /// What this machine shows of itself.
    pub(crate) fn identity(&self) -> Result<Identity, Error> {
        if !self.path("node.pem").exists() {
            return Err(Error::usage(format!(
                "there is no certificate in {}: `thalweg node init` makes one, with --join and --token where another machine \
                 has begun the cluster",
                self.folder.display()
            )));
        }
        let (authority, certificate) = (self.read("authority.pem")?, self.read("node.pem")?);
        let revoked = self.path(REVOKED);
        let is_revoked = Arc::new(move |shown: &[u8; 32]| revoked.join(hex(shown)).exists());
        Identity::with(&authority, &certificate, &self.read("node.key")?, is_revoked).map_err(|why| {
            Error::usage(format!("the certificates in {} are unusable: {why}", self.folder.display()))
        })
    }

    /// Makes the certificate of this machine, and the authority if the cluster has none yet.
    pub(crate) fn make(&self, hosts: &[String], days: u32) -> Result<(), Error> {
        if !self.path("authority.pem").exists() {
            let key = AuthorityKey(PrivateKey::generate().map_err(Error::run)?);
            let certificate = authority(&key.0)?.self_signed(&key).map_err(failed)?;
            self.write("authority.key", &key.0.pem())?;
            self.write("authority.pem", &in_pem(&certificate))?;
        }
        let key = PrivateKey::generate().map_err(Error::run)?;
        let certificate = self.sign(key.public(), hosts, days, May::Run)?;
        self.write("node.key", &key.pem())?;
        self.write("node.pem", &certificate)
    }

    /// Keeps what another machine has signed for the key of this one.
    pub(crate) fn keep(&self, key: &PrivateKey, authority: &str, certificate: &str) -> Result<(), Error> {
        Identity::new(authority, certificate, &key.pem())
            .map_err(|why| Error::run(format!("the node has sent no usable certificate: {why}")))?;
        self.write("authority.pem", authority)?;
        self.write("node.key", &key.pem())?;
        self.write("node.pem", certificate)
    }

    pub(crate) fn authority(&self) -> Result<String, Error> {
        self.read("authority.pem")
    }

    /// Whether this machine can sign certificates of others.
    fn can_sign(&self) -> bool {
        self.path("authority.key").exists()
    }

    /// The certificate for the machine with this public key, by these names of hosts.
    pub(crate) fn sign(&self, key: &[u8], hosts: &[String], days: u32, may: May) -> Result<String, Error> {
        if !self.can_sign() {
            return Err(Error::usage(
                "the key of the cluster's authority is not on this machine: only the machine on which `thalweg node init` ran \
                 first signs certificates",
            ));
        }
        let issuer = PrivateKey::from_pem(&self.read("authority.key")?)
            .map_err(|why| Error::usage(format!("the key of the cluster's authority is unusable: {why}")))?;
        let mut names = hosts.to_vec();
        names.extend((may == May::Run).then(|| MEMBER.to_owned()));
        let mut params = CertificateParams::new(names).map_err(|error| {
            Error::usage(format!("a certificate cannot be for {}: {error}", hosts.join(", ")))
        })?;
        params.distinguished_name = rcgen::DistinguishedName::new();
        params
            .distinguished_name
            .push(DnType::CommonName, hosts.first().map_or("thalweg node", String::as_str));
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        limit(&mut params, days.clamp(1, DAYS_MAX))?;
        let issuer = Issuer::new(authority(&issuer)?, AuthorityKey(issuer));
        let certificate = in_pem(&params.signed_by(&PublicKey(key), &issuer).map_err(failed)?);
        let fingerprint = secure::fingerprint(&certificate).map_err(Error::run)?;
        self.note(SIGNED, &hex(&fingerprint), &hosts.join(" "))?;
        Ok(certificate)
    }

    /// Writes a file into one of the folders of fingerprints.
    fn note(&self, folder: &str, name: &str, text: &str) -> Result<(), Error> {
        DirBuilder::new().recursive(true).mode(0o700).create(self.path(folder)).map_err(|error| {
            Error::usage(format!("cannot make {}", self.path(folder).display())).because(error)
        })?;
        self.write(&format!("{folder}/{name}"), &format!("{text}\n"))
    }

    /// The node of this name has shown the certificate with this fingerprint.
    pub(crate) fn saw(&self, node: &str, shown: &[u8; 32]) {
        let shown = hex(shown);
        // An error is ignored: a folder that cannot be written is reported when it is needed.
        if self.read(&format!("{MACHINES}/{node}")).is_ok_and(|known| known.trim() == shown) {
            return;
        }
        let _ = self.note(MACHINES, node, &shown);
    }

    /// The fingerprints of the certificates that are meant by the name of a node or of a host, with the hosts of each
    /// as far as they are known. This machine's own is left out.
    pub(crate) fn of_machine(&self, named: &str) -> Result<Vec<([u8; 32], String)>, Error> {
        let own = secure::fingerprint(&self.read("node.pem")?).map_err(Error::usage)?;
        let hosts = |shown: &[u8; 32]| {
            let hosts = self.read(&format!("{SIGNED}/{}", hex(shown)));
            hosts.map_or_else(|_| named.to_owned(), |hosts| hosts.trim().to_owned())
        };
        let of_node = std::fs::read_to_string(self.path(MACHINES).join(named)).ok();
        if let Some(shown) = of_node.and_then(|text| unhex(text.trim())) {
            return Ok(if shown == own { Vec::new() } else { vec![(shown, hosts(&shown))] });
        }
        let is_local = |host: &str| ["localhost", "127.0.0.1", "::1"].contains(&host);
        let mut found: Vec<([u8; 32], String)> = self
            .names_in(SIGNED)
            .iter()
            .filter_map(|name| unhex(name))
            .map(|one| (one, hosts(&one)))
            .collect();
        found.retain(|(one, hosts)| {
            *one != own && !is_local(named) && hosts.split(' ').any(|host| host == named)
        });
        Ok(found)
    }

    /// The fingerprints of revoked certificates, as text.
    pub(crate) fn revoked(&self) -> Vec<String> {
        self.names_in(REVOKED).into_iter().filter(|name| unhex::<32>(name).is_some()).collect()
    }

    /// Whether the certificate with this fingerprint is revoked.
    pub(crate) fn is_revoked(&self, shown: &[u8; 32]) -> bool {
        self.path(REVOKED).join(hex(shown)).exists()
    }

    /// Revokes certificates, by their fingerprints as text. This is never undone.
    pub(crate) fn revoke(&self, fingerprints: &[String]) -> Result<(), Error> {
        let is_new = |one: &&String| unhex::<32>(one).is_some_and(|one| !self.is_revoked(&one));
        fingerprints.iter().filter(is_new).try_for_each(|one| self.note(REVOKED, one, ""))
    }

    fn names_in(&self, folder: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.path(folder)).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }

    /// Makes an invitation for one machine, valid for this long.
    pub(crate) fn invite(&self, valid: Duration, may: May) -> Result<String, Error> {
        if !self.path("authority.pem").exists() {
            return Err(Error::usage("the cluster has no certificates yet: `thalweg node init` makes them"));
        }
        if !self.can_sign() {
            return Err(Error::usage(
                "only the machine on which `thalweg node init` ran first can invite others: it has the key of the authority",
            ));
        }
        let fingerprint = secure::fingerprint(&self.authority()?).map_err(Error::usage)?;
        let invitation = Invitation { secret: random().map_err(Error::usage_of)?, fingerprint };
        let until = now().saturating_add(valid).as_secs();
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(self.path(INVITATIONS))
            .map_err(|error| Error::usage("cannot make the folder of invitations").because(error))?;
        self.write(&noted(&invitation.secret), &format!("{until} {}\n", may.word()))?;
        Ok(invitation.text())
    }

    /// The hashes of the secrets of all invitations that were not used.
    pub(crate) fn invitations(&self) -> Vec<[u8; 32]> {
        self.names_in(INVITATIONS).iter().filter_map(|name| unhex(name)).collect()
    }

    /// Uses up an invitation. `None`: there is none with this secret, it was used before, or it is too late.
    pub(crate) fn redeem(&self, secret: &[u8; 16]) -> Option<May> {
        let path = self.path(&noted(secret));
        let text = std::fs::read_to_string(&path).ok()?;
        // Of several machines with one invitation, one removes the file.
        std::fs::remove_file(path).ok()?;
        let (until, may) = text.trim().split_once(' ')?;
        let may = [May::See, May::Run].into_iter().find(|known| known.word() == may)?;
        (now().as_secs() < until.parse().ok()?).then_some(may)
    }
}

/// The file of an invitation. The secret itself is not kept.
fn noted(secret: &[u8; 16]) -> String {
    format!("{INVITATIONS}/{}", hex(&hash(secret)))
}

fn hash(secret: &[u8; 16]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, secret).as_ref());
    hash
}

/// The hosts for which a certificate is: those that the user names, and this machine for itself.
pub(crate) fn hosts(named: &[String]) -> Vec<String> {
    let mut hosts = named.to_vec();
    let own = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned();
    let is_plain = |name: &str| {
        let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.';
        !name.is_empty() && name.bytes().all(is_fine) && name.parse::<IpAddr>().is_err()
    };
    hosts.extend(Some(own).filter(|own| is_plain(own)));
    hosts.extend(["localhost", "127.0.0.1", "::1"].map(str::to_owned));
    let mut seen = std::collections::HashSet::new();
    hosts.retain(|host| seen.insert(host.clone()));
    hosts
}

/// The authority with this key. Its name follows from the key, so certificates of two clusters differ in it.
fn authority(key: &PrivateKey) -> Result<CertificateParams, Error> {
    let mut params = CertificateParams::default();
    let number = hex(&digest(&SHA256, key.public()).as_ref()[..8]);
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, format!("thalweg cluster {number}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    limit(&mut params, AUTHORITY_DAYS)?;
    Ok(params)
}

/// Gives a certificate a number and the time in which it is valid.
fn limit(params: &mut CertificateParams, days: u32) -> Result<(), Error> {
    let epoch = date_time_ymd(1970, 1, 1);
    let now = now();
    params.not_before = epoch + now.saturating_sub(BEFORE);
    params.not_after = epoch + now + DAY * days;
    let mut number: [u8; 16] = random().map_err(Error::usage_of)?;
    number[0] &= 0x7f;
    params.serial_number = Some(SerialNumber::from_slice(&number));
    Ok(())
}

fn in_pem(certificate: &rcgen::Certificate) -> String {
    secure::pem("CERTIFICATE", certificate.der())
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn failed(error: rcgen::Error) -> Error {
    Error::run("cannot make a certificate").because(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made() -> (tempfile::TempDir, Certificates) {
        let folder = tempfile::tempdir().unwrap();
        let certificates = Certificates::of(folder.path());
        certificates.make(&hosts(&["10.1.2.3".into()]), 30).unwrap();
        (folder, certificates)
    }

    #[test]
    fn a_certificate_is_for_its_hosts() {
        let (_folder, certificates) = made();
        let identity = certificates.identity().unwrap();
        for host in ["10.1.2.3", "localhost", "127.0.0.1", "[::1]", MEMBER] {
            identity.check(host).unwrap();
        }
        let why = identity.check("10.9.9.9").unwrap_err().to_string();
        assert!(why.contains("its certificate is for 10.1.2.3, "), "{why}");
        assert!(why.contains("not for 10.9.9.9: `thalweg node init --host 10.9.9.9`"), "{why}");
        // Another one of the same authority takes its place.
        certificates.make(&["10.9.9.9".into()], 30).unwrap();
        certificates.identity().unwrap().check("10.9.9.9").unwrap();
    }

    #[test]
    fn an_invitation_is_good_once_and_for_its_time() {
        let (_folder, certificates) = made();
        let invited = |valid, may| {
            Invitation::parse(&certificates.invite(Duration::from_secs(valid), may).unwrap()).unwrap()
        };
        for may in [May::Run, May::See] {
            let invitation = invited(60, may);
            assert_eq!(certificates.redeem(&[0; 16]), None);
            assert_eq!(certificates.redeem(&invitation.secret), Some(may));
            assert_eq!(certificates.redeem(&invitation.secret), None, "used before");
        }
        let invitation = invited(0, May::Run);
        assert_eq!(certificates.redeem(&invitation.secret), None, "too late");
    }

    #[test]
    fn only_the_first_machine_signs() {
        let (_folder, certificates) = made();
        std::fs::remove_file(certificates.path("authority.key")).unwrap();
        let refused = certificates.make(&["a".into()], 1).unwrap_err().to_string();
        assert!(refused.contains("the key of the cluster's authority is not on this machine"), "{refused}");
        assert!(certificates.invite(DAY, May::Run).is_err());
    }
}
