//! Logins that are tied to the TLS connection they run in: both sides notice an attacker in
//! between.

use std::net::SocketAddr;

use pg_auth::admission::ClientAuthentication;
use pg_auth::identity::TlsIdentity;
use pg_connect::address::Address;
use pg_local::{Postgres, SUPERUSER};
use proxy::check::check;
use rcgen::{PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519};
use tempfile::TempDir;
use tokio_postgres::NoTls;

use crate::support::tls::{AttackMode, Between, identity, require_tls};
use crate::support::{
    Front, PASSWORD, USER, complained, connect, is_there, options, printed, psql, users,
};

const CHECK_FAILED: &str = "SCRAM channel binding check failed";
const NEGOTIATION_FAILED: &str = "SCRAM channel binding negotiation error";

/// A database that has [`USER`] and trusts everybody, and a proxy in front that wants her password
/// and shows this.
async fn proxy(postgres: &Postgres, identity: TlsIdentity) -> Front {
    let mut proxy_options = options(postgres, 4);
    proxy_options.admission.clients.authentication = ClientAuthentication::Scram(users());
    proxy_options.admission.clients.tls = Some(identity);
    Front::start(proxy_options).await
}

async fn database() -> Postgres {
    let postgres = Postgres::start(&[]).unwrap();
    let admin = connect(postgres.socket()).await;
    let role = format!("CREATE ROLE {USER} LOGIN PASSWORD '{PASSWORD}'");
    admin.batch_execute(&role).await.unwrap();
    postgres
}

fn at(place: SocketAddr, words: &str) -> String {
    format!("host={} port={} {words}", place.ip(), place.port())
}

/// With certificates whose signatures have hashes of different lengths, and with a certificate
/// without a hash.
#[tokio::test]
async fn psql_ties_its_login() {
    if !is_there() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let postgres = database().await;
    for (kind, is_tied) in [
        (&PKCS_ECDSA_P256_SHA256, true),
        (&PKCS_ECDSA_P384_SHA384, true),
        (&PKCS_ED25519, false),
    ] {
        let front = proxy(&postgres, identity(folder.path(), kind)).await;
        let tied = at(front.address, "sslmode=require channel_binding=require");
        let output = psql(&postgres, &tied).await;
        match is_tied {
            true => assert_eq!(printed(&output), "here\n"),
            false => assert!(
                complained(&output).contains("channel binding"),
                "{output:?}"
            ),
        }
        for words in [
            "sslmode=require",
            "sslmode=require channel_binding=disable",
            "sslmode=disable",
        ] {
            let output = psql(&postgres, &at(front.address, words)).await;
            assert_eq!(printed(&output), "here\n", "{words}");
        }
        let without = at(front.address, "sslmode=disable channel_binding=require");
        let message = complained(&psql(&postgres, &without).await);
        assert!(message.contains("channel binding"), "{message}");
    }
}

/// An attacker in between shows a client a certificate of their own, and reads everything: unless
/// they do not get past the login.
#[tokio::test]
async fn attacker_between_client_and_proxy() {
    if !is_there() {
        return;
    }
    let (folder, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let postgres = database().await;
    let shown = identity(folder.path(), &PKCS_ECDSA_P256_SHA256);
    let front = proxy(&postgres, shown).await;
    let url = format!("postgresql://{USER}@{}?sslmode=require", front.address);
    let server = Address::parse(&url).unwrap();
    for (does, message) in [
        (AttackMode::Read, CHECK_FAILED),
        (AttackMode::Hide, NEGOTIATION_FAILED),
    ] {
        let shown = identity(other.path(), &PKCS_ECDSA_P256_SHA256);
        let between = Between::start(server.clone(), shown, does).await;
        let output = psql(&postgres, &at(between.address, "sslmode=require")).await;
        let complaint = complained(&output);
        assert!(complaint.contains(message), "{complaint}");
        // It would have worked.
        let careless = at(between.address, "sslmode=require channel_binding=disable");
        assert_eq!(printed(&psql(&postgres, &careless).await), "here\n");
    }
}

/// The same between the proxy and its database, for sessions and for the proxy's own work.
#[tokio::test]
async fn attacker_between_proxy_and_server() {
    if !is_there() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let postgres = database().await;
    require_tls(&[&postgres], folder.path()).await;
    let address = |place: SocketAddr| {
        let url = format!("postgresql://{SUPERUSER}:{PASSWORD}@{place}/postgres?sslmode=require");
        Address::parse(&url).unwrap()
    };
    let server = address(postgres.socket());
    let findings = format!("{:?}", check(&server, &[], 10).await);
    assert!(
        findings.contains("its log can be read from here"),
        "{findings}"
    );
    logged_in(&postgres, server.clone()).await.unwrap();
    for (does, message) in [
        (AttackMode::Read, CHECK_FAILED),
        (AttackMode::Hide, NEGOTIATION_FAILED),
    ] {
        let shown = identity(folder.path(), &PKCS_ECDSA_P256_SHA256);
        let between = Between::start(server.clone(), shown, does).await;
        let through = address(between.address);
        let problem = logged_in(&postgres, through.clone()).await.unwrap_err();
        assert!(problem.contains(message), "{problem}");
        let findings = format!("{:?}", check(&through, &[], 10).await);
        assert!(findings.contains(message), "{findings}");
    }
}

/// Runs a query through a proxy before this server. Returns the error that the client receives.
async fn logged_in(postgres: &Postgres, primary: Address) -> Result<(), String> {
    let mut proxy_options = options(postgres, 4);
    proxy_options.primary = primary;
    proxy_options.admission.clients.authentication = ClientAuthentication::Trust(users());
    let front = Front::start(proxy_options).await;
    let line = at(front.address, &format!("user={USER} dbname=postgres"));
    let connected = tokio_postgres::connect(&line, NoTls).await;
    let (client, connection) = connected.map_err(|error| {
        let message = error.as_db_error().map(ToString::to_string);
        message.unwrap_or_else(|| error.to_string())
    })?;
    tokio::spawn(connection);
    client.batch_execute("SELECT 1").await.unwrap();
    Ok(())
}
