//! Listens for clients at a network address, or at a Unix socket whose name is like that of
//! PostgreSQL's socket.
//!
//! Invariant: a process that serves at a Unix socket holds the lock on its lock file, which the
//! system releases when that process ends, however it ends. If no process answers at a socket, and
//! its lock is free, then its process has ended. The first line of the lock file is the id of the
//! process. PostgreSQL reads it, and does not start at a socket that is in use.

use std::fs::{self, File, Permissions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tokio::net::{TcpListener, UnixListener, UnixStream};

use pg_connect::address::socket_in;
use pg_connect::silence;
use pg_connect::stream::Stream;

/// Permissions of a Unix socket: all users may connect, as with PostgreSQL's default of
/// `unix_socket_permissions`.
const SOCKET_MODE: u32 = 0o777;
const LOCK_MODE: u32 = 0o600;
/// The most attempts to lock a file, because another process may remove the file after it was
/// opened and before it is locked.
const TRIES_MAX: usize = 10;

/// A socket at which the proxy accepts clients.
#[derive(Debug)]
pub enum Listener {
    /// An address of a network.
    Network(TcpListener),
    /// A Unix socket.
    Local(UnixSocket),
}

impl From<TcpListener> for Listener {
    fn from(listener: TcpListener) -> Listener {
        Listener::Network(listener)
    }
}

impl From<UnixSocket> for Listener {
    fn from(local: UnixSocket) -> Listener {
        Listener::Local(local)
    }
}

impl Listener {
    /// Accepts the next client. Returns its address, too, if the system knows it.
    pub(super) async fn accept(&self) -> io::Result<(Stream, Option<SocketAddr>)> {
        match self {
            Listener::Network(listener) => {
                let (socket, address) = listener.accept().await?;
                // Only hints to the system.
                let _ = socket.set_nodelay(true);
                let _ = silence::WITH_CLIENTS.bound(&socket);
                Ok((Stream::Plain(socket), Some(address)))
            }
            Listener::Local(local) => {
                let (socket, _) = local.listener.accept().await?;
                Ok((Stream::Local(socket), None))
            }
        }
    }
}

/// A Unix socket. Dropping it removes the socket.
#[derive(Debug)]
pub struct UnixSocket {
    listener: UnixListener,
    path: PathBuf,
    _lock: SocketLock,
}

impl UnixSocket {
    /// Creates the socket for this port in a folder. It replaces the socket of a process that has
    /// ended, and fails if another file has the path.
    pub async fn bind(folder: &Path, port: u16) -> io::Result<UnixSocket> {
        let path = socket_in(folder, port);
        let mut lock = SocketLock::take(with_suffix(&path, ".lock"))?;
        let taken = |what: String| Err(io::Error::new(ErrorKind::AddrInUse, what));
        match UnixStream::connect(&path).await {
            Ok(_) => return taken("another program serves there".into()),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                if !fs::symlink_metadata(&path)?.file_type().is_socket() {
                    return taken("the file is not a socket".into());
                }
                fs::remove_file(&path)?;
            }
            Err(error) => return taken(format!("there is a socket already: {error}")),
        }
        lock.sign()?;
        let listener = UnixListener::bind(&path)?;
        let local = UnixSocket {
            listener,
            path,
            _lock: lock,
        };
        fs::set_permissions(&local.path, Permissions::from_mode(SOCKET_MODE))?;
        Ok(local)
    }

    /// Returns the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for UnixSocket {
    fn drop(&mut self) {
        // If it stays, the next one takes it over.
        let _ = fs::remove_file(&self.path);
    }
}

/// A lock file that this process has locked. Dropping the value removes the file.
#[derive(Debug)]
struct SocketLock {
    file: File,
    path: PathBuf,
}

impl SocketLock {
    /// Creates the lock file if it is missing, and locks it. Fails if another process has locked
    /// the file.
    fn take(path: PathBuf) -> io::Result<SocketLock> {
        for _ in 0..TRIES_MAX {
            let file = File::options()
                .write(true)
                .create(true)
                .truncate(false)
                .mode(LOCK_MODE)
                .open(&path)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::Error(error)) => return Err(error),
                Err(TryLockError::WouldBlock) => {
                    // It signs only when it has the socket.
                    let signed = fs::read_to_string(&path).unwrap_or_default();
                    let text = match signed.trim() {
                        "" => "another process is about to serve there".to_owned(),
                        number => format!("process {number} serves there"),
                    };
                    return Err(io::Error::new(ErrorKind::AddrInUse, text));
                }
            }
            // A process that had it before may have removed it since it was opened.
            let locked = file.metadata()?;
            let is_there =
                |there: fs::Metadata| there.ino() == locked.ino() && there.dev() == locked.dev();
            if fs::metadata(&path).is_ok_and(is_there) {
                return Ok(SocketLock { file, path });
            }
        }
        Err(io::Error::other("its lock file changes all the time"))
    }

    /// Writes the id of this process into the lock file.
    fn sign(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.write_all(signature().as_bytes())
    }
}

impl Drop for SocketLock {
    fn drop(&mut self) {
        // Another program's stays as it was. An empty one was made here, and PostgreSQL would
        // refuse to start beside it.
        let text = fs::read_to_string(&self.path).unwrap_or_default();
        if text.is_empty() || text == signature() {
            // If it stays, it is not locked.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn signature() -> String {
    format!("{}\n", std::process::id())
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
