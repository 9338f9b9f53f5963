//! `replex bench` from end to end, as short as can be: that it runs, counts and writes its files.
//! Its figures are asserted nowhere.

#[cfg(feature = "proxy")]
use std::collections::HashMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::support::needs;

#[test]
fn a_short_measurement_writes_its_figures_and_its_plot() {
    let folder = tempfile::tempdir().unwrap();
    let out = measure(
        &folder,
        &[
            "lookup",
            "--seconds",
            "0.1",
            "--pairs",
            "1",
            "--rows",
            "300",
        ],
    );

    let figures = std::fs::read_to_string(out.join("lookup.csv")).unwrap();
    for id in ["S1", "S4", "S5"] {
        let line = figures.lines().find(|line| line.starts_with(id));
        let fields: Vec<&str> = line.expect("a line for it").split(',').collect();
        let ratio: f64 = fields[fields.len() - 2].parse().expect("a ratio");
        assert!(ratio.is_finite(), "{figures}");
    }
    let plot = std::fs::read_to_string(out.join("lookup.svg")).unwrap();
    assert_eq!(plot.matches("<polyline").count(), 4, "{plot}");
    assert!(plot.ends_with("</svg>\n"), "{plot}");

    assert_nothing_is_left(&folder);
}

#[test]
fn statements_are_measured_beside_lookups() {
    let folder = tempfile::tempdir().unwrap();
    let run = [
        "statements",
        "--seconds",
        "0.1",
        "--pairs",
        "1",
        "--rows",
        "300",
    ];
    let out = measure(&folder, &run);

    let figures = std::fs::read_to_string(out.join("statements.csv")).unwrap();
    let line = figures.lines().find(|line| line.starts_with("Q1"));
    let fields: Vec<&str> = line.expect("a line for it").split(',').collect();
    let ratio: f64 = fields[fields.len() - 2].parse().expect("a ratio");
    assert!(ratio.is_finite(), "{figures}");
    let plot = std::fs::read_to_string(out.join("statements.svg")).unwrap();
    assert_eq!(plot.matches("<polyline").count(), 4, "{plot}");
    assert_nothing_is_left(&folder);
}

#[test]
fn snapshots_are_measured_beside_inserts() {
    let folder = tempfile::tempdir().unwrap();
    let run = [
        "snapshots",
        "--seconds",
        "0.2",
        "--pairs",
        "1",
        "--rows",
        "300",
    ];
    let out = measure(&folder, &run);

    let figures = std::fs::read_to_string(out.join("snapshots.csv")).unwrap();
    for (id, count) in [("Q2,", 2), ("Q3,", 1)] {
        let lines = figures.lines().filter(|line| line.starts_with(id));
        assert_eq!(lines.count(), count, "{figures}");
    }
    let plot = std::fs::read_to_string(out.join("snapshots.svg")).unwrap();
    assert_eq!(plot.matches("<polyline").count(), 4, "{plot}");
    assert_nothing_is_left(&folder);
}

#[test]
fn lost_servers_are_measured_until_all_is_filled_again() {
    let folder = tempfile::tempdir().unwrap();
    let out = measure(
        &folder,
        &[
            "sharing",
            "--seconds",
            "0.5",
            "--pairs",
            "1",
            "--failure-rows",
            "2000",
        ],
    );

    let figures = std::fs::read_to_string(out.join("sharing.csv")).unwrap();
    let shares = figures.lines().filter(|line| line.starts_with("F2"));
    assert_eq!(shares.count(), 2, "{figures}");
    assert!(figures.contains("paper: 13.0 ± 0"), "{figures}");
    let plot = std::fs::read_to_string(out.join("sharing.svg")).unwrap();
    assert_eq!(plot.matches("<polyline").count(), 2, "{plot}");
    assert_nothing_is_left(&folder);
}

#[test]
fn an_import_is_measured_beside_postgresql() {
    let is_there = Path::new("/usr/lib/postgresql").exists().then_some(());
    if needs::require(needs::POSTGRES, is_there).is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // PostgreSQL does not run as root, and must be able to reach its own.
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let out = measure(
        &folder,
        &["import", "--import-rows", "3000", "--pairs", "2"],
    );

    let figures = std::fs::read_to_string(out.join("import.csv")).unwrap();
    let lines: Vec<&str> = figures.lines().skip(1).collect();
    assert_eq!(lines.len(), 4, "{figures}");
    assert!(lines[0].starts_with("S12,"), "{figures}");
    assert!(
        lines.iter().all(|line| line.contains(",COPY ")),
        "{figures}"
    );
    let plot = std::fs::read_to_string(out.join("import.svg")).unwrap();
    let (background, legend, bars) = (1, 2, 4);
    let expected = background + legend + bars;
    assert_eq!(plot.matches("<rect").count(), expected, "{plot}");
    assert_nothing_is_left(&folder);
}

#[cfg(feature = "proxy")]
#[test]
fn the_proxy_is_measured_over_databases_that_go_with_it() {
    if needs::require(needs::POSTGRES, pg_local::programs()).is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // PostgreSQL does not run as root, and must be able to reach its own.
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let out = measure(
        &folder,
        &["proxy", "replay", "--seconds", "1", "--pairs", "1"],
    );

    let mut figures = csv::Reader::from_path(out.join("proxy-replay.csv")).unwrap();
    let rows = figures.deserialize::<HashMap<String, String>>();
    let rates = rows.map(|row| row.unwrap()["median"].parse::<f64>().unwrap());
    let rates: Vec<f64> = rates.collect();
    // With each number of connections in groups, and with two each commit for itself, from the slot
    // and from the buffer; for each statement that changes many rows.
    assert_eq!(rates.len(), 2 * (4 + 2) + 3, "{rates:?}");
    assert!(rates.iter().all(|rate| *rate > 0.0), "{rates:?}");
    let plot = std::fs::read_to_string(out.join("proxy-replay.svg")).unwrap();
    assert_eq!(plot.matches("<polyline").count(), 4, "{plot}");
    assert_nothing_is_left(&folder);
}

/// Runs a measurement that must succeed; where its figures are.
fn measure(folder: &TempDir, arguments: &[&str]) -> PathBuf {
    let out = folder.path().join("out");
    let output = Command::new(env!("CARGO_BIN_EXE_replex"))
        .arg("bench")
        .args(arguments)
        .arg("--out")
        .arg(&out)
        .arg("--folder")
        .arg(folder.path().join("data"))
        .output()
        .expect("the program runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    out
}

/// Servers and data went with it.
fn assert_nothing_is_left(folder: &TempDir) {
    let left = std::fs::read_dir(folder.path().join("data"));
    let left = left.expect("the folder stays");
    assert_eq!(left.count(), 0);
}
