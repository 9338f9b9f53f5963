//! Clients that show certificates of their own, as psql does with `sslcert` and `sslkey`.

use pg_auth::admission::{CertificateUse, ClientAuthentication};
use pg_auth::identity::{self, ClientAuthorities};
use pg_local::Postgres;
use tempfile::TempDir;

use crate::support::tls::{authority, certify, identity, number_of, revoke};
use crate::support::{
    Front, PASSWORD, USER, complained, connect, is_there, options, printed, psql, users,
};

const NO_CERTIFICATE: &str = "connection requires a valid client certificate";
const OTHER_NAME: &str = "certificate authentication failed for user \"ann\"";
const NO_PASSWORD: &str = "password authentication failed for user \"ann\"";
const IN: &str = "";

/// A client's certificate: her own, another user's, none, or no TLS; each time with the right
/// password and with a wrong one. And the outcome.
type Expected = [(&'static str, &'static str); 4];

fn expected(certificates: CertificateUse) -> Expected {
    match certificates {
        CertificateUse::Unasked => [(IN, NO_PASSWORD); 4],
        CertificateUse::Required => [
            (IN, NO_PASSWORD),
            (OTHER_NAME, OTHER_NAME),
            (NO_CERTIFICATE, NO_CERTIFICATE),
            (NO_CERTIFICATE, NO_CERTIFICATE),
        ],
        CertificateUse::Enough => [
            (IN, IN),
            (OTHER_NAME, OTHER_NAME),
            (NO_CERTIFICATE, NO_CERTIFICATE),
            (NO_CERTIFICATE, NO_CERTIFICATE),
        ],
        CertificateUse::Instead => [
            (IN, IN),
            (IN, NO_PASSWORD),
            (IN, NO_PASSWORD),
            (IN, NO_PASSWORD),
        ],
    }
}

#[tokio::test]
async fn certificates_are_good_for_their_purpose() {
    if !is_there() {
        return;
    }
    let postgres = Postgres::start(&[]).unwrap();
    let admin = connect(postgres.socket()).await;
    let role = format!("CREATE ROLE {USER} LOGIN PASSWORD '{PASSWORD}'");
    admin.batch_execute(&role).await.unwrap();
    let folders = [(); 4].map(|()| TempDir::new().unwrap());
    let [shown, ann, eve, stranger] = folders.each_ref().map(TempDir::path);
    let root = shown.join("authority.pem");
    let ours = authority(&root);
    let theirs = authority(&stranger.join("authority.pem"));
    let (ann, eve) = (certify(&ours, USER, ann), certify(&ours, "eve", eve));
    let stranger = certify(&theirs, USER, stranger);
    identity(shown, &rcgen::PKCS_ECDSA_P256_SHA256);
    let (chain, key) = (shown.join("chain.pem"), shown.join("key.pem"));
    let ways = [
        format!("sslmode=require {ann}"),
        format!("sslmode=require {eve}"),
        "sslmode=require".to_owned(),
        "sslmode=disable".to_owned(),
    ];
    for certificates in [
        CertificateUse::Unasked,
        CertificateUse::Required,
        CertificateUse::Enough,
        CertificateUse::Instead,
    ] {
        let vouching = (certificates != CertificateUse::Unasked).then_some(ClientAuthorities {
            authorities: &root,
            revoked: None,
        });
        let mut proxy_options = options(&postgres, 4);
        proxy_options.admission.clients.authentication = ClientAuthentication::Scram(users());
        proxy_options.admission.clients.tls =
            Some(identity::identity(&chain, &key, vouching).unwrap());
        proxy_options.admission.clients.certificates = certificates;
        let mut front = Front::start(proxy_options).await;
        front.listen_in(shown).await;
        let (host, port) = (front.address.ip(), front.address.port());
        let come = async |way: &str, expected: &str| {
            let output = psql(&postgres, &format!("port={port} {way}")).await;
            match expected {
                IN => assert_eq!(printed(&output), "here\n", "{certificates:?} {way}"),
                expected => {
                    let text = complained(&output);
                    assert!(text.contains(expected), "{certificates:?} {way}: {text}");
                }
            }
        };
        for (way, (right, wrong)) in ways.iter().zip(expected(certificates)) {
            come(&format!("host={host} {way}"), right).await;
            come(&format!("host={host} {way} password=wrong"), wrong).await;
        }
        // No certificate can be shown on a Unix socket.
        let local = format!("host={} {ann}", shown.display());
        come(&local, IN).await;
        come(&format!("{local} password=wrong"), NO_PASSWORD).await;
        // A client without a valid certificate gets no further than the handshake, if it is asked
        // for one.
        let unknown = format!("host={host} sslmode=require {stranger}");
        match certificates {
            CertificateUse::Unasked => come(&unknown, IN).await,
            _ => drop(complained(
                &psql(&postgres, &format!("port={port} {unknown}")).await,
            )),
        }
    }
}

/// A file without authorities, and a file that is missing.
#[test]
fn authorities_that_cannot_be_read() {
    let folder = TempDir::new().unwrap();
    identity(folder.path(), &rcgen::PKCS_ECDSA_P256_SHA256);
    let (chain, key) = (
        folder.path().join("chain.pem"),
        folder.path().join("key.pem"),
    );
    for (name, text) in [("empty.pem", Some("")), ("absent.pem", None)] {
        let file = folder.path().join(name);
        if let Some(text) = text {
            std::fs::write(&file, text).unwrap();
        }
        let vouching = ClientAuthorities {
            authorities: &file,
            revoked: None,
        };
        let problem = identity::identity(&chain, &key, Some(vouching)).unwrap_err();
        assert!(problem.contains(name), "{problem}");
        let authorities = folder.path().join("authority.pem");
        authority(&authorities);
        let vouching = ClientAuthorities {
            authorities: &authorities,
            revoked: Some(&file),
        };
        let problem = identity::identity(&chain, &key, Some(vouching)).unwrap_err();
        assert!(problem.contains(name), "{problem}");
    }
}

/// A client with a revoked certificate gets no further than the handshake; nor does any where the
/// list is out of date, as with PostgreSQL's `ssl_crl_file`.
#[tokio::test]
async fn revoked_certificates_are_good_for_nothing() {
    if !is_there() {
        return;
    }
    let postgres = Postgres::start(&[]).unwrap();
    let admin = connect(postgres.socket()).await;
    let roles = format!("CREATE ROLE {USER} LOGIN; CREATE ROLE eve LOGIN");
    admin.batch_execute(&roles).await.unwrap();
    let folders = [(); 3].map(|()| TempDir::new().unwrap());
    let [shown, ann, eve] = folders.each_ref().map(TempDir::path);
    let root = shown.join("authority.pem");
    let ours = authority(&root);
    let (ann, eve) = (certify(&ours, USER, ann), certify(&ours, "eve", eve));
    identity(shown, &rcgen::PKCS_ECDSA_P256_SHA256);
    let (chain, key, list) = (
        shown.join("chain.pem"),
        shown.join("key.pem"),
        shown.join("revoked.pem"),
    );
    let valid = 2100;
    let out_of_date = 2021;
    for (until, is_in) in [(valid, true), (out_of_date, false)] {
        revoke(&ours, &[number_of("eve")], until, &list);
        let vouching = ClientAuthorities {
            authorities: &root,
            revoked: Some(&list),
        };
        let mut proxy_options = options(&postgres, 4);
        proxy_options.admission.clients.tls =
            Some(identity::identity(&chain, &key, Some(vouching)).unwrap());
        proxy_options.admission.clients.certificates = CertificateUse::Enough;
        let front = Front::start(proxy_options).await;
        let (host, port) = (front.address.ip(), front.address.port());
        let way = |user: &str, certificate: &str| {
            format!("host={host} port={port} user={user} sslmode=require {certificate}")
        };
        let output = psql(&postgres, &way(USER, &ann)).await;
        match is_in {
            true => assert_eq!(printed(&output), "here\n"),
            false => drop(complained(&output)),
        }
        let message = complained(&psql(&postgres, &way("eve", &eve)).await);
        assert!(message.contains("SSL"), "{message}");
    }
}
