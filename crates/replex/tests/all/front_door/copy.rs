//! `COPY` as clients of PostgreSQL send it: by psql, byte by byte beside a real PostgreSQL, and
//! with more rows than one transaction takes.

use std::fmt::Write as _;

use super::same_as_postgres::{Both, both};
use super::{Started, psql};
use crate::support;
use crate::support::raw_client::{Answer, Messages, RawClient};

/// The rows of one transaction, as the store limits them.
const TRANSACTION_ROWS: usize = 10_000;

const TABLE: &str = "CREATE TABLE c (id bigint PRIMARY KEY, s text, n bigint NOT NULL DEFAULT 7, \
                     f double precision, b boolean, at timestamp, y bytea, u uuid)";

/// A query string, then data in pieces, then their end.
fn copy(statement: &str, pieces: &[&[u8]]) -> Messages {
    data(Messages::new().query(statement), pieces).message(b'c', &[])
}

fn data(messages: Messages, pieces: &[&[u8]]) -> Messages {
    let pieces = pieces.iter();
    pieces.fold(messages, |messages, piece| messages.message(b'd', &[piece]))
}

fn tags(answers: &[Answer]) -> String {
    let shown = answers.iter().filter(|it| !matches!(it.tag, b'N' | b'S'));
    shown.map(|it| char::from(it.tag)).collect()
}

fn error(answers: &[Answer]) -> pg_wire::report::Report {
    let error = answers.iter().find(|it| it.tag == b'E');
    error.expect("an error was expected").report()
}

async fn both_with_table() -> Option<(Started, pg_local::Postgres, Both)> {
    let (started, postgres, mut both) = both().await?;
    both.query(TABLE);
    Some((started, postgres, both))
}

/// Statements with their data: good ones, and those that fail.
const INPUTS: &[(&str, &[u8])] = &[
    // Text.
    ("COPY c (id, s) FROM STDIN", b"1\ta\n2\t\\N\n3\t\n"),
    ("copy public.c(id,s) from stdin", b"1\ta"),
    (
        "COPY c (s, id) FROM STDIN WITH (FREEZE off)",
        b"a\t1\nb\t2\n",
    ),
    (
        "COPY c (id, s) FROM STDIN",
        b"1\t\\t\\n\\r\\\\\\b\\f\\v\\q\\101\\x41\\x4\n",
    ),
    ("COPY c (id, s) FROM STDIN", b"1\ta\\\tb\n2\ta\\\nb\n"),
    ("COPY c (id, s) FROM STDIN", b"1\ta\r\n2\tb\r\n"),
    ("COPY c (id, s) FROM STDIN", b"1\ta\r2\tb\r"),
    ("COPY c (id, s) FROM STDIN", b"1\ta\n\\.\n2\tb\n"),
    ("COPY c (id, s) FROM STDIN", b"1\ta\\.\n2\tb\n"),
    ("COPY c (id, s) FROM STDIN", b""),
    (
        "COPY c (id, s) FROM STDIN",
        b"1\t\xc3\xa4\xf0\x9f\x98\x80\n",
    ),
    ("COPY c (id, s) FROM STDIN", b"1\t\\xc3\\xa4\n"),
    (
        "COPY c (id, s) FROM STDIN (DELIMITER '|', NULL 'none')",
        b"1|none\n2|a\\|b\n3|\\N\n",
    ),
    (
        "COPY c (id, s) FROM STDIN WITH DELIMITER AS ';' NULL AS ''",
        b"1;\n2;a\n",
    ),
    ("COPY c (id, s) FROM STDIN (HEADER)", b"what\never\n1\ta\n"),
    ("COPY c (id, s) FROM STDIN (HEADER match)", b"id\ts\n1\ta\n"),
    (
        "COPY c FROM STDIN",
        b"1\ts\t5\t-0.5e3\tt\t2024-02-29 01:02:03.5\t\\\\xdeadBEEF\t\
          a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11\n\
          2\t\\N\t6\tNaN\tno\tinfinity\t\\\\x\t\\N\n3\t\\N\t6\tInfinity\t1\t\\N\t\\N\t\\N\n",
    ),
    ("COPY c (id, n) FROM STDIN", b" 1 \t 2 \n5\t+3\n"),
    // CSV.
    (
        "COPY c (id, s) FROM STDIN WITH CSV",
        b"1,a\n2,\n3,\"\"\n4,\"a,b\"\"c\nd\"\n",
    ),
    ("COPY c (id, s) FROM STDIN CSV HEADER", b"id,s\n1,a\n"),
    (
        "COPY c (id, s) FROM STDIN (FORMAT csv, HEADER match)",
        b"id,s\n1,a\n",
    ),
    (
        "COPY c (id, s) FROM STDIN (FORMAT csv, NULL '\\N')",
        b"1,\\N\n2,\n3,\"\\N\"\n",
    ),
    (
        "COPY c (id, s) FROM STDIN (FORMAT csv, DELIMITER ';', QUOTE '''', ESCAPE '\\')",
        b"1;'a\\'b\\\\'\n",
    ),
    (
        "COPY c (id, s) FROM STDIN (FORMAT csv, FORCE_NULL (s))",
        b"1,\"\"\n2,a\n",
    ),
    (
        "COPY c (id, s) FROM STDIN (FORMAT csv, FORCE_NOT_NULL (s))",
        b"1,\n2,a\n",
    ),
    ("COPY c (id, s) FROM STDIN CSV", b"1,a\r\n2,\"b\nc\"\r\n"),
    ("COPY c (id, s) FROM STDIN CSV", b"1,a\n\\.\n2,b\n"),
    ("COPY c (id, s) FROM STDIN CSV", b"1,\\.\n2,a\\n\n"),
    ("COPY c (id, s) FROM STDIN CSV", b"1,a\"b,\"c\n"),
    // Data that fail.
    ("COPY c (id, s) FROM STDIN", b"1\ta\n2\n"),
    ("COPY c (id, s) FROM STDIN", b"1\ta\tb\n"),
    ("COPY c (id, s) FROM STDIN", b"x\ta\n"),
    ("COPY c (id, s) FROM STDIN", b"x\n"),
    ("COPY c (id, s) FROM STDIN", b"\n"),
    ("COPY c (id, s) FROM STDIN", b"9223372036854775808\ta\n"),
    ("COPY c (id, s) FROM STDIN", b"1\ta\n1\tb\n"),
    ("COPY c (id, s) FROM STDIN", b"\\N\ta\n"),
    ("COPY c (id, n) FROM STDIN", b"1\t\\N\n"),
    ("COPY c (id, at) FROM STDIN", b"1\tsoon\n"),
    ("COPY c (id, at) FROM STDIN", b"1\t2024-02-31\n"),
    ("COPY c (id, b) FROM STDIN", b"1\tmaybe\n"),
    ("COPY c (id, u) FROM STDIN", b"1\tabc\n"),
    ("COPY c (id, s) FROM STDIN", b"1\ta\n2\tb\r\n"),
    ("COPY c (id, s) FROM STDIN", b"1\ta\r\n2\tb\n"),
    ("COPY c (id, s) FROM STDIN", b"1\ta\r2\tb\n"),
    ("COPY c (id, s) FROM STDIN", b"1\ta\n\\.x\n"),
    ("COPY c (id, s) FROM STDIN", b"1\ta\n\\."),
    ("COPY c (id, s) FROM STDIN", b"1\t\xff\n"),
    ("COPY c (id, s) FROM STDIN", b"1\ta\0b\n"),
    ("COPY c (id, s) FROM STDIN", b"1\t\\xff\n"),
    ("COPY c (id, s) FROM STDIN", b"1\t\\000\n"),
    ("COPY c (id, s) FROM STDIN CSV", b"1,\"a\n2,b\n"),
    ("COPY c (id, s) FROM STDIN CSV", b"1,a\n2,b\rc\n"),
    ("COPY c (id, s) FROM STDIN CSV", b"1,a,b\n"),
    ("COPY c (id, s) FROM STDIN CSV", b"1\n"),
    ("COPY c (id, s) FROM STDIN (HEADER match)", b"id\tn\n1\ta\n"),
    (
        "COPY c (id, s) FROM STDIN (FORMAT csv, HEADER match)",
        b"id\n1,a\n",
    ),
    // Statements that fail.
    ("COPY missing FROM STDIN", b"1\n"),
    ("COPY c (id, missing) FROM STDIN", b"1\t2\n"),
    ("COPY c (id, id) FROM STDIN", b"1\t2\n"),
    ("COPY c (id, s) FROM STDIN (FORMAT xml)", b"1\t2\n"),
    (
        "COPY c (id, s) FROM STDIN (FORMAT csv, FORMAT csv)",
        b"1\t2\n",
    ),
    ("COPY c (id, s) FROM STDIN (HEADER 7)", b"1\t2\n"),
    ("COPY c (id, s) FROM STDIN (DELIMITER 'a')", b"1\t2\n"),
    ("COPY c (id, s) FROM STDIN (DELIMITER '||')", b"1\t2\n"),
    ("COPY c (id, s) FROM STDIN (QUOTE '\"')", b"1\t2\n"),
    (
        "COPY c (id, s) FROM STDIN (FORMAT csv, QUOTE ',')",
        b"1\t2\n",
    ),
    (
        "COPY c (id, s) FROM STDIN (FORMAT csv, NULL 'a,b')",
        b"1\t2\n",
    ),
    (
        "COPY c (id, s) FROM STDIN (FORMAT csv, FORCE_NULL (n))",
        b"1\t2\n",
    ),
    ("COPY c (id, s) FROM STDIN (no_such_option)", b"1\t2\n"),
    ("COPY c (id, s) FROM", b"1\t2\n"),
    ("COPY (SELECT 1) FROM STDIN", b"1\n"),
];

const OUTPUTS: &[&str] = &[
    "COPY c TO STDOUT",
    "COPY c TO STDOUT CSV HEADER",
    "COPY c (s, id) TO STDOUT WITH (DELIMITER '|', NULL 'none', HEADER)",
    "COPY c (s) TO STDOUT CSV",
    "COPY c (s, id) TO STDOUT (FORMAT csv, QUOTE '''', ESCAPE '\\', FORCE_QUOTE *, NULL 'x')",
    "COPY c (s, n) TO STDOUT (FORMAT csv, FORCE_QUOTE (n))",
    "COPY (SELECT id, s FROM c WHERE id < 3 ORDER BY id) TO STDOUT",
    "COPY (SELECT count(*) FROM c) TO STDOUT CSV HEADER",
    "COPY (SELECT 'a,b' AS \"x,y\", NULL) TO STDOUT (FORMAT csv, HEADER)",
];

#[tokio::test]
async fn the_same_input_has_the_same_effect() {
    let Some((_started, _postgres, mut both)) = both_with_table().await else {
        return;
    };
    for (statement, bytes) in INPUTS {
        let what = format!("{statement} {:?}", String::from_utf8_lossy(bytes));
        let one: Vec<&[u8]> = bytes.chunks(1).collect();
        for pieces in [&[*bytes][..], &one] {
            both.ask(&copy(statement, pieces), &what);
            both.query("SELECT * FROM c WHERE id > -100 ORDER BY id");
            for output in OUTPUTS {
                both.query(output);
            }
            both.query("DELETE FROM c WHERE id > -100");
        }
    }
}

/// The head of data in the binary format, without flags and extension.
const BINARY_HEAD: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

/// A row in the binary format.
fn binary_row(fields: &[Option<&[u8]>]) -> Vec<u8> {
    let mut row = u16::try_from(fields.len()).unwrap().to_be_bytes().to_vec();
    for field in fields {
        let length = field.map_or(-1, |it| i32::try_from(it.len()).unwrap());
        row.extend(length.to_be_bytes());
        row.extend(field.unwrap_or_default());
    }
    row
}

fn binary(rows: &[&[Option<&[u8]>]]) -> Vec<u8> {
    let rows = rows.iter().flat_map(|row| binary_row(row));
    let rows = BINARY_HEAD.iter().copied().chain(rows);
    rows.chain(*b"\xff\xff").collect()
}

/// Data in the binary format with two fields, a bigint and another one: good ones, and some that
/// fail.
fn binary_inputs() -> Vec<(&'static str, Vec<u8>)> {
    let one = 1_i64.to_be_bytes();
    let head = |flags: u32, extension: i32, rest: &[u8]| {
        let mut bytes = b"PGCOPY\n\xff\r\n\0".to_vec();
        bytes.extend(flags.to_be_bytes());
        bytes.extend(extension.to_be_bytes());
        bytes.extend(rest);
        bytes
    };
    let with = |column: &'static str, field: &[u8]| (column, binary(&[&[Some(&one), Some(field)]]));
    let mut inputs = vec![
        ("s", binary(&[])),
        ("s", head(1, 0, b"\xff\xff")),
        ("s", head(1 << 16, 0, b"\xff\xff")),
        ("s", head(1 << 17, 0, b"\xff\xff")),
        ("s", head(0, 3, b"abc\xff\xff")),
        ("s", head(0, 3, b"ab")),
        ("s", head(0, -1, b"\xff\xff")),
        ("s", b"PGCOPY\n\xff\r\n1\0\0\0\0\0\0\0\0\xff\xff".to_vec()),
        ("s", [binary(&[]), b"x".to_vec()].concat()),
        ("s", [BINARY_HEAD, b"\0\x01\xff\xff\xff\xff"].concat()),
        ("s", [BINARY_HEAD, b"\0\x03"].concat()),
        ("s", [BINARY_HEAD, b"\xff\xfe"].concat()),
        ("s", [BINARY_HEAD, b"\0\x02\xff\xff\xff\xfe"].concat()),
        ("s", binary(&[&[None, Some(b"a")]])),
        ("n", binary(&[&[Some(&one), None]])),
        ("s", binary(&[&[Some(&one), None], &[Some(&one), None]])),
        ("s", binary(&[&[Some(&one[..7]), None]])),
        ("s", binary(&[&[Some(b"123456789"), None]])),
        with("s", b""),
        with("s", "ä😀".as_bytes()),
        with("s", b"a\xffb"),
        with("s", b"a\0b"),
        with("f", &f64::NAN.to_be_bytes()),
        with("f", &(-0.0_f64).to_be_bytes()),
        with("f", b""),
        with("b", b"\x01"),
        with("b", b"\x02"),
        with("b", b"\0\0"),
        with("at", &0_i64.to_be_bytes()),
        with("at", &i64::MAX.to_be_bytes()),
        with("at", &(i64::MAX - 1).to_be_bytes()),
        with("y", b"\xde\xad"),
        with("u", &[7; 16]),
        with("u", &[7; 15]),
        with("u", &[7; 17]),
    ];
    // A good input that ends too early, anywhere.
    let second = 2_i64.to_be_bytes();
    let two = binary(&[&[Some(&one), Some(b"ab")], &[Some(&second), None]]);
    inputs.extend((0..=two.len()).map(|end| ("s", two[..end].to_vec())));
    inputs
}

#[tokio::test]
async fn the_same_binary_input_has_the_same_effect() {
    let Some((_started, _postgres, mut both)) = both_with_table().await else {
        return;
    };
    for (column, bytes) in binary_inputs() {
        let statement = format!("COPY c (id, {column}) FROM STDIN (FORMAT binary)");
        let what = format!("{statement} {:?}", bytes.escape_ascii().to_string());
        let pieces: Vec<&[u8]> = bytes.chunks(1).collect();
        for pieces in [&[&*bytes][..], &pieces] {
            both.ask(&copy(&statement, pieces), &what);
            both.query("SELECT * FROM c WHERE id > -100 ORDER BY id");
            both.query("COPY c TO STDOUT (FORMAT binary)");
            both.query("COPY (SELECT u, b, id, f, at, s, y FROM c) TO STDOUT BINARY");
            both.query("DELETE FROM c WHERE id > -100");
        }
    }
    for statement in [
        "COPY BINARY c FROM STDIN",
        "COPY BINARY c TO STDOUT CSV",
        "COPY c TO STDOUT (FORMAT binary, DELIMITER ',')",
        "COPY c TO STDOUT BINARY NULL 'x'",
        "COPY c TO STDOUT (FORMAT binary, HEADER)",
        "COPY c FROM STDIN (FORMAT binary, HEADER match)",
        "COPY c TO STDOUT (FORMAT binary, FORCE_QUOTE *)",
        "COPY c FROM STDIN (FORMAT binary, FORCE_NULL (s))",
        "COPY c FROM STDIN (FORMAT binary, ESCAPE 'x')",
    ] {
        both.ask(&copy(statement, &[&binary(&[])]), statement);
    }
}

#[tokio::test]
// tidy: long — a list of conversations
async fn conversations_have_the_same_messages() {
    let Some((_started, _postgres, mut both)) = both_with_table().await else {
        return;
    };
    let from = "COPY c (id, s) FROM STDIN";
    let new = Messages::new;
    let run = |text: &str| new().parse("", text, &[]).bind_texts(&[]).execute("", 0);
    let rows: &[&[u8]] = &[b"1\ta\n2", b"\tb\n"];
    for (what, messages) in [
        ("plain", copy(from, rows)),
        ("duplicates, and data after the error", copy(from, rows)),
        (
            "a failure of the client",
            data(new().query(from), rows).message(b'f', &[b"no\0"]),
        ),
        (
            "data without a COPY",
            data(new(), rows)
                .message(b'c', &[])
                .query("SELECT s FROM c WHERE id = 1"),
        ),
        (
            "flush and sync",
            data(new().query(from).flush().sync(), &[b"3\tc\n"])
                .sync()
                .message(b'c', &[]),
        ),
        (
            "extended",
            data(run(from).sync(), &[b"4\td\n"])
                .message(b'c', &[])
                .sync(),
        ),
        (
            "extended, sync once",
            data(run(from), &[b"5\te\n"]).message(b'c', &[]).sync(),
        ),
        (
            "extended, flush",
            data(run(from).flush(), &[b"6\tf\n"])
                .message(b'c', &[])
                .sync(),
        ),
        (
            "extended, error",
            data(run(from).sync(), &[b"x\n", b"7\tg\n"])
                .message(b'c', &[])
                .sync(),
        ),
        (
            "extended, failure",
            data(run(from).sync(), rows)
                .message(b'f', &[b"no\0"])
                .sync(),
        ),
        (
            "extended, described",
            new()
                .parse("s", from, &[])
                .describe(b'S', "s")
                .bind_texts(&[])
                .sync(),
        ),
        (
            "extended, missing",
            data(run("COPY missing FROM STDIN").sync(), &[]),
        ),
        ("extended, out", run("COPY c (id) TO STDOUT CSV").sync()),
        (
            "extended, out and more",
            then(
                run("COPY c (id) TO STDOUT"),
                &run("SELECT s FROM c WHERE id = 1").sync(),
            ),
        ),
        (
            "a string with more",
            copy(
                "COPY c (id, s) FROM STDIN; SELECT count(*) FROM c",
                &[b"8\th\n"],
            ),
        ),
        (
            "a string that fails later",
            copy(
                "COPY c (id, s) FROM STDIN; INSERT INTO c (id) VALUES (1)",
                &[b"9\ti\n"],
            ),
        ),
        (
            "two in a string",
            data(
                copy(
                    "COPY c (id, s) FROM STDIN; COPY c (id) FROM STDIN",
                    &[b"10\tj\n"],
                ),
                &[b"11\n"],
            )
            .message(b'c', &[]),
        ),
        (
            "out and in",
            copy("COPY c (id) TO STDOUT; COPY c (id) FROM STDIN", &[b"12\n"]),
        ),
        ("begin", new().query("BEGIN")),
        ("in a transaction", copy(from, &[b"13\tk\n"])),
        ("seen there", new().query("SELECT count(*) FROM c")),
        ("an error there", copy(from, &[b"14\n"])),
        ("after it", copy(from, &[b"15\tx\n"])),
        ("rollback", new().query("ROLLBACK")),
        ("read only", new().query("BEGIN READ ONLY")),
        ("in it", copy(from, &[b"16\tx\n"])),
        ("its end", new().query("ROLLBACK")),
        (
            "all",
            new().query("SELECT id, s FROM c WHERE id > 0 ORDER BY id"),
        ),
    ] {
        both.ask(&messages, what);
    }
}

/// Returns messages, and then others.
fn then(mut first: Messages, second: &Messages) -> Messages {
    first.0.extend_from_slice(&second.0);
    first
}

/// Messages that no COPY expects end the connection, as in PostgreSQL.
#[tokio::test]
async fn unexpected_messages_end_the_connection() {
    let Some((started, postgres, mut both)) = both_with_table().await else {
        return;
    };
    let from = data(Messages::new().query("COPY c (id) FROM STDIN"), &[b"1\n"]);
    for (what, messages) in [
        ("query", from.clone().query("SELECT s FROM c WHERE id = 1")),
        ("parse", from.clone().parse("", "SELECT 1", &[])),
        ("execute", from.clone().execute("", 0)),
        ("terminate", from.clone().message(b'X', &[])),
    ] {
        both.ask(&messages, what);
        both.store = RawClient::connect(started.sql());
        both.postgres = RawClient::connect(postgres.socket());
        both.query("SELECT count(*) FROM c");
    }
    // A client that is gone leaves nothing.
    both.store.send(&from.0);
    both.store = RawClient::connect(started.sql());
    assert_eq!(both.store.rows("SELECT count(*) FROM c"), [["0"]]);
}

#[tokio::test]
async fn refusals_name_the_way_out() {
    let started = Started::new().await;
    let mut client = RawClient::connect(started.sql());
    client.rows(TABLE);
    for (text, hint) in [
        ("COPY c FROM '/etc/passwd'", "\\copy"),
        ("COPY c TO PROGRAM 'cat'", "\\copy"),
        ("COPY c FROM STDIN WHERE id > 1", "delete those"),
    ] {
        let report = error(&client.ask(&Messages::new().query(text)));
        assert_eq!(report.code, "0A000", "{text}");
        assert!(report.hint.contains(hint), "{text}: {}", report.hint);
    }
    let report = error(&client.ask(&copy("COPY c (id, n) FROM STDIN", &[b"1\t2\n2\tx\n"])));
    assert_eq!(
        report.object.unwrap().context,
        "COPY c, line 2, column n: \"x\""
    );
    let report = error(&client.ask(&copy("COPY c (id, n) FROM STDIN", &[b"1\t2\n2\n"])));
    assert_eq!(report.object.unwrap().context, "COPY c, line 2: \"2\"");
    assert_eq!(client.rows("SELECT count(*) FROM c"), [["0"]]);
}

/// Lines with these numbers, from 1.
fn lines(numbers: impl Iterator<Item = usize>) -> Vec<u8> {
    let mut text = String::new();
    for number in numbers {
        let _ = writeln!(text, "{number}\trow {number}");
    }
    text.into_bytes()
}

/// Returns a store with an empty table `big`.
async fn with_big_table() -> (Started, RawClient) {
    let started = Started::new().await;
    let mut client = RawClient::connect(started.sql());
    client.rows("CREATE TABLE big (id bigint PRIMARY KEY, s text)");
    (started, client)
}

/// Returns the number of its rows.
fn count(client: &mut RawClient) -> usize {
    let rows = client.rows("SELECT /*+ scan */ count(*) FROM big");
    rows[0][0].parse().unwrap()
}

#[tokio::test]
async fn more_rows_than_a_transaction_takes() {
    let (_started, mut client) = with_big_table().await;
    let from = "COPY big FROM STDIN";
    // All or nothing, if they fit.
    let mut bytes = lines(1..=TRANSACTION_ROWS - 1);
    bytes.extend_from_slice(b"x\ty\n");
    let answers = client.ask(&copy(from, &[&bytes]));
    let report = error(&answers);
    assert_eq!((&*report.code, &*report.detail), ("22P02", ""));
    assert_eq!(count(&mut client), 0);
    let bytes = lines(1..=TRANSACTION_ROWS);
    let answers = client.ask(&copy(from, &[&bytes]));
    assert_eq!(tags(&answers), "GCZ");
    assert!(answers.iter().all(|it| it.tag != b'N'));
    assert_eq!(count(&mut client), TRANSACTION_ROWS);
    // Several transactions otherwise, and an error says how many rows are there.
    let first = TRANSACTION_ROWS + 1;
    let mut bytes = lines(first..first + 25_000);
    bytes.extend_from_slice(b"7\tthere already\n");
    let pieces: Vec<&[u8]> = bytes.chunks(5_000).collect();
    let answers = client.ask(&copy(from, &pieces));
    assert_eq!(tags(&answers), "GEZ");
    let warning = answers.iter().find(|it| it.tag == b'N').unwrap().report();
    assert_eq!(warning.code, "01000");
    assert!(
        warning
            .message
            .contains("20000 rows were written in 2 transactions"),
        "{warning}"
    );
    let report = error(&answers);
    assert_eq!(report.code, "23505");
    assert!(
        report.detail.contains("20000 rows were written before"),
        "{}",
        report.detail
    );
    assert_eq!(report.hint, "Continue with line 20001 of the data.");
    assert_eq!(count(&mut client), TRANSACTION_ROWS + 20_000);
    // The client continues there.
    let mut left = bytes
        .split(|byte| *byte == b'\n')
        .skip(20_000)
        .collect::<Vec<_>>()
        .join(&b'\n');
    left.truncate(left.len() - b"7\tthere already\n".len());
    let answers = client.ask(&copy(from, &[&left]));
    assert_eq!(tags(&answers), "GCZ");
    assert_eq!(count(&mut client), TRANSACTION_ROWS + 25_000);
    // The limit of a transaction of the client is an error, and nothing stays.
    client.rows("BEGIN");
    let rows = lines(200_000..200_000 + TRANSACTION_ROWS + 1);
    let report = error(&client.ask(&copy(from, &[&rows])));
    assert!(
        report.message.contains("changes more than 10000 rows"),
        "{report}"
    );
    client.rows("ROLLBACK");
    assert_eq!(count(&mut client), TRANSACTION_ROWS + 25_000);
    // All rows go out again.
    let answers = client.ask(&Messages::new().query("COPY big TO STDOUT"));
    let rows = answers.iter().filter(|it| it.tag == b'd').count();
    assert_eq!(rows, TRANSACTION_ROWS + 25_000);
}

#[tokio::test]
async fn a_client_fails_after_a_part() {
    let (_started, mut client) = with_big_table().await;
    let from = "COPY big FROM STDIN";
    let rows = lines(100_000..115_000);
    let messages = data(Messages::new().query(from), &[&rows]).message(b'f', &[b"enough\0"]);
    let report = error(&client.ask(&messages));
    assert_eq!(
        (&*report.code, &*report.message),
        ("57014", "COPY from stdin failed: enough")
    );
    assert!(
        report.detail.contains("10000 rows were written before"),
        "{}",
        report.detail
    );
    assert_eq!(count(&mut client), TRANSACTION_ROWS);
}

/// Values that the formats must quote or escape.
const NASTY: &[Option<&str>] = &[
    None,
    Some(""),
    Some("\\N"),
    Some("\\."),
    Some("\t"),
    Some("\n"),
    Some("\r\n"),
    Some("a\\tb"),
    Some("\""),
    Some("'\"\"',"),
    Some("NULL"),
    Some(" ä 😀 "),
    Some("\u{1}\u{8}\u{b}"),
    Some("\\"),
];

#[tokio::test]
async fn psql_copies_files_in_and_out() {
    if !support::postgres_is_there() {
        return;
    }
    let started = Started::new().await;
    let mut client = RawClient::connect(started.sql());
    client.rows("CREATE TABLE a (id bigint PRIMARY KEY, s text)");
    client.rows("CREATE TABLE b (id bigint PRIMARY KEY, s text)");
    for (id, value) in NASTY.iter().enumerate() {
        let values = [
            Some(id.to_string().into_bytes()),
            value.map(|it| it.as_bytes().to_vec()),
        ];
        let insert = Messages::new()
            .parse("", "INSERT INTO a VALUES ($1, $2)", &[])
            .bind(("", ""), 0, &values, 0)
            .execute("", 0)
            .sync();
        assert!(!tags(&client.ask(&insert)).contains('E'));
    }
    let file = started.folder.path().join("rows").display().to_string();
    let rows = |client: &mut RawClient, table: &str| {
        let select = format!("SELECT id, s, s IS NULL FROM {table} WHERE id >= 0 ORDER BY id");
        client.rows(&select)
    };
    let expected = rows(&mut client, "a");
    for options in [
        "",
        "with (format csv)",
        "with csv header",
        "with (format csv, force_quote *)",
    ] {
        let input = options.replace(", force_quote *", "");
        let (stdout, stderr) = psql(
            started.sql(),
            &[
                &format!("\\copy a to '{file}' {options}"),
                &format!("\\copy b from '{file}' {input}"),
            ],
        );
        let count = NASTY.len();
        assert_eq!(
            stdout,
            format!("COPY {count}\nCOPY {count}\n"),
            "{options}: {stderr}"
        );
        assert_eq!(rows(&mut client, "b"), expected, "{options}");
        client.rows("DELETE FROM b WHERE id >= 0");
    }
    let (stdout, stderr) = psql(
        started.sql(),
        &["COPY (SELECT id FROM a WHERE id < 2) TO STDOUT"],
    );
    assert_eq!((&*stdout, &*stderr), ("0\n1\n", ""));
}

/// `pgbench -i` itself needs types and TRUNCATE, which the store does not have. Its data fit.
#[tokio::test]
async fn the_data_of_pgbench_are_copied() {
    let started = Started::new().await;
    let mut client = RawClient::connect(started.sql());
    client.rows(
        "CREATE TABLE pgbench_accounts (aid bigint PRIMARY KEY, bid bigint, abalance bigint, \
         filler text)",
    );
    let mut rows = String::new();
    for aid in 1..=2 * TRANSACTION_ROWS {
        let _ = writeln!(rows, "{aid}\t1\t0\t");
    }
    let from = "copy pgbench_accounts from stdin with (freeze on)";
    let answers = client.ask(&copy(from, &[rows.as_bytes()]));
    assert_eq!(tags(&answers), "GCZ");
    let found = client.rows("SELECT /*+ scan */ count(*) FROM pgbench_accounts");
    assert_eq!(found, [["20000"]]);
}
