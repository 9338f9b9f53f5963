//! Certificates, databases that want TLS, and an attacker in between.

use std::fs::{self, Permissions};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::time::Instant;

use pg_auth::identity::{self, TlsIdentity};
use pg_connect::address::Address;
use pg_local::{Postgres, SUPERUSER};
use proxy_pool::{Connection, ConnectionKey, ServerLogin, StartSettings, connection};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType,
    IsCa, KeyIdMethod, KeyPair, RevokedCertParams, SerialNumber, SignatureAlgorithm, date_time_ymd,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_postgres::NoTls;
use tokio_rustls::TlsAcceptor;

use super::cluster::{PATIENCE, pause};
use super::{PASSWORD, connect};

/// A certificate for `127.0.0.1` that is signed by its own key, of this kind. Its files are in the
/// folder: `chain.pem` and `key.pem`.
pub fn identity(folder: &Path, kind: &'static SignatureAlgorithm) -> TlsIdentity {
    let key = KeyPair::generate_for(kind).unwrap();
    let params = CertificateParams::new(["127.0.0.1".to_string()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let files = (folder.join("chain.pem"), folder.join("key.pem"));
    fs::write(&files.0, certificate.pem()).unwrap();
    fs::write(&files.1, key.serialize_pem()).unwrap();
    identity::identity(&files.0, &files.1, None).unwrap()
}

/// An authority whose own certificate is in this file.
pub fn authority(file: &Path) -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    fs::write(file, authority.pem()).unwrap();
    authority
}

/// A certificate for a user by an authority, in files of this folder. Returns libpq's words for it.
/// Its number is [`number_of`] the user.
pub fn certify(issuer: &CertifiedIssuer<'_, KeyPair>, user: &str, folder: &Path) -> String {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, user);
    params.serial_number = Some(number_of(user));
    let certificate = params.signed_by(&key, issuer).unwrap();
    let files = [folder.join("client.pem"), folder.join("client.key")];
    fs::write(&files[0], certificate.pem()).unwrap();
    fs::write(&files[1], key.serialize_pem()).unwrap();
    fs::set_permissions(&files[1], Permissions::from_mode(0o600)).unwrap();
    let [certificate, key] = files.each_ref().map(|file| file.display());
    format!("sslcert={certificate} sslkey={key}")
}

/// The number of a user's certificates.
pub fn number_of(user: &str) -> SerialNumber {
    SerialNumber::from_slice(user.as_bytes())
}

/// Writes an authority's list of the certificates that it has revoked, which is good until that
/// year.
pub fn revoke(
    issuer: &CertifiedIssuer<'_, KeyPair>,
    revoked: &[SerialNumber],
    until: i32,
    file: &Path,
) {
    let revoked = revoked.iter().map(|number| RevokedCertParams {
        serial_number: number.clone(),
        revocation_time: date_time_ymd(2020, 1, 1),
        reason_code: None,
        invalidity_date: None,
    });
    let params = CertificateRevocationListParams {
        this_update: date_time_ymd(2020, 1, 1),
        next_update: date_time_ymd(until, 1, 1),
        crl_number: SerialNumber::from(1),
        issuing_distribution_point: None,
        revoked_certs: revoked.collect(),
        key_identifier_method: KeyIdMethod::Sha256,
    };
    let list = params.signed_by(issuer).unwrap();
    fs::write(file, list.pem().unwrap()).unwrap();
}

/// A certificate for all of these databases, in the folder's `roots.pem`; from now on they let in
/// no client without TLS and a password, which is [`PASSWORD`] for the superuser.
pub async fn require_tls(databases: &[&Postgres], folder: &Path) {
    let hosts: Vec<String> = databases
        .iter()
        .map(|it| it.socket().ip().to_string())
        .collect();
    let made = rcgen::generate_simple_self_signed(hosts).unwrap();
    fs::write(folder.join("roots.pem"), made.cert.pem()).unwrap();
    let key = made.signing_key.serialize_pem();
    require_tls_with(databases, &made.cert.pem(), &key).await;
}

/// The same with this certificate and its key.
pub async fn require_tls_with(databases: &[&Postgres], certificate: &str, secret: &str) {
    for postgres in databases {
        let data = postgres.data();
        let owner = fs::metadata(&data).unwrap();
        let (shown, key) = (data.join("server.crt"), data.join("server.key"));
        fs::write(&shown, certificate).unwrap();
        fs::write(&key, secret).unwrap();
        fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
        for file in [&shown, &key] {
            chown(file, Some(owner.uid()), Some(owner.gid())).unwrap();
        }
        let client = connect(postgres.socket()).await;
        let password = format!("ALTER ROLE {SUPERUSER} PASSWORD '{PASSWORD}'");
        for text in [&password, "ALTER SYSTEM SET ssl = on"] {
            client.batch_execute(text).await.unwrap();
        }
        let rules = "hostssl all all all scram-sha-256\n";
        fs::write(data.join("pg_hba.conf"), rules).unwrap();
        client
            .batch_execute("SELECT pg_reload_conf()")
            .await
            .unwrap();
        let (host, port) = (postgres.socket().ip(), postgres.socket().port());
        let line = format!("host={host} port={port} user={SUPERUSER} dbname=postgres");
        let started = Instant::now();
        while tokio_postgres::connect(&line, NoTls).await.is_ok() {
            assert!(started.elapsed() < PATIENCE);
            pause().await;
        }
    }
}

/// From the next [`require_tls`] on a database knows certificates of this authority.
pub async fn know_authority(postgres: &Postgres, authority: &str) {
    fs::write(postgres.data().join("authority.pem"), authority).unwrap();
    let client = connect(postgres.socket()).await;
    let know = "ALTER SYSTEM SET ssl_ca_file = 'authority.pem'";
    client.batch_execute(know).await.unwrap();
}

/// From now on it lets in only clients that show one of them, too. So far this address lets one in.
pub async fn want_certificates(postgres: &Postgres, address: &Address) {
    let key = ConnectionKey {
        user: address.user.clone(),
        database: address.database.clone(),
        settings: StartSettings::default(),
        changed: StartSettings::default(),
    };
    let login = ServerLogin {
        password: address.password.clone(),
    };
    let mut admin = Connection::open(address, &key, &login).await.unwrap();
    let rules = "hostssl all all all scram-sha-256 clientcert=verify-ca\n";
    fs::write(postgres.data().join("pg_hba.conf"), rules).unwrap();
    admin.row("SELECT pg_reload_conf()").await.unwrap();
    let started = Instant::now();
    while Connection::open(address, &key, &login).await.is_ok() {
        assert!(started.elapsed() < PATIENCE);
        pause().await;
    }
}

/// The attacker's treatment of messages.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum AttackMode {
    /// Reads it.
    Read,
    /// Removes SCRAM-SHA-256-PLUS from the mechanisms that the server offers.
    Hide,
}

/// An attacker between clients and a server, with a certificate of its own. Ends when it is
/// dropped.
pub struct Between {
    pub address: SocketAddr,
    task: JoinHandle<()>,
}

impl Between {
    /// In front of this server, which it connects to by its address.
    pub async fn start(server: Address, identity: TlsIdentity, does: AttackMode) -> Between {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let acceptor = TlsAcceptor::from(identity.config.clone());
                let server = server.clone();
                tokio::spawn(async move {
                    // An error ends both connections.
                    let _ = stand_between(socket, acceptor, &server, does).await;
                });
            }
        });
        Between { address, task }
    }
}

impl Drop for Between {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn stand_between(
    mut socket: TcpStream,
    acceptor: TlsAcceptor,
    server: &Address,
    does: AttackMode,
) -> io::Result<()> {
    let mut wish = [0; 8];
    socket.read_exact(&mut wish).await?;
    socket.write_all(b"S").await?;
    let mut client = acceptor.accept(socket).await?;
    let mut server = connection::connect(server).await?;
    let length = client.read_u32().await?;
    let mut startup = vec![0; length as usize - 4];
    client.read_exact(&mut startup).await?;
    server.write_u32(length).await?;
    server.write_all(&startup).await?;
    server.flush().await?;
    let tag = server.read_u8().await?;
    let length = server.read_u32().await?;
    let mut body = vec![0; length as usize - 4];
    server.read_exact(&mut body).await?;
    if does == AttackMode::Hide {
        let text = String::from_utf8(body).unwrap();
        body = text.replace("SCRAM-SHA-256-PLUS\0", "").into_bytes();
    }
    client.write_u8(tag).await?;
    client.write_u32(body.len() as u32 + 4).await?;
    client.write_all(&body).await?;
    client.flush().await?;
    copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}
