//! The mark: the message that the proxy writes into the log inside every write transaction, by
//! `pg_logical_emit_message(true, 'hihooi', …)` (R29).
//!
//! Layout, all numbers big-endian: format 1 (1 byte), epoch (8), id (8), number of statements (4);
//! then per statement its search path, its role and its text, each as length (4) and UTF-8.

/// What `pg_logical_emit_message` names our messages.
pub const PREFIX: &str = "hihooi";

const FORMAT: u8 = 1;
/// Statements in one mark, at most.
const STATEMENTS_MAX: u32 = 10_000;

/// Names a transaction within one manager's epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TStateId(pub u64);

/// A statement that leaves no row images, such as DDL: Extensions run it as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// The `search_path` that it ran with.
    pub search_path: String,
    /// The role that ran it, and that owns what it makes.
    pub role: String,
    /// Its text.
    pub text: String,
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The manager's epoch.
    pub epoch: u64,
    /// The transaction.
    pub id: TStateId,
    /// Statements that Extensions run, in order, after the row images before the mark.
    pub statements: Vec<Statement>,
}

/// Why bytes are no mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAMark;

impl std::fmt::Display for NotAMark {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a message under our name in the Primary's log is not ours")
    }
}

impl std::error::Error for NotAMark {}

impl Mark {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![FORMAT];
        bytes.extend(self.epoch.to_be_bytes());
        bytes.extend(self.id.0.to_be_bytes());
        bytes.extend((self.statements.len() as u32).to_be_bytes());
        for statement in &self.statements {
            for part in [&statement.search_path, &statement.role, &statement.text] {
                bytes.extend((part.len() as u32).to_be_bytes());
                bytes.extend(part.as_bytes());
            }
        }
        bytes
    }

    /// The statement that writes it into the current transaction.
    pub fn sql(&self) -> String {
        let bytes = self.encode();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        format!(
            "SELECT pg_catalog.pg_logical_emit_message(true, '{PREFIX}', '\\x{hex}'::pg_catalog.bytea)"
        )
    }

    /// The mark that these bytes are.
    pub fn decode(bytes: &[u8]) -> Result<Mark, NotAMark> {
        let mut input = bytes;
        let [FORMAT] = take(&mut input)? else {
            return Err(NotAMark);
        };
        let epoch = u64::from_be_bytes(take(&mut input)?);
        let id = TStateId(u64::from_be_bytes(take(&mut input)?));
        let count = u32::from_be_bytes(take(&mut input)?);
        if count > STATEMENTS_MAX {
            return Err(NotAMark);
        }
        let mut statements = Vec::new();
        for _ in 0..count {
            statements.push(Statement {
                search_path: text(&mut input)?,
                role: text(&mut input)?,
                text: text(&mut input)?,
            });
        }
        match input {
            [] => Ok(Mark {
                epoch,
                id,
                statements,
            }),
            _ => Err(NotAMark),
        }
    }
}

fn take<const N: usize>(input: &mut &[u8]) -> Result<[u8; N], NotAMark> {
    let (first, rest) = input.split_first_chunk::<N>().ok_or(NotAMark)?;
    *input = rest;
    Ok(*first)
}

fn text(input: &mut &[u8]) -> Result<String, NotAMark> {
    let length = u32::from_be_bytes(take(input)?) as usize;
    let (first, rest) = input.split_at_checked(length).ok_or(NotAMark)?;
    *input = rest;
    String::from_utf8(first.to_vec()).map_err(|_| NotAMark)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn mark_comes_back(epoch: u64, id: u64, texts in prop::collection::vec(".{0,20}", 0..4)) {
            let statements = texts.into_iter().map(|text| Statement {
                search_path: "public".into(),
                role: String::new(),
                text,
            });
            let mark = Mark { epoch, id: TStateId(id), statements: statements.collect() };
            prop_assert_eq!(Mark::decode(&mark.encode()), Ok(mark));
        }

        #[test]
        fn bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = Mark::decode(&bytes);
        }
    }

    #[test]
    fn what_is_cut_or_longer_is_no_mark() {
        let mark = Mark {
            epoch: 1,
            id: TStateId(2),
            statements: Vec::new(),
        };
        let bytes = mark.encode();
        assert_eq!(Mark::decode(&bytes[..bytes.len() - 1]), Err(NotAMark));
        assert_eq!(Mark::decode(&[&bytes[..], &[0]].concat()), Err(NotAMark));
        assert!(mark.sql().contains("'\\x01"));
    }
}
