//! The writing side of a connection to a core.
//!
//! If nothing else is in flight, a caller writes its request to the socket itself, which saves a
//! task switch. Otherwise, and if the connection is encrypted, the writer task writes the queued
//! frames together.

use std::io::ErrorKind;
use std::sync::{Mutex, PoisonError};

use cluster_tls::stream::Encrypted;
use protocol::frame;
use protocol::message::Message;
use tokio::io::{AsyncWriteExt, WriteHalf};
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::Notify;

/// A buffer for sending that has grown beyond this is given back once it is empty.
const OUTGOING_BYTES_KEPT: usize = 1 << 20;

/// The writing side of a connection.
#[derive(Debug)]
pub(crate) struct LinkWriter {
    half: Half,
    outgoing: Mutex<Outgoing>,
    wake: Notify,
}

/// The half of a connection for writing.
#[derive(Debug)]
enum Half {
    Plain(OwnedWriteHalf),
    /// Only the writer task uses it.
    Encrypted(tokio::sync::Mutex<WriteHalf<Encrypted>>),
}

#[derive(Debug, Default)]
struct Outgoing {
    bytes: Vec<u8>,
    written: usize,
}

impl LinkWriter {
    pub fn new(half: OwnedWriteHalf) -> LinkWriter {
        LinkWriter::of(Half::Plain(half))
    }

    /// Creates the writing side of an encrypted connection.
    pub fn encrypted(half: WriteHalf<Encrypted>) -> LinkWriter {
        LinkWriter::of(Half::Encrypted(tokio::sync::Mutex::new(half)))
    }

    fn of(half: Half) -> LinkWriter {
        LinkWriter {
            half,
            outgoing: Mutex::default(),
            wake: Notify::new(),
        }
    }

    /// Queues a frame behind the waiting frames.
    pub fn push(&self, correlation: u64, message: &Message) {
        let mut outgoing = self.outgoing.lock().unwrap_or_else(PoisonError::into_inner);
        frame::encode(correlation, message, &mut outgoing.bytes);
    }

    /// Wakes the writer task to write the waiting frames. Tasks that are ready now can still add
    /// theirs before.
    pub fn flush_soon(&self) {
        self.wake.notify_one();
    }

    /// Writes the waiting frames at once, until the socket is full. The writer task writes the
    /// rest.
    pub fn flush_now(&self) {
        // An error shows at the reading side too, which ends the connection.
        if let Half::Plain(half) = &self.half
            && matches!(self.write_some(half), Ok(true))
        {
            return;
        }
        self.wake.notify_one();
    }

    /// Writes as much as the socket takes; true if nothing is left.
    fn write_some(&self, half: &OwnedWriteHalf) -> std::io::Result<bool> {
        let mut outgoing = self.outgoing.lock().unwrap_or_else(PoisonError::into_inner);
        while outgoing.written < outgoing.bytes.len() {
            match half.try_write(&outgoing.bytes[outgoing.written..]) {
                Ok(count) => outgoing.written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        outgoing.written = 0;
        outgoing.bytes.clear();
        if outgoing.bytes.capacity() > OUTGOING_BYTES_KEPT {
            outgoing.bytes = Vec::new();
        }
        Ok(true)
    }

    /// Takes the waiting frames.
    fn take(&self) -> Vec<u8> {
        let mut outgoing = self.outgoing.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut outgoing.bytes)
    }

    /// Writes until the connection breaks.
    pub async fn run(&self) -> std::io::Result<()> {
        loop {
            self.wake.notified().await;
            match &self.half {
                Half::Plain(half) => {
                    while !self.write_some(half)? {
                        half.writable().await?;
                    }
                }
                Half::Encrypted(half) => {
                    let mut half = half.lock().await;
                    let mut bytes = self.take();
                    while !bytes.is_empty() {
                        half.write_all(&bytes).await?;
                        bytes = self.take();
                    }
                    half.flush().await?;
                }
            }
        }
    }
}
