//! Tests imports and exports over the model: the written rows, the refusals, and their lines.

use std::fs::File;
use std::io::{Cursor, Write};

use super::*;
use crate::fixture::{LOG, USERS};
use crate::model::{Model, block_on};
use crate::run::{SqlSession, StatementOutcome};
use crate::store::StoreError;

fn import_text(
    session: &SqlSession<Model>,
    text: &str,
    change: impl FnOnce(&mut ImportOptions),
) -> Result<ImportSummary, ImportError> {
    let mut options = ImportOptions::new("users");
    change(&mut options);
    let bar = ProgressBar::hidden();
    block_on(import(
        session.store(),
        Cursor::new(text.to_string()),
        &options,
        &bar,
        &ImportLedger::default(),
    ))
}

fn exported(session: &SqlSession<Model>, table: &str) -> Vec<String> {
    let mut out = Vec::new();
    let bar = ProgressBar::hidden();
    let exported = block_on(export(
        session.store(),
        table,
        ExportState::One,
        &mut out,
        &bar,
    ))
    .unwrap();
    let text = String::from_utf8(out).unwrap();
    let mut lines: Vec<String> = text.lines().map(String::from).collect();
    assert_eq!(lines.len() as u64, exported.rows + 1);
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
         to 2^63 - 1"
    );
    let summary = &failure.summary;
    assert_eq!((summary.written, summary.resume_line), (1, 3));
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
    let skipped = import_text(&session, text, |it| it.on_conflict = ImportConflict::Skip).unwrap();
    assert_eq!((skipped.written, skipped.skipped), (1, 1));
    assert!(exported(&session, "users").contains(&"eu,1,old,5".to_string()));
    let updated =
        import_text(&session, text, |it| it.on_conflict = ImportConflict::Update).unwrap();
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
    let summary = block_on(import(
        session.store(),
        Cursor::new(text),
        &options,
        &bar,
        &ImportLedger::default(),
    ))
    .unwrap();
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
    let summary = block_on(import(
        session.store(),
        source,
        &options,
        &bar,
        &ImportLedger::default(),
    ))
    .unwrap();
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
    let full = StoreError::plain("server 2 has no space for writes".into());
    session.store().fail_after(2, full);
    let text = "region,number\neu,1\neu,2\neu,3\neu,4\n";
    let failure = import_text(&session, text, |it| {
        it.skip_errors = true;
        it.in_flight = 1;
    })
    .unwrap_err();
    assert_eq!((failure.line, failure.summary.written), (Some(4), 2));
    assert!(failure.to_string().contains("has no space"));
    let outcome = block_on(SqlSession::new(session.store().clone()).run_text("SHOW TABLES"));
    assert!(matches!(&outcome.unwrap()[0], StatementOutcome::Rows(_)));
}

/// A byte order mark is no part of the header, however the first bytes of the file arrive.
#[test]
fn marks_before_the_header_are_left_out() {
    for header in [
        "\u{feff}\"region\",\"number\"",
        "\u{feff}\"region\",number",
        "\u{feff}region,\"number\"",
        "\u{feff} region ,number",
    ] {
        let session = Model::session(USERS);
        let text = format!("{header}\r\neu,1\r\n");
        let mut options = ImportOptions::new("users");
        options.in_flight = 1;
        // As `decompressed` gives them: two bytes, then the others.
        let source = decompressed(Box::new(Cursor::new(text))).unwrap();
        let (bar, ledger) = (ProgressBar::hidden(), ImportLedger::default());
        let summary = block_on(import(session.store(), source, &options, &bar, &ledger));
        assert_eq!(summary.unwrap().written, 1, "{header:?}");
    }
    let session = Model::session(USERS);
    let empty = import_text(&session, "\u{feff}", |_| {}).unwrap_err();
    assert!(empty.to_string().contains("the file is empty"), "{empty}");
    let mut utf16 = vec![0xff, 0xfe];
    utf16.extend("region,number\n".encode_utf16().flat_map(u16::to_le_bytes));
    let (bar, ledger) = (ProgressBar::hidden(), ImportLedger::default());
    let options = ImportOptions::new("users");
    let refused = block_on(import(
        session.store(),
        Cursor::new(utf16),
        &options,
        &bar,
        &ledger,
    ));
    let message = refused.unwrap_err().to_string();
    assert!(message.contains("UTF-16: convert it to UTF-8"), "{message}");
}

fn all_rows(session: &SqlSession<Model>) -> Vec<StatementOutcome> {
    let mut session = SqlSession::new(session.store().clone());
    let text = "SELECT /*+ scan */ * FROM users ORDER BY number";
    block_on(session.run_text(text)).unwrap()
}

/// After a stop anywhere, an import that goes on from the named line adds the rest.
#[test]
fn an_import_goes_on_where_another_one_stopped() {
    let mut text = "region,number,email\n".to_string();
    for n in 0..40 {
        // Some rows are longer than a line.
        let break_ = if n % 3 == 0 { "\n" } else { "" };
        text += &format!("eu,{n},\"u{break_}{n}\"\n");
    }
    let whole = Model::session(USERS);
    import_text(&whole, &text, |_| {}).unwrap();
    for stop_after in [0, 1, 7, 19] {
        for (in_flight, unknown) in [(1, false), (7, false), (8, false), (8, true)] {
            let of_each = (in_flight / BATCHES_IN_FLIGHT).max(1);
            let written = (stop_after * of_each) as u64;
            let session = Model::session(USERS);
            let lost = StoreError {
                unknown,
                ..StoreError::plain("server 2 is lost".into())
            };
            session.store().fail_after(stop_after, lost);
            let failure = import_text(&session, &text, |it| it.in_flight = in_flight);
            let summary = failure.unwrap_err().summary;
            assert_eq!(summary.written, written);
            assert_eq!(summary.undecided > 0, unknown);
            session.store().heal();
            let rest = import_text(&session, &text, |it| {
                it.from_line = summary.resume_line;
                it.on_conflict = ImportConflict::Skip;
            });
            let rest = rest.unwrap();
            assert_eq!((rest.written, rest.skipped), (40 - written, 0));
            assert_eq!(all_rows(&session), all_rows(&whole));
        }
    }
}

/// A transaction of many lines aborts for one of them, and only this one is left out.
#[test]
fn a_bad_line_is_found_in_its_transaction() {
    let text: String = (0..100).map(|n| format!("eu,{n}\n")).collect();
    let text = format!("region,number\n{text}");
    let again = text.replace("eu,70\n", "eu,3\n");
    let session = Model::session(USERS);
    let summary = import_text(&session, &again, |it| {
        it.in_flight = 40;
        it.skip_errors = true;
    });
    let summary = summary.unwrap();
    assert_eq!((summary.written, summary.bad), (99, 1));
    assert_eq!(summary.bad_lines[0].0, 72);
    let failure = import_text(&session, &text, |it| it.in_flight = 40).unwrap_err();
    assert_eq!((failure.line, failure.summary.written), (Some(2), 0));
    let kept = import_text(&session, &text, |it| {
        it.in_flight = 40;
        it.on_conflict = ImportConflict::Skip;
    });
    let kept = kept.unwrap();
    assert_eq!((kept.written, kept.skipped), (1, 99));
}

/// Lines are sent by the cores of their primaries. An import that ends early has sent all lines
/// before the bad one, and another import finds all others.
#[test]
fn lines_of_many_cores_end_at_the_bad_one() {
    let lines = |bad: usize, line: &str| -> String {
        let good = (0..100).map(|n| match n == bad {
            true => format!("{line}\n"),
            false => format!("r{},{n}\n", n % 7),
        });
        "region,number\n".to_owned() + &good.collect::<String>()
    };
    for (bad, line) in [(0, "eu,x"), (37, "eu,x"), (99, "eu,x"), (63, "r3,3")] {
        let session = Model::session(USERS);
        session.store().spread("users");
        let failure = import_text(&session, &lines(bad, line), |it| it.in_flight = 40);
        let failure = failure.unwrap_err();
        let resume_line = bad as u64 + 2;
        assert_eq!(failure.line, Some(resume_line), "{line}");
        assert_eq!(failure.summary.resume_line, resume_line, "{line}");
        assert_eq!(failure.summary.undecided, 0, "{line}");
        let written = exported(&session, "users");
        for n in 0..bad {
            assert!(
                written.contains(&format!("r{},{n},,0", n % 7)),
                "{line}: {n}"
            );
        }
        assert!(session.store().cores_per_transaction() <= 1);
    }
    let whole = Model::session(USERS);
    import_text(&whole, &lines(100, ""), |_| {}).unwrap();
    let session = Model::session(USERS);
    session.store().spread("users");
    let lost = StoreError {
        unknown: true,
        ..StoreError::plain("server 2 is lost".into())
    };
    session.store().fail_after(3, lost);
    let failure = import_text(&session, &lines(100, ""), |it| it.in_flight = 20);
    let summary = failure.unwrap_err().summary;
    // At most as many as are in flight; none of those that were only read.
    assert!(summary.undecided <= 25, "{}", summary.undecided);
    session.store().heal();
    let rest = import_text(&session, &lines(100, ""), |it| {
        it.from_line = summary.resume_line;
        it.on_conflict = ImportConflict::Skip;
    });
    assert_eq!(rest.unwrap().written, 100 - summary.written);
    assert_eq!(session.store().cores_per_transaction(), 1);
    assert_eq!(all_rows(&session), all_rows(&whole));
}

/// A file can have each row after the row that it refers to.
#[test]
fn rows_that_refer_to_their_table_are_sent_in_order() {
    let tree = "CREATE TABLE users (id bigint PRIMARY KEY, parent bigint REFERENCES users,
        INDEX by_parent (parent)) WITH (partitions = 12);";
    let session = Model::session(tree);
    session.store().spread("users");
    let child = |n: u64| format!("{n},{}\n", n - 1);
    let [first, last] = [2..=150, 151..=200].map(|ids| ids.map(child).collect::<String>());
    // The transaction with the line of a row that exists is sent again, row by row.
    let text = format!("id,parent\n1,\n{first}100,\n{last}");
    let summary = import_text(&session, &text, |it| {
        it.in_flight = 40;
        it.skip_errors = true;
    });
    let summary = summary.unwrap();
    assert_eq!((summary.written, summary.bad), (200, 1));
}

/// The ledger outlives an import that is dropped while it waits.
#[test]
fn an_import_that_is_dropped_leaves_its_counts() {
    let session = Model::session(USERS);
    session.store().hold_after(5);
    let text: String = (0..20).map(|n| format!("eu,{n}\n")).collect();
    let text = format!("region,number\n{text}");
    let mut options = ImportOptions::new("users");
    options.in_flight = 4;
    let (bar, ledger) = (ProgressBar::hidden(), ImportLedger::default());
    let source = Cursor::new(text);
    let mut running = Box::pin(import(session.store(), source, &options, &bar, &ledger));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    for _ in 0..100 {
        assert!(running.as_mut().poll(&mut context).is_pending());
    }
    drop(running);
    let summary = ledger.summary();
    assert_eq!((summary.written, summary.undecided), (5, 4));
    assert_eq!(summary.resume_line, 7);
}

#[test]
fn bad_lines_do_not_hold_the_resume_line_back_when_they_are_skipped() {
    let session = Model::session(USERS);
    let text = "region,number\neu,1\neu,two\neu,3\n";
    let summary = import_text(&session, text, |it| it.skip_errors = true).unwrap();
    assert_eq!((summary.written, summary.bad), (2, 1));
    assert_eq!(summary.resume_line, 5);
    let stopped = import_text(&session, "region,number\neu,4\neu,5\neu,x\neu,6\n", |it| {
        it.in_flight = 1;
    });
    assert_eq!(stopped.unwrap_err().summary.resume_line, 4);
}

/// The remedy for a statement is none for a file.
#[test]
fn duplicates_name_the_options_of_the_import() {
    let session = Model::session(&format!(
        "{USERS} INSERT INTO users VALUES ('eu', 1, 'a@b', 5);"
    ));
    let by_key = import_text(&session, "region,number\neu,1\n", |_| {}).unwrap_err();
    let message = by_key.to_string();
    assert!(message.contains("--on-conflict skip"), "{message}");
    let by_index = import_text(&session, "region,number,email\neu,2,a@b\n", |_| {});
    let message = by_index.unwrap_err().to_string();
    assert!(message.contains("--skip-errors"), "{message}");
    assert!(!message.contains("ON CONFLICT"), "{message}");
}

/// A file that cannot be read on ends the import, however errors of its lines are taken.
#[test]
fn a_file_that_cannot_be_read_ends_the_import() {
    struct Broken(usize);
    impl Read for Broken {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let text = b"region,number\neu,1\n";
            let rest = &text[self.0.min(text.len())..];
            if rest.is_empty() {
                return Err(std::io::Error::other("the disk is gone"));
            }
            buffer[0] = rest[0];
            self.0 += 1;
            Ok(1)
        }
    }
    let session = Model::session(USERS);
    let mut options = ImportOptions::new("users");
    options.skip_errors = true;
    let (bar, ledger) = (ProgressBar::hidden(), ImportLedger::default());
    let failure = block_on(import(session.store(), Broken(0), &options, &bar, &ledger));
    let failure = failure.unwrap_err();
    assert_eq!((failure.line, failure.summary.written), (Some(3), 1));
    assert!(
        failure.to_string().contains("the disk is gone"),
        "{failure}"
    );
}
