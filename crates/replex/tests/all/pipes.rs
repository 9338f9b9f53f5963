//! Commands between other programs: pipes whose reader has left, devices that take nothing, scripts
//! and files that come piece by piece, and the files that an export writes.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use replex::cluster::Cluster;
use rustix::process::{Pid, Signal, kill_process};

use crate::support;

const ROWS: usize = 3000;

/// A cluster with a table of rows.
async fn filled() -> Cluster {
    let cluster = support::cluster(1).await;
    sql(
        &cluster,
        "CREATE TABLE t (id bigint PRIMARY KEY, note text) WITH (failures_tolerated = 0)",
    );
    let rows: Vec<String> = (0..ROWS).map(|n| format!("({n}, 'row {n}')")).collect();
    sql(
        &cluster,
        &format!("INSERT INTO t VALUES {}", rows.join(", ")),
    );
    cluster
}

fn sql(cluster: &Cluster, text: &str) -> String {
    support::run_well(&["sql", "-C", cluster.coordinator_address(), "-c", text])
}

fn command(cluster: &Cluster, arguments: &[&str]) -> Command {
    let mut command = Command::new(support::program());
    command
        .args(arguments)
        .env("REPLEX_COORDINATOR", cluster.coordinator_address())
        .stdin(Stdio::null());
    command
}

/// The write end of a pipe whose reader has left.
fn closed_pipe() -> io::PipeWriter {
    let (reader, writer) = io::pipe().unwrap();
    drop(reader);
    writer
}

#[tokio::test]
// tidy: long — a list of commands
async fn a_reader_that_has_left_ends_every_command_quietly() {
    let cluster = filled().await;
    let folder = tempfile::tempdir().unwrap();
    let csv = folder.path().join("t.csv");
    fs::write(&csv, "id,note\n100000,x\n").unwrap();
    let csv = csv.to_str().unwrap();
    for arguments in [
        &["admin", "status"][..],
        &["admin", "status", "--json"],
        &["admin", "table", "list"],
        &["admin", "table", "show", "t"],
        &["admin", "server", "list"],
        &["admin", "coordinator", "show"],
        &["admin", "check", "t"],
        &["sql", "-c", "SELECT /*+ scan */ * FROM t"],
        &[
            "sql",
            "--format",
            "csv",
            "-c",
            "SELECT /*+ scan */ * FROM t",
        ],
        &[
            "sql",
            "--format",
            "json",
            "-c",
            "SELECT /*+ scan */ * FROM t",
        ],
        &["export", "t"],
        &["export", "t", "--output", "/dev/null"],
        &["import", csv, "--table", "t", "--on-conflict", "skip"],
        &[
            "import",
            csv,
            "--table",
            "t",
            "--on-conflict",
            "skip",
            "--json",
        ],
        &["demo"],
        &["--help"],
        &["sql", "--help"],
        &["bench", "--help"],
    ] {
        let output = command(&cluster, arguments)
            .stdout(closed_pipe())
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {stderr}");
        assert!(!stderr.contains("anic"), "{arguments:?}: {stderr}");
        assert!(!stderr.contains("replex:"), "{arguments:?}: {stderr}");
    }
    for (arguments, code) in [
        (&["sql", "-c", "SELECT x"][..], 1),
        (&["admin", "table", "show", "none"], 1),
        (&["export", "none"], 1),
        (&["import", csv, "--table", "none"], 1),
        (&["admin", "status", "--deadline", "no"], 2),
    ] {
        let status = command(&cluster, arguments)
            .stdout(closed_pipe())
            .stderr(closed_pipe())
            .status()
            .unwrap();
        assert_eq!(status.code(), Some(code), "{arguments:?}");
    }
}

#[tokio::test]
async fn a_full_device_is_an_error() {
    let cluster = filled().await;
    let full = || OpenOptions::new().write(true).open("/dev/full").unwrap();
    for arguments in [
        &["admin", "status"][..],
        &["admin", "table", "list", "--json"],
        &["sql", "-c", "SELECT 1"],
        &["export", "t"],
    ] {
        let output = command(&cluster, arguments)
            .stdout(full())
            .output()
            .unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {stderr}");
        assert!(
            stderr.contains("cannot write to stdout: No space left"),
            "{stderr}"
        );
    }
    let arguments = ["export", "t", "--output", "/dev/full"];
    let output = command(&cluster, &arguments).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.contains("cannot write /dev/full: No space left"),
        "{stderr}"
    );
    let kind = fs::metadata("/dev/full").unwrap().file_type();
    assert!(kind.is_char_device());
}

fn export(cluster: &Cluster, path: &Path) -> (Option<i32>, String) {
    let arguments = ["export", "t", "--output", path.to_str().unwrap()];
    let output = command(cluster, &arguments).output().unwrap();
    (
        output.status.code(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

fn lines(path: &Path) -> usize {
    fs::read_to_string(path).unwrap().lines().count()
}

#[tokio::test]
async fn an_export_replaces_regular_files_and_nothing_else() {
    let cluster = filled().await;
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);

    // A file that is there keeps its permissions, and files beside it stay.
    fs::write(at("old.csv"), "old").unwrap();
    fs::set_permissions(at("old.csv"), fs::Permissions::from_mode(0o640)).unwrap();
    fs::write(at("old.csv.part"), "mine").unwrap();
    assert_eq!(export(&cluster, &at("old.csv")).0, Some(0));
    assert_eq!(lines(&at("old.csv")), ROWS + 1);
    let mode = fs::metadata(at("old.csv")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
    assert_eq!(fs::read_to_string(at("old.csv.part")).unwrap(), "mine");

    // Links are followed, also those that lead nowhere yet.
    fs::create_dir(at("there")).unwrap();
    fs::write(at("there/file.csv"), "old").unwrap();
    symlink("there/file.csv", at("link.csv")).unwrap();
    symlink("link.csv", at("link-to-link.csv")).unwrap();
    symlink("there/new.csv", at("dangling.csv")).unwrap();
    for (link, file) in [
        ("link-to-link.csv", "there/file.csv"),
        ("dangling.csv", "there/new.csv"),
    ] {
        assert_eq!(export(&cluster, &at(link)).0, Some(0), "{link}");
        assert!(at(link).is_symlink(), "{link}");
        assert_eq!(lines(&at(file)), ROWS + 1, "{link}");
    }
    symlink("missing/new.csv", at("nowhere.csv")).unwrap();
    symlink("circle.csv", at("circle.csv")).unwrap();
    for name in ["nowhere.csv", "circle.csv", "there", "missing/x.csv"] {
        let (code, stderr) = export(&cluster, &at(name));
        assert_eq!(code, Some(1), "{name}: {stderr}");
        assert!(stderr.contains("cannot write"), "{name}: {stderr}");
    }
    assert!(
        export(&cluster, &at("there"))
            .1
            .contains("it is a directory: name a file in it")
    );

    // A failure leaves the earlier file.
    fs::write(at("kept.csv"), "kept").unwrap();
    let path = at("kept.csv");
    let arguments = ["export", "none", "--output", path.to_str().unwrap()];
    assert_eq!(
        command(&cluster, &arguments)
            .output()
            .unwrap()
            .status
            .code(),
        Some(1)
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), "kept");
    let left: Vec<String> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with('.'))
        .collect();
    assert_eq!(left, Vec::<String>::new());
}

#[tokio::test]
async fn export_writes_through_special_files() {
    let cluster = filled().await;
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    let made = Command::new("mkfifo").arg(&fifo).status().unwrap();
    assert!(made.success());
    let reader = {
        let fifo = fifo.clone();
        std::thread::spawn(move || {
            let mut text = String::new();
            File::open(fifo).unwrap().read_to_string(&mut text).unwrap();
            text.lines().count()
        })
    };
    assert_eq!(export(&cluster, &fifo).0, Some(0));
    assert_eq!(reader.join().unwrap(), ROWS + 1);
    assert!(fs::symlink_metadata(&fifo).unwrap().file_type().is_fifo());

    assert_eq!(export(&cluster, Path::new("/dev/null")).0, Some(0));
    assert!(
        fs::metadata("/dev/null")
            .unwrap()
            .file_type()
            .is_char_device()
    );

    // By its name, stdout goes on where it is, and holds rows only.
    let arguments = ["export", "t", "--output", "/dev/stdout"];
    let output = command(&cluster, &arguments).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(
        (output.status.code(), text.lines().count()),
        (Some(0), ROWS + 1)
    );
    let path = folder.path().join("out.csv");
    let mut file = File::create(&path).unwrap();
    file.write_all(b"before\n").unwrap();
    let status = command(&cluster, &arguments)
        .stdout(file.try_clone().unwrap())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    file.write_all(b"after\n").unwrap();
    assert_eq!(status.code(), Some(0));
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("before\nid,note\n") && text.ends_with("\nafter\n"));
    assert_eq!(text.lines().count(), ROWS + 3);

    // A FIFO without a reader is waited for until a signal.
    let arguments = ["export", "t", "--output", fifo.to_str().unwrap()];
    let mut waiting = command(&cluster, &arguments).spawn().unwrap();
    signal_until_it_ends(&mut waiting);
    assert!(fs::symlink_metadata(&fifo).unwrap().file_type().is_fifo());
}

/// A signal that comes before the command listens ends it too, by default.
fn signal_until_it_ends(child: &mut Child) {
    let pid = Pid::from_child(child);
    for _ in 0..600 {
        let _ = kill_process(pid, Signal::INT);
        std::thread::sleep(std::time::Duration::from_millis(50));
        if child.try_wait().unwrap().is_some() {
            return;
        }
    }
    child.kill().unwrap();
    panic!("a signal does not end it");
}

#[tokio::test]
async fn a_program_can_wait_for_an_answer_before_it_writes_the_next_statement() {
    let cluster = filled().await;
    for arguments in [
        &["sql", "--format", "csv"][..],
        &["sql", "--format", "csv", "-f", "-"],
    ] {
        let mut child = command(&cluster, arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let mut answers = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut done = BufReader::new(child.stderr.take().unwrap()).lines();
        for id in [5, 7] {
            stdin
                .write_all(format!("SELECT note FROM t\nWHERE id = {id};\n").as_bytes())
                .unwrap();
            assert_eq!(answers.next().unwrap().unwrap(), "note");
            assert_eq!(answers.next().unwrap().unwrap(), format!("row {id}"));
        }
        stdin
            .write_all(b"UPDATE t SET note = 'row 5' WHERE id = 5;\n")
            .unwrap();
        assert_eq!(done.next().unwrap().unwrap(), "UPDATE 1");
        // The last statement needs no line end.
        stdin.write_all(b"SELECT 3 AS x").unwrap();
        drop(stdin);
        assert_eq!(answers.next().unwrap().unwrap(), "x");
        assert_eq!(answers.next().unwrap().unwrap(), "3");
        assert!(child.wait().unwrap().success());
    }
    let mut child = command(&cluster, &["sql"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"SELECT 1;\nSELECT x;\n").unwrap();
    // It ends at the error, though its input goes on.
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(1));
    let mut stderr = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut stderr)
        .unwrap();
    assert!(stderr.starts_with("stdin:2: ERROR: "), "{stderr}");
}

#[tokio::test]
// tidy: long — one story, of an import and its continuation
async fn an_interrupted_import_prints_how_to_go_on() {
    let cluster = support::cluster(1).await;
    sql(
        &cluster,
        "CREATE TABLE t (id bigint PRIMARY KEY, note text) WITH (failures_tolerated = 0)",
    );
    let text: String = (0..5000).map(|n| format!("{n},row {n}\n")).collect();
    let text = format!("id,note\n{text}");
    let arguments = ["import", "-", "--table", "t"];
    let mut child = command(&cluster, &arguments)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(text.as_bytes()).unwrap();
    // Its input goes on, and it waits for more.
    let address = cluster.coordinator_address();
    let count = || {
        let count = "SELECT /*+ scan */ count(*) FROM t";
        let text = support::run_well(&["sql", "-C", address, "--format", "csv", "-c", count]);
        text.lines().nth(1).unwrap().parse::<u64>().unwrap()
    };
    let is_written = (0..1000).any(|_| count() > 0);
    assert!(is_written, "no row is written");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let status = child.wait().unwrap();
    let mut stderr = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut stderr)
        .unwrap();
    assert_eq!(status.code(), Some(130), "{stderr}");
    let line = stderr
        .split("--from-line ")
        .nth(1)
        .unwrap_or_else(|| panic!("{stderr}"));
    let line = line.split(' ').next().unwrap();
    assert!(stderr.contains("interrupted: Table t: "), "{stderr}");
    assert!(stderr.contains("--on-conflict skip"), "{stderr}");
    drop(stdin);

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    fs::write(&path, &text).unwrap();
    let path = path.to_str().unwrap();
    support::run_well(&[
        "import",
        path,
        "-t",
        "t",
        "-C",
        address,
        "--from-line",
        line,
        "--on-conflict",
        "skip",
    ]);
    assert_eq!(count(), 5000);

    // Nothing was written where nothing fits, and nothing is reported to stay.
    fs::write(path, "id,note\nx,1\n").unwrap();
    let stderr = support::run_badly(&["import", path, "-t", "t", "-C", address], 1);
    assert!(stderr.contains("t.csv:2: column id: "), "{stderr}");
    assert!(
        stderr.contains("No row was written to table t."),
        "{stderr}"
    );
    fs::write(path, "id,note\n9000,1\n1,again\n").unwrap();
    let stderr = support::run_badly(&["import", path, "-t", "t", "-C", address], 1);
    assert!(stderr.contains("t.csv:3: "), "{stderr}");
    assert!(
        stderr
            .contains("Table t: 1 row written. To go on, run the same command with --from-line 3")
    );
}
