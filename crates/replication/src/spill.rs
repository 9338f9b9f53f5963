//! Stores the changes of a long transaction in an unnamed file instead of in memory. They are the
//! statements that replicas execute, in order.
//!
//! A statement is stored as a byte for whether it must find exactly one row, its length in four
//! bytes, and its text. Rows that are changed together are stored as another byte, the length of
//! all that follows, and their texts, each after its length. Each replica reads at its own pace.
//! The system removes the file after the last reader has closed it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use tokio::task::spawn_blocking;

use super::apply::{self, ApplyPart, ApplyStatement, RowBatch};
use super::change::CommitChange;

/// The number of bytes before the content of a part.
const HEAD_LENGTH: usize = 5;
/// The number of bytes of a length.
const LENGTH_LENGTH: usize = 4;
/// The first byte of a statement, of a statement that must find one row, and of rows.
const STATEMENT: u8 = 0;
const ONE_ROW: u8 = 1;
const ROWS: u8 = 2;
/// Bytes that are read at once, unless one statement is longer.
const PIECE_LENGTH: u64 = 1 << 20;

/// A temporary file with the changes of one commit.
#[derive(Clone, Debug)]
pub struct SpillFile {
    file: Arc<File>,
    length: u64,
    failure: Option<String>,
}

impl SpillFile {
    /// Creates an empty file in the folder for temporary files.
    pub fn new() -> io::Result<SpillFile> {
        Ok(SpillFile {
            file: Arc::new(tempfile::tempfile()?),
            length: 0,
            failure: None,
        })
    }

    /// Appends the statements for these changes. If this fails, the earlier contents remain.
    pub async fn add(&mut self, changes: &[CommitChange]) -> io::Result<()> {
        if self.failure.is_some() {
            return Ok(());
        }
        let mut bytes = Vec::new();
        match apply::parts(changes) {
            Ok(parts) => parts.iter().try_for_each(|part| encode(part, &mut bytes))?,
            Err(error) => self.failure = Some(error.to_string()),
        }
        self.append(bytes).await
    }

    /// Appends bytes of another such file.
    pub async fn append(&mut self, bytes: Vec<u8>) -> io::Result<()> {
        let (file, at, length) = (Arc::clone(&self.file), self.length, bytes.len() as u64);
        spawn_blocking(move || file.write_all_at(&bytes, at))
            .await
            .map_err(io::Error::other)??;
        self.length += length;
        Ok(())
    }

    /// Records that no replica can execute the later changes, for this reason.
    pub fn fail(&mut self, failure: Option<String>) {
        self.failure = failure;
    }

    /// Returns the length of the file in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Returns bytes from a position on; fewer at the end.
    pub async fn bytes(&self, at: u64, length_max: u64) -> io::Result<Vec<u8>> {
        let length = length_max.min(self.length.saturating_sub(at));
        let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        let file = Arc::clone(&self.file);
        let read = move || file.read_exact_at(&mut bytes, at).map(|()| bytes);
        spawn_blocking(read).await.map_err(io::Error::other)?
    }

    /// Returns the reason why no replica can execute the changes after these; none if they can.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Returns a reader from the start.
    pub fn read(&self) -> SpillCursor {
        SpillCursor {
            spill: self.clone(),
            at: 0,
        }
    }
}

/// The position of one reader.
pub struct SpillCursor {
    spill: SpillFile,
    at: u64,
}

impl SpillCursor {
    /// Returns the next parts; empty at the end.
    pub async fn next(&mut self) -> io::Result<Vec<ApplyPart>> {
        let (mut parts, used) = self.piece(PIECE_LENGTH).await?;
        self.at += used;
        if parts.is_empty() && self.at < self.spill.length {
            // A statement that is longer than a piece.
            let head = self.bytes(HEAD_LENGTH as u64).await?;
            let length = head.get(1..HEAD_LENGTH).and_then(<[u8]>::first_chunk);
            let length = u32::from_le_bytes(*length.ok_or_else(cut_off)?);
            let (one, used) = self.piece(HEAD_LENGTH as u64 + u64::from(length)).await?;
            if one.is_empty() {
                return Err(cut_off());
            }
            self.at += used;
            parts = one;
        }
        Ok(parts)
    }

    /// Returns the parts that end within the first `length_max` bytes, and the number of bytes that
    /// these parts take.
    async fn piece(&self, length_max: u64) -> io::Result<(Vec<ApplyPart>, u64)> {
        let bytes = self.bytes(length_max).await?;
        let mut rest = &bytes[..];
        let mut parts = Vec::new();
        while let Some((part, after)) = decode(rest)? {
            parts.push(part);
            rest = after;
        }
        Ok((parts, (bytes.len() - rest.len()) as u64))
    }

    async fn bytes(&self, length_max: u64) -> io::Result<Vec<u8>> {
        self.spill.bytes(self.at, length_max).await
    }
}

fn cut_off() -> io::Error {
    io::Error::other("a file of a long transaction is damaged")
}

/// Appends a part.
pub(super) fn encode(part: &ApplyPart, bytes: &mut Vec<u8>) -> io::Result<()> {
    match part {
        ApplyPart::One(step) => {
            bytes.push(match step.row_count {
                Some(_) => ONE_ROW,
                None => STATEMENT,
            });
            encode_text(&step.sql, bytes)
        }
        ApplyPart::Rows(RowBatch { head, rows, tail }) => {
            bytes.push(ROWS);
            let texts = || [head, tail].into_iter().chain(rows);
            let length: usize = texts().map(|text| LENGTH_LENGTH + text.len()).sum();
            encode_length(length, bytes)?;
            texts().try_for_each(|text| encode_text(text, bytes))
        }
    }
}

/// Appends a text after its length.
pub(super) fn encode_text(text: &str, bytes: &mut Vec<u8>) -> io::Result<()> {
    encode_length(text.len(), bytes)?;
    bytes.extend_from_slice(text.as_bytes());
    Ok(())
}

pub(super) fn encode_length(length: usize, bytes: &mut Vec<u8>) -> io::Result<()> {
    let length = u32::try_from(length).map_err(io::Error::other)?;
    bytes.extend_from_slice(&length.to_le_bytes());
    Ok(())
}

/// Returns all parts in these bytes.
pub(super) fn decode_all(mut bytes: &[u8]) -> io::Result<Vec<ApplyPart>> {
    let mut parts = Vec::new();
    while !bytes.is_empty() {
        let (part, rest) = decode(bytes)?.ok_or_else(cut_off)?;
        parts.push(part);
        bytes = rest;
    }
    Ok(parts)
}

/// Returns the first part of `bytes`, and the bytes after the part; none if `bytes` does not
/// contain the whole part.
fn decode(bytes: &[u8]) -> io::Result<Option<(ApplyPart, &[u8])>> {
    let Some((kind, bytes)) = bytes.split_first() else {
        return Ok(None);
    };
    let Some((body, rest)) = decode_bytes(bytes) else {
        return Ok(None);
    };
    let part = match *kind {
        STATEMENT | ONE_ROW => ApplyPart::One(ApplyStatement {
            sql: utf8(body)?,
            row_count: (*kind == ONE_ROW).then_some(1),
        }),
        ROWS => ApplyPart::Rows(decode_rows(body)?),
        _ => return Err(cut_off()),
    };
    Ok(Some((part, rest)))
}

fn decode_rows(body: &[u8]) -> io::Result<RowBatch> {
    let (head, rest) = decode_bytes(body).ok_or_else(cut_off)?;
    let (tail, mut rest) = decode_bytes(rest).ok_or_else(cut_off)?;
    let mut rows = Vec::new();
    while !rest.is_empty() {
        let (row, after) = decode_bytes(rest).ok_or_else(cut_off)?;
        rows.push(utf8(row)?);
        rest = after;
    }
    Ok(RowBatch {
        head: utf8(head)?,
        rows,
        tail: utf8(tail)?,
    })
}

/// Reads a length, and returns the bytes of this length that follow it, and the rest; none if
/// `bytes` is too short.
fn decode_bytes(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<LENGTH_LENGTH>()?;
    rest.split_at_checked(u32::from_le_bytes(*length) as usize)
}

fn utf8(bytes: &[u8]) -> io::Result<String> {
    let text = str::from_utf8(bytes).map_err(|_| cut_off())?;
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tstate::statement;

    async fn all(spill: &SpillFile) -> Vec<ApplyPart> {
        let mut reading = spill.read();
        let mut parts = Vec::new();
        loop {
            let next = reading.next().await.unwrap();
            if next.is_empty() {
                return parts;
            }
            parts.extend(next);
        }
    }

    /// Everything comes back in order, also a statement that is longer than a piece.
    #[tokio::test]
    async fn appended_changes_are_read() {
        let mut spill = SpillFile::new().unwrap();
        assert_eq!(all(&spill).await, []);
        let long = "x".repeat(3 * PIECE_LENGTH as usize);
        let mut expected = Vec::new();
        for text in ["", "SELECT 1", &long, "SELECT 2", &long] {
            let changes = [statement(text), statement("SELECT 3")];
            spill.add(&changes).await.unwrap();
            expected.extend(apply::parts(&changes).unwrap());
            assert_eq!(all(&spill).await, expected);
        }
    }
}
