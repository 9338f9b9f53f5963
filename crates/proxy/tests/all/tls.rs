//! Databases that speak with TLS only, and require passwords, as hosted ones do.

use std::fs;
use std::sync::Arc;

use pg_auth::admission::ClientAuthentication;
use pg_auth::users::UserSecrets;
use pg_connect::address::Address;
use pg_local::{Postgres, SUPERUSER};
use proxy::serve::routing::Routing;
use rcgen::{CertificateParams, KeyPair};
use replication::{ExistingData, ReplicationSettings};
use tempfile::TempDir;

use crate::support::cluster::until_all_serve;
use crate::support::tls::{
    authority, certify, know_authority, number_of, require_tls, require_tls_with, revoke,
    want_certificates,
};
use crate::support::{Front, PASSWORD, is_there, options};

fn address(postgres: &Postgres, query: &str) -> Address {
    let place = postgres.socket();
    let url = format!("postgresql://{SUPERUSER}:{PASSWORD}@{place}/postgres?{query}");
    Address::parse(&url).unwrap()
}

/// It is filled, follows and serves, with servers that prove their identity and with others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn databases_with_tls_only_are_followed() {
    if !is_there() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let primary = Postgres::start(&["synchronous_commit=on"]).unwrap();
    let replicas = [Postgres::start(&[]).unwrap(), Postgres::start(&[]).unwrap()];
    require_tls(&[&primary, &replicas[0], &replicas[1]], folder.path()).await;
    let roots = folder.path().join("roots.pem");
    let proven = format!("sslmode=verify-full&sslrootcert={}", roots.display());
    let at = address(&primary, &proven);
    let routing = Routing::start(&at, 10, &ReplicationSettings::default())
        .await
        .unwrap();
    let manager = Arc::clone(&routing.manager);
    for (replica, query) in replicas.iter().zip([proven.as_str(), "sslmode=require"]) {
        let at = address(replica, query);
        let added = routing.replicas.add(&at, ExistingData::Kept);
        added.unwrap();
    }
    let mut options = options(&primary, 10);
    options.primary = at;
    let mut users = UserSecrets::default();
    users.add(SUPERUSER, PASSWORD).unwrap();
    options.admission.clients.authentication = ClientAuthentication::Trust(users);
    let front = Front::routed(options, Some(routing)).await;
    until_all_serve(&front, &manager).await;
}

/// The proxy shows a certificate to servers that want one, on its own connections and on those of
/// its clients.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn databases_that_want_certificates_are_followed() {
    if !is_there() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let primary = Postgres::start(&["synchronous_commit=on"]).unwrap();
    let replica = Postgres::start(&[]).unwrap();
    let authority = authority(&folder.path().join("authority.pem"));
    for postgres in [&primary, &replica] {
        know_authority(postgres, &authority.pem()).await;
    }
    require_tls(&[&primary, &replica], folder.path()).await;
    certify(&authority, "replex", folder.path());
    let file = |name: &str| folder.path().join(name).display().to_string();
    let encrypted = format!("sslmode=verify-full&sslrootcert={}", file("roots.pem"));
    let (certificates, key) = (file("client.pem"), file("client.key"));
    let proven = format!("{encrypted}&sslcert={certificates}&sslkey={key}");
    for postgres in [&primary, &replica] {
        want_certificates(postgres, &address(postgres, &encrypted)).await;
    }
    let Err(problem) = Routing::start(
        &address(&primary, &encrypted),
        10,
        &ReplicationSettings::default(),
    )
    .await
    else {
        panic!("it came in without a certificate");
    };
    let problem = problem.to_string();
    assert!(problem.contains("valid client certificate"), "{problem}");
    let at = address(&primary, &proven);
    let routing = Routing::start(&at, 10, &ReplicationSettings::default())
        .await
        .unwrap();
    let manager = Arc::clone(&routing.manager);
    let there = address(&replica, &proven);
    routing.replicas.add(&there, ExistingData::Kept).unwrap();
    let mut options = options(&primary, 10);
    options.primary = at;
    let mut users = UserSecrets::default();
    users.add(SUPERUSER, PASSWORD).unwrap();
    options.admission.clients.authentication = ClientAuthentication::Trust(users);
    let front = Front::routed(options, Some(routing)).await;
    until_all_serve(&front, &manager).await;
}

/// A proxy that has the list of `sslcrl` does not connect to one whose certificate was revoked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn databases_with_a_revoked_certificate_are_refused() {
    if !is_there() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let file = |name: &str| folder.path().join(name);
    let primary = Postgres::start(&["synchronous_commit=on"]).unwrap();
    let authority = authority(&file("roots.pem"));
    let key = KeyPair::generate().unwrap();
    let host = primary.socket().ip().to_string();
    let mut params = CertificateParams::new([host]).unwrap();
    params.serial_number = Some(number_of("server"));
    let certificate = params.signed_by(&key, &authority).unwrap();
    require_tls_with(&[&primary], &certificate.pem(), &key.serialize_pem()).await;
    let list = file("revoked.pem");
    let query = format!(
        "sslmode=verify-full&sslrootcert={}&sslcrl={}",
        file("roots.pem").display(),
        list.display()
    );
    revoke(&authority, &[number_of("other")], 2100, &list);
    let known = address(&primary, &query);
    drop(
        Routing::start(&known, 10, &ReplicationSettings::default())
            .await
            .unwrap(),
    );
    revoke(&authority, &[number_of("server")], 2100, &list);
    let revoked = address(&primary, &query);
    let Err(problem) = Routing::start(&revoked, 10, &ReplicationSettings::default()).await else {
        panic!("it was trusted");
    };
    assert!(problem.to_string().contains("Revoked"), "{problem}");

    let url = |query: &str| Address::parse(&format!("postgresql://a@b/c?{query}"));
    let alone = url(&format!("sslcrl={}", list.display())).unwrap_err();
    assert!(alone.contains("sslrootcert"), "{alone}");
    let unasked = query.replace("verify-full", "prefer");
    let unasked = url(&unasked).unwrap_err();
    assert!(unasked.contains("sslmode"), "{unasked}");
    let absent = url(&query.replace("revoked.pem", "absent.pem")).unwrap_err();
    assert!(absent.contains("absent.pem"), "{absent}");
}

/// It does not connect to one whose certificate no authority has signed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn databases_that_do_not_prove_their_identity() {
    if !is_there() {
        return;
    }
    let (folder, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let primary = Postgres::start(&["synchronous_commit=on"]).unwrap();
    require_tls(&[&primary], folder.path()).await;
    let stranger = rcgen::generate_simple_self_signed(["elsewhere".to_string()]).unwrap();
    let roots = other.path().join("roots.pem");
    fs::write(&roots, stranger.cert.pem()).unwrap();
    let query = format!("sslmode=verify-full&sslrootcert={}", roots.display());
    let Err(problem) = Routing::start(
        &address(&primary, &query),
        10,
        &ReplicationSettings::default(),
    )
    .await
    else {
        panic!("it was trusted");
    };
    assert!(problem.to_string().contains("certificate"), "{problem}");
    let Err(problem) = Routing::start(
        &address(&primary, "sslmode=disable"),
        10,
        &ReplicationSettings::default(),
    )
    .await
    else {
        panic!("it was spoken to without TLS");
    };
    assert!(problem.to_string().contains("no encryption"), "{problem}");
}
