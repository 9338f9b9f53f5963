//! Tests the reader with written rows, with inputs cut anywhere, and with random bytes.

use placement::Value;
use proptest::prelude::*;

use super::*;
use crate::copy::CopyWriter;
use crate::run::OutputColumn;
use crate::statement::CopyColumns;

type Fields = Vec<Option<String>>;

fn options(format: CopyFormat) -> CopyOptions {
    let plain = CopyOptions {
        format,
        ..CopyOptions::default()
    };
    match format {
        CopyFormat::Text | CopyFormat::Binary => plain,
        CopyFormat::Csv => CopyOptions {
            delimiter: b',',
            null: String::new(),
            ..plain
        },
    }
}

/// Returns all rows of an input that arrives in pieces of this length, or the SQLSTATE of its
/// error.
fn read(options: &CopyOptions, input: &[u8], piece: usize) -> Result<Vec<Fields>, String> {
    let mut reader = CopyReader::new(options.clone());
    let mut rows = Vec::new();
    let mut take = |reader: &mut CopyReader| loop {
        match reader.next_row() {
            Ok(Some(row)) => rows.push(row),
            Ok(None) => return Ok(()),
            Err(SqlError::Statement { sqlstate, .. }) => return Err(sqlstate.to_owned()),
            Err(other) => panic!("{other}"),
        }
    };
    for piece in input.chunks(piece) {
        reader.push(piece);
        take(&mut reader)?;
    }
    reader.end();
    take(&mut reader)?;
    Ok(rows)
}

fn row(fields: &[&str]) -> Fields {
    let field = |field: &&str| (*field != "NULL").then(|| (*field).to_owned());
    fields.iter().map(field).collect()
}

#[test]
fn lines_of_text() {
    for (input, expected) in [
        ("1\ta\n2\t\\N\n", &[&["1", "a"][..], &["2", "NULL"]][..]),
        ("1\ta\r\n2\tb", &[&["1", "a"], &["2", "b"]]),
        ("1\ta\r2\tb\r", &[&["1", "a"], &["2", "b"]]),
        ("\\t\\\\\\x41\\101\\q\\N\n", &[&["\t\\AAqN"]]),
        ("a\\\tb\tc\\\nd\n", &[&["a\tb", "c\nd"]]),
        ("\n\t\n", &[&[""], &["", ""]]),
        ("a\n\\.\nb\n", &[&["a"]]),
        ("a\\.\nb\n", &[&["a"]]),
        ("\\.\n", &[]),
        ("", &[]),
        ("ä\\xc3\\xa4\n", &[&["ää"]]),
        ("a\\", &[&["a"]]),
    ] {
        let expected: Vec<Fields> = expected.iter().map(|fields| row(fields)).collect();
        for piece in 1..=input.len().max(1) {
            let found = read(&options(CopyFormat::Text), input.as_bytes(), piece);
            assert_eq!(found.as_ref(), Ok(&expected), "{input:?} by {piece}");
        }
    }
}

#[test]
fn lines_of_csv() {
    for (input, expected) in [
        (
            "1,a\n2,\n3,\"\"\n",
            &[&["1", "a"][..], &["2", "NULL"], &["3", ""]][..],
        ),
        ("\"a\"\"b\",\"c\nd\"\r\n", &[&["a\"b", "c\nd"]]),
        ("a\"b,c\"d,e\n", &[&["ab,cd", "e"]]),
        (" a , \"b\" \n", &[&[" a ", " b "]]),
        ("1\n\\.\n2\n", &[&["1"]]),
        ("\\.x\n", &[&["\\.x"]]),
        ("a\\.\n", &[&["a\\."]]),
        ("\"\\.\"\n", &[&["\\."]]),
        ("\\N,\\t\n", &[&["\\N", "\\t"]]),
    ] {
        let expected: Vec<Fields> = expected.iter().map(|fields| row(fields)).collect();
        for piece in 1..=input.len() {
            let found = read(&options(CopyFormat::Csv), input.as_bytes(), piece);
            assert_eq!(found.as_ref(), Ok(&expected), "{input:?} by {piece}");
        }
    }
    let escaped = CopyOptions {
        escape: b'\\',
        quote: b'\'',
        ..options(CopyFormat::Csv)
    };
    let found = read(&escaped, b"'a\\'b\\\\','c''\n", 3);
    assert_eq!(found, Err("22P04".into()));
    let found = read(&escaped, b"'a\\'b\\\\,\n',c\n", 3);
    assert_eq!(found, Ok(vec![row(&["a'b\\,\n", "c"])]));
}

#[test]
fn inputs_that_are_refused() {
    for (format, input, code) in [
        (CopyFormat::Text, &b"a\nb\r\n"[..], "22P04"),
        (CopyFormat::Text, b"a\r\nb\n", "22P04"),
        (CopyFormat::Text, b"a\rb\n", "22P04"),
        (CopyFormat::Text, b"a\r\nb\rc\r\n", "22P04"),
        (CopyFormat::Text, b"\\.x\n", "22P04"),
        (CopyFormat::Text, b"a\r\n\\.\n", "22P04"),
        (CopyFormat::Text, b"\xff\n", "22021"),
        (CopyFormat::Text, b"\0\n", "22021"),
        (CopyFormat::Text, b"\\xff\n", "22021"),
        (CopyFormat::Text, b"\\000\n", "22021"),
        (CopyFormat::Csv, b"\"a\n", "22P04"),
        (CopyFormat::Csv, b"a\nb\rc\n", "22P04"),
        (CopyFormat::Csv, b"\"\xc3\"\n", "22021"),
    ] {
        for piece in 1..=input.len() {
            let found = read(&options(format), input, piece);
            assert_eq!(found, Err(code.into()), "{input:?} by {piece}");
        }
    }
}

#[test]
fn lines_are_counted_and_bounded() {
    let mut reader = CopyReader::new(options(CopyFormat::Csv));
    reader.push(b"1,\"a\nb\nc\"\n2,b\n3");
    reader.next_row().unwrap();
    assert_eq!(reader.lines(), 3);
    reader.next_row().unwrap();
    assert_eq!((reader.lines(), &*reader.last_line()), (4, "2,b"));
    let mut reader = CopyReader::new(options(CopyFormat::Text));
    let piece = vec![b'x'; LINE_LEN_MAX];
    reader.push(&piece);
    assert_eq!(reader.next_row(), Ok(None));
    reader.push(b"x");
    let SqlError::Statement { sqlstate, .. } = reader.next_row().unwrap_err() else {
        panic!("another error")
    };
    assert_eq!(sqlstate, "54000");
}

fn any_options() -> impl Strategy<Value = CopyOptions> {
    let text = (
        prop::sample::select(vec![b'\t', b'|', b',', 1, b'N']),
        prop::sample::select(vec!["\\N", "\\x"]),
    );
    let text = text.prop_filter_map("the delimiter is in NULL", |(delimiter, null)| {
        let fits = !null.as_bytes().contains(&delimiter);
        fits.then(|| CopyOptions {
            delimiter,
            null: null.into(),
            ..options(CopyFormat::Text)
        })
    });
    let csv = (
        prop::sample::select(vec![b',', b';', b'\t']),
        prop::sample::select(vec!["", "NULL", "\\N"]),
        prop::sample::select(vec![b'"', b'\'']),
        prop::sample::select(vec![b'"', b'\'', b'\\', b'x']),
        any::<bool>(),
    );
    let csv = csv.prop_map(|(delimiter, null, quote, escape, all)| CopyOptions {
        delimiter,
        null: null.into(),
        quote,
        escape,
        force_quote: match all {
            true => CopyColumns::All,
            false => CopyColumns::default(),
        },
        ..options(CopyFormat::Csv)
    });
    prop_oneof![text, csv]
}

fn field() -> impl Strategy<Value = Option<String>> {
    let parts = prop::sample::select(vec![
        "a", "x", "N", "NULL", "\\", "\\.", "\\N", "\"", "'", ",", ";", "|", "\t", "\n", "\r",
        "\r\n", "ä", "😀", "\u{1}", "\u{8}", " ", "7",
    ]);
    let text = prop::collection::vec(parts, 0..6).prop_map(|parts| parts.concat());
    prop_oneof![1 => Just(None), 4 => text.prop_map(Some)]
}

proptest! {
    /// Rows that were written and read are the same, in any pieces.
    #[test]
    fn written_rows_are_read(
        options in any_options(),
        rows in (1_usize..4).prop_flat_map(|columns| {
            prop::collection::vec(prop::collection::vec(field(), columns), 0..5)
        }),
        piece in 1_usize..40,
    ) {
        let columns = rows.first().map_or(1, Vec::len);
        let columns = (0..columns).map(|it| OutputColumn {
            name: format!("c{it}"),
            column_type: None,
        });
        let columns: Vec<OutputColumn> = columns.collect();
        let writer = CopyWriter::new(&options, &columns, placement::TimeZone::UTC);
        let mut written = Vec::new();
        for row in &rows {
            let value = |field: &Option<String>| match field {
                None => Value::Null,
                Some(text) => Value::Text(text.clone()),
            };
            let values: Vec<Value> = row.iter().map(value).collect();
            writer.row(&values, &mut written);
        }
        prop_assert_eq!(read(&options, &written, piece), Ok(rows));
    }

    /// Bytes mean the same in any pieces, and never cause a panic.
    #[test]
    fn random_bytes_in_random_pieces(
        options in any_options(),
        bytes in prop::collection::vec(prop::sample::select(b"a\\.Nx17\"',\t\n\r\xc3\xa4".to_vec()), 0..60),
        piece in 1_usize..20,
    ) {
        let whole = read(&options, &bytes, bytes.len().max(1));
        prop_assert_eq!(read(&options, &bytes, piece), whole);
    }
}
