//! The messages that the proxy writes into the log inside a write transaction, by
//! `pg_logical_emit_message(true, …)` (R29): the mark at its end, and each statement that leaves no row
//! images (DDL) right before it runs.
//!
//! Layouts, all numbers big-endian. Mark: format 1 (1 byte), epoch (8), id (8). Statement: format 1
//! (1), then search path, role and text, each as length (4) and UTF-8.

const MARK_PREFIX: &str = "hihooi";
const STATEMENT_PREFIX: &str = "hihooi.statement";
const FORMAT: u8 = 1;

/// Names a transaction within one manager's epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TStateId(pub u64);

/// What says in the log which transaction of ours this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The manager's epoch.
    pub epoch: u64,
    /// The transaction.
    pub id: TStateId,
}

/// A statement that leaves no row images, such as DDL: Extensions run it as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// The `search_path` that it ran with, as the setting's text.
    pub search_path: String,
    /// The role that ran it, and that owns what it makes.
    pub role: String,
    /// Its text.
    pub text: String,
}

/// A message of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// The mark.
    Mark(Mark),
    /// A statement.
    Statement(Statement),
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
    /// The statement that writes it into the current transaction, right before COMMIT.
    pub fn sql(&self) -> String {
        emit(MARK_PREFIX, &self.encode())
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![FORMAT];
        bytes.extend(self.epoch.to_be_bytes());
        bytes.extend(self.id.0.to_be_bytes());
        bytes
    }
}

impl Statement {
    /// The statement that writes it into the current transaction, right before it runs there.
    pub fn sql(&self) -> String {
        emit(STATEMENT_PREFIX, &self.encode())
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![FORMAT];
        for part in [&self.search_path, &self.role, &self.text] {
            bytes.extend((part.len() as u32).to_be_bytes());
            bytes.extend(part.as_bytes());
        }
        bytes
    }
}

impl Message {
    /// The message with these bytes under this prefix; none if the prefix is not ours.
    pub fn decode(prefix: &str, bytes: &[u8]) -> Result<Option<Message>, NotAMark> {
        let mut input = bytes;
        let message = match prefix {
            MARK_PREFIX => {
                format(&mut input)?;
                let epoch = u64::from_be_bytes(take(&mut input)?);
                let id = TStateId(u64::from_be_bytes(take(&mut input)?));
                Message::Mark(Mark { epoch, id })
            }
            STATEMENT_PREFIX => {
                format(&mut input)?;
                Message::Statement(Statement {
                    search_path: text(&mut input)?,
                    role: text(&mut input)?,
                    text: text(&mut input)?,
                })
            }
            _ => return Ok(None),
        };
        match input {
            [] => Ok(Some(message)),
            _ => Err(NotAMark),
        }
    }
}

fn emit(prefix: &str, bytes: &[u8]) -> String {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!(
        "SELECT pg_catalog.pg_logical_emit_message(true, '{prefix}', '\\x{hex}'::pg_catalog.bytea)"
    )
}

fn format(input: &mut &[u8]) -> Result<(), NotAMark> {
    match take(input)? {
        [FORMAT] => Ok(()),
        _ => Err(NotAMark),
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
        fn messages_come_back(epoch: u64, id: u64, text in ".{0,20}") {
            let mark = Mark { epoch, id: TStateId(id) };
            let decoded = Message::decode(MARK_PREFIX, &mark.encode());
            prop_assert_eq!(decoded, Ok(Some(Message::Mark(mark))));
            let statement = Statement {
                search_path: "public".into(),
                role: String::new(),
                text,
            };
            let decoded = Message::decode(STATEMENT_PREFIX, &statement.encode());
            prop_assert_eq!(decoded, Ok(Some(Message::Statement(statement))));
        }

        #[test]
        fn bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = Message::decode(MARK_PREFIX, &bytes);
            let _ = Message::decode(STATEMENT_PREFIX, &bytes);
        }
    }

    #[test]
    fn what_is_cut_longer_or_not_ours_is_no_mark() {
        let mark = Mark {
            epoch: 1,
            id: TStateId(2),
        };
        let bytes = mark.encode();
        let cut = &bytes[..bytes.len() - 1];
        assert_eq!(Message::decode(MARK_PREFIX, cut), Err(NotAMark));
        let longer = [&bytes[..], &[0]].concat();
        assert_eq!(Message::decode(MARK_PREFIX, &longer), Err(NotAMark));
        assert_eq!(Message::decode("other", &bytes), Ok(None));
        assert!(mark.sql().contains("'\\x01"));
    }
}
