//! Reads the properties of certificates that logins need: the channel binding of a login, and the
//! name of the subject.

use ring::digest::{self, Algorithm, SHA256, SHA384, SHA512};
use rustls::pki_types::CertificateDer;
use x509_parser::parse_x509_certificate;

/// Returns the hash of a server's certificate that binds a login to its TLS connection:
/// `tls-server-end-point` of RFC 5929, section 4.1. The certificate's signature determines the hash
/// function, but it is never MD5 or SHA-1.
///
/// None where a signature's kind names no hash. RSA-PSS names one, but libpq before version 16 does
/// not find it and gives up its login.
pub fn end_point(certificate: &CertificateDer<'_>) -> Option<Vec<u8>> {
    let (_, parsed) = parse_x509_certificate(certificate).ok()?;
    let algorithm = parsed.signature_algorithm.algorithm.to_id_string();
    let hash = hash_of(&algorithm)?;
    Some(digest::digest(hash, certificate).as_ref().to_vec())
}

/// Returns the hash by which `tls-server-end-point` is made, for a kind of signature by its number.
fn hash_of(signature: &str) -> Option<&'static Algorithm> {
    match signature {
        // RSA with MD5, SHA-1 and SHA-256, then ECDSA with SHA-1 and SHA-256.
        "1.2.840.113549.1.1.4"
        | "1.2.840.113549.1.1.5"
        | "1.2.840.113549.1.1.11"
        | "1.2.840.10045.4.1"
        | "1.2.840.10045.4.3.2" => Some(&SHA256),
        // RSA and ECDSA with SHA-384, then with SHA-512.
        "1.2.840.113549.1.1.12" | "1.2.840.10045.4.3.3" => Some(&SHA384),
        "1.2.840.113549.1.1.13" | "1.2.840.10045.4.3.4" => Some(&SHA512),
        _ => None,
    }
}

/// Returns the common name of a certificate's subject. If there are several, it is the first, as in
/// PostgreSQL.
pub fn common_name(certificate: &CertificateDer<'_>) -> Option<String> {
    let (_, parsed) = parse_x509_certificate(certificate).ok()?;
    let name = parsed.subject().iter_common_name().next()?;
    name.as_str().ok().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rcgen::{CertificateParams, DnType, KeyPair, SignatureAlgorithm};

    use super::*;

    fn made(
        params: CertificateParams,
        kind: &'static SignatureAlgorithm,
    ) -> CertificateDer<'static> {
        let key = KeyPair::generate_for(kind).unwrap();
        params.self_signed(&key).unwrap().der().clone()
    }

    #[test]
    fn signature_names_the_hash() {
        let params = CertificateParams::default;
        let by = |hash, certificate: &CertificateDer<'_>| {
            let hash = digest::digest(hash, certificate);
            Some(hash.as_ref().to_vec())
        };
        let certificate = made(params(), &rcgen::PKCS_ECDSA_P256_SHA256);
        assert_eq!(end_point(&certificate), by(&SHA256, &certificate));
        let certificate = made(params(), &rcgen::PKCS_ECDSA_P384_SHA384);
        assert_eq!(end_point(&certificate), by(&SHA384, &certificate));
        let certificate = made(params(), &rcgen::PKCS_ED25519);
        assert_eq!(end_point(&certificate), None);
        // RFC 5929 puts SHA-256 in the place of broken hashes.
        for old in [
            "1.2.840.113549.1.1.4",
            "1.2.840.113549.1.1.5",
            "1.2.840.10045.4.1",
        ] {
            assert_eq!(hash_of(old), Some(&SHA256), "{old}");
        }
        assert_eq!(hash_of("1.2.840.113549.1.1.13"), Some(&SHA512));
    }

    #[test]
    fn name_is_the_first_common_name() {
        let mut params = CertificateParams::default();
        params.distinguished_name.remove(DnType::CommonName);
        params
            .distinguished_name
            .push(DnType::OrganizationName, "shop");
        let unnamed = made(params.clone(), &rcgen::PKCS_ECDSA_P256_SHA256);
        assert_eq!(common_name(&unnamed), None);
        params.distinguished_name.push(DnType::CommonName, "änn");
        let named = made(params, &rcgen::PKCS_ECDSA_P256_SHA256);
        assert_eq!(common_name(&named).as_deref(), Some("änn"));
    }

    proptest! {
        #[test]
        fn damaged_ones_are_read_or_refused(at: usize, byte: u8, length: usize) {
            let params = CertificateParams::default();
            let mut bytes = made(params, &rcgen::PKCS_ECDSA_P256_SHA256).to_vec();
            let at = at % bytes.len();
            bytes[at] = byte;
            bytes.truncate(length % (2 * bytes.len()));
            let damaged = CertificateDer::from(bytes);
            let _ = (end_point(&damaged), common_name(&damaged));
        }
    }
}
