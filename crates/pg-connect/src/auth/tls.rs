//! TLS to clients and to servers.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{
    CertificateDer, CertificateRevocationListDer, PrivateKeyDer, ServerName, UnixTime,
};
use rustls::server::WebPkiClientVerifier;
use rustls::{
    ClientConfig, DigitallySignedStruct, Error, RootCertStore, ServerConfig, SignatureScheme,
};

use super::certificate;

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

/// A server's certificate, for its clients.
#[derive(Clone, Debug)]
pub struct TlsIdentity {
    /// The configuration for the TLS library.
    pub config: Arc<ServerConfig>,
    /// The channel binding of logins with this certificate.
    pub end_point: Option<Vec<u8>>,
}

/// The PEM files with the authorities of clients' certificates.
#[derive(Clone, Copy, Debug)]
pub struct ClientAuthorities<'a> {
    /// Certificates of the authorities.
    pub authorities: &'a Path,
    /// Their revocation lists. As with PostgreSQL's `ssl_crl_file`, every authority needs a list
    /// that is up to date.
    pub revoked: Option<&'a Path>,
}

/// Returns the configuration for clients, from a chain of certificates and their key, both PEM.
/// With authorities, clients are asked for a certificate, but need not have one. A certificate that
/// was revoked, or that none of these authorities has signed, ends the handshake.
pub fn identity(
    certificates: &Path,
    key: &Path,
    vouching: Option<ClientAuthorities<'_>>,
) -> Result<TlsIdentity, String> {
    let chain = certificates_of(certificates)?;
    let end_point = chain.first().and_then(certificate::end_point);
    let key = key_of(key)?;
    let config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("cannot set up TLS: {error}"))?;
    let config = match vouching {
        None => config.with_no_client_auth(),
        Some(ClientAuthorities {
            authorities,
            revoked,
        }) => {
            let roots = Arc::new(roots_of(authorities)?);
            let mut verifier = WebPkiClientVerifier::builder_with_provider(roots, provider());
            if let Some(path) = revoked {
                verifier = verifier
                    .with_crls(revocations_of(path)?)
                    .enforce_revocation_expiration();
            }
            let verifier = verifier.allow_unauthenticated().build();
            let unusable = |error| format!("cannot use {}: {error}", authorities.display());
            config.with_client_cert_verifier(verifier.map_err(unusable)?)
        }
    };
    let config = config
        .with_single_cert(chain, key)
        .map_err(|error| format!("cannot use {}: {error}", certificates.display()))?;
    Ok(TlsIdentity {
        config: Arc::new(config),
        end_point,
    })
}

fn certificates_of(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let failed = |error| format!("cannot read certificates from {}: {error}", path.display());
    let certificates = CertificateDer::pem_file_iter(path).map_err(failed)?;
    certificates.collect::<Result<_, _>>().map_err(failed)
}

/// Reads the lists of revoked certificates: at least one, as an empty file is a slip.
fn revocations_of(path: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>, String> {
    let failed = |error| {
        format!(
            "cannot read revoked certificates from {}: {error}",
            path.display()
        )
    };
    let lists = CertificateRevocationListDer::pem_file_iter(path).map_err(failed)?;
    let lists: Vec<_> = lists.collect::<Result<_, _>>().map_err(failed)?;
    match lists.is_empty() {
        true => Err(format!(
            "there is no list of revoked certificates in {}",
            path.display()
        )),
        false => Ok(lists),
    }
}

fn key_of(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_file(path)
        .map_err(|error| format!("cannot read a key from {}: {error}", path.display()))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn roots_of(path: &Path) -> Result<RootCertStore, String> {
    let mut store = RootCertStore::empty();
    for certificate in certificates_of(path)? {
        store
            .add(certificate)
            .map_err(|error| format!("cannot use {}: {error}", path.display()))?;
    }
    Ok(store)
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
