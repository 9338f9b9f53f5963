//! Decodes the row messages of PostgreSQL's output plugin `pgoutput`, protocol 1, text values.
//!
//! Begin, Commit and Message are decoded by the library that reads the stream. Bytes come from the
//! network, and no bytes cause a panic.

use bytes::{Buf, Bytes};

/// Columns of one table, at most (PostgreSQL's own limit is 1600).
const COLUMNS_MAX: usize = 1700;
/// Tables in one TRUNCATE, at most.
const TRUNCATED_MAX: usize = 100_000;

/// A value of a row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TupleValue {
    /// NULL.
    Null,
    /// A large value that did not change and was not sent.
    Unchanged,
    /// The value, as the string that the type's output function writes.
    Text(Bytes),
}

/// The values of a row, in the order of the relation's columns.
pub type Tuple = Vec<TupleValue>;

/// The description of a table, valid from here on in the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelationMessage {
    /// The relation's OID on the primary.
    pub oid: u32,
    /// The relation's schema; empty for `pg_catalog`.
    pub schema: String,
    /// The relation's name.
    pub name: String,
    /// The relation's replica identity: `d`, `n`, `f` or `i`.
    pub identity: u8,
    /// The relation's columns, in the order of the values in its rows.
    pub columns: Vec<RelationColumn>,
}

/// A column of a described table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelationColumn {
    /// Whether the column is part of the replica identity.
    pub in_key: bool,
    /// The column's name.
    pub name: String,
    /// The OID of the column's type on the primary.
    pub type_oid: u32,
}

/// The values that identify a row before a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OldTuple {
    /// The columns of the replica identity; the others are NULL.
    Key(Tuple),
    /// The whole row.
    Row(Tuple),
}

/// A message of the plugin `pgoutput`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PgoutputMessage {
    /// The description of a table.
    Relation(RelationMessage),
    /// A row was inserted.
    Insert { relation: u32, new: Tuple },
    /// A row was updated. `old` is set if its identity changed, or is the whole row.
    Update {
        relation: u32,
        old: Option<OldTuple>,
        new: Tuple,
    },
    /// A row was deleted.
    Delete { relation: u32, old: OldTuple },
    /// Tables were truncated.
    Truncate {
        relations: Vec<u32>,
        restart_identity: bool,
    },
    /// A message that is not needed, such as a type or an origin.
    Other,
}

/// The bytes are not a valid message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MalformedPgoutput;

/// Decodes one message.
pub fn decode(mut bytes: Bytes) -> Result<PgoutputMessage, MalformedPgoutput> {
    let input = &mut bytes;
    let message = match byte(input)? {
        b'R' => PgoutputMessage::Relation(relation(input)?),
        b'I' => {
            let relation = number(input)?;
            expect(input, b'N')?;
            let new = tuple(input)?;
            PgoutputMessage::Insert { relation, new }
        }
        b'U' => update(input)?,
        b'D' => PgoutputMessage::Delete {
            relation: number(input)?,
            old: match byte(input)? {
                b'K' => OldTuple::Key(tuple(input)?),
                b'O' => OldTuple::Row(tuple(input)?),
                _ => return Err(MalformedPgoutput),
            },
        },
        b'T' => {
            let count = number(input)? as usize;
            let options = byte(input)?;
            if count > TRUNCATED_MAX {
                return Err(MalformedPgoutput);
            }
            let relations = (0..count)
                .map(|_| number(input))
                .collect::<Result<_, _>>()?;
            PgoutputMessage::Truncate {
                relations,
                restart_identity: options & 2 != 0,
            }
        }
        b'Y' | b'O' => return Ok(PgoutputMessage::Other),
        _ => return Err(MalformedPgoutput),
    };
    match input.is_empty() {
        true => Ok(message),
        false => Err(MalformedPgoutput),
    }
}

fn update(input: &mut Bytes) -> Result<PgoutputMessage, MalformedPgoutput> {
    let relation = number(input)?;
    let old = match byte(input)? {
        b'N' => None,
        kind => {
            let values = tuple(input)?;
            expect(input, b'N')?;
            Some(match kind {
                b'K' => OldTuple::Key(values),
                b'O' => OldTuple::Row(values),
                _ => return Err(MalformedPgoutput),
            })
        }
    };
    let new = tuple(input)?;
    Ok(PgoutputMessage::Update { relation, old, new })
}

fn relation(input: &mut Bytes) -> Result<RelationMessage, MalformedPgoutput> {
    let oid = number(input)?;
    let schema = text(input)?;
    let name = text(input)?;
    let identity = byte(input)?;
    let count = column_count(input)?;
    let mut columns = Vec::with_capacity(count);
    for _ in 0..count {
        let in_key = byte(input)? & 1 != 0;
        let name = text(input)?;
        let type_oid = number(input)?;
        let _modifier = number(input)?;
        columns.push(RelationColumn {
            in_key,
            name,
            type_oid,
        });
    }
    Ok(RelationMessage {
        oid,
        schema,
        name,
        identity,
        columns,
    })
}

fn tuple(input: &mut Bytes) -> Result<Tuple, MalformedPgoutput> {
    let count = column_count(input)?;
    let value = |_| match byte(input)? {
        b'n' => Ok(TupleValue::Null),
        b'u' => Ok(TupleValue::Unchanged),
        b't' => {
            let length = number(input)? as usize;
            if length > input.len() {
                return Err(MalformedPgoutput);
            }
            Ok(TupleValue::Text(input.split_to(length)))
        }
        _ => Err(MalformedPgoutput),
    };
    (0..count).map(value).collect()
}

fn column_count(input: &mut Bytes) -> Result<usize, MalformedPgoutput> {
    let count = usize::from(input.try_get_u16().map_err(|_| MalformedPgoutput)?);
    if count > COLUMNS_MAX {
        return Err(MalformedPgoutput);
    }
    Ok(count)
}

fn byte(input: &mut Bytes) -> Result<u8, MalformedPgoutput> {
    input.try_get_u8().map_err(|_| MalformedPgoutput)
}

fn expect(input: &mut Bytes, tag: u8) -> Result<(), MalformedPgoutput> {
    match byte(input)? == tag {
        true => Ok(()),
        false => Err(MalformedPgoutput),
    }
}

fn number(input: &mut Bytes) -> Result<u32, MalformedPgoutput> {
    input.try_get_u32().map_err(|_| MalformedPgoutput)
}

fn text(input: &mut Bytes) -> Result<String, MalformedPgoutput> {
    let end = input
        .iter()
        .position(|byte| *byte == 0)
        .ok_or(MalformedPgoutput)?;
    let text = input.split_to(end);
    input.advance(1);
    String::from_utf8(text.to_vec()).map_err(|_| MalformedPgoutput)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn update_with_old_key_is_read() {
        let bytes = b"U\0\0\0\x07K\0\x01t\0\0\0\x011N\0\x02t\0\0\0\x012u";
        let text = |text: &'static str| TupleValue::Text(Bytes::from_static(text.as_bytes()));
        let expected = PgoutputMessage::Update {
            relation: 7,
            old: Some(OldTuple::Key(vec![text("1")])),
            new: vec![text("2"), TupleValue::Unchanged],
        };
        assert_eq!(decode(Bytes::from_static(bytes)), Ok(expected));
    }

    #[test]
    fn truncated_and_longer_messages_are_malformed() {
        let whole = b"I\0\0\0\x07N\0\x01t\0\0\0\x011";
        assert!(decode(Bytes::from_static(whole)).is_ok());
        for end in 0..whole.len() {
            assert_eq!(
                decode(Bytes::from_static(&whole[..end])),
                Err(MalformedPgoutput)
            );
        }
        let longer = [&whole[..], b"x"].concat();
        assert_eq!(decode(Bytes::from(longer)), Err(MalformedPgoutput));
    }

    proptest! {
        #[test]
        fn bytes_never_panic(
            tag in prop::sample::select(b"RIUDTYO".to_vec()),
            rest in prop::collection::vec(prop_oneof![Just(0_u8), Just(b'N'), Just(b't'), any::<u8>()], 0..64),
        ) {
            let _ = decode(Bytes::from([&[tag], &rest[..]].concat()));
        }
    }
}
