//! A socket in a folder of its own that leads to a server over TLS.
//!
//! The library that reads the slot would bring a second implementation of TLS and of its cryptography.
//! It is given this socket instead, and speaks without TLS as far as here.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::TempDir;
use tokio::io::copy_bidirectional;
use tokio::net::UnixListener;
use tokio::task::JoinHandle;

use crate::address::Address;
use crate::pool::connection;

/// The port that stands in the socket's name, as PostgreSQL's clients form it.
pub const PORT: u16 = 5432;

/// See the module. It ends when it is dropped.
pub struct Bridge {
    folder: TempDir,
    task: JoinHandle<()>,
}

impl Bridge {
    /// Connects to the server and waits for whoever uses the socket, once.
    pub async fn start(address: &Address) -> io::Result<Bridge> {
        // Nobody else may speak to the server here.
        let folder = tempfile::Builder::new()
            .permissions(Permissions::from_mode(0o700))
            .tempdir()?;
        let socket = folder.path().join(format!(".s.PGSQL.{PORT}"));
        let listener = UnixListener::bind(socket)?;
        let mut server = connection::connect(address).await?;
        let task = tokio::spawn(async move {
            if let Ok((mut socket, _)) = listener.accept().await {
                // What goes wrong ends the stream, which says so.
                let _ = copy_bidirectional(&mut socket, &mut server).await;
            }
        });
        Ok(Bridge { folder, task })
    }

    /// The folder that the socket is in.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        self.task.abort();
    }
}
