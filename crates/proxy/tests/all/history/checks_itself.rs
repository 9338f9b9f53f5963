//! The checker finds each anomaly where it is, and accepts histories that snapshot isolation
//! allows.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::checker::Operation::{Append, Read};
use super::checker::{Anomaly, Element, Key, Operation, Transaction, TransactionOutcome, check};

/// Transactions with their times in seconds.
struct History {
    zero: Instant,
    transactions: Vec<Transaction>,
}

impl History {
    fn new() -> History {
        History {
            zero: Instant::now(),
            transactions: Vec::new(),
        }
    }

    /// Adds a transaction that committed.
    fn with(self, from: u64, to: u64, operations: &[Operation]) -> History {
        self.ending(TransactionOutcome::Committed, (from, to), operations)
    }

    fn ending(
        mut self,
        ending: TransactionOutcome,
        (from, to): (u64, u64),
        operations: &[Operation],
    ) -> History {
        self.transactions.push(Transaction {
            began: self.zero + Duration::from_secs(from),
            ended: self.zero + Duration::from_secs(to),
            ending,
            operations: operations.to_vec(),
        });
        self
    }

    fn check(&self, last: &[(Key, &[Element])]) -> Result<(), Anomaly> {
        let last = last.iter().map(|(key, list)| (*key, list.to_vec()));
        check(&self.transactions, &last.collect::<BTreeMap<_, _>>())
    }
}

fn reads(key: Key, seen: &[Element]) -> Operation {
    Read(key, seen.to_vec())
}

#[test]
fn sequential_history_is_valid() {
    let history = History::new()
        .with(1, 2, &[reads(1, &[]), Append(1, 10)])
        .with(3, 4, &[reads(1, &[10]), Append(1, 11), reads(1, &[10, 11])])
        .with(5, 6, &[reads(1, &[10, 11]), reads(2, &[])]);
    assert_eq!(history.check(&[(1, &[10, 11]), (2, &[])]), Ok(()));
}

#[test]
fn write_skew_is_allowed() {
    let history = History::new()
        .with(1, 9, &[reads(1, &[]), Append(2, 20)])
        .with(1, 9, &[reads(2, &[]), Append(1, 10)]);
    assert_eq!(history.check(&[(1, &[10]), (2, &[20])]), Ok(()));
}

#[test]
fn lost_updates_are_found() {
    let missing = History::new().with(1, 2, &[Append(1, 10)]);
    assert!(matches!(
        missing.check(&[(1, &[])]),
        Err(Anomaly::LostUpdate(_))
    ));
    let order = History::new()
        .with(1, 9, &[Append(1, 10)])
        .with(1, 9, &[Append(1, 11)])
        .with(1, 9, &[reads(1, &[11])]);
    let found = order.check(&[(1, &[10, 11])]);
    assert!(matches!(found, Err(Anomaly::LostUpdate(_))), "{found:?}");
    // Both read the same, and then wrote.
    let both = History::new()
        .with(1, 9, &[reads(1, &[]), Append(1, 10)])
        .with(1, 9, &[reads(1, &[]), Append(1, 11)]);
    let found = both.check(&[(1, &[10, 11])]);
    assert!(matches!(found, Err(Anomaly::Stale(_))), "{found:?}");
}

#[test]
fn aborted_and_intermediate_reads_are_found() {
    let aborted = History::new()
        .ending(TransactionOutcome::Aborted, (1, 2), &[Append(1, 10)])
        .with(1, 9, &[reads(1, &[10])]);
    let found = aborted.check(&[(1, &[])]);
    assert!(matches!(found, Err(Anomaly::AbortedRead(_))), "{found:?}");
    let half = History::new()
        .with(1, 9, &[Append(1, 10), Append(1, 11)])
        .with(1, 9, &[reads(1, &[10])]);
    let found = half.check(&[(1, &[10, 11])]);
    assert!(
        matches!(found, Err(Anomaly::IntermediateRead(_))),
        "{found:?}"
    );
    let unknown = History::new()
        .ending(TransactionOutcome::Unknown, (1, 2), &[Append(1, 10)])
        .with(3, 4, &[reads(1, &[10])]);
    assert_eq!(unknown.check(&[(1, &[10])]), Ok(()));
}

#[test]
fn circles_are_found() {
    let circular = History::new()
        .with(1, 9, &[reads(1, &[10]), Append(2, 20)])
        .with(1, 9, &[reads(2, &[20]), Append(1, 10)]);
    let found = circular.check(&[(1, &[10]), (2, &[20])]);
    assert!(matches!(found, Err(Anomaly::Circular(_))), "{found:?}");
    let half_seen = History::new()
        .with(1, 9, &[Append(1, 10), Append(2, 20)])
        .with(1, 9, &[reads(1, &[10]), reads(2, &[])]);
    let found = half_seen.check(&[(1, &[10]), (2, &[20])]);
    assert!(matches!(found, Err(Anomaly::Stale(_))), "{found:?}");
}

#[test]
fn old_reads_are_found() {
    let stale = History::new()
        .with(1, 2, &[Append(1, 10)])
        .with(3, 4, &[reads(1, &[])]);
    let found = stale.check(&[(1, &[10])]);
    assert!(matches!(found, Err(Anomaly::Stale(_))), "{found:?}");
    let concurrent = History::new()
        .with(1, 3, &[Append(1, 10)])
        .with(2, 4, &[reads(1, &[])]);
    assert_eq!(concurrent.check(&[(1, &[10])]), Ok(()));
    // Seen, and then seen no more.
    let back = History::new()
        .with(1, 9, &[Append(1, 10)])
        .with(2, 3, &[reads(1, &[10])])
        .with(4, 5, &[reads(1, &[])]);
    let found = back.check(&[(1, &[10])]);
    assert!(matches!(found, Err(Anomaly::Stale(_))), "{found:?}");
}

#[test]
fn long_forks_are_found() {
    let fork = History::new()
        .with(1, 9, &[Append(1, 10)])
        .with(1, 9, &[Append(2, 20)])
        .with(1, 9, &[reads(1, &[10]), reads(2, &[])])
        .with(1, 9, &[reads(1, &[]), reads(2, &[20])]);
    let found = fork.check(&[(1, &[10]), (2, &[20])]);
    assert!(matches!(found, Err(Anomaly::LongFork(_))), "{found:?}");
}
