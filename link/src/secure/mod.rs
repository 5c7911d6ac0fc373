//! Encryption and mutual authentication of connections by TLS 1.3.
//!
//! An [`Identity`] is what a process shows of itself and trusts in others: a certificate with its private
//! key, and the certificate of the cluster's authority. Both ends of a connection show certificates that this
//! authority signed. An end that connects by the name of a host also checks that the certificate is for this
//! host. An end of a link connects to a process that a node has named, and checks that the certificate is
//! that of a [`MEMBER`].

mod explain;
mod key;
mod knock;
mod pinned;
mod revoked;
mod stream;

pub use explain::is_denied;
pub(crate) use explain::is_refused;
pub use key::{PUBLIC_BYTES, PrivateKey, pem};
pub use knock::{Door, INVITED, KNOCK, Knocked, Secret, deny};
pub use revoked::IsRevoked;
pub use stream::SecureStream;
pub(crate) use stream::Secured;

use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Instant;

use ring::digest::{SHA256, digest};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{
    ClientConfig, ClientConnection, Connection, RootCertStore, ServerConfig, ServerConnection, version,
};

use pinned::Pinned;
use revoked::{OfClients, OfServers};

/// The name in the certificates of machines that may run parts of networks.
pub const MEMBER: &str = "member.thalweg.invalid";

/// What a process shows of itself and trusts in others.
#[derive(Clone)]
pub struct Identity {
    client: Arc<ClientConfig>,
    /// For links: every peer shows a certificate.
    server: Arc<ServerConfig>,
    /// For the connections of a node: a peer that shows no certificate may enroll.
    lenient: Arc<ServerConfig>,
}

impl std::fmt::Debug for Identity {
    /// The private key is not shown.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity").finish_non_exhaustive()
    }
}

impl Identity {
    /// The identity with this certificate, its private key, and the certificate of the authority, all as PEM.
    ///
    /// # Errors
    /// A text is no certificate or no key, or the key is not that of the certificate; the error says which.
    pub fn new(authority: &str, certificate: &str, key: &str) -> Result<Identity, String> {
        Identity::with(authority, certificate, key, Arc::new(|_| false))
    }

    /// The same, for an end that refuses other ends with a certificate for which `is_revoked` returns true.
    ///
    /// # Errors
    /// The errors of [`Identity::new`].
    pub fn with(
        authority: &str,
        certificate: &str,
        key: &str,
        is_revoked: IsRevoked,
    ) -> Result<Identity, String> {
        let provider = key::provider();
        let authority = CertificateDer::from_pem_slice(authority.as_bytes())
            .map_err(|error| format!("the certificate of the authority: {error}"))?;
        let certificate = CertificateDer::from_pem_slice(certificate.as_bytes())
            .map_err(|error| format!("the certificate: {error}"))?;
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes())
            .map_err(|error| format!("the private key: {error}"))?;
        let mut roots = RootCertStore::empty();
        roots.add(authority.clone()).map_err(|error| format!("the certificate of the authority: {error}"))?;
        let roots = Arc::new(roots);
        let failed = |error: rustls::Error| format!("the certificate with its key: {error}");
        // The authority's certificate is sent too, since a machine that enrolls has only its fingerprint.
        let chain = vec![certificate, authority];
        let verifier = WebPkiServerVerifier::builder_with_provider(roots.clone(), provider.clone());
        let usual = verifier.build().map_err(|error| error.to_string())?;
        let mut client = client_config(&provider)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(OfServers { usual, is_revoked: is_revoked.clone() }))
            .with_client_auth_cert(chain.clone(), key.clone_key())
            .map_err(failed)?;
        client.resumption = Resumption::disabled();
        let server = |is_lenient: bool| {
            let verifier = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone());
            let verifier = if is_lenient { verifier.allow_unauthenticated() } else { verifier };
            let mut config = ServerConfig::builder_with_provider(provider.clone())
                .with_protocol_versions(&[&version::TLS13])
                .map_err(|error| error.to_string())?
                .with_client_cert_verifier(Arc::new(OfClients {
                    usual: verifier.build().map_err(|error| error.to_string())?,
                    is_revoked: is_revoked.clone(),
                }))
                .with_single_cert(chain.clone(), key.clone_key())
                .map_err(failed)?;
            // Sessions are not resumed, so each connection proves both identities again.
            config.send_tls13_tickets = 0;
            config.session_storage = Arc::new(NoServerSessionStorage {});
            Ok::<_, String>(Arc::new(config))
        };
        Ok(Identity { client: Arc::new(client), server: server(false)?, lenient: server(true)? })
    }

    /// Makes a TCP connection secure, as the end that connected to `host` and knows the secret of its
    /// [`Door`]. The handshake takes at most until `deadline`.
    ///
    /// # Errors
    /// The other end shows no certificate of this cluster for this host, or does not answer in time.
    pub fn connect(
        &self,
        host: &str,
        stream: TcpStream,
        secret: &Secret,
        deadline: Instant,
    ) -> io::Result<SecureStream> {
        let session = ClientConnection::new(self.client.clone(), name_of(host)?).map_err(explain::io)?;
        let proof = knock::knock(&stream, (&KNOCK, secret), deadline)?;
        SecureStream::new(session.into(), stream, &proof, deadline)
    }

    /// Makes a TCP connection secure, as the end that accepted it, after its [`Door`]. The handshake takes at
    /// most until `deadline`. The other end may have shown no certificate: see [`SecureStream::is_known`].
    ///
    /// # Errors
    /// The other end shows a certificate that is not of this cluster or not valid now, or does not answer in
    /// time.
    pub fn accept(&self, stream: TcpStream, deadline: Instant) -> io::Result<SecureStream> {
        let session = ServerConnection::new(self.lenient.clone()).map_err(explain::io)?;
        SecureStream::new(session.into(), stream, &[], deadline)
    }

    /// Checks that the certificate is valid now, and for `host`.
    ///
    /// # Errors
    /// The reason for which other ends would refuse the certificate.
    pub fn check(&self, host: &str) -> io::Result<()> {
        let client = ClientConnection::new(self.client.clone(), name_of(host)?).map_err(explain::io)?;
        let server = ServerConnection::new(self.server.clone()).map_err(explain::io)?;
        let mut ends: [Connection; 2] = [client.into(), server.into()];
        let mut turn = 0;
        while ends.iter().any(|end| end.is_handshaking()) {
            let mut bytes = Vec::new();
            ends[turn].write_tls(&mut bytes)?;
            turn = 1 - turn;
            let mut left = bytes.as_slice();
            while !left.is_empty() {
                ends[turn].read_tls(&mut left)?;
                ends[turn].process_new_packets().map_err(explain::io)?;
            }
        }
        Ok(())
    }

    /// The connecting end of a link, without blocking.
    pub(crate) fn sending(&self, stream: TcpStream, secret: &Secret) -> io::Result<Secured> {
        let session = ClientConnection::new(self.client.clone(), name_of(MEMBER)?).map_err(explain::io)?;
        Secured::knocking(session.into(), stream, secret)
    }

    /// The accepting end of a link, without blocking, after its [`Door`].
    pub(crate) fn receiving(&self, stream: TcpStream) -> io::Result<Secured> {
        let session = ServerConnection::new(self.server.clone()).map_err(explain::io)?;
        Secured::new(session.into(), stream)
    }
}

/// Makes a TCP connection secure as an end that has no certificate yet, and that knows the authority's
/// certificate by its [`fingerprint`]. `secret` is what the end knows of those that the [`Door`] has for
/// `begin`.
///
/// # Errors
/// The other end shows no certificate of this authority for this host, or does not answer in time.
pub fn enroll(
    host: &str,
    stream: TcpStream,
    (begin, secret): (&[u8; 8], &Secret),
    deadline: Instant,
    fingerprint: [u8; 32],
) -> io::Result<SecureStream> {
    let provider = key::provider();
    let pinned = Pinned { provider: provider.clone(), fingerprint };
    let mut config = client_config(&provider)
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(pinned))
        .with_no_client_auth();
    config.resumption = Resumption::disabled();
    let session = ClientConnection::new(Arc::new(config), name_of(host)?).map_err(explain::io)?;
    let proof = knock::knock(&stream, (begin, secret), deadline)?;
    SecureStream::new(session.into(), stream, &proof, deadline)
}

/// The fingerprint of a certificate in PEM: the SHA-256 of its bytes.
///
/// # Errors
/// The text is no certificate.
pub fn fingerprint(certificate: &str) -> Result<[u8; 32], String> {
    let certificate = CertificateDer::from_pem_slice(certificate.as_bytes());
    certificate.map(|certificate| fingerprint_of(&certificate)).map_err(|error| error.to_string())
}

fn fingerprint_of(certificate: &CertificateDer<'_>) -> [u8; 32] {
    let mut fingerprint = [0; 32];
    fingerprint.copy_from_slice(digest(&SHA256, certificate).as_ref());
    fingerprint
}

type ClientBuilder = rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier>;

fn client_config(provider: &Arc<CryptoProvider>) -> Result<ClientBuilder, String> {
    ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&version::TLS13])
        .map_err(|error| error.to_string())
}

fn name_of(host: &str) -> io::Result<ServerName<'static>> {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    ServerName::try_from(host.to_owned())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, format!("`{host}` is no name of a host")))
}
