//! Handshakes in memory with certificates of every kind: the processes of a cluster connect, and no
//! others.
#![allow(clippy::unwrap_used, reason = "a failed expectation fails the test")]

#[path = "../../../tests/certificates.rs"]
mod certificates;

use std::io::{Error, ErrorKind, Read, Write};

use cluster_tls::{CLUSTER_NAME, Connection, CredentialFiles, Credentials, explain};
use rcgen::ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};
use tempfile::TempDir;

/// Returns a folder with an authority and the certificates of a cluster.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let issuer = certificates::authority(folder.path());
    certificates::node(folder.path(), &issuer);
    let hosts = [CLUSTER_NAME];
    certificates::certificate(folder.path(), "admin", &hosts, &[ClientAuth], &issuer);
    folder
}

/// Returns the credentials of a certificate that the folder has under another name.
fn named(folder: &TempDir, name: &str) -> Credentials {
    let other = tempfile::tempdir().unwrap();
    for (from, to) in [
        ("ca.pem".to_owned(), "ca.pem"),
        (format!("{name}.pem"), "node.pem"),
        (format!("{name}.key"), "node.key"),
    ] {
        std::fs::copy(folder.path().join(from), other.path().join(to)).unwrap();
    }
    Credentials::read(other.path(), CredentialFiles::Node).unwrap()
}

/// Passes bytes between two sides until neither has more. Returns the error of each side.
fn shake(one: &mut Connection, other: &mut Connection) -> [Option<String>; 2] {
    let mut errors = [None, None];
    for _ in 0..10 {
        for turn in 0..2 {
            let (from, to) = match turn {
                0 => (&mut *one, &mut *other),
                _ => (&mut *other, &mut *one),
            };
            let mut bytes = Vec::new();
            while from.wants_write() {
                from.write_tls(&mut bytes).unwrap();
            }
            let mut rest = &bytes[..];
            while !rest.is_empty() && errors[1 - turn].is_none() {
                to.read_tls(&mut rest).unwrap();
                if let Err(error) = to.process_new_packets() {
                    let error = Error::new(ErrorKind::InvalidData, error);
                    errors[1 - turn] = Some(explain(&error));
                }
            }
        }
    }
    errors
}

/// Lets `client` connect to `server`. Returns the error of each, the client's first.
fn connect(client: &Credentials, server: &Credentials) -> [Option<String>; 2] {
    let mut one: Connection = client.connect().unwrap().into();
    let mut other: Connection = server.accept().unwrap().into();
    let errors = shake(&mut one, &mut other);
    if errors == [None, None] {
        one.writer().write_all(b"hello").unwrap();
        assert_eq!(shake(&mut one, &mut other), [None, None]);
        let mut hello = [0; 5];
        other.reader().read_exact(&mut hello).unwrap();
        assert_eq!(&hello, b"hello");
    }
    errors
}

#[test]
fn servers_and_admins_of_a_cluster_connect() {
    let folder = folder();
    let node = Credentials::read(folder.path(), CredentialFiles::Node).unwrap();
    let admin = Credentials::read(folder.path(), CredentialFiles::Admin).unwrap();
    assert_eq!(connect(&node, &node), [None, None]);
    assert_eq!(connect(&admin, &node), [None, None]);
    // The certificate of an admin is none of a server.
    let errors = connect(&admin, &admin);
    assert!(errors[0].is_some(), "{errors:?}");
    // Without its own, an admin uses that of a node.
    for file in ["admin.pem", "admin.key"] {
        std::fs::remove_file(folder.path().join(file)).unwrap();
    }
    let admin = Credentials::read(folder.path(), CredentialFiles::Admin).unwrap();
    assert_eq!(connect(&admin, &node), [None, None]);
}

#[test]
fn users_of_sql_and_other_clusters_are_refused() {
    let folder = folder();
    let node = Credentials::read(folder.path(), CredentialFiles::Node).unwrap();
    let issuer = certificates::authority(folder.path());
    certificates::node(folder.path(), &issuer);
    let node_of_authority = Credentials::read(folder.path(), CredentialFiles::Node).unwrap();
    for (name, hosts) in [("user", vec![]), ("server", vec!["db.example.com"])] {
        let usages = [ServerAuth, ClientAuth];
        certificates::certificate(folder.path(), name, &hosts, &usages, &issuer);
        let stranger = named(&folder, name);
        let errors = connect(&stranger, &node_of_authority);
        assert!(errors[1].is_some(), "{name} connects: {errors:?}");
        let errors = connect(&node_of_authority, &stranger);
        assert!(errors[0].is_some(), "{name} serves: {errors:?}");
    }
    // The same names, signed by another authority.
    let errors = connect(&node_of_authority, &node);
    let reason = errors[0].as_deref().unwrap();
    assert!(reason.contains("another authority"), "{reason}");
}

#[test]
fn a_side_without_tls_is_named() {
    let folder = folder();
    let node = Credentials::read(folder.path(), CredentialFiles::Node).unwrap();
    let mut client: Connection = node.connect().unwrap().into();
    client
        .read_tls(&mut &b"\x10\x00\x00\x00 a frame without TLS"[..])
        .unwrap();
    let error = client.process_new_packets().unwrap_err();
    let reason = explain(&Error::new(ErrorKind::InvalidData, error));
    assert!(reason.contains("does not use TLS"), "{reason}");
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let folder = folder();
    let read = || Credentials::read(folder.path(), CredentialFiles::Node).unwrap_err();
    let path = |file: &str| folder.path().join(file);
    std::fs::copy(path("admin.key"), path("node.key")).unwrap();
    let error = read();
    assert!(error.contains("node.key"), "{error}");
    std::fs::write(path("node.key"), "no key").unwrap();
    let error = read();
    assert!(
        error.contains("node.key") && !error.contains("no key"),
        "{error}"
    );
    std::fs::write(path("node.pem"), "").unwrap();
    let error = read();
    assert!(error.contains("node.pem"), "{error}");
    std::fs::remove_file(path("ca.pem")).unwrap();
    let error = read();
    assert!(
        error.contains("ca.pem") && error.contains("replex cert"),
        "{error}"
    );
}
