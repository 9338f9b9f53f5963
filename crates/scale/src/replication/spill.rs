//! What a long transaction did, in a file without a name instead of in memory: as the statements by which
//! Extensions do it, one after the other.
//!
//! A statement stands there as a byte that says whether it must find exactly one row, its length in four
//! bytes, and its text. Each Extension reads at its own pace; the file is gone with the last of them.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use tokio::task::spawn_blocking;

use super::apply::{self, Step};
use super::tstate::Change;

/// Bytes that stand in front of a statement's text.
const HEAD_LENGTH: usize = 5;
/// Bytes that are read at once, unless one statement is longer.
const PIECE_LENGTH: u64 = 1 << 20;

/// A file that grows, or that everything is in.
#[derive(Clone, Debug)]
pub struct Spill {
    file: Arc<File>,
    length: u64,
    failure: Option<String>,
}

impl Spill {
    /// An empty one, where temporary files are.
    pub fn new() -> io::Result<Spill> {
        Ok(Spill {
            file: Arc::new(tempfile::tempfile()?),
            length: 0,
            failure: None,
        })
    }

    /// Appends what these changes do. After an error what was there is there still.
    pub async fn add(&mut self, changes: &[Change]) -> io::Result<()> {
        if self.failure.is_some() {
            return Ok(());
        }
        let mut bytes = Vec::new();
        match apply::steps(changes) {
            Ok(steps) => steps.iter().try_for_each(|step| encode(step, &mut bytes))?,
            Err(error) => self.failure = Some(error.to_string()),
        }
        let (file, at) = (Arc::clone(&self.file), self.length);
        let length = bytes.len() as u64;
        spawn_blocking(move || file.write_all_at(&bytes, at))
            .await
            .map_err(io::Error::other)??;
        self.length += length;
        Ok(())
    }

    /// Why what follows the statements that are here cannot be done by any Extension, if so.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Reads it from the start.
    pub fn read(&self) -> Reading {
        Reading {
            spill: self.clone(),
            at: 0,
        }
    }
}

/// How far somebody has read.
pub struct Reading {
    spill: Spill,
    at: u64,
}

impl Reading {
    /// The next statements; none at the end.
    pub async fn next(&mut self) -> io::Result<Vec<Step>> {
        let (mut steps, used) = self.piece(PIECE_LENGTH).await?;
        self.at += used;
        if steps.is_empty() && self.at < self.spill.length {
            // One that is longer than a piece.
            let head = self.bytes(HEAD_LENGTH as u64).await?;
            let length = head.get(1..HEAD_LENGTH).and_then(<[u8]>::first_chunk);
            let length = u32::from_le_bytes(*length.ok_or_else(cut_off)?);
            let (one, used) = self.piece(HEAD_LENGTH as u64 + u64::from(length)).await?;
            if one.is_empty() {
                return Err(cut_off());
            }
            self.at += used;
            steps = one;
        }
        Ok(steps)
    }

    /// The statements that end within so many bytes, and how many bytes they take.
    async fn piece(&self, length_max: u64) -> io::Result<(Vec<Step>, u64)> {
        let bytes = self.bytes(length_max).await?;
        let mut rest = &bytes[..];
        let mut steps = Vec::new();
        while let Some((step, after)) = decode(rest)? {
            steps.push(step);
            rest = after;
        }
        Ok((steps, (bytes.len() - rest.len()) as u64))
    }

    async fn bytes(&self, length_max: u64) -> io::Result<Vec<u8>> {
        let length = length_max.min(self.spill.length - self.at);
        let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        let (file, at) = (Arc::clone(&self.spill.file), self.at);
        let read = move || file.read_exact_at(&mut bytes, at).map(|()| bytes);
        spawn_blocking(read).await.map_err(io::Error::other)?
    }
}

fn cut_off() -> io::Error {
    io::Error::other("a file of a long transaction is not what was written")
}

fn encode(step: &Step, bytes: &mut Vec<u8>) -> io::Result<()> {
    let length = u32::try_from(step.sql.len()).map_err(io::Error::other)?;
    bytes.push(u8::from(step.row_count.is_some()));
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(step.sql.as_bytes());
    Ok(())
}

/// The first statement and what follows it; none if it is not all here.
fn decode(bytes: &[u8]) -> io::Result<Option<(Step, &[u8])>> {
    let Some((&[one_row, ref length @ ..], rest)) = bytes.split_first_chunk::<HEAD_LENGTH>() else {
        return Ok(None);
    };
    let length = u32::from_le_bytes(*length) as usize;
    let Some((sql, rest)) = rest.split_at_checked(length) else {
        return Ok(None);
    };
    let sql = str::from_utf8(sql).map_err(|_| cut_off())?.to_owned();
    let row_count = (one_row == 1).then_some(1);
    Ok(Some((Step { sql, row_count }, rest)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manager::mark::Statement;

    fn statement(text: &str) -> Change {
        Change::Statement(Statement {
            search_path: "public".into(),
            role: String::new(),
            text: text.into(),
        })
    }

    async fn all(spill: &Spill) -> Vec<Step> {
        let mut reading = spill.read();
        let mut steps = Vec::new();
        loop {
            let next = reading.next().await.unwrap();
            if next.is_empty() {
                return steps;
            }
            steps.extend(next);
        }
    }

    /// Everything comes back in order, also what is longer than a piece.
    #[tokio::test]
    async fn what_is_added_is_read() {
        let mut spill = Spill::new().unwrap();
        assert_eq!(all(&spill).await, []);
        let long = "x".repeat(3 * PIECE_LENGTH as usize);
        let mut expected = Vec::new();
        for text in ["", "SELECT 1", &long, "SELECT 2", &long] {
            let changes = [statement(text), statement("SELECT 3")];
            spill.add(&changes).await.unwrap();
            expected.extend(apply::steps(&changes).unwrap());
            assert_eq!(all(&spill).await, expected);
        }
    }
}
