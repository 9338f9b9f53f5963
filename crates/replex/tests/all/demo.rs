//! The demo from end to end, and that it leaves nothing behind however it ends.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::support;

/// The claims of the demo, each with its mark.
const CLAIMS: &[&str] = &[
    "✓ Every possible row survives the loss of any 2 servers",
    "✓ Every lookup found exactly the flights that were loaded",
    "✓ The old lookup is empty and the new one full",
    "✓ The copy by id shows the new tail number too",
    "updates meanwhile, the longest of",
    "✓ The range has exactly the loaded flights of these hours, in their order",
    "✓ The end of the index has the last departures",
    "✓ Lookups by id and by route were answered while the server was gone",
    "✓ The kill came in mid-load, and every insert was acknowledged in the end",
    "✓ Count and checksum are equal in all copies",
    "✓ Each of the 27,004 acknowledged rows is in each copy",
    "✓ The kill came between the moves, and every one of them has committed",
    "✓ Snapshots of both tables have each flight in just one of them, also between the moves",
    "✓ Lookups found every flight of the lost server",
    "✓ They visited exactly as many partitions as the grid of the hybrid predicts",
    "✓ All 3,000 inserts that were begun without it were acknowledged",
    "✓ Every possible row of it survives the loss of any 2 servers again",
    "✓ Each of the 9,000 acknowledged rows is in each copy",
    "All 19 claims held",
];

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).unwrap().next().is_none()
}

#[test]
fn demo_proves_its_claims_and_cleans_up() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().display().to_string();
    let stdout = support::run_well(&["demo", "--folder", &place]);
    for claim in CLAIMS {
        assert!(stdout.contains(claim), "no {claim:?} in\n{stdout}");
    }
    assert!(!stdout.contains("NOT TRUE"), "{stdout}");
    assert!(
        !stdout.contains('\u{1b}'),
        "plain where there is no terminal"
    );
    assert!(is_empty(folder.path()));
}

/// Types the indented lines of a text into a shell, and closes its input.
fn type_in(text: &str) -> Output {
    let lines = text.lines().filter_map(|line| line.strip_prefix("  "));
    Command::new("sh")
        .args(["-e", "-c", &lines.collect::<Vec<_>>().join("\n")])
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

#[test]
fn kept_demo_goes_on_and_ends_as_printed() {
    let folder = tempfile::tempdir().unwrap();
    let parent = folder.path().display().to_string();
    let stdout = support::run_well(&["demo", "--keep", "--folder", &parent]);
    let (_, rest) = stdout.split_once("Go on by hand").unwrap();
    let (go_on, end) = rest.split_once("End it").unwrap();
    let output = type_in(go_on);
    // Before anything is looked at, so that a failure leaves nothing either.
    let ended = type_in(end);
    for output in [&output, &ended] {
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{rest}: {stderr}");
    }
    let printed = String::from_utf8_lossy(&output.stdout);
    for expected in ["N14228", "serving", "All copies hold the same rows."] {
        assert!(printed.contains(expected), "{printed}");
    }
    let (_, address) = go_on.split_once("REPLEX_COORDINATOR=").unwrap();
    let address = address.lines().next().unwrap();
    assert!(TcpStream::connect(address).is_err(), "{address}");
    assert!(is_empty(folder.path()));
}

#[test]
fn demo_in_a_terminal_ends_in_a_session() {
    if !support::postgres_is_there() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = support::program();
    let demo = format!(
        "PATH={}:$PATH PAGER=cat {} demo --folder {}",
        pg_local::programs().unwrap().display(),
        program.display(),
        folder.path().display()
    );
    // `script` gives the demo a terminal.
    let mut script = Command::new("script")
        .args(["-qec", &demo, "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let typed = b"SELECT 'flights: ' || count(*) FROM flights;\n\\q\n";
    let mut stdin = script.stdin.take().unwrap();
    stdin.write_all(typed).unwrap();
    let output = script.wait_with_output().unwrap();
    drop(stdin);
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}");
    let (_, session) = printed.split_once("here is a session").unwrap();
    assert!(session.contains("flights: 26404"), "{session}");
    assert!(session.contains("The cluster is stopped"), "{session}");
    assert!(is_empty(folder.path()));
}

#[test]
fn demo_that_is_interrupted_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut demo = Command::new(support::program())
        .args(["demo", "--folder", &folder.path().display().to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The first table names the processes; once it is whole the cluster runs.
    let mut lines = BufReader::new(demo.stdout.take().unwrap()).lines();
    let mut children = Vec::new();
    for line in lines.by_ref() {
        let line = line.unwrap();
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        if let [_, name, pid, ..] = cells[..]
            && (name == "coordinator" || name.starts_with("server "))
        {
            children.push(Pid::from_raw(pid.parse().unwrap()).unwrap());
        }
        if line.contains("data in ") {
            break;
        }
    }
    assert_eq!(children.len(), 4);
    let pid = Pid::from_raw(demo.id().try_into().unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    // It goes on writing until it notices.
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    let status = demo.wait().unwrap();
    assert_eq!(status.code(), Some(130), "{rest:#?}");
    for child in children {
        assert!(test_kill_process(child).is_err(), "{child:?} still runs");
    }
    assert!(is_empty(folder.path()));
}

#[test]
fn whole_year_without_its_file_prints_how_to_get_it() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("flights-2013.csv.gz");
    let missing = missing.display().to_string();
    let stderr = support::run_badly(&["demo", "--full", "--flights", &missing], 1);
    assert!(stderr.contains(&missing), "{stderr}");
    assert!(stderr.contains("data/fetch-flights"), "{stderr}");
}
