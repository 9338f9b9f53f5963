//! A local socket that forwards to a server over TLS.
//!
//! With TLS, the library that reads the slot would add a second implementation of TLS and its
//! cryptography. So the library connects to this socket instead, which requires no password. The
//! bridge logs in at the server over TLS, as the rest of the proxy does.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use bytes::BytesMut;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinHandle;

use pg_connect::address::{Address, socket_in};
use pg_wire::message;
use pg_wire::startup::{self, FirstPacket};
use proxy_pool::{Connection, ConnectionKey, ServerLogin};

/// The port in the socket's name, as PostgreSQL's clients form it.
pub const PORT: u16 = 5432;

/// A local socket that forwards to a server over TLS. It closes when it is dropped.
pub struct Bridge {
    folder: TempDir,
    task: JoinHandle<()>,
}

impl Bridge {
    /// Waits for one user of the socket. If the bridge cannot log in at the server, the user gets
    /// the error.
    pub fn start(address: &Address) -> io::Result<Bridge> {
        // No other process may reach the server here.
        let folder = tempfile::Builder::new()
            .permissions(Permissions::from_mode(0o700))
            .tempdir()?;
        let listener = UnixListener::bind(socket_in(folder.path(), PORT))?;
        let address = address.clone();
        let task = tokio::spawn(async move {
            if let Ok((socket, _)) = listener.accept().await {
                // An error ends the stream, which reports it.
                let _ = lead(socket, &address).await;
            }
        });
        Ok(Bridge { folder, task })
    }

    /// Returns the folder of the socket.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// Opens the session that is requested, with the address's user and password, and copies the bytes
/// of both sides.
async fn lead(mut socket: UnixStream, address: &Address) -> io::Result<()> {
    let mut packet = vec![0; 4];
    socket.read_exact(&mut packet).await?;
    let length = startup::length(&packet).map_err(io::Error::other)?;
    packet.resize(length.unwrap_or(packet.len()), 0);
    socket.read_exact(&mut packet[4..]).await?;
    let FirstPacket::Startup(startup) = startup::read(&packet).map_err(io::Error::other)? else {
        return Err(io::Error::other("no session is asked for"));
    };
    let key = ConnectionKey::of(&startup, &address.user);
    let password = address.password.clone();
    let mut out = BytesMut::new();
    let server = match Connection::open(address, &key, &ServerLogin { password }).await {
        Ok(connection) => connection.peer.into_stream(),
        Err(report) => {
            report.fatal().write(&mut out);
            return socket.write_all(&out).await;
        }
    };
    let mut server = server
        .ok_or_else(|| io::Error::other("the server sent a message before the first request"))?;
    message::write(&mut out, b'R', &[&0_u32.to_be_bytes()], 0);
    message::write_ready(&mut out, b'I');
    socket.write_all(&out).await?;
    copy_bidirectional(&mut socket, &mut server).await?;
    Ok(())
}

impl Drop for Bridge {
    fn drop(&mut self) {
        self.task.abort();
    }
}
