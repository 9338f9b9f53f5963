//! A snapshot of the primary: which transactions it shows.

use std::collections::BTreeSet;

use super::ReplicationError;

/// The answer of `pg_current_snapshot()`: all transactions below `begin` have ended, and none from
/// `end` on has. Of those in between, the transactions in `running` have not ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PgSnapshot {
    begin: u64,
    end: u64,
    running: BTreeSet<u64>,
}

impl PgSnapshot {
    /// Returns whether it shows the commit of a transaction of which only the lower half of its
    /// number is known. Transactions are less than 2^31 from the snapshot's end.
    pub fn shows(&self, xid: u32) -> bool {
        let distance = xid.wrapping_sub(self.end as u32) as i32;
        let whole = self.end.wrapping_add_signed(i64::from(distance));
        whole < self.begin || (whole < self.end && !self.running.contains(&whole))
    }
}

impl std::str::FromStr for PgSnapshot {
    type Err = ReplicationError;

    fn from_str(text: &str) -> Result<PgSnapshot, ReplicationError> {
        let problem = || ReplicationError::Stream(format!("{text} is not a snapshot"));
        let number = |text: &str| text.parse::<u64>().map_err(|_| problem());
        let parts: Vec<&str> = text.split(':').collect();
        let [begin, end, running] = parts[..] else {
            return Err(problem());
        };
        let running = running.split(',').filter(|xid| !xid.is_empty());
        Ok(PgSnapshot {
            begin: number(begin)?,
            end: number(end)?,
            running: running.map(number).collect::<Result<_, _>>()?,
        })
    }
}

impl std::fmt::Display for PgSnapshot {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let running: Vec<String> = self.running.iter().map(u64::to_string).collect();
        write!(
            formatter,
            "{}:{}:{}",
            self.begin,
            self.end,
            running.join(",")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshot_shows_ended_transactions() {
        let snapshot: PgSnapshot = "100:110:103,105".parse().expect("it is one");
        let shown: Vec<u32> = (98..112).filter(|xid| snapshot.shows(*xid)).collect();
        assert_eq!(shown, [98, 99, 100, 101, 102, 104, 106, 107, 108, 109]);
        assert_eq!(snapshot.to_string(), "100:110:103,105");
        assert!("1:2".parse::<PgSnapshot>().is_err());
    }

    #[test]
    fn numbers_that_wrapped_are_understood() {
        let wrapped = 1_u64 << 32;
        let text = format!("{}:{}:", wrapped - 2, wrapped + 3);
        let snapshot: PgSnapshot = text.parse().expect("it is one");
        assert!(snapshot.shows(u32::MAX));
        assert!(snapshot.shows(2));
        assert!(!snapshot.shows(3));
    }
}
