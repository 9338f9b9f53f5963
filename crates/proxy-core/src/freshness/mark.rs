//! The messages that the proxy writes into the WAL with `pg_logical_emit_message(true, …)`. A mark
//! follows a transaction that may have written, in a transaction of its own on the same connection
//! (R29). An announcement of a statement without row images (DDL) is written directly before the
//! statement, in the same transaction.
//!
//! Any client may write such messages. So each message of the proxy ends with a signature that only
//! the owner of the key can compute: HMAC-SHA-256 of the prefix and of the preceding bytes.
//! Messages without a valid signature are ignored.
//!
//! Layouts, all numbers big-endian. Mark: epoch (8 bytes), id (8), code (32). Statement: search
//! path, role and text, each as length (4) and UTF-8; code (32).

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use ring::hmac;

const MARK_PREFIX: &str = "hihooi";
const STATEMENT_PREFIX: &str = "hihooi.statement";
const CODE_LENGTH: usize = 32;

/// The key that signs the proxy's messages in the WAL. The primary stores it where only superusers
/// can read it.
#[derive(Clone)]
pub struct MarkKey(hmac::Key);

impl MarkKey {
    /// Returns the key with these secret bytes.
    pub fn new(secret: &[u8]) -> MarkKey {
        MarkKey(hmac::Key::new(hmac::HMAC_SHA256, secret))
    }

    fn code(&self, prefix: &str, bytes: &[u8]) -> hmac::Tag {
        hmac::sign(&self.0, &[prefix.as_bytes(), &[0], bytes].concat())
    }

    /// Returns the bytes before the code, if the code is right.
    fn checked<'b>(&self, prefix: &str, bytes: &'b [u8]) -> Option<&'b [u8]> {
        let (bytes, code) = bytes.split_at_checked(bytes.len().checked_sub(CODE_LENGTH)?)?;
        let signed = [prefix.as_bytes(), &[0], bytes].concat();
        hmac::verify(&self.0, &signed, code).ok()?;
        Some(bytes)
    }
}

impl core::fmt::Debug for MarkKey {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter.write_str("MarkKey")
    }
}

/// A transaction's number within one epoch of the manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TStateId(pub u64);

/// The mark of a transaction in the WAL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The manager's epoch.
    pub epoch: u64,
    /// The transaction.
    pub id: TStateId,
}

/// A statement that leaves no row images, such as DDL. Replicas run it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnnouncedStatement {
    /// The value of `search_path` with which it ran.
    pub search_path: String,
    /// The role that ran the statement and owns its objects. Replicas run the statement as this
    /// role.
    pub role: String,
    /// The statement's query string.
    pub text: String,
}

/// A message of the proxy in the WAL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MarkMessage {
    /// A mark.
    Mark(Mark),
    /// A statement.
    Statement(AnnouncedStatement),
}

impl Mark {
    /// Returns the statement that writes the mark into the WAL. It runs after the marked
    /// transaction, on the same connection.
    pub fn sql(&self, key: &MarkKey) -> String {
        let mut bytes = Vec::new();
        bytes.extend(self.epoch.to_be_bytes());
        bytes.extend(self.id.0.to_be_bytes());
        emit(MARK_PREFIX, bytes, key)
    }
}

impl AnnouncedStatement {
    /// Returns the statement that writes the announcement into the current transaction, directly
    /// before the announced statement.
    pub fn sql(&self, key: &MarkKey) -> String {
        let mut bytes = Vec::new();
        for part in [&self.search_path, &self.role, &self.text] {
            bytes.extend((part.len() as u32).to_be_bytes());
            bytes.extend(part.as_bytes());
        }
        emit(STATEMENT_PREFIX, bytes, key)
    }
}

impl MarkMessage {
    /// Returns the message in these bytes with this prefix; none if the proxy has not signed it.
    pub fn decode(prefix: &str, bytes: &[u8], key: &MarkKey) -> Option<MarkMessage> {
        if ![MARK_PREFIX, STATEMENT_PREFIX].contains(&prefix) {
            return None;
        }
        let mut input = key.checked(prefix, bytes)?;
        let message = match prefix {
            MARK_PREFIX => {
                let epoch = u64::from_be_bytes(take(&mut input)?);
                let id = TStateId(u64::from_be_bytes(take(&mut input)?));
                MarkMessage::Mark(Mark { epoch, id })
            }
            _ => MarkMessage::Statement(AnnouncedStatement {
                search_path: text(&mut input)?,
                role: text(&mut input)?,
                text: text(&mut input)?,
            }),
        };
        input.is_empty().then_some(message)
    }
}

fn emit(prefix: &str, mut bytes: Vec<u8>, key: &MarkKey) -> String {
    let code = key.code(prefix, &bytes);
    bytes.extend(code.as_ref());
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    // The literal means the same under either `standard_conforming_strings`.
    format!(
        "SELECT pg_catalog.pg_logical_emit_message(true, '{prefix}', E'\\\\x{hex}'::pg_catalog.bytea)"
    )
}

fn take<const N: usize>(input: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = input.split_first_chunk::<N>()?;
    *input = rest;
    Some(*first)
}

fn text(input: &mut &[u8]) -> Option<String> {
    let length = u32::from_be_bytes(take(input)?) as usize;
    let (first, rest) = input.split_at_checked(length)?;
    *input = rest;
    String::from_utf8(first.to_vec()).ok()
}

/// Returns the prefix and the bytes of the message that a statement emits.
///
/// # Panics
/// It is none.
#[cfg(any(test, feature = "testing"))]
pub fn emitted(sql: &str) -> (String, Vec<u8>) {
    let parts: Vec<&str> = sql.split('\'').collect();
    let hex = parts[3].strip_prefix("\\\\x").expect("it is hexadecimal");
    let pairs = hex.as_bytes().chunks(2);
    let byte = |pair: &[u8]| {
        let pair = core::str::from_utf8(pair).expect("it is ASCII");
        u8::from_str_radix(pair, 16).expect("it is hexadecimal")
    };
    (String::from(parts[1]), pairs.map(byte).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn messages_come_back(epoch: u64, id: u64, text in ".{0,20}") {
            let key = MarkKey::new(b"secret");
            let mark = Mark { epoch, id: TStateId(id) };
            let (prefix, bytes) = emitted(&mark.sql(&key));
            let decoded = MarkMessage::decode(&prefix, &bytes, &key);
            prop_assert_eq!(decoded, Some(MarkMessage::Mark(mark)));
            let statement = AnnouncedStatement {
                search_path: "public".into(),
                role: String::new(),
                text,
            };
            let (prefix, bytes) = emitted(&statement.sql(&key));
            let decoded = MarkMessage::decode(&prefix, &bytes, &key);
            prop_assert_eq!(decoded, Some(MarkMessage::Statement(statement)));
        }

        #[test]
        fn bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let key = MarkKey::new(b"secret");
            prop_assert_eq!(MarkMessage::decode(MARK_PREFIX, &bytes, &key), None);
            let code = key.code(STATEMENT_PREFIX, &bytes);
            let signed = [&bytes[..], code.as_ref()].concat();
            let _ = MarkMessage::decode(STATEMENT_PREFIX, &signed, &key);
        }
    }

    #[test]
    fn messages_of_others_are_not_ours() {
        let (key, other) = (MarkKey::new(b"secret"), MarkKey::new(b"guessed"));
        let mark = Mark {
            epoch: 1,
            id: TStateId(2),
        };
        let (prefix, bytes) = emitted(&mark.sql(&other));
        assert_eq!(MarkMessage::decode(&prefix, &bytes, &key), None);
        let (prefix, mut bytes) = emitted(&mark.sql(&key));
        assert_eq!(MarkMessage::decode(STATEMENT_PREFIX, &bytes, &key), None);
        bytes[7] ^= 1;
        assert_eq!(MarkMessage::decode(&prefix, &bytes, &key), None);
        assert_eq!(MarkMessage::decode(&prefix, &[], &key), None);
    }
}
