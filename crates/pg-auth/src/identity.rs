//! A server's TLS: its certificate, and the authorities of its clients' certificates.

use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::server::WebPkiClientVerifier;
use tls_files::{certificates_of, key_of, provider, revocations_of, roots_of};

use crate::certificate;

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
