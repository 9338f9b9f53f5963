//! Logins at `replex start`: passwords, TLS and certificates, by libpq as psql uses it.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustix::process::Signal;
use tempfile::TempDir;

use super::Started;
use crate::support;

/// Files of users and certificates.
struct Files {
    folder: TempDir,
    authority: CertifiedIssuer<'static, KeyPair>,
}

impl Files {
    fn new() -> Files {
        let folder = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let authority = CertifiedIssuer::self_signed(params, key).unwrap();
        let files = Files { folder, authority };
        fs::write(files.path("ca.pem"), files.authority.pem()).unwrap();
        files.certify("server", "127.0.0.1");
        files.users("\"ann\" \"right\"\n");
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn users(&self, text: &str) {
        fs::write(self.path("users"), text).unwrap();
    }

    /// Makes `NAME.pem` and `NAME.key`, a certificate with this name by the authority.
    fn certify(&self, name: &str, host: &str) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([host.to_string()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.signed_by(&key, &self.authority).unwrap();
        fs::write(self.path(&format!("{name}.pem")), certificate.pem()).unwrap();
        let path = self.path(&format!("{name}.key"));
        fs::write(&path, key.serialize_pem()).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    }

    /// Returns the options of a command, with `@NAME` for a file of this folder.
    fn options(&self, text: &str) -> Vec<String> {
        let word = |word: &str| match word.strip_prefix('@') {
            Some(name) => self.path(name).display().to_string(),
            None => word.to_owned(),
        };
        text.split_whitespace().map(word).collect()
    }

    async fn start(&self, options: &str) -> Started {
        let options = self.options(options);
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        Started::with(&options).await
    }

    /// Logs in by psql. Returns the rows of a statement, or the error.
    fn log_in(&self, address: SocketAddr, words: &str) -> Result<String, String> {
        let words: Vec<String> = words
            .split_whitespace()
            .map(|word| match word.split_once("=@") {
                Some((key, name)) => format!("{key}={}", self.path(name).display()),
                None => word.to_owned(),
            })
            .collect();
        let (host, port, words) = (address.ip(), address.port(), words.join(" "));
        let connection = format!("host={host} port={port} dbname=replex {words}");
        let mut psql = Command::new(pg_local::programs().unwrap().join("psql"));
        psql.args([
            "-X",
            "-w",
            "-A",
            "-t",
            &connection,
            "-c",
            "SELECT current_user",
        ]);
        // Nothing of the user who runs the test.
        psql.env_clear().env("HOME", self.folder.path());
        let output = psql.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        match output.status.success() {
            true => Ok(text(output.stdout).trim().to_owned()),
            false => Err(text(output.stderr)),
        }
    }
}

const TLS: &str = "--tls-certificate @server.pem --tls-key @server.key";

/// Checks logins one after the other: the words of libpq, and the user that is logged in or a part
/// of the error.
fn check(files: &Files, address: SocketAddr, cases: &[(&str, Result<&str, &str>)]) {
    for (words, expected) in cases {
        let found = files.log_in(address, words);
        let is_as_expected = match (&found, expected) {
            (Ok(user), Ok(expected)) => user == expected,
            (Err(error), Err(expected)) => error.contains(expected),
            _ => false,
        };
        assert!(is_as_expected, "{words}: {found:?} is not {expected:?}");
    }
}

#[tokio::test]
async fn only_users_with_their_password_log_in() {
    if !support::postgres_is_there() {
        return;
    }
    let files = Files::new();
    let verifier = "SCRAM-SHA-256$4096:lDbScN/hN2FeOpvCQwFRAQ==$\
                    7xT0mYCG4JqeUsz2B33UGdvRQq3TVMmBGGgXtVgtmgs=:\
                    JxsM6dnqcLg4hhLx7oYCHeobFQxTmVdSVjg+1ewDlNQ=";
    let users =
        format!("# people\n\"ann\" \"right\"\n\"o\"\"dd\" \"a b\"\"c\"\n\"bob\" \"{verifier}\"\n");
    files.users(&users);
    let started = files.start(&format!("--users @users {TLS}")).await;
    let wrong = |user: &str| format!("password authentication failed for user \"{user}\"");
    let (wrong_ann, wrong_eve) = (wrong("ann"), wrong("eve"));
    let cases = [
        ("user=ann password=right sslmode=disable", Ok("ann")),
        ("user=ann password=right sslmode=require", Ok("ann")),
        (
            "user=ann password=right sslmode=require channel_binding=require",
            Ok("ann"),
        ),
        (
            "user=ann password=right sslmode=verify-full sslrootcert=@ca.pem",
            Ok("ann"),
        ),
        (
            "user=ann password=right sslmode=disable channel_binding=require",
            Err("channel binding"),
        ),
        ("user=ann password=wrong sslmode=disable", Err(&*wrong_ann)),
        ("user=ann password=wrong sslmode=require", Err(&*wrong_ann)),
        ("user=eve password=right sslmode=require", Err(&*wrong_eve)),
        ("user=ann sslmode=disable", Err("no password supplied")),
        (
            "user=bob password=other",
            Err("password authentication failed"),
        ),
        ("user=ann password=right gssencmode=disable", Ok("ann")),
    ];
    check(&files, started.sql(), &cases);

    let log = started.process.log_text();
    for line in [
        "info event=login user=ann from=127.0.0.1 by=password",
        "warn event=login_refused user=ann from=127.0.0.1 sqlstate=28P01",
        "warn event=login_refused user=eve from=127.0.0.1 sqlstate=28P01",
    ] {
        assert!(log.contains(line), "{line} is not in\n{log}");
    }
    for secret in ["right", "wrong", "other", "SCRAM-SHA-256$"] {
        assert!(!log.contains(secret), "{secret} is in\n{log}");
    }
}

#[tokio::test]
async fn certificates_are_asked_for_as_the_option_says() {
    if !support::postgres_is_there() {
        return;
    }
    let files = Files::new();
    files.certify("ann", "ann");
    files.certify("bob", "bob");
    let own = "user=ann sslmode=require sslcert=@ann.pem sslkey=@ann.key";
    let others = "user=ann password=right sslmode=require sslcert=@bob.pem sslkey=@bob.key";
    let none = "user=ann password=right sslmode=require";
    let plain = "user=ann password=right sslmode=disable";
    let both = format!("{own} password=right");
    let another = Err("certificate authentication failed for user \"ann\"");
    let missing = Err("connection requires a valid client certificate");
    for (auth, cases) in [
        (
            "--tls-client-auth verify-full",
            [
                (own, Err("no password supplied")),
                (&both, Ok("ann")),
                (others, another),
                (none, missing),
                (plain, missing),
            ],
        ),
        (
            "--tls-client-auth cert",
            [
                (own, Ok("ann")),
                (&both, Ok("ann")),
                (others, another),
                (none, missing),
                (plain, missing),
            ],
        ),
        (
            "--tls-client-auth cert-or-password",
            [
                (own, Ok("ann")),
                (&both, Ok("ann")),
                (others, Ok("ann")),
                (none, Ok("ann")),
                (plain, Ok("ann")),
            ],
        ),
    ] {
        let options = format!("--users @users {TLS} --tls-client-ca @ca.pem {auth}");
        let started = files.start(&options).await;
        check(&files, started.sql(), &cases);
    }
}

#[tokio::test]
async fn files_are_read_again_after_a_signal() {
    if !support::postgres_is_there() {
        return;
    }
    let files = Files::new();
    let started = files.start("--users @users").await;
    let address = started.sql();
    let (right, new) = ("user=ann password=right", "user=ann password=new");
    let wrong = Err("password authentication failed");
    check(&files, address, &[(right, Ok("ann")), (new, wrong)]);

    files.users("\"ann\" \"new\"\n");
    started.process.signal(Signal::HUP).unwrap();
    started.wait_for_log("event=logins_reloaded").await;
    check(&files, address, &[(right, wrong), (new, Ok("ann"))]);

    files.users("\"ann\" unquoted\n");
    started.process.signal(Signal::HUP).unwrap();
    started.wait_for_log("event=reload_failed").await;
    check(&files, address, &[(right, wrong), (new, Ok("ann"))]);
    let log = started.process.log_text();
    assert!(
        log.contains("line 1: expected") && !log.contains("unquoted"),
        "{log}"
    );
}

/// Returns the error of a command that must not start.
fn refused(command: &[String]) -> String {
    let output = Command::new(support::program()).args(command).output();
    let output = output.unwrap();
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn what_would_leave_the_network_unprotected_is_refused() {
    let files = Files::new();
    fs::write(files.path("bad"), "\"ann\" right\n").unwrap();
    let data = files.path("data").display().to_string();
    let start = format!("start --data {data} --listen");
    let server = format!("server --data {data} -C 127.0.0.1:1");
    for (command, expected) in [
        (
            format!("{start} 0.0.0.0:0"),
            "there would be no encryption and no login",
        ),
        (
            format!("{start} 0.0.0.0:0"),
            "Give --users FILE, --tls-certificate FILE and",
        ),
        (format!("{start} [::]:0"), "add --insecure"),
        (
            format!("{start} 0.0.0.0:0 --users @users"),
            "would not be encrypted",
        ),
        (
            format!("{start} 0.0.0.0:0 {TLS}"),
            "could read and change everything. Give --users",
        ),
        (
            format!("{server} --sql 0.0.0.0:0 --users @users"),
            "--allow-unencrypted-network",
        ),
        (
            format!("{server} --users @users"),
            "give --sql ADDRESS:PORT, too",
        ),
        (
            format!("{start} 127.0.0.1:0 --users @none"),
            "cannot read users from",
        ),
        (
            format!("{start} 127.0.0.1:0 --users @bad"),
            "line 1: expected",
        ),
        (
            format!("{start} 127.0.0.1:0 --tls-certificate @server.key --tls-key @server.key"),
            "there is no certificate in",
        ),
        (
            format!("{start} 127.0.0.1:0 --tls-certificate @server.pem"),
            "--tls-key",
        ),
        (
            format!("{start} 127.0.0.1:0 {TLS} --tls-client-ca @ca.pem"),
            "give --users FILE, or --tls-client-auth cert",
        ),
    ] {
        let error = refused(&files.options(&command));
        // Lines are wrapped.
        let error = error.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(error.contains(expected), "{command}: {error}");
        assert!(!Path::new(&data).exists(), "{command}");
    }
}

/// Sends bytes at once, and returns all that the store answers until it closes the connection.
fn answers(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    // The store may close before it has read everything.
    let _ = socket.read_to_end(&mut answer);
    answer
}

#[tokio::test]
async fn clients_that_break_the_rules_of_a_login_are_refused() {
    let files = Files::new();
    let started = files.start(&format!("--users @users {TLS}")).await;
    let tls = [0, 0, 0, 8, 4, 210, 22, 47];
    let gss = [0, 0, 0, 8, 4, 210, 22, 48];
    let startup = b"\0\0\0\x12\0\x03\0\0user\0ann\0\0";
    let query = b"Q\0\0\0\x0dSELECT 1\0";
    let offer = b"R\0\0\0\x17\0\0\0\x0aSCRAM-SHA-256\0\0";
    let violation = "C08P01\0";
    for (parts, begins, contains) in [
        (&[&tls[..], startup][..], &b"E"[..], violation),
        (&[&gss, &gss], b"NE", violation),
        (&[startup, query], offer, violation),
        (&[startup, startup], offer, violation),
        (&[startup, &tls], offer, violation),
        (&[startup, b"p\x7f\xff\xff\xff"], offer, violation),
        (&[startup, b"p\xff\xff\xff\xff"], offer, violation),
        (&[startup, b"p\0\0\0\x04"], offer, violation),
        (&[b"\0\0\0\x09\0\x03\0\0\0"], offer, ""),
        (
            &[startup, b"p\0\0\0\x15SCRAM-SHA-256\0\0\0\0\0"],
            offer,
            violation,
        ),
    ] {
        let mut parts = parts.to_vec();
        if contains.is_empty() {
            // Without a user the login goes on to its end: a wrong password.
            parts.push(b"X\0\0\0\x04");
        }
        let answer = answers(started.sql(), &parts.concat());
        let text = String::from_utf8_lossy(&answer);
        assert!(answer.starts_with(begins), "{parts:?}: {text:?}");
        assert!(text.contains(contains), "{parts:?}: {text:?}");
        assert!(!text.contains("Z\0\0\0\x05I"), "{parts:?}: {text:?}");
    }
    // A cut handshake, and garbage in place of one, end without an effect on others.
    for garbage in [&b""[..], b"\x16\x03\x01\xff\xff", b"GET / HTTP/1.1\r\n\r\n"] {
        let mut socket = TcpStream::connect(started.sql()).unwrap();
        socket.write_all(&tls).unwrap();
        let mut answer = [0];
        socket.read_exact(&mut answer).unwrap();
        assert_eq!(answer, *b"S");
        socket.write_all(garbage).unwrap();
        drop(socket);
    }
    if support::postgres_is_there() {
        check(
            &files,
            started.sql(),
            &[("user=ann password=right sslmode=require", Ok("ann"))],
        );
    }
}

#[tokio::test]
async fn the_command_makes_certificates_that_work() {
    if !support::postgres_is_there() {
        return;
    }
    let files = Files::new();
    let cert = |words: &str| {
        let words = files.options(&format!("cert --folder @made {words}"));
        let output = Command::new(support::program()).args(words).output();
        let output = output.unwrap();
        match output.status.success() {
            true => Ok(String::from_utf8(output.stdout).unwrap()),
            false => Err(String::from_utf8(output.stderr).unwrap()),
        }
    };
    let text = cert("--host 127.0.0.1 --host localhost").unwrap();
    assert!(
        text.contains("Made an authority") && text.contains("server.pem"),
        "{text}"
    );
    let text = cert("--user ann --user bob").unwrap();
    assert!(!text.contains("Made an authority"), "{text}");
    let options = "--tls-certificate @made/server.pem --tls-key @made/server.key \
                   --tls-client-ca @made/ca.pem --tls-client-auth cert";
    let started = files.start(options).await;
    let checked = "user=ann sslmode=verify-full sslrootcert=@made/ca.pem";
    let cases = [
        (format!("{checked} sslcert=@made/ann.pem sslkey=@made/ann.key"), Ok("ann")),
        (
            format!("{checked} sslcert=@made/bob.pem sslkey=@made/bob.key"),
            Err("certificate authentication failed for user \"ann\""),
        ),
        (
            "user=ann sslmode=verify-full sslrootcert=@ca.pem sslcert=@made/ann.pem sslkey=@made/ann.key".into(),
            Err("certificate verify failed"),
        ),
    ];
    let cases = cases
        .each_ref()
        .map(|(words, expected)| (&**words, *expected));
    check(&files, started.sql(), &cases);

    let key = fs::metadata(files.path("made/ca.key")).unwrap();
    assert_eq!(key.permissions().mode() & 0o777, 0o600);
    for (words, expected) in [
        ("--host 127.0.0.1", "server.key is there already"),
        ("--user ann", "ann.key is there already"),
        ("--user server", "cannot be named \"server\""),
        ("--user ../eve", "cannot be named \"../eve\""),
        ("--days 0 --user eve", "--days"),
        ("", "name a server's host"),
    ] {
        let error = cert(words).unwrap_err();
        assert!(error.contains(expected), "{words}: {error}");
    }
    fs::remove_file(files.path("made/ca.key")).unwrap();
    let error = cert("--user eve").unwrap_err();
    assert!(
        error.contains("without") && error.contains("ca.key"),
        "{error}"
    );
}
