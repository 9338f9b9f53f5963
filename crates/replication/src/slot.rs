//! Measures the WAL that the primary retains for the slot, and the WAL that it may still retain.

use tokio_postgres::Client;

use super::query::number;
use super::query::{rows, value};
use super::{ReplicationError, SLOT};

/// The WAL that the primary retains for the slot, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetainedWal {
    /// The size of the WAL that is retained now.
    pub held: u64,
    /// How much more WAL may be written before the primary drops the slot, by
    /// `max_slot_wal_keep_size`; none if that has no limit.
    pub safe: Option<u64>,
}

impl RetainedWal {
    /// Reads the amounts of retained WAL from the primary.
    pub async fn of(primary: &Client) -> Result<RetainedWal, ReplicationError> {
        // Both are missing where the slot is lost: the stream reports that.
        let sql = format!(
            "SELECT coalesce(pg_current_wal_insert_lsn() - restart_lsn, 0), coalesce(safe_wal_size::text, '')
               FROM pg_replication_slots WHERE slot_name = '{SLOT}'"
        );
        let found = rows(primary, &sql).await?;
        let Some(row) = found.first() else {
            return Ok(RetainedWal::default());
        };
        let safe = value(row, 1)?;
        Ok(RetainedWal {
            held: number(&value(row, 0)?)?,
            // It has gone below nothing by the time the slot is lost.
            safe: (!safe.is_empty()).then(|| safe.parse().unwrap_or(0)),
        })
    }

    /// Returns whether more WAL is retained than may still be written. Then an operator should act.
    pub fn is_alarming(&self) -> bool {
        self.safe.is_some_and(|safe| safe < self.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_half_is_alarming() {
        let kept = |held, safe| RetainedWal { held, safe };
        assert!(!kept(u64::MAX, None).is_alarming());
        assert!(!kept(4, Some(5)).is_alarming());
        assert!(kept(5, Some(4)).is_alarming());
        assert!(kept(9, Some(0)).is_alarming());
    }
}
