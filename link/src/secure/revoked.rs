//! Verifiers that also refuse certificates which were revoked: the usual checks come first, so only certificates of the
//! cluster are looked up.

use std::fmt;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

/// Whether the certificate with this fingerprint was revoked. Asked in each handshake.
pub type IsRevoked = Arc<dyn Fn(&[u8; 32]) -> bool + Send + Sync>;

fn check(is_revoked: &IsRevoked, shown: &CertificateDer<'_>) -> Result<(), Error> {
    match is_revoked(&super::fingerprint_of(shown)) {
        true => Err(CertificateError::Revoked.into()),
        false => Ok(()),
    }
}

/// The verifier of an end that connects.
pub(super) struct OfServers {
    pub(super) usual: Arc<WebPkiServerVerifier>,
    pub(super) is_revoked: IsRevoked,
}

impl fmt::Debug for OfServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OfServers").finish_non_exhaustive()
    }
}

impl ServerCertVerifier for OfServers {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let usual =
            self.usual.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)?;
        check(&self.is_revoked, end_entity).map(|()| usual)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.usual.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.usual.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.usual.supported_verify_schemes()
    }
}

/// The verifier of an end that accepts connections.
pub(super) struct OfClients {
    pub(super) usual: Arc<dyn ClientCertVerifier>,
    pub(super) is_revoked: IsRevoked,
}

impl fmt::Debug for OfClients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OfClients").finish_non_exhaustive()
    }
}

impl ClientCertVerifier for OfClients {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.usual.root_hint_subjects()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.usual.client_auth_mandatory()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let usual = self.usual.verify_client_cert(end_entity, intermediates, now)?;
        check(&self.is_revoked, end_entity).map(|()| usual)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.usual.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.usual.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.usual.supported_verify_schemes()
    }
}
