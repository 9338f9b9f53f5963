//! Certificates for tests of TLS within a cluster, in a folder as `replex cert` makes it.

use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};

/// Makes an authority in a folder.
pub fn authority(folder: &Path) -> Issuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    std::fs::write(folder.join("ca.pem"), certificate.pem()).unwrap();
    Issuer::new(params, key)
}

/// Makes `NAME.pem` and `NAME.key` in a folder, with these host names in the certificate.
pub fn certificate(
    folder: &Path,
    name: &str,
    hosts: &[&str],
    usages: &[ExtendedKeyUsagePurpose],
    issuer: &Issuer<'_, KeyPair>,
) {
    let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
    let mut params = CertificateParams::new(hosts).unwrap();
    params.extended_key_usages = usages.to_vec();
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, issuer).unwrap();
    let file = |ending: &str| folder.join(format!("{name}.{ending}"));
    std::fs::write(file("pem"), certificate.pem()).unwrap();
    std::fs::write(file("key"), key.serialize_pem()).unwrap();
}

/// Makes the certificate of a server of the cluster.
pub fn node(folder: &Path, issuer: &Issuer<'_, KeyPair>) {
    use ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};
    let hosts = [cluster_tls::CLUSTER_NAME];
    certificate(folder, "node", &hosts, &[ServerAuth, ClientAuth], issuer);
}
