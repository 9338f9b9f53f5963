//! A socket with or without TLS, and the buffers of a peer that speaks the protocol over it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, BytesMut};
use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_postgres::tls::{self, ChannelBinding};
use tokio_rustls::TlsStream;

use pg_auth::certificate;

/// How many bytes are read at a time, at least.
const READ_LEN: usize = 16 * 1024;

/// A socket with or without TLS.
#[derive(Debug)]
pub enum Stream {
    /// TCP without TLS.
    Plain(TcpStream),
    /// A Unix socket.
    Local(UnixStream),
    /// TCP with TLS.
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    /// Returns the peer's certificate.
    pub fn certificate(&self) -> Option<&CertificateDer<'static>> {
        match self {
            Stream::Plain(_) | Stream::Local(_) => None,
            Stream::Tls(stream) => stream.get_ref().1.peer_certificates()?.first(),
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Stream::Local(stream) => Pin::new(stream).poll_read(context, buffer),
            Stream::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Local(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_flush(context),
            Stream::Local(stream) => Pin::new(stream).poll_flush(context),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Local(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

impl tls::TlsStream for Stream {
    fn channel_binding(&self) -> ChannelBinding {
        let end_point = self.certificate().and_then(certificate::end_point);
        end_point.map_or_else(ChannelBinding::none, ChannelBinding::tls_server_end_point)
    }
}

/// A stream with the bytes that were read but not processed.
#[derive(Debug)]
pub struct BufferedStream {
    stream: Stream,
    /// The bytes that were read but not processed.
    pub input: BytesMut,
    /// TLS keeps written bytes until it is flushed.
    needs_flush: bool,
}

impl BufferedStream {
    /// Returns the socket of the stream, if it is a TCP socket.
    pub fn network(&self) -> Option<&TcpStream> {
        match &self.stream {
            Stream::Plain(socket) => Some(socket),
            Stream::Local(_) => None,
            Stream::Tls(stream) => Some(stream.get_ref().0),
        }
    }

    /// Returns the peer's certificate.
    pub fn certificate(&self) -> Option<&CertificateDer<'static>> {
        self.stream.certificate()
    }

    /// Returns a stream from which nothing has been read.
    pub fn new(stream: Stream) -> BufferedStream {
        BufferedStream {
            stream,
            input: BytesMut::new(),
            needs_flush: false,
        }
    }

    /// Returns whether the stream uses TLS.
    pub fn is_encrypted(&self) -> bool {
        matches!(self.stream, Stream::Tls(_))
    }

    /// Returns the stream, if there are no unprocessed bytes.
    pub fn into_stream(self) -> Option<Stream> {
        self.input.is_empty().then_some(self.stream)
    }

    /// Reads once. Returns 0 at the end of the stream.
    pub fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.input.reserve(READ_LEN);
        let mut read = std::pin::pin!(self.stream.read_buf(&mut self.input));
        read.as_mut().poll(context)
    }

    /// Writes as much of `output` as the stream accepts, and removes it. It is ready once something
    /// was written, or everything was flushed.
    pub fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        output: &mut BytesMut,
    ) -> Poll<io::Result<()>> {
        if !output.is_empty() {
            return match Pin::new(&mut self.stream).poll_write(context, output) {
                Poll::Ready(Ok(0)) => Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(count)) => {
                    output.advance(count);
                    self.needs_flush = self.is_encrypted();
                    Poll::Ready(Ok(()))
                }
                Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                Poll::Pending => Poll::Pending,
            };
        }
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        if flushed.is_ready() {
            self.needs_flush = false;
        }
        flushed
    }

    /// Returns whether bytes must be written or flushed.
    pub fn has_to_write(&self, output: &BytesMut) -> bool {
        self.needs_flush || !output.is_empty()
    }

    /// Reads once. Returns 0 at the end of the stream.
    pub async fn read(&mut self) -> io::Result<usize> {
        std::future::poll_fn(|context| self.poll_read(context)).await
    }

    /// Writes all of `bytes`.
    pub async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await?;
        self.stream.flush().await
    }

    /// Sends Terminate, if the connection is still open.
    pub async fn shutdown(&mut self) {
        // The peer may be gone already, and there is no receiver.
        let _ = self.stream.shutdown().await;
    }
}
