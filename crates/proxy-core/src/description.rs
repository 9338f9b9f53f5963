//! A client's description of a prepared statement: the types of its parameters and columns.
//!
//! PostgreSQL fixes both when a statement is prepared. Later it reads parameters with these types,
//! even if the type of a column has changed. It refuses to run the statement if the types of the
//! result's columns have changed. A client relies on this: it reads and writes values with the
//! types that it received first.

use alloc::vec::Vec;

use bytes::{BufMut, BytesMut};
use ring::digest::{Context, SHA256};

use pg_wire::message;

/// Bytes of a column's description between its name and its type.
const BEFORE_TYPE_LEN: usize = 6;
/// Bytes of a type's number, its length, its modifier, and the format.
const TYPE_LEN: usize = 12;

/// The words by which a statement begins whose columns PostgreSQL compares before it runs it again:
/// those of all others are what they are when it runs.
const PLANNED: &[&[u8]] = &[
    b"select", b"with", b"values", b"table", b"insert", b"update", b"delete", b"merge",
];

/// Names columns: a hash of their names, types and modifiers.
type ColumnsId = [u8; 16];

/// The types of a statement's parameters and columns.
#[derive(Debug, PartialEq, Eq)]
pub struct Description {
    /// The OIDs of the parameters' types.
    pub parameters: Vec<u32>,
    columns: ColumnsId,
}

impl Description {
    /// Returns the description in the bodies of ParameterDescription and RowDescription. The latter
    /// is empty for a statement without rows.
    ///
    /// As in PostgreSQL, the tables of the columns do not count: they have other numbers at each
    /// server.
    pub fn read(parameters: &[u8], columns: &[u8]) -> Description {
        let parameters = parameters.get(2..).unwrap_or_default();
        let parameters = parameters.as_chunks::<4>().0.iter();
        let mut hash = Context::new(&SHA256);
        hash.update(columns.get(..2).unwrap_or_default());
        let mut rest = columns.get(2..).unwrap_or_default();
        while let Ok((name, column)) = message::split_string(rest) {
            let Some((column, after)) = column.split_at_checked(BEFORE_TYPE_LEN + TYPE_LEN) else {
                break;
            };
            hash.update(name);
            // The format is the portal's.
            hash.update(&[0]);
            hash.update(&column[BEFORE_TYPE_LEN..BEFORE_TYPE_LEN + TYPE_LEN - 2]);
            rest = after;
        }
        let hash = hash.finish();
        Description {
            parameters: parameters.map(|oid| u32::from_be_bytes(*oid)).collect(),
            columns: *hash.as_ref().first_chunk().expect("SHA-256 has 32 bytes"),
        }
    }

    /// Writes the message ParameterDescription, as a server does.
    pub fn write_parameters(&self, out: &mut BytesMut) {
        let count = u16::try_from(self.parameters.len()).expect("a server has counted them");
        let mut body = BytesMut::new();
        body.put_u16(count);
        for oid in &self.parameters {
            body.put_u32(*oid);
        }
        message::write(out, b't', &[&body], 0);
    }

    /// Returns whether the columns of both descriptions are equal.
    pub fn has_columns_of(&self, other: &Description) -> bool {
        self.columns == other.columns
    }
}

/// Returns whether PostgreSQL compares the result columns of this statement with its description
/// before each execution.
pub fn is_planned(text: &[u8]) -> bool {
    let mut rest = text;
    loop {
        rest = rest.trim_ascii_start();
        if let Some(comment) = rest.strip_prefix(b"--") {
            let end = comment
                .iter()
                .position(|byte| matches!(byte, b'\n' | b'\r'));
            rest = end.map_or(&[][..], |end| &comment[end..]);
        } else if rest.starts_with(b"/*") {
            rest = behind_comment(rest);
        } else if let Some(inner) = rest.strip_prefix(b"(") {
            rest = inner;
        } else {
            break;
        }
    }
    let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let end = rest.iter().position(|byte| !is_letter(byte));
    let word = &rest[..end.unwrap_or(rest.len())];
    PLANNED.iter().any(|it| word.eq_ignore_ascii_case(it))
}

/// Returns the text after a comment at its start, which may contain other comments.
fn behind_comment(text: &[u8]) -> &[u8] {
    let (mut depth, mut at) = (0, 0);
    while let Some(pair) = text.get(at..at + 2) {
        match pair {
            b"/*" => depth += 1,
            b"*/" => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            break;
        }
    }
    match depth {
        0 => &text[at..],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    fn columns(columns: &[(&str, u32, u32, i32)]) -> BytesMut {
        let mut body = BytesMut::new();
        body.put_u16(u16::try_from(columns.len()).unwrap());
        for (name, table, type_oid, modifier) in columns {
            body.put_slice(name.as_bytes());
            body.put_u8(0);
            body.put_u32(*table);
            body.put_u16(1);
            body.put_u32(*type_oid);
            body.put_u16(4);
            body.put_i32(*modifier);
            body.put_u16(0);
        }
        body
    }

    #[test]
    fn columns_differ_by_what_a_client_relies_on() {
        let described = |body: &[u8]| Description::read(b"\0\x01\0\0\0\x17", body);
        let known = described(&columns(&[("a", 20_000, 23, -1), ("b", 20_000, 1043, 14)]));
        assert_eq!(known.parameters, [23]);
        for (other, is_same) in [
            (vec![("a", 7, 23, -1), ("b", 8, 1043, 14)], true),
            (vec![("a", 7, 20, -1), ("b", 8, 1043, 14)], false),
            (vec![("a", 7, 23, -1), ("b", 8, 1043, 15)], false),
            (vec![("a", 7, 23, -1), ("c", 8, 1043, 14)], false),
            (vec![("a", 7, 23, -1)], false),
            (vec![], false),
        ] {
            let body = columns(&other);
            assert_eq!(
                known.has_columns_of(&described(&body)),
                is_same,
                "{other:?}"
            );
        }
        let none = described(&[]);
        assert!(none.has_columns_of(&described(&[])));
        assert!(!none.has_columns_of(&described(&columns(&[]))));
    }

    #[test]
    fn anything_is_read() {
        let body = columns(&[("a", 20_000, 23, -1)]);
        for length in 0..body.len() {
            let _ = Description::read(&body[..length], &body[..length]);
        }
    }

    #[test]
    fn statements_with_plans() {
        for text in [
            "SELECT 1",
            " (select 1) union all select 2",
            "/* a /* b */ */ -- c\n with a as (select 1) table a",
            "INSERT INTO t VALUES (1)",
            "((values(1)))",
        ] {
            assert!(is_planned(text.as_bytes()), "{text}");
        }
        for text in [
            "",
            "FETCH 1 FROM c",
            "EXECUTE a",
            "selects",
            "/* select",
            "-- select",
            "/*/ select 1",
        ] {
            assert!(!is_planned(text.as_bytes()), "{text}");
        }
    }
}
