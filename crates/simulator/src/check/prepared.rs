//! I1: a committed operation was prepared at all members. Also checks R1 and R2, on which I1
//! depends.
//!
//! With `sync`, a decision is logged at a member only when every member after it, and every side
//! member (R48), has its prepare durable with a yes; an answer leaves the head only when all have.
//! With `replicated`, every member must have logged a prepare before any member logs the decision.
//! A crash may have lost this record since. Votes in two records never differ.

use std::cmp::Ordering;

use protocol::identity::PartitionId;
use protocol::operation::{Decision, Prepare, Vote};

use crate::ledger::{Ledger, LedgerOperation, place};

/// Checks, when a member has logged a decision, that the members after it in the chain have
/// prepared durably.
pub fn decided(ledger: &Ledger, entry: &LedgerOperation, at: PartitionId) -> Result<(), String> {
    let Some(own) = place(entry, at) else {
        return Err(format!("{at} decided an operation that it is no member of"));
    };
    if entry.is_transaction() {
        return all_prepared(ledger, entry, 0);
    }
    let last = entry.prepare.chain().len() - 1;
    let from = match own.cmp(&last) {
        Ordering::Less => own + 1,
        Ordering::Equal => last,
        // A side member learns the outcome from the head.
        Ordering::Greater => 0,
    };
    all_prepared(ledger, entry, from)
}

/// Checks, when a member of a `replicated` table has logged a decision, that all members have
/// prepared at some time.
pub fn decided_in_memory(entry: &LedgerOperation) -> Result<(), String> {
    let mut members = entry.members.iter().zip(&entry.prepare.members);
    match members.find(|(member, _)| !member.was_prepared) {
        Some((_, partition)) if !entry.resolved => Err(format!(
            "{:?} is committed, but {partition} has never prepared it",
            entry.prepare.operation
        )),
        _ => Ok(()),
    }
}

/// Checks an operation that the head reports to a client as applied.
pub fn reported(ledger: &Ledger, entry: &LedgerOperation) -> Result<(), String> {
    all_prepared(ledger, entry, 0)
}

fn all_prepared(ledger: &Ledger, entry: &LedgerOperation, from: usize) -> Result<(), String> {
    if entry.resolved {
        return Ok(());
    }
    let operation = entry.prepare.operation;
    for (place, member) in entry.members.iter().enumerate().skip(from) {
        let partition = entry.prepare.members[place];
        let Some(logged) = member.prepared else {
            return Err(format!(
                "{operation:?} is committed, but {partition} has no prepare"
            ));
        };
        if !ledger.is_durable(logged) {
            return Err(format!(
                "{operation:?} is committed, but the prepare of {partition} is not durable"
            ));
        }
        if member.votes.iter().any(|vote| *vote != Vote::Yes) {
            return Err(format!(
                "{operation:?} is committed, but {partition} has a no vote"
            ));
        }
    }
    Ok(())
}

/// Checks that the votes of a prepare that is about to be logged equal the votes that other members
/// have on their disks.
pub fn votes_agree(ledger: &Ledger, prepare: &Prepare) -> Result<(), String> {
    let Some(entry) = ledger.operations.get(&prepare.operation) else {
        return Ok(());
    };
    // Each member has its own vote alone.
    if entry.is_transaction() {
        return Ok(());
    }
    // Of an abort, votes that were forgotten are filled in from the decision.
    if matches!(entry.decision, Some(Decision::Abort(_))) {
        return Ok(());
    }
    for (place, member) in entry.members.iter().enumerate() {
        let common = member.votes.len().min(prepare.votes.len());
        if member.votes[..common] != prepare.votes[..common] {
            return Err(format!(
                "the votes on {:?} are {:?} in one record and {:?} at place {place}",
                prepare.operation, prepare.votes, member.votes
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::testing::{core, partition, prepare, prepared};
    use protocol::identity::Position;

    fn all_yes(ledger: &mut Ledger) -> std::sync::Arc<Prepare> {
        for place in 0..3 {
            let prepare = prepare(1, &vec![Vote::Yes; place + 1]);
            prepared(ledger, 1, place as u8, &prepare);
        }
        prepare(1, &[])
    }

    #[test]
    fn a_decision_waits_for_durable_prepares_behind_it() {
        let mut ledger = Ledger::default();
        let prepare = all_yes(&mut ledger);
        let check = |ledger: &Ledger, at| {
            decided(
                ledger,
                &ledger.operations[&prepare.operation],
                partition(at),
            )
        };
        assert!(
            check(&ledger, 2).is_err(),
            "the decider's own is not durable"
        );
        ledger.durable(core(2), Position(1));
        assert_eq!(check(&ledger, 2), Ok(()));
        assert_eq!(check(&ledger, 1), Ok(()));
        assert!(
            check(&ledger, 0).is_err(),
            "that of member 1 is not durable"
        );
        ledger.durable(core(1), Position(1));
        assert_eq!(check(&ledger, 0), Ok(()));
        assert!(reported(&ledger, &ledger.operations[&prepare.operation]).is_err());
        ledger.durable(core(0), Position(1));
        assert_eq!(
            reported(&ledger, &ledger.operations[&prepare.operation]),
            Ok(())
        );
        ledger.crash(core(1), Position(1));
        assert_eq!(check(&ledger, 0), Ok(()), "what was durable stays so");
    }

    #[test]
    fn a_member_that_lost_its_prepare_has_prepared() {
        let mut ledger = Ledger::default();
        let prepare = prepare(1, &[Vote::Yes]);
        prepared(&mut ledger, 1, 0, &prepare);
        prepared(&mut ledger, 1, 2, &prepare);
        let check =
            |ledger: &Ledger| decided_in_memory(&ledger.operations[&prepare.operation]).is_ok();
        assert!(!check(&ledger), "member 1 has never had it");
        prepared(&mut ledger, 1, 1, &prepare);
        ledger.crash(core(1), Position(0));
        assert!(check(&ledger));
    }

    #[test]
    fn votes_do_not_change() {
        let mut ledger = Ledger::default();
        all_yes(&mut ledger);
        assert_eq!(votes_agree(&ledger, &prepare(1, &[Vote::Yes])), Ok(()));
        let no = Vote::No(protocol::operation::RequestResult::Conflict);
        assert!(votes_agree(&ledger, &prepare(1, &[Vote::Yes, no.clone()])).is_err());
        assert_eq!(votes_agree(&ledger, &prepare(2, &[no])), Ok(()));
    }
}
