//! `replex cert`: makes an authority, and certificates that it signs.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use cluster_tls::CLUSTER_NAME;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, Error, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};
use replex::failure::CommandFailure;
use replex::say;
use time::{Duration, OffsetDateTime};

use crate::arguments::CertArguments;

/// How long the certificate of an authority is valid, in days: 10 years.
const AUTHORITY_DAYS: i64 = 3_653;
/// Clocks of machines may differ by so much.
const CLOCKS_DIFFER: Duration = Duration::hours(1);
const KEY_MODE: u32 = 0o600;
const CERTIFICATE_MODE: u32 = 0o644;

/// Runs `replex cert`.
pub fn make(arguments: &CertArguments) -> Result<(), CommandFailure> {
    let folder = &arguments.folder;
    check_names(arguments)?;
    std::fs::create_dir_all(folder)
        .map_err(|error| failed(&format!("create {}", folder.display()), &error))?;
    let issuer = authority(folder)?;
    if !arguments.host.is_empty() {
        let mut params = CertificateParams::new(arguments.host.clone()).map_err(unusable)?;
        let first = arguments.host[0].as_str();
        params.distinguished_name.push(DnType::CommonName, first);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        sign(params, arguments.days, &issuer, folder, "server")?;
        let (certificate, key) = (folder.join("server.pem"), folder.join("server.key"));
        say!(
            "Start a store with   --tls-certificate {} --tls-key {}",
            certificate.display(),
            key.display()
        );
        say!(
            "Clients check it by  sslmode=verify-full sslrootcert={}",
            folder.join("ca.pem").display()
        );
    }
    make_for_cluster(arguments, &issuer)?;
    for user in &arguments.user {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, user);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        sign(params, arguments.days, &issuer, folder, user)?;
        say!(
            "User {user} connects with   sslcert={} sslkey={}",
            folder.join(format!("{user}.pem")).display(),
            folder.join(format!("{user}.key")).display()
        );
    }
    Ok(())
}

/// Makes the certificates for connections within a cluster.
fn make_for_cluster(
    arguments: &CertArguments,
    issuer: &Issuer<'_, KeyPair>,
) -> Result<(), CommandFailure> {
    use ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};
    let folder = &arguments.folder;
    let make = |name: &str, usages: &[ExtendedKeyUsagePurpose]| {
        let mut params = CertificateParams::new([CLUSTER_NAME.to_owned()]).map_err(unusable)?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = usages.to_vec();
        sign(params, arguments.days, issuer, folder, name)
    };
    if arguments.node {
        make("node", &[ServerAuth, ClientAuth])?;
        say!(
            "Each machine of the cluster needs ca.pem, node.pem and node.key, and --certificates FOLDER"
        );
    }
    if arguments.admin {
        make("admin", &[ClientAuth])?;
        say!(
            "Administer with      replex admin status --certificates {}",
            folder.display()
        );
    }
    Ok(())
}

/// Names of users are names of files, too.
fn check_names(arguments: &CertArguments) -> Result<(), CommandFailure> {
    let of_cluster = arguments.node || arguments.admin;
    if arguments.host.is_empty() && arguments.user.is_empty() && !of_cluster {
        let text = "name a server's host by --host, or a user by --user, or give --node or --admin";
        return Err(CommandFailure::Usage(text.into()));
    }
    let is_file = |name: &&String| {
        name.is_empty() || name.starts_with('.') || name.contains(['/', '\0', '\n'])
    };
    let reserved = |name: &&String| ["ca", "server", "node", "admin"].contains(&name.as_str());
    match arguments.user.iter().find(|it| is_file(it) || reserved(it)) {
        Some(name) => Err(CommandFailure::Usage(format!(
            "a user cannot be named {name:?} here, because the name is also the name of a file"
        ))),
        None => Ok(()),
    }
}

/// Returns the authority of a folder. The first time it is made.
fn authority(folder: &Path) -> Result<Issuer<'static, KeyPair>, CommandFailure> {
    let files = [folder.join("ca.pem"), folder.join("ca.key")];
    let read = |path: &PathBuf| match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(&format!("read {}", path.display()), &error)),
    };
    match (read(&files[0])?, read(&files[1])?) {
        (Some(certificate), Some(key)) => {
            let damaged = |error: Error| {
                CommandFailure::Failed(format!("cannot use {}: {error}", files[0].display()))
            };
            let key = KeyPair::from_pem(&key).map_err(damaged)?;
            Issuer::from_ca_cert_pem(&certificate, key).map_err(damaged)
        }
        (None, None) => {
            let mut params = CertificateParams::default();
            params
                .distinguished_name
                .push(DnType::CommonName, "Replex authority");
            params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
            params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
            set_validity(&mut params, AUTHORITY_DAYS);
            let key = KeyPair::generate().map_err(unusable)?;
            let certificate = params.self_signed(&key).map_err(unusable)?;
            create(&files[1], KEY_MODE, &key.serialize_pem())?;
            create(&files[0], CERTIFICATE_MODE, &certificate.pem())?;
            say!("Made an authority    {}", files[0].display());
            Ok(Issuer::new(params, key))
        }
        (found, _) => {
            let (there, missing) = match found {
                Some(_) => (&files[0], &files[1]),
                None => (&files[1], &files[0]),
            };
            Err(CommandFailure::Failed(format!(
                "there is {} without {}: bring the other file, or choose another --folder",
                there.display(),
                missing.display()
            )))
        }
    }
}

/// Signs a certificate, and writes `NAME.pem` and `NAME.key`.
fn sign(
    mut params: CertificateParams,
    days: u32,
    issuer: &Issuer<'_, KeyPair>,
    folder: &Path,
    name: &str,
) -> Result<(), CommandFailure> {
    set_validity(&mut params, i64::from(days));
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    let key = KeyPair::generate().map_err(unusable)?;
    let certificate = params.signed_by(&key, issuer).map_err(unusable)?;
    create(
        &folder.join(format!("{name}.key")),
        KEY_MODE,
        &key.serialize_pem(),
    )?;
    let path = folder.join(format!("{name}.pem"));
    create(&path, CERTIFICATE_MODE, &certificate.pem())
}

fn set_validity(params: &mut CertificateParams, days: i64) {
    let now = OffsetDateTime::now_utc();
    params.not_before = now - CLOCKS_DIFFER;
    params.not_after = now + Duration::days(days);
}

/// Creates a file, and replaces none.
fn create(path: &Path, mode: u32, text: &str) -> Result<(), CommandFailure> {
    let created = File::options()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path);
    let mut file = match created {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            return Err(CommandFailure::Failed(format!(
                "{} is there already: remove it to make another one",
                path.display()
            )));
        }
        created => created.map_err(|error| failed(&format!("write {}", path.display()), &error))?,
    };
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| file.sync_all());
    written.map_err(|error| failed(&format!("write {}", path.display()), &error))
}

fn failed(what: &str, error: &io::Error) -> CommandFailure {
    CommandFailure::Failed(format!("cannot {what}: {error}"))
}

fn unusable(error: Error) -> CommandFailure {
    CommandFailure::Failed(format!("cannot make a certificate: {error}"))
}
