//! Sets how long a silent peer counts as connected.
//!
//! A machine that loses its power or its network closes no connection: its peers wait until the
//! system gives up, a quarter of an hour and longer. Here the system asks the peer's system, which
//! answers also while the peer itself is busy.

use std::io;
use std::time::Duration;

use rustix::net::sockopt;
use tokio::net::TcpStream;

/// The TCP keepalive of a connection: when probes begin, how often, and how many may fail.
#[derive(Clone, Copy, Debug)]
pub struct KeepaliveSettings {
    idle: Duration,
    interval: Duration,
    count: u32,
}

/// For connections to servers, for which clients wait: 7 seconds.
pub const WITH_SERVERS: KeepaliveSettings = KeepaliveSettings {
    idle: Duration::from_secs(3),
    interval: Duration::from_secs(1),
    count: 4,
};

/// For connections to clients, whose transactions may hold locks: one minute.
pub const WITH_CLIENTS: KeepaliveSettings = KeepaliveSettings {
    idle: Duration::from_secs(30),
    interval: Duration::from_secs(10),
    count: 3,
};

impl KeepaliveSettings {
    /// Makes the connection fail when the peer's machine has been silent for that time, unless sent
    /// data are unacknowledged.
    pub fn bound(self, socket: &TcpStream) -> io::Result<()> {
        sockopt::set_tcp_keepidle(socket, self.idle)?;
        sockopt::set_tcp_keepintvl(socket, self.interval)?;
        sockopt::set_tcp_keepcnt(socket, self.count)?;
        Ok(sockopt::set_socket_keepalive(socket, true)?)
    }

    /// Makes the connection fail also if sent data are unacknowledged for that time. It must not be
    /// used for a peer that may receive more than its system buffers, because a slow reader would
    /// count as silent.
    pub fn bound_sent(self, socket: &TcpStream) -> io::Result<()> {
        let milliseconds = (self.idle + self.interval * self.count).as_millis();
        let milliseconds = u32::try_from(milliseconds).unwrap_or(u32::MAX);
        Ok(sockopt::set_tcp_user_timeout(socket, milliseconds)?)
    }
}
