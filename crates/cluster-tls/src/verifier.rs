//! Admits the certificates of a cluster, and no others of its authority.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

use crate::CLUSTER_NAME;

/// Returns the name that the certificate of the other side must have.
pub(crate) fn cluster_name() -> ServerName<'static> {
    ServerName::try_from(CLUSTER_NAME).expect("it is a name of a host")
}

/// Checks the certificate of a process that connects: its authority by the TLS library, and then
/// the cluster's name in it.
#[derive(Debug)]
pub(crate) struct OfCluster {
    signed: Arc<dyn ClientCertVerifier>,
}

impl OfCluster {
    /// Adds the check of the name to a check of the authority.
    pub fn new(signed: Arc<dyn ClientCertVerifier>) -> OfCluster {
        OfCluster { signed }
    }
}

impl ClientCertVerifier for OfCluster {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.signed.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self
            .signed
            .verify_client_cert(end_entity, intermediates, now)?;
        let parsed = ParsedCertificate::try_from(end_entity)?;
        verify_server_name(&parsed, &cluster_name())?;
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signed
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signed
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.signed.supported_verify_schemes()
    }
}
