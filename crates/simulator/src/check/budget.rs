//! I15: the queues stay within their limits. The part of I16 that concerns queues: they are empty
//! at rest.

use machines::core::{Backlog, CoreLimits};

/// Compares the operations and requests in progress at one core with its limits. `read_back` is the
/// number of operations that the core recovered from its log.
pub fn within(
    backlog: &Backlog,
    limits: &CoreLimits,
    keys: usize,
    read_back: usize,
) -> Result<(), String> {
    let operations_max = operations_max(limits, read_back);
    let bounds = [
        ("operations", backlog.operations, operations_max),
        (
            "waiting reads",
            backlog.waiting_reads,
            limits.waiting_reads_max,
        ),
        (
            "queued requests",
            backlog.queued_requests,
            requests_max(limits) * keys,
        ),
        (
            "snapshots of one client",
            backlog.snapshots_of_one_reader,
            limits.snapshots_per_reader_max,
        ),
        (
            "bytes of history",
            backlog.history_bytes,
            limits.history_bytes_max,
        ),
    ];
    for (what, count, most) in bounds {
        if count > most {
            return Err(format!("{count} {what}, the limit is {most}"));
        }
    }
    Ok(())
}

/// Returns the most members that a core may have. A core that holds several partitions of one chain
/// has up to `MEMBERS_MAX` members of the last operation that it admits. A core that restarts
/// restores as many members as it had, and all that its log has since the last checkpoint. It may
/// have known that they are finished from a message that no record keeps.
fn operations_max(limits: &CoreLimits, read_back: usize) -> usize {
    const MEMBERS_MAX: usize = 8;
    limits.operations_max.max(read_back) + limits.operations_max + MEMBERS_MAX
}

/// Returns requests that wait for one key: what was folded into an operation that aborts comes
/// back, on top of what has queued behind it.
fn requests_max(limits: &CoreLimits) -> usize {
    let folded = limits.folded_requests_max.min(limits.requests_per_key_max);
    limits.requests_per_key_max + folded
}

/// Checks that a core has no operation or request in progress.
pub fn empty(backlog: &Backlog) -> Result<(), String> {
    let asked = backlog.operations + backlog.queued_requests + backlog.waiting_reads;
    let kept = backlog.snapshots + backlog.history_bytes + backlog.transactions;
    let left = asked + backlog.orders_unmade + kept;
    if left == 0 {
        Ok(())
    } else {
        Err(format!("at rest there are {backlog:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_may_bring_back_more() {
        let limits = CoreLimits {
            operations_max: 16,
            ..CoreLimits::default()
        };
        let backlog = Backlog {
            operations: 46,
            ..Backlog::default()
        };
        assert!(within(&backlog, &limits, 2, 0).is_err());
        assert_eq!(within(&backlog, &limits, 2, 46), Ok(()));
    }

    #[test]
    fn more_than_the_limit_is_reported() {
        let limits = CoreLimits {
            requests_per_key_max: 4,
            folded_requests_max: 1,
            ..CoreLimits::default()
        };
        let backlog = Backlog {
            queued_requests: 10,
            ..Backlog::default()
        };
        assert_eq!(within(&backlog, &limits, 2, 0), Ok(()));
        assert!(within(&backlog, &limits, 1, 0).is_err());
        assert!(empty(&backlog).is_err());
        let backlog = Backlog {
            orders_unmade: 1,
            ..Backlog::default()
        };
        assert!(empty(&backlog).is_err());
        let backlog = Backlog {
            snapshots: 1,
            ..Backlog::default()
        };
        assert!(empty(&backlog).is_err());
        assert_eq!(empty(&Backlog::default()), Ok(()));
    }
}
