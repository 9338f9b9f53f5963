//! Certificates, keys and lists of revoked certificates in PEM files. Errors name the file.

use std::path::Path;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};

/// Returns the certificates in a file, in its order: at least one, as an empty file is a slip.
///
/// # Errors
/// The file cannot be read, or has no certificate. The message is for people.
pub fn certificates_of(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let failed = |error| format!("cannot read certificates from {}: {error}", path.display());
    let certificates = CertificateDer::pem_file_iter(path).map_err(failed)?;
    let certificates: Vec<_> = certificates.collect::<Result<_, _>>().map_err(failed)?;
    match certificates.is_empty() {
        true => Err(format!("there is no certificate in {}", path.display())),
        false => Ok(certificates),
    }
}

/// Reads the lists of revoked certificates: at least one, as an empty file is a slip.
pub fn revocations_of(path: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>, String> {
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

/// Returns the private key in a file.
///
/// # Errors
/// The file cannot be read, or has no key. The message is for people.
pub fn key_of(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_file(path)
        .map_err(|error| format!("cannot read a key from {}: {error}", path.display()))
}

/// Returns the implementation of TLS's algorithms.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// Returns the certificates of authorities in a file.
///
/// # Errors
/// The file cannot be read, or has something else. The message is for people.
pub fn roots_of(path: &Path) -> Result<RootCertStore, String> {
    let mut store = RootCertStore::empty();
    for certificate in certificates_of(path)? {
        store
            .add(certificate)
            .map_err(|error| format!("cannot use {}: {error}", path.display()))?;
    }
    Ok(store)
}
