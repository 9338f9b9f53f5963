//! Finds the user of the process at the other end of a connection on this machine.
//!
//! Stores without a login need this, because every user of the machine can connect to a port on
//! loopback.

use mio::net::TcpStream;
use procfs::net::TcpNetEntry;
use rustix::process::geteuid;

/// The message to a process of another user.
pub(super) const REFUSAL: &str =
    "only processes of the user that runs this store, and root's, may connect to it";

/// Returns whether the other side is a process of root, or of the user of this process. Returns
/// false if that is unknown.
pub(super) fn may_connect(stream: &TcpStream) -> bool {
    let (Ok(own), Ok(other)) = (stream.local_addr(), stream.peer_addr()) else {
        return false;
    };
    let sockets = match other.is_ipv4() {
        true => procfs::net::tcp(),
        false => procfs::net::tcp6(),
    };
    let of_other =
        |socket: &TcpNetEntry| socket.local_address == other && socket.remote_address == own;
    let socket = sockets.unwrap_or_default().into_iter().find(of_other);
    // A socket that its process has closed already belongs to no user, which is listed as root.
    socket.is_some_and(|socket| socket.inode != 0 && [geteuid().as_raw(), 0].contains(&socket.uid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_has_ended_may_not_connect() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it listens");
        let connect = || {
            let client = std::net::TcpStream::connect(address).expect("it listens");
            let (accepted, _) = listener.accept().expect("a process has connected");
            (client, TcpStream::from_std(accepted))
        };
        let (client, accepted) = connect();
        assert!(may_connect(&accepted));
        drop(client);
        assert!(!may_connect(&accepted));
    }
}
