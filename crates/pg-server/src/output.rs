//! The bytes on their way to a client. They are bounded: a producer waits while the client does not
//! read.

use std::io;

use bytes::BytesMut;
use tokio::io::{AsyncWrite, AsyncWriteExt};

/// The bytes that are collected before they are sent. One row more may be added to them.
pub const OUTPUT_LEN_MAX: usize = 64 << 10;

/// The output of a connection, with its stream.
#[derive(Debug)]
pub struct ClientOutput<W> {
    /// The messages that were not sent yet.
    pub buffer: BytesMut,
    stream: W,
}

impl<W: AsyncWrite + Unpin> ClientOutput<W> {
    /// Returns an output without messages.
    pub fn new(stream: W) -> ClientOutput<W> {
        ClientOutput {
            buffer: BytesMut::new(),
            stream,
        }
    }

    /// Returns the stream.
    pub fn stream(&self) -> &W {
        &self.stream
    }

    /// Returns the stream, to read from it.
    pub fn stream_mut(&mut self) -> &mut W {
        &mut self.stream
    }

    /// Returns the stream. Messages that were not sent are lost.
    pub fn into_stream(self) -> W {
        self.stream
    }

    /// Sends the messages if there are many. Returns when the client has taken them.
    ///
    /// # Errors
    /// The client is gone.
    pub async fn drain_if_long(&mut self) -> io::Result<()> {
        match self.buffer.len() >= OUTPUT_LEN_MAX {
            true => self.flush().await,
            false => Ok(()),
        }
    }

    /// Sends all messages. If the caller gives up, messages that were not sent stay.
    ///
    /// # Errors
    /// The client is gone.
    pub async fn flush(&mut self) -> io::Result<()> {
        while !self.buffer.is_empty() {
            if self.stream.write_buf(&mut self.buffer).await? == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
        }
        self.stream.flush().await
    }

    /// Releases the memory of messages that were sent.
    pub fn release(&mut self) {
        if self.buffer.is_empty() {
            self.buffer = BytesMut::new();
        }
    }

    /// Ends the connection.
    pub async fn shutdown(&mut self) {
        // The client may be gone already.
        let _ = self.stream.shutdown().await;
    }
}
