//! TLS to servers.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};

use tls_files::{certificates_of, key_of, provider, revocations_of, roots_of};

/// Whether connections to a server use TLS, like libpq's `sslmode`.
#[derive(Clone, Debug)]
pub enum TlsPolicy {
    /// Never with TLS.
    Disable,
    /// With TLS, if the server supports it.
    Prefer(Tls),
    /// Only with TLS.
    Require(Tls),
    /// Only with TLS, and only if an authority has signed the server's certificate.
    Verify(Tls),
}

/// The configuration of TLS with a server.
#[derive(Clone, Debug)]
pub struct Tls {
    /// The configuration for the TLS library.
    pub config: Arc<ClientConfig>,
    /// The files that it was made from.
    files: TlsFiles,
}

/// The PEM files in a URL.
#[derive(Clone, Debug, Default)]
pub struct TlsFiles {
    /// Certificates of the authorities for servers.
    pub roots: Option<PathBuf>,
    /// The revocation lists of these authorities.
    pub revoked: Option<PathBuf>,
    /// The certificates for servers that request them, and their key.
    pub proof: Option<(PathBuf, PathBuf)>,
}

impl TlsPolicy {
    /// Returns the policy from `sslmode` and the URL's other parameters. As in libpq, only
    /// `verify-full` checks the server's name.
    pub fn of(mode: &str, files: TlsFiles) -> Result<TlsPolicy, String> {
        let policy = match (mode, &files.roots) {
            ("disable", _) => return Ok(TlsPolicy::Disable),
            ("prefer", _) => TlsPolicy::Prefer,
            ("require", None) => TlsPolicy::Require,
            ("require" | "verify-full", Some(_)) => TlsPolicy::Verify,
            ("verify-full", None) => {
                return Err("sslmode=verify-full needs sslrootcert=FILE in the URL".into());
            }
            (mode, _) => {
                return Err(format!(
                    "sslmode={mode} is not known: there is disable, prefer, require and verify-full"
                ));
            }
        };
        let verifies = mode != "prefer";
        if files.revoked.is_some() && !(verifies && files.roots.is_some()) {
            // Else they would be trusted unnoticed.
            let needs =
                "sslcrl needs sslrootcert=FILE in the URL, and sslmode=require or verify-full";
            return Err(needs.into());
        }
        let config = Arc::new(client_config(&files, verifies)?);
        Ok(policy(Tls { config, files }))
    }

    /// Returns the value of libpq's `sslmode` for this policy.
    pub fn mode(&self) -> &'static str {
        match self {
            TlsPolicy::Disable => "disable",
            TlsPolicy::Prefer(_) => "prefer",
            TlsPolicy::Require(_) => "require",
            TlsPolicy::Verify(_) => "verify-full",
        }
    }

    /// Returns the files of the policy; none without TLS.
    pub fn files(&self) -> Option<&TlsFiles> {
        match self {
            TlsPolicy::Disable => None,
            TlsPolicy::Prefer(tls) | TlsPolicy::Require(tls) | TlsPolicy::Verify(tls) => {
                Some(&tls.files)
            }
        }
    }
}

/// Returns the configuration for servers: the checks of their certificates, which are none unless
/// `verifies`, and the certificate that this client presents.
fn client_config(files: &TlsFiles, verifies: bool) -> Result<ClientConfig, String> {
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("cannot set up TLS: {error}"))?;
    let config = match files.roots.as_deref().filter(|_| verifies) {
        Some(path) => {
            let roots = Arc::new(roots_of(path)?);
            let mut verifier = WebPkiServerVerifier::builder_with_provider(roots, provider());
            if let Some(path) = &files.revoked {
                verifier = verifier
                    .with_crls(revocations_of(path)?)
                    .enforce_revocation_expiration();
            }
            let unusable = |error| format!("cannot use {}: {error}", path.display());
            config.with_webpki_verifier(verifier.build().map_err(unusable)?)
        }
        None => config
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyServer(provider()))),
    };
    match &files.proof {
        None => Ok(config.with_no_client_auth()),
        Some((certificates, key)) => config
            .with_client_auth_cert(certificates_of(certificates)?, key_of(key)?)
            .map_err(|error| format!("cannot use {}: {error}", certificates.display())),
    }
}

/// Accepts any certificate: encryption without proof of the server's identity.
#[derive(Debug)]
struct AnyServer(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
