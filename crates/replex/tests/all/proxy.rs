//! `replex proxy` as a process: its demo, and the tasks of operators.

use std::fs::Permissions;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use pg_local::{Postgres, SUPERUSER};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::{NamedTempFile, TempDir};

use crate::support::{is_empty, postgres_is_there, program, run, run_badly, run_well};

/// A wait beyond this has come to a stop, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A proxy, killed when it is dropped.
struct Running {
    child: Child,
    stdout: BufReader<ChildStdout>,
    /// The first line of its output.
    line: String,
    /// The addresses that it printed when it was ready, by name.
    proxy: String,
    metrics: String,
    /// The folder of its lasting data, by default.
    state: TempDir,
    log: NamedTempFile,
}

impl Running {
    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().try_into().unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    fn start(arguments: &[&str]) -> Running {
        Running::start_at("127.0.0.1:0", arguments)
    }

    fn start_at(listen: &str, arguments: &[&str]) -> Running {
        let state = TempDir::new().unwrap();
        let log = NamedTempFile::new().unwrap();
        let mut child = Command::new(program())
            .args(["proxy", "--listen", listen, "--metrics", "127.0.0.1:0"])
            .args(arguments)
            .env("XDG_STATE_HOME", state.path())
            .stderr(log.reopen().unwrap())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        let message = |name: &str| {
            let mut words = line.split_whitespace();
            let word = words.find_map(|word| word.strip_prefix(name));
            word.unwrap_or_else(|| panic!("no {name} in {line:?}"))
                .to_owned()
        };
        let (proxy, metrics) = (message("proxy="), message("metrics="));
        Running {
            child,
            stdout,
            line,
            proxy,
            metrics,
            state,
            log,
        }
    }

    fn scrape(&self) -> String {
        let mut scraped = String::new();
        let mut metrics = TcpStream::connect(&self.metrics).unwrap();
        metrics.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        metrics.read_to_string(&mut scraped).unwrap();
        scraped
    }

    fn logged(&self) -> String {
        std::fs::read_to_string(self.log.path()).unwrap()
    }

    /// Waits for a line with all of these.
    fn wait_for_line(&self, parts: &[&str]) {
        let started = Instant::now();
        let has_all = |line: &str| parts.iter().all(|part| line.contains(part));
        while !self.logged().lines().any(has_all) {
            assert!(started.elapsed() < PATIENCE, "no {parts:?} is logged");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn wait_for_buffer(&self) {
        let started = Instant::now();
        loop {
            let printed = self.admin(SUPERUSER, &["SHOW BUFFER"]);
            let printed = String::from_utf8(printed.stdout).unwrap();
            if printed.contains("serving") {
                return;
            }
            assert!(started.elapsed() < PATIENCE, "{printed}");
        }
    }

    fn admin(&self, user: &str, words: &[&str]) -> std::process::Output {
        let url = format!("postgresql://{user}:secret@{}", self.proxy);
        let all = [&["proxy", "admin", "--proxy", &url], words].concat();
        run(&all)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            println!("the proxy has logged:\n{}", self.logged());
        }
    }
}

#[test]
fn operators_ask_and_reload() {
    if !postgres_is_there() {
        return;
    }
    let postgres = Postgres::start(&["synchronous_commit=on"]).unwrap();
    let folder = TempDir::new().unwrap();
    let users = folder.path().join("users.txt");
    std::fs::write(&users, format!("\"{SUPERUSER}\" \"secret\"\n")).unwrap();
    let primary = format!("postgresql://{SUPERUSER}@{}/postgres", postgres.socket());
    let file = users.display().to_string();
    let running = Running::start(&[
        "--primary",
        &primary,
        "--replicate",
        "--users",
        &file,
        "--operator",
        SUPERUSER,
        "--operator",
        "ann",
    ]);
    let printed = running.admin(SUPERUSER, &["show", "pools"]);
    let printed = String::from_utf8(printed.stdout).unwrap();
    assert!(
        printed.contains("primary") && printed.contains("connections_max"),
        "{printed}"
    );
    let unknown = running.admin(SUPERUSER, &["SHOW", "TABLES"]);
    assert_eq!(unknown.status.code(), Some(1));
    let message = String::from_utf8(unknown.stderr).unwrap();
    assert!(message.contains("There are REPLICAS"), "{message}");

    let scraped = running.scrape();
    assert!(scraped.contains("\nreplex_proxy_clients 0\n"), "{scraped}");

    // Another user, by the console; then back, by the signal. A file that is damaged changes
    // nothing.
    let ann = |running: &Running| running.admin("ann", &["SHOW HELP"]).status.success();
    assert!(!ann(&running));
    let both = format!("\"{SUPERUSER}\" \"secret\"\n\"ann\" \"secret\"\n");
    std::fs::write(&users, both).unwrap();
    assert!(running.admin(SUPERUSER, &["RELOAD"]).status.success());
    assert!(ann(&running));
    std::fs::write(&users, "oops").unwrap();
    let refused = running.admin(SUPERUSER, &["RELOAD"]);
    let message = String::from_utf8(refused.stderr).unwrap();
    assert!(
        message.contains("line 1") && message.contains("stays in force"),
        "{message}"
    );
    assert!(ann(&running));
    std::fs::write(&users, format!("\"{SUPERUSER}\" \"secret\"\n")).unwrap();
    running.signal(Signal::HUP);
    while ann(&running) {}
    assert!(running.admin(SUPERUSER, &["SHOW HELP"]).status.success());
}

/// psql's output for a statement.
fn psql(postgres: &Postgres, place: &str, statement: &str) -> String {
    let mut psql = Command::new(postgres.programs().join("psql"));
    let url = format!("postgresql://{SUPERUSER}:secret@{place}/postgres");
    let message = psql.args([&url, "-Atqc", statement]).output().unwrap();
    String::from_utf8(message.stdout).unwrap()
}

/// A row is removed at the replica, and then it is changed on the primary.
fn have_differ(running: &Running, primary: &Postgres, replica: &Postgres) {
    let ask = |place: &str, statement: &str| psql(primary, place, statement);
    ask(&running.proxy, "CREATE TABLE t (note text PRIMARY KEY)");
    ask(&running.proxy, "INSERT INTO t VALUES ('xyzzy')");
    ask(&running.proxy, "SELECT 'xyzzy'::int");
    let (there, started) = (replica.socket().to_string(), Instant::now());
    while ask(&there, "DELETE FROM t RETURNING 1") != "1\n" {
        assert!(started.elapsed() < PATIENCE);
    }
    ask(&running.proxy, "UPDATE t SET note = 'xyzzy again'");
}

/// Events for operators are in the log, and private values are not.
#[test]
fn events_are_logged_without_values() {
    if !postgres_is_there() {
        return;
    }
    let postgres = Postgres::start(&["synchronous_commit=on"]).unwrap();
    let mut replica = Postgres::start(&[]).unwrap();
    let folder = TempDir::new().unwrap();
    let users = folder.path().join("users.txt");
    std::fs::write(&users, format!("\"{SUPERUSER}\" \"secret\"\n")).unwrap();
    let primary = format!("postgresql://{SUPERUSER}@{}/postgres", postgres.socket());
    let running = Running::start(&[
        "--primary",
        &primary,
        "--replicate",
        "--users",
        &users.display().to_string(),
        "--operator",
        SUPERUSER,
    ]);
    running.wait_for_line(&[" info event=active "]);
    running.wait_for_line(&[" info event=slot ", "is read"]);
    running.wait_for_line(&[" info event=transactions_buffer note=serving"]);
    let url = format!("postgresql://{SUPERUSER}:wrong@{}", running.proxy);
    let refused = run(&["proxy", "admin", "--proxy", &url, "SHOW HELP"]);
    assert_eq!(refused.status.code(), Some(3));
    running.wait_for_line(&[
        " warn event=login_refused from=127.0.0.1:",
        "sqlstate=28P01",
        SUPERUSER,
    ]);
    let place = replica.socket();
    let add = format!("ADD REPLICA 'postgresql://{SUPERUSER}:s3cret@{place}/postgres'");
    assert!(running.admin(SUPERUSER, &[&add]).status.success());
    running.wait_for_line(&[
        " info event=console ",
        SUPERUSER,
        "command=\"ADD REPLICA\" note=done",
    ]);
    running.wait_for_line(&[" info event=replica replica=1 note=serving"]);
    have_differ(&running, &postgres, &replica);
    running.wait_for_line(&[
        " error event=replica replica=1 ",
        "cannot be done as on the primary",
    ]);
    replica.kill();
    running.signal(Signal::HUP);
    running.wait_for_line(&[" info event=reloaded "]);
    let logged = running.logged();
    assert!(
        !logged.contains("xyzzy") && !logged.contains("s3cret"),
        "{logged}"
    );
}

/// The primary keeps its log for an offline replica, up to a limit.
#[test]
fn an_alarm_comes_before_the_slot_is_lost() {
    if !postgres_is_there() {
        return;
    }
    let limited = ["synchronous_commit=on", "max_slot_wal_keep_size=96MB"];
    let postgres = Postgres::start(&limited).unwrap();
    let mut replica = Postgres::start(&[]).unwrap();
    let url = |place: &Postgres| format!("postgresql://{SUPERUSER}@{}/postgres", place.socket());
    let (primary, follower) = (url(&postgres), url(&replica));
    let databases = ["--primary", &primary, "--replica", &follower];
    let running = Running::start(&[&databases[..], &["--trust", "--buffer", "none"]].concat());
    running.wait_for_line(&[" info event=replica replica=1 note=serving"]);
    replica.kill();
    let place = postgres.socket().to_string();
    let alarm = [" warn event=slot ", "max_slot_wal_keep_size"];
    let is_alarm = |line: &str| alarm.iter().all(|part| line.contains(part));
    let started = Instant::now();
    while !running.logged().lines().any(is_alarm) {
        let held = "SELECT pg_switch_wal() - restart_lsn FROM pg_replication_slots
                     WHERE pg_logical_emit_message(false, 'test', '') IS NOT NULL";
        let held: u64 = psql(&postgres, &place, held).trim().parse().unwrap();
        // Not faster than it is looked at.
        let printed = |line: &str| {
            line.strip_prefix("replex_proxy_slot_held_bytes ")?
                .parse()
                .ok()
        };
        while running.scrape().lines().find_map(printed) < Some(held) {
            assert!(started.elapsed() < PATIENCE);
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    let status = "SELECT wal_status FROM pg_replication_slots";
    assert_ne!(psql(&postgres, &place, status), "lost\n");
    assert!(running.scrape().contains("\nreplex_proxy_slot_safe_bytes "));
    replica.start_again().unwrap();
    let is_over = |log: &str| {
        log.lines()
            .filter(|line| line.contains("slot is read"))
            .count()
            == 2
    };
    while !is_over(&running.logged()) {
        assert!(started.elapsed() < PATIENCE, "the alarm goes on");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The store in its folder is this user's alone and one process's, and keeps its data when that is
/// killed.
#[test]
fn a_buffer_in_a_folder_is_kept() {
    if !postgres_is_there() {
        return;
    }
    let postgres = Postgres::start(&["synchronous_commit=on"]).unwrap();
    let folder = TempDir::new().unwrap();
    let place = folder.path().join("buffer");
    let primary = format!("postgresql://{SUPERUSER}@{}/postgres", postgres.socket());
    let buffer = place.display().to_string();
    let arguments = [
        "--primary",
        &primary,
        "--replicate",
        "--trust",
        "--buffer",
        &buffer,
    ];
    let running = Running::start(&arguments);
    running.wait_for_buffer();
    assert!(running.line.contains(&format!(" buffer={buffer}\n")));
    let mode = std::fs::metadata(&place).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    // Another proxy needs another folder.
    let words = ["proxy", "--listen", "127.0.0.1:0"];
    let second = run(&[&words[..], &arguments].concat());
    assert_eq!(second.status.code(), Some(1));
    let message = String::from_utf8(second.stderr).unwrap();
    assert!(
        message.contains("buffer") && message.contains("process"),
        "{message}"
    );
    drop(running);
    Running::start(&arguments).wait_for_buffer();
}

/// Without an option for the buffer there is one, in the default folder of lasting data.
#[test]
fn there_is_a_buffer_by_default() {
    if !postgres_is_there() {
        return;
    }
    let postgres = Postgres::start(&["synchronous_commit=on"]).unwrap();
    let primary = format!("postgresql://{SUPERUSER}@{}/postgres", postgres.socket());
    let arguments = ["--primary", &primary, "--replicate", "--trust"];
    let running = Running::start(&arguments);
    running.wait_for_buffer();
    let place = running.state.path().join("replex/buffer-0");
    assert!(
        running
            .line
            .contains(&format!(" buffer={}\n", place.display()))
    );
    let mode = std::fs::metadata(&place).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    drop(running);
    let without = Running::start(&[&arguments[..], &["--buffer", "none"]].concat());
    assert!(!without.line.contains("buffer="), "{}", without.line);
    let printed = without.admin(SUPERUSER, &["SHOW BUFFER"]);
    let printed = String::from_utf8(printed.stdout).unwrap();
    assert!(!printed.contains("serving"), "{printed}");
    assert!(is_empty(without.state.path()));
}

#[test]
fn error_of_an_invalid_default_names_the_fix() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let primary = "postgresql://ann:secret@127.0.0.1:1/shop";
    for (name, state, code) in [("no home", None, 2), ("a file", Some(file), 1)] {
        let mut command = Command::new(program());
        command.args(["proxy", "--listen", "127.0.0.1:0", "--primary", primary]);
        command
            .arg("--replicate")
            .env("XDG_STATE_HOME", "elsewhere");
        if let Some(state) = state {
            command.env("XDG_STATE_HOME", state);
        }
        let output = command.output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{name}: {message}");
        assert!(message.contains("--buffer none"), "{name}: {message}");
    }
}

#[test]
fn a_buffer_that_cannot_be_is_refused() {
    let primary = "postgresql://ann:secret@127.0.0.1:1/shop";
    let refused = |arguments: &[&str]| {
        let words = ["proxy", "--listen", "127.0.0.1:0", "--primary", primary];
        let output = run(&[&words[..], arguments].concat());
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    let message = refused(&["--replicate", "--buffer", "replex://store"]);
    assert!(message.contains("replex://HOST:PORT"), "{message}");
    let message = refused(&["--buffer", "/tmp/unused"]);
    assert!(message.contains("--replicate"), "{message}");
}

/// A proxy that is stopped removes its socket. The next proxy replaces the socket of a killed one.
#[test]
fn a_unix_socket_is_served() {
    if !postgres_is_there() {
        return;
    }
    let postgres = Postgres::start(&[]).unwrap();
    let folder = TempDir::new().unwrap();
    // PostgreSQL itself must be able to make sockets there.
    let sockets = pg_local::folder_in(&std::env::temp_dir(), "replex-socket-").unwrap();
    let file = folder.path().join("hihooi.toml");
    let lines = format!(
        "trust = true\nprimary = \"postgresql://{SUPERUSER}@{}/postgres\"\nsocket-directory = {:?}\n",
        postgres.socket(),
        sockets.path()
    );
    std::fs::write(&file, lines).unwrap();
    let file = file.display().to_string();
    let mut first = Running::start(&["--config", &file]);
    let (_, port) = first.proxy.rsplit_once(':').unwrap();
    let place = sockets.path().display().to_string().replace('/', "%2F");
    let url = format!("postgresql://{SUPERUSER}@{place}:{port}");
    let listen = format!("127.0.0.2:{port}");
    let ask = ["proxy", "admin", "--proxy", &url, "SHOW HELP"];
    run_well(&ask);
    let message = run_badly(&["proxy", "--config", &file, "--listen", &listen], 1);
    let serves = format!("process {} serves there", first.child.id());
    assert!(message.contains(&serves), "{message}");
    let setting = format!("unix_socket_directories={}", sockets.path().display());
    let mut other = Postgres::start(&[&setting]).unwrap();
    let problem = other.restart_at(port.parse().unwrap()).unwrap_err();
    assert!(problem.to_string().contains("lock file"), "{problem}");
    drop(other);

    first.child.kill().unwrap();
    first.child.wait().unwrap();
    assert!(!is_empty(sockets.path()));
    let mut second = Running::start_at(&listen, &["--config", &file]);
    run_well(&ask);
    second.signal(Signal::TERM);
    assert!(second.child.wait().unwrap().success());
    assert!(is_empty(sockets.path()));
}

/// A certificate for the superuser by a new authority. The authority's own is then in the folder's
/// `ca.pem`. Returns libpq's words for it.
fn certify(folder: &Path, name: &str) -> String {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    std::fs::write(folder.join("ca.pem"), authority.pem()).unwrap();
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params
        .distinguished_name
        .push(DnType::CommonName, SUPERUSER);
    let certificate = params.signed_by(&key, &authority).unwrap();
    let [pem, secret] = ["pem", "key"].map(|kind| folder.join(format!("{name}.{kind}")));
    std::fs::write(&pem, certificate.pem()).unwrap();
    std::fs::write(&secret, key.serialize_pem()).unwrap();
    std::fs::set_permissions(&secret, Permissions::from_mode(0o600)).unwrap();
    format!("sslcert={} sslkey={}", pem.display(), secret.display())
}

/// The authorities for clients are named by options, and read again by the signal.
#[test]
fn clients_are_vouched_for() {
    if !postgres_is_there() {
        return;
    }
    let postgres = Postgres::start(&[]).unwrap();
    let folder = TempDir::new().unwrap();
    let own = rcgen::generate_simple_self_signed(["proxy".to_string()]).unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("chain.pem"), own.cert.pem()).unwrap();
    std::fs::write(path("key.pem"), own.signing_key.serialize_pem()).unwrap();
    let url = format!("postgresql://{SUPERUSER}@{}/postgres", postgres.socket());
    let first = certify(folder.path(), "first");
    let running = Running::start(&[
        "--primary",
        &url,
        "--tls-certificate",
        &path("chain.pem"),
        "--tls-key",
        &path("key.pem"),
        "--tls-client-ca",
        &path("ca.pem"),
        "--tls-client-auth",
        "cert",
    ]);
    let (host, port) = running.proxy.split_once(':').unwrap();
    let logs_in = |certificate: &str| {
        let words = format!(
            "host={host} port={port} user={SUPERUSER} dbname=postgres sslmode=require {certificate}"
        );
        let mut psql = Command::new(postgres.programs().join("psql"));
        psql.args(["-X", "-w", "-c", "SELECT 1", "-d", &words]);
        psql.output().unwrap().status.success()
    };
    assert!(logs_in(&first));
    let second = certify(folder.path(), "second");
    assert!(!logs_in(&second));
    running.signal(Signal::HUP);
    let started = Instant::now();
    while !logs_in(&second) {
        assert!(started.elapsed() < PATIENCE);
    }
    assert!(!logs_in(&first));

    let alone = [
        "proxy",
        "--primary",
        &url,
        "--trust",
        "--tls-client-auth",
        "cert",
    ];
    let message = run_badly(&alone, 2);
    assert!(message.contains("--tls-client-ca"), "{message}");
}

#[test]
fn second_proxy_stands_by_until_the_first_is_stopped() {
    if !postgres_is_there() {
        return;
    }
    let postgres = Postgres::start(&["synchronous_commit=on"]).unwrap();
    let primary = format!("postgresql://{SUPERUSER}@{}/postgres", postgres.socket());
    let arguments = ["--primary", &primary, "--replicate", "--trust"];
    let mut first = Running::start(&arguments);
    assert!(first.line.starts_with("ready proxy="), "{}", first.line);
    let mut second = Running::start(&arguments);
    let of_first = format!(" for process {} on ", first.child.id());
    let is_standby = second.line.starts_with("standby proxy=") && second.line.contains(&of_first);
    assert!(is_standby, "{}", second.line);
    let printed = second.admin(SUPERUSER, &["SHOW", "PROXY"]);
    let printed = String::from_utf8(printed.stdout).unwrap();
    assert!(printed.contains("standby"), "{printed}");
    let psql = |proxies: String| {
        let mut psql = Command::new(postgres.programs().join("psql"));
        let url = format!("postgresql://{SUPERUSER}@{proxies}/postgres");
        psql.args([&url, "-Atc", "SELECT 7"]).output().unwrap()
    };
    let refused = String::from_utf8(psql(second.proxy.clone()).stderr).unwrap();
    assert!(refused.contains("this proxy stands by"), "{refused}");
    assert_eq!(
        psql(format!("{},{}", second.proxy, first.proxy)).stdout,
        b"7\n"
    );
    first.signal(Signal::TERM);
    assert!(first.child.wait().unwrap().success());
    let mut line = String::new();
    second.stdout.read_line(&mut line).unwrap();
    assert!(line.starts_with("ready proxy="), "{line}");
    assert_eq!(
        psql(format!("{},{}", first.proxy, second.proxy)).stdout,
        b"7\n"
    );
}

#[test]
fn replica_is_promoted_when_the_primary_is_gone() {
    if !postgres_is_there() {
        return;
    }
    let mut primary = Postgres::start(&["synchronous_commit=on"]).unwrap();
    let replica = Postgres::start(&[]).unwrap();
    let url = |place: &dyn std::fmt::Display| format!("postgresql://{SUPERUSER}@{place}/postgres");
    let (old, new) = (url(&primary.socket()), url(&replica.socket()));
    let databases = ["--primary", &old, "--replica", &new];
    let before = Running::start(&[&databases[..], &["--trust"]].concat());
    let psql = |proxy: &str, words: &str| {
        let mut psql = Command::new(replica.programs().join("psql"));
        let output = psql.args([&url(&proxy), "-Atc", words]).output().unwrap();
        match output.status.success() {
            true => String::from_utf8(output.stdout).unwrap(),
            false => String::from_utf8(output.stderr).unwrap(),
        }
    };
    psql(&before.proxy, "CREATE TABLE t (id serial PRIMARY KEY)");
    let insert = "SET replex.consistency = '1sr'; INSERT INTO t DEFAULT VALUES RETURNING id";
    let started = Instant::now();
    let is_filled = "SELECT max(id) > 0 AND NOT EXISTS (SELECT FROM hihooi.seed) FROM t";
    while psql(&replica.socket().to_string(), is_filled) != "t\n" {
        psql(&before.proxy, insert);
        assert!(started.elapsed() < PATIENCE);
    }
    let promote = [&["proxy", "promote"], &databases[..]].concat();
    let message = run_badly(&promote, 1);
    assert!(message.contains("is there. If another one"), "{message}");
    let message = run_badly(&["proxy", "promote", "--primary", &old], 2);
    assert!(message.contains("give --replica URL"), "{message}");

    primary.crash().unwrap();
    let message = run_well(&promote);
    let start = format!("\n  replex proxy --primary {new}\n");
    assert!(message.ends_with(&start), "{message}");
    let after = Running::start(&["--primary", &new, "--replicate", "--trust"]);
    assert!(after.line.starts_with("ready "), "{}", after.line);
    let inserted = psql(&after.proxy, "INSERT INTO t DEFAULT VALUES RETURNING id");
    assert!(
        inserted.starts_with(|sign: char| sign.is_ascii_digit()),
        "{inserted}"
    );

    // The old primary comes back: the proxy in front of it learns that it is none any more.
    primary.start_again().unwrap();
    let started = Instant::now();
    while !psql(&before.proxy, "SELECT 1").contains("stands by") {
        assert!(started.elapsed() < PATIENCE);
    }
    let again = [&["proxy"], &databases[..], &["--trust", "--buffer", "none"]].concat();
    let message = run_badly(&again, 1);
    assert!(
        message.contains("was promoted to be the primary"),
        "{message}"
    );
}

#[test]
fn replicas_are_named_in_a_file() {
    if !postgres_is_there() {
        return;
    }
    let primary = Postgres::start(&["synchronous_commit=on"]).unwrap();
    let replicas = [(); 2].map(|()| Postgres::start(&[]).unwrap());
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("hihooi.toml");
    let url = |postgres: &Postgres| {
        let socket = postgres.socket();
        format!("\"postgresql://{SUPERUSER}@{socket}/postgres\"")
    };
    let write = |first: &str, replica: &Postgres| {
        let (primary, replica) = (url(&primary), url(replica));
        let lines = format!("{first}\nprimary = {primary}\nreplica = [{replica}]\n");
        std::fs::write(&file, lines).unwrap();
    };
    write("trust = true", &replicas[0]);
    let running = Running::start(&["--config", &file.display().to_string()]);
    let there = || {
        let printed = running.admin(SUPERUSER, &["SHOW", "REPLICAS"]);
        let printed = String::from_utf8(printed.stdout).unwrap();
        replicas
            .each_ref()
            .map(|postgres| printed.contains(&postgres.socket().to_string()))
    };
    assert_eq!(there(), [true, false]);
    write("trust = true", &replicas[1]);
    let done = running.admin(SUPERUSER, &["RELOAD"]);
    assert!(done.status.success(), "{done:?}");
    assert_eq!(there(), [false, true]);
    let wrong = [
        ("trust = true\nclients = 7", "clients: restart the proxy"),
        ("trust = true\nspeed = 7", "no option speed"),
        ("trust = ", "line 1"),
    ];
    for (first, expected) in wrong {
        write(first, &replicas[0]);
        let refused = running.admin(SUPERUSER, &["RELOAD"]);
        let message = String::from_utf8(refused.stderr).unwrap();
        assert!(message.contains(expected), "{message}");
        assert_eq!(there(), [false, true]);
    }
    let removed = running.admin(SUPERUSER, &["REMOVE", "REPLICA", "2"]);
    let noted = String::from_utf8(removed.stderr).unwrap();
    let is_noted = noted.contains("the file name it") && noted.contains("Take it out there, too");
    assert!(removed.status.success() && is_noted, "{noted}");
}

#[test]
fn check_reports_faults_and_fails_on_severe_ones() {
    if !postgres_is_there() {
        return;
    }
    let good = Postgres::start(&["synchronous_commit=on"]).unwrap();
    let url = format!("postgresql://{SUPERUSER}@{}/postgres", good.socket());
    let printed = run_well(&["proxy", "check", "--primary", &url]);
    assert!(printed.contains("wal_level = logical"), "{printed}");
    assert!(
        printed.ends_with("Nothing stands in the way.\n"),
        "{printed}"
    );
    let output = run(&["proxy", "check", "--primary", &url, "--replica", &url]);
    assert_eq!(output.status.code(), Some(1));
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(
        printed.contains("it is the primary itself\n    Name another database."),
        "{printed}"
    );
    assert!(
        printed.ends_with("1 finding would stop the proxy.\n"),
        "{printed}"
    );
    assert_eq!(output.stderr, b"");
    let message = run_badly(&["proxy", "check", "--primary", "nowhere"], 2);
    assert!(message.contains("postgresql://"), "{message}");
    let message = run_badly(&["proxy", "--trust"], 2);
    assert!(message.contains("give --primary URL"), "{message}");
    let message = run_badly(&["proxy", "--config", "/nowhere.toml"], 2);
    assert!(message.contains("/nowhere.toml: No such file"), "{message}");
    let message = run_badly(
        &[
            "proxy",
            "admin",
            "--proxy",
            "postgresql://a@127.0.0.1:1",
            "RELOAD",
        ],
        3,
    );
    assert!(message.contains("--proxy"), "{message}");
}
