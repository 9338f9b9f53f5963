//! A snapshot of the primary, which determines the transactions that a session sees.

use std::collections::BTreeSet;

use proxy_core::freshness::Tsid;

use super::ReplicationError;

/// The result of `pg_current_snapshot()`: all transactions below `begin` have ended, and none from
/// `end` on. Of those between, the ones in `running` have not ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PgSnapshot {
    begin: u64,
    end: u64,
    running: BTreeSet<u64>,
}

impl PgSnapshot {
    /// Returns whether the snapshot includes a transaction. Only the lower half of its number is
    /// known, and it is less than 2^31 from the snapshot's end.
    pub fn shows(&self, xid: u32) -> bool {
        let distance = xid.wrapping_sub(self.end as u32) as i32;
        let whole = self.end.wrapping_add_signed(i64::from(distance));
        whole < self.begin || (whole < self.end && !self.running.contains(&whole))
    }
}

/// The last snapshots of the primary, each with the position up to which it showed every commit. If
/// a snapshot does not show a later commit, that commit became visible after all commits up to the
/// snapshot's position (P1).
#[derive(Debug)]
pub struct ShownOrder<S> {
    last: Option<ShownUntil<S>>,
    before: Option<ShownUntil<S>>,
    /// The newest commit that the primary was found to show, with all before it.
    passed: Tsid,
}

#[derive(Debug)]
struct ShownUntil<S> {
    snapshot: S,
    until: Tsid,
    /// Whether the snapshot shows every passed commit.
    is_newest: bool,
}

impl<S> Default for ShownOrder<S> {
    fn default() -> ShownOrder<S> {
        ShownOrder {
            last: None,
            before: None,
            passed: Tsid(0),
        }
    }
}

impl<S> ShownOrder<S> {
    /// Returns the position up to which the primary showed every commit when it did not show this
    /// one; 0 if no such position is known.
    pub fn hidden_until(&self, shows: impl Fn(&S) -> bool) -> Tsid {
        let mut snapshots = self.last.iter().chain(&self.before);
        let hides = snapshots.find(|it| !shows(&it.snapshot));
        hides.map_or(Tsid(0), |it| it.until)
    }

    /// Records a snapshot that was just taken.
    pub fn taken(&mut self, snapshot: S) {
        let taken = ShownUntil {
            snapshot,
            until: self.passed,
            is_newest: true,
        };
        self.before = self.last.replace(taken);
    }

    /// Records that the primary shows the next commit of the WAL, and all earlier ones.
    pub fn passed(&mut self, tsid: Tsid, shows: impl Fn(&S) -> bool) {
        if tsid <= self.passed {
            return;
        }
        self.passed = tsid;
        if let Some(last) = self.last.as_mut().filter(|last| last.is_newest) {
            last.is_newest = shows(&last.snapshot);
            if last.is_newest {
                last.until = tsid;
            }
        }
    }

    /// Returns the newest snapshot.
    pub fn newest(&self) -> Option<&S> {
        self.last.as_ref().map(|last| &last.snapshot)
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
    fn hidden_commits_follow_all_that_were_shown() {
        let mut order: ShownOrder<PgSnapshot> = ShownOrder::default();
        let hidden = |order: &ShownOrder<PgSnapshot>, xid| order.hidden_until(|it| it.shows(xid)).0;
        assert_eq!(hidden(&order, 100), 0, "nothing is known");
        order.taken("100:104:102".parse().expect("it is one"));
        for (tsid, xid) in [(10, 100), (20, 101), (30, 102), (40, 103)] {
            let expected = if xid == 102 { 20 } else { 0 };
            assert_eq!(hidden(&order, xid), expected, "{xid}");
            if xid == 102 {
                order.taken("104:106:104".parse().expect("it is one"));
            }
            order.passed(Tsid(tsid), |it| it.shows(xid));
        }
        // Not in the last one, and in the last but one.
        assert_eq!([104, 106].map(|xid| hidden(&order, xid)), [40, 40]);
        assert_eq!(hidden(&order, 105), 20);
        // It is behind a commit that the snapshot does not show.
        order.passed(Tsid(50), |it| it.shows(104));
        order.passed(Tsid(60), |it| it.shows(105));
        assert_eq!(hidden(&order, 106), 40);
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
