//! Imports and exports over the model: what is written, what is refused, and on which line.

use std::fs::File;
use std::io::{Cursor, Write};

use super::*;
use crate::fixture::{LOG, USERS};
use crate::model::{Model, block_on};
use crate::run::{Outcome, Session};
use crate::store::StoreError;

fn import_text(
    session: &Session<Model>,
    text: &str,
    change: impl FnOnce(&mut ImportOptions),
) -> Result<Summary, ImportError> {
    let mut options = ImportOptions::new("users");
    change(&mut options);
    let bar = ProgressBar::hidden();
    block_on(import(
        session.store(),
        Cursor::new(text.to_string()),
        &options,
        &bar,
    ))
}

fn exported(session: &Session<Model>, table: &str) -> Vec<String> {
    let mut out = Vec::new();
    let bar = ProgressBar::hidden();
    let rows = block_on(export(session.store(), table, &mut out, &bar)).unwrap();
    let text = String::from_utf8(out).unwrap();
    let mut lines: Vec<String> = text.lines().map(String::from).collect();
    assert_eq!(lines.len() as u64, rows + 1);
    lines[1..].sort();
    lines
}

#[test]
fn header_maps_columns_in_any_order() {
    let session = Model::session(USERS);
    let text = "\u{feff}Email, number,region\na@b,1,eu\n,2,eu\n\"x, \"\"y\"\"\",3,us\n";
    let summary = import_text(&session, text, |_| {}).unwrap();
    assert_eq!((summary.written, summary.bad), (3, 0));
    assert_eq!(
        exported(&session, "users"),
        [
            "region,number,email,n",
            "eu,1,a@b,0",
            "eu,2,,0",
            "us,3,\"x, \"\"y\"\"\",0"
        ]
    );
}

#[test]
fn export_and_import_again_give_the_same_rows() {
    let rows: Vec<String> = (0..2000)
        .map(|n| format!("('eu', {n}, 'u{n}', {n})"))
        .collect();
    let session = Model::session(&format!(
        "{USERS} INSERT INTO users VALUES {};",
        rows.join(",")
    ));
    let lines = exported(&session, "users");
    let other = Model::session(USERS);
    let summary = import_text(&other, &lines.join("\n"), |it| it.in_flight = 64).unwrap();
    assert_eq!(summary.written, 2000);
    assert_eq!(exported(&other, "users"), lines);
}

#[test]
fn first_bad_line_stops_and_is_named() {
    let session = Model::session(USERS);
    let text = "region,number,n\neu,1,1\neu,two,2\neu,3,3\n";
    let failure = import_text(&session, text, |it| it.in_flight = 1).unwrap_err();
    assert_eq!(failure.line, Some(3));
    assert_eq!(
        failure.to_string(),
        "line 3: column number: \"two\" is not of type bigint: write a whole number from -2^63 \
         to 2^63 - 1 (1 rows had been written)"
    );
}

#[test]
fn bad_lines_are_counted_and_skipped() {
    let session = Model::session(USERS);
    let text = "region,number,email,n\neu,1,a@b,1\neu,2\n\"eu\n\",3,c@d,1\neu,4,a@b,1\neu,1,,1\n\
                eu,5,,late\n,6,,1\neu,,x,1\neu,7,g,1\n";
    let summary = import_text(&session, text, |it| {
        it.skip_errors = true;
        it.in_flight = 1;
    })
    .unwrap();
    // An empty region is a text, so line 10 is good.
    assert_eq!((summary.written, summary.skipped, summary.bad), (4, 0, 5));
    let lines: Vec<u64> = summary.bad_lines.iter().map(|(line, _)| *line).collect();
    assert_eq!(lines, [3, 6, 7, 8, 10]);
    let message = |at: usize| summary.bad_lines[at].1.to_string();
    assert!(message(0).contains("2 fields, the header names 4"));
    assert!(message(1).contains("users_email_key (email) = ('a@b')"));
    assert!(message(2).contains("primary key (region, number) = ('eu', 1)"));
    assert!(message(3).contains("\"late\" is not of type bigint"));
    assert!(message(4).contains("column number is NOT NULL"));
}

#[test]
fn conflicts_are_kept_or_overwritten() {
    let session = Model::session(&format!(
        "{USERS} INSERT INTO users VALUES ('eu', 1, 'old', 5);"
    ));
    let text = "region,number,email\neu,1,new\neu,2,two\n";
    let skipped = import_text(&session, text, |it| it.on_conflict = OnConflict::Skip).unwrap();
    assert_eq!((skipped.written, skipped.skipped), (1, 1));
    assert!(exported(&session, "users").contains(&"eu,1,old,5".to_string()));
    let updated = import_text(&session, text, |it| it.on_conflict = OnConflict::Update).unwrap();
    assert_eq!((updated.written, updated.skipped), (2, 0));
    // Columns that the file has not stay as they are.
    assert!(exported(&session, "users").contains(&"eu,1,new,5".to_string()));
}

#[test]
fn wrong_headers_change_nothing() {
    let session = Model::session(USERS);
    for (text, part) in [
        ("", "the file is empty"),
        ("region,number,speed\n", "table users has no column speed"),
        ("region,number,region\n", "names column region twice"),
        (
            "region,n\n",
            "column number of table users is NOT NULL and has no default",
        ),
    ] {
        let failure = import_text(&session, text, |_| {}).unwrap_err();
        assert!(failure.to_string().contains(part), "{text:?}: {failure}");
    }
    let missing = import_text(&session, "a\n", |it| it.table = "nowhere".into()).unwrap_err();
    assert!(missing.to_string().contains("there is no table nowhere"));
    assert_eq!(exported(&session, "users").len(), 1);
}

#[test]
fn bytes_that_are_no_text_and_texts_for_null() {
    let session = Model::session(USERS);
    let mut options = ImportOptions::new("users");
    options.skip_errors = true;
    options.null = Some("NA".into());
    let text = b"region,number,email\neu,1,\xff\xfe\neu,2,NA\n".to_vec();
    let bar = ProgressBar::hidden();
    let summary = block_on(import(session.store(), Cursor::new(text), &options, &bar)).unwrap();
    assert_eq!((summary.written, summary.bad), (1, 1));
    assert!(summary.bad_lines[0].1.to_string().contains("not UTF-8"));
    assert_eq!(exported(&session, "users")[1], "eu,2,,0");
}

#[test]
fn compressed_files_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("users.csv.gz");
    let file = File::create(&path).unwrap();
    let mut encoder = flate2::write::GzEncoder::new(file, flate2::Compression::default());
    encoder.write_all(b"region,number\neu,1\nus,2\n").unwrap();
    encoder.finish().unwrap();
    let session = Model::session(USERS);
    let bar = progress_bar("users");
    bar.set_draw_target(indicatif::ProgressDrawTarget::hidden());
    let source = open(&path, &bar).unwrap();
    let options = ImportOptions::new("users");
    let summary = block_on(import(session.store(), source, &options, &bar)).unwrap();
    assert_eq!(summary.written, 2);
    assert_eq!(bar.position(), bar.length().unwrap());
}

#[test]
fn dense_tables_take_lines_in_order() {
    let session = Model::session(LOG);
    let mut text = "id,position,entry\n".to_string();
    for n in 1..=50 {
        text += &format!("00000000-0000-0000-0000-0000000000{n:02},{n},\\x{n:02}\n");
    }
    let summary = import_text(&session, &text, |it| it.table = "log".into()).unwrap();
    assert_eq!(summary.written, 50);
}

#[test]
fn store_that_fails_stops_the_import_even_if_errors_are_skipped() {
    let session = Model::session(USERS);
    let full = StoreError {
        message: "server 2 has no space for writes".into(),
        unknown: false,
        stale: false,
    };
    session.store().fail_after(2, full);
    let text = "region,number\neu,1\neu,2\neu,3\neu,4\n";
    let failure = import_text(&session, text, |it| {
        it.skip_errors = true;
        it.in_flight = 1;
    })
    .unwrap_err();
    assert_eq!((failure.line, failure.summary.written), (Some(4), 2));
    assert!(failure.to_string().contains("has no space"));
    let outcome = block_on(Session::new(session.store().clone()).run_text("SHOW TABLES"));
    assert!(matches!(&outcome.unwrap()[0], Outcome::Rows(_)));
}
