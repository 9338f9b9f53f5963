//! Records this proxy's connections to the primary in a ledger there, before the connections are
//! used.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use pg_wire::report::{Report, Severity};

/// How long is waited until it is written down; meanwhile the primary may be restarted.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// The reason why statements that need the active proxy are not executed.
pub const UNPROVEN: &str = "the primary does not confirm that this proxy is the active one";

/// SQLSTATE: no connection could be made.
const UNREACHABLE: &str = "08001";

/// A connection that is about to be used.
#[derive(Debug)]
pub struct LedgerEntry {
    /// The process number of the connection's backend at the server.
    pub process: u32,
    /// Notified once the connection is recorded; dropped if that fails.
    pub written: oneshot::Sender<()>,
}

/// Records connections at the primary before they are used.
#[derive(Clone, Debug)]
pub struct ConnectionLedger(mpsc::Sender<LedgerEntry>);

impl ConnectionLedger {
    /// Returns a ledger whose entries the receiver records.
    pub fn new(entries: mpsc::Sender<LedgerEntry>) -> ConnectionLedger {
        ConnectionLedger(entries)
    }

    /// Records a connection. Returns when it may be used. The error is for the client.
    pub async fn write(&self, process: u32) -> Result<(), Report> {
        let (written, is_written) = oneshot::channel();
        let asked = async {
            let sent = self.0.send(LedgerEntry { process, written }).await;
            sent.is_ok() && is_written.await.is_ok()
        };
        if timeout(WAIT_MAX, asked).await.unwrap_or(false) {
            return Ok(());
        }
        let report = Report::new(Severity::Error, UNREACHABLE, UNPROVEN);
        Err(report.hint("Run it again, or connect again."))
    }
}
