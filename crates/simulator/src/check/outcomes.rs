//! I2 and I3: an outcome is never reversed, and no operation is both committed and aborted.

use std::collections::{BTreeMap, BTreeSet};

use protocol::identity::{Epoch, PartitionId, TableId};
use protocol::operation::{Decision, RequestResult, Vote};

use crate::ledger::{Ledger, LedgerOperation, same};

/// Checks a decision that is about to be logged: it equals an earlier decision of the operation,
/// and follows from the votes (R2). A removed member that continues may decide differently from the
/// end of its epoch, as long as no client can see its decision: its rows are replaced when it
/// returns (R16).
pub fn decided(entry: &LedgerOperation, decision: &Decision, shows: bool) -> Result<(), String> {
    let operation = entry.prepare.operation;
    if entry.resolved && !shows {
        return Ok(());
    }
    if let Some(before) = &entry.decision
        && !same(entry, before, decision)
    {
        return Err(format!(
            "{operation:?} was decided {before:?}, now {decision:?}"
        ));
    }
    let votes = entry.members.iter().flat_map(|member| &member.votes);
    match decision {
        Decision::Commit if votes.clone().any(|vote| *vote != Vote::Yes) => Err(format!(
            "{operation:?} commits against a vote: {:?}",
            entry.members
        )),
        Decision::Abort(_) if !entry.refused && !entry.is_transaction() => {
            Err(format!("{operation:?} aborts, but no member has voted no"))
        }
        _ => Ok(()),
    }
}

/// Checks a decision that is about to be logged, and that follows from the end of the epochs before
/// `awaited`: no client has seen another outcome, and no vote contradicts it. If a later epoch
/// serves, the member was removed and continues. Then the epoch that it waits for never serves, and
/// its rows are replaced when it returns (R16, R25).
pub fn resolved(
    entry: &LedgerOperation,
    decision: &Decision,
    awaited: Epoch,
) -> Result<(), String> {
    if awaited < entry.served_in {
        return Ok(());
    }
    let operation = entry.prepare.operation;
    if let Some(before) = entry.decision.as_ref().filter(|_| entry.visible)
        && !same(entry, before, decision)
    {
        return Err(format!(
            "{operation:?} was seen as {before:?}, now it is resolved as {decision:?}"
        ));
    }
    let mut votes = entry.members.iter().flat_map(|member| &member.votes);
    if *decision == Decision::Commit && votes.any(|vote| *vote != Vote::Yes) {
        return Err(format!(
            "{operation:?} is resolved as committed against a vote: {:?}",
            entry.members
        ));
    }
    Ok(())
}

/// Checks a member that settles an operation and removes its old row: the outcome is durable where
/// it must be before any client may see it (R3, R11), or comes from the end of an epoch.
pub fn settled(entry: &LedgerOperation) -> Result<(), String> {
    match entry.visible || entry.resolved {
        true => Ok(()),
        false => Err(format!(
            "{:?} is settled, but no client may see its outcome yet",
            entry.prepare.operation
        )),
    }
}

/// Checks a transaction whose commit clients may see now: it is durable in f + 1 failure domains of
/// each table that it changes, or in all that it has there (R43). `domain` returns the failure
/// domain of a member of a copy, and the f of its table; none for an entry of a thin index.
pub fn kept(
    ledger: &Ledger,
    entry: &LedgerOperation,
    domain: impl Fn(PartitionId) -> Option<(String, usize)>,
) -> Result<(), String> {
    if entry.resolved || entry.visible {
        return Ok(());
    }
    let mut domains: BTreeMap<TableId, (usize, [BTreeSet<String>; 2])> = BTreeMap::new();
    for (member, partition) in entry.changed() {
        let Some((domain, failures)) = domain(*partition) else {
            continue;
        };
        let (needed, [all, kept]) = domains.entry(partition.table).or_default();
        *needed = failures + 1;
        if member
            .decided
            .is_some_and(|decided| ledger.is_durable(decided))
        {
            kept.insert(domain.clone());
        }
        all.insert(domain);
    }
    match domains
        .iter()
        .find(|(_, (needed, [all, kept]))| kept.len() < *needed.min(&all.len()))
    {
        None => Ok(()),
        Some((table, (needed, [all, kept]))) => Err(format!(
            "{:?} is seen as committed, but of table {} the decision is durable in {kept:?} of \
             {all:?}, and must be in {needed}",
            entry.prepare.operation, table.0
        )),
    }
}

/// Checks that the result of an operation that is about to be sent is that of its decision.
pub fn reported(entry: &LedgerOperation, result: &RequestResult) -> Result<(), String> {
    let operation = entry.prepare.operation;
    match (&entry.decision, result) {
        (Some(Decision::Commit), result) if result.took_effect() => Ok(()),
        (decision, result) if result.took_effect() => Err(format!(
            "{operation:?} is reported as applied, its decision is {decision:?}"
        )),
        (None, result) => Err(format!(
            "{operation:?} is undecided, but {result:?} is reported"
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Ledger;
    use crate::ledger::testing::{core, prepare, prepared};
    use protocol::identity::{Position, Version};
    use protocol::record::Record;

    fn ledger(votes: &[Vote]) -> Ledger {
        let mut ledger = Ledger::default();
        prepared(&mut ledger, 1, 0, &prepare(1, votes));
        ledger
    }

    fn entry(ledger: &Ledger) -> &LedgerOperation {
        ledger.operations.values().next().unwrap()
    }

    #[test]
    fn a_decision_is_the_and_of_the_votes() {
        let abort = Decision::Abort(RequestResult::Conflict);
        let no = Vote::No(RequestResult::Conflict);
        let yes = ledger(&[Vote::Yes]);
        assert!(decided(entry(&yes), &abort, true).is_err());
        assert_eq!(decided(entry(&yes), &Decision::Commit, true), Ok(()));
        let refused = ledger(&[no]);
        assert_eq!(decided(entry(&refused), &abort, true), Ok(()));
        assert!(decided(entry(&refused), &Decision::Commit, true).is_err());
    }

    #[test]
    fn a_decision_is_not_reversed_even_by_a_crash() {
        let mut ledger = ledger(&[Vote::Yes]);
        let record = crate::ledger::testing::decided(1, 0, Decision::Commit);
        ledger.append((core(0), Position(2)), &record, None);
        ledger.crash(core(0), Position(0));
        let abort = Decision::Abort(RequestResult::Conflict);
        assert!(decided(entry(&ledger), &abort, true).is_err());
        let applied = RequestResult::Applied {
            version: Version(10),
        };
        assert_eq!(reported(entry(&ledger), &applied), Ok(()));
    }

    #[test]
    fn an_outcome_that_is_not_visible_yet_is_not_settled() {
        let mut ledger = ledger(&[Vote::Yes]);
        assert!(settled(entry(&ledger)).is_err());
        let record = crate::ledger::testing::decided(1, 0, Decision::Commit);
        ledger.append((core(0), Position(2)), &record, None);
        assert_eq!(settled(entry(&ledger)), Ok(()));
    }

    /// Server 0 decides at the end of epochs before the seventh, which serves; server 1 was removed
    /// before that, and still awaits the sixth.
    #[test]
    fn a_late_outcome_of_a_removed_member_counts_for_nothing() {
        let mut ledger = ledger(&[Vote::Yes]);
        let abort = Decision::Abort(RequestResult::Conflict);
        let sealed = |epoch| Record::Sealed {
            epoch: Epoch(epoch),
            tables: vec![(Default::default(), true)],
        };
        ledger.append((core(0), Position(2)), &sealed(7), None);
        let decided = crate::ledger::testing::decided(1, 0, abort.clone());
        ledger.append((core(0), Position(3)), &decided, None);
        let tables = [TableId(1), TableId::default()];
        let served = ledger.served((core(0), Epoch(7)), &tables, |_| true);
        assert_eq!(served, Ok(()));
        let of_entry = |awaited| resolved(entry(&ledger), &Decision::Commit, Epoch(awaited));
        assert_eq!(of_entry(6), Ok(()));
        assert!(of_entry(7).is_err());
        assert!(of_entry(8).is_err());
        ledger.append((core(1), Position(2)), &sealed(6), None);
        let late = crate::ledger::testing::decided(1, 0, Decision::Commit);
        ledger.append((core(1), Position(3)), &late, None);
        assert_eq!(entry(&ledger).decision, Some(abort));
    }

    #[test]
    fn an_undecided_operation_has_no_result() {
        let ledger = ledger(&[Vote::Yes]);
        let applied = RequestResult::Applied {
            version: Version(10),
        };
        assert!(reported(entry(&ledger), &applied).is_err());
        assert!(reported(entry(&ledger), &RequestResult::Conflict).is_err());
    }
}
