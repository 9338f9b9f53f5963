//! TLS on a socket of the loop: plain bytes on one side, encrypted ones on the other, and nothing
//! that waits.
//!
//! The handshake is part of reading and writing. Until it is over, nothing can be read, and bytes
//! to send wait in their connection.

use std::io::{Error, ErrorKind, Read, Result, Write};

use cluster_tls::{Connection as Tls, explain};
use mio::net::TcpStream;

/// Reads plain bytes. Returns 0 at the end of the connection, which need not be announced in TLS,
/// because frames have lengths.
///
/// # Errors
/// `WouldBlock` if the socket is empty; `InvalidData`, with the reason for people, if the other
/// side cannot prove that it belongs to the cluster or does not use TLS; and errors of the socket.
pub(super) fn read(tls: &mut Tls, stream: &mut TcpStream, buffer: &mut [u8]) -> Result<usize> {
    loop {
        match tls.reader().read(buffer) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(0),
            read => return read,
        }
        if tls.read_tls(stream)? == 0 {
            return Ok(0);
        }
        if let Err(error) = tls.process_new_packets() {
            // The alert has the reason for the other side, if it can still be sent.
            let _ = tls.write_tls(stream);
            let reason = explain(&Error::new(ErrorKind::InvalidData, error));
            return Err(Error::new(ErrorKind::InvalidData, reason));
        }
    }
}

/// Writes plain bytes as far as the socket has room for them encrypted, and what the handshake has
/// to send. Returns how many of the bytes are on their way, and whether the socket is full.
///
/// # Errors
/// The connection broke.
pub(super) fn write(tls: &mut Tls, stream: &mut TcpStream, bytes: &[u8]) -> Result<(usize, bool)> {
    let mut written = 0;
    loop {
        while tls.wants_write() {
            match tls.write_tls(stream) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok((written, true)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if tls.is_handshaking() || written == bytes.len() {
            return Ok((written, false));
        }
        written += tls.writer().write(&bytes[written..])?;
    }
}
