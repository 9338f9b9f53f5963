//! I7: every request has one effect and one result (R13).

use std::collections::BTreeMap;

use protocol::identity::{CoreId, Epoch, RequestId};
use protocol::operation::{Decision, RequestResult};

use crate::ledger::Ledger;

/// The core that answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The core.
    pub core: CoreId,
    /// The epoch since which the core holds the request's partition; none if the partition has left
    /// the core.
    pub since: Option<Epoch>,
}

/// The results that clients received.
#[derive(Debug, Default)]
pub struct Results {
    reported: BTreeMap<RequestId, (Head, RequestResult)>,
}

impl Results {
    /// Checks that a head answers a request with the result that was reported before, if there was
    /// one. A result without effect is lost with the head that reported it. A client that did not
    /// receive the first result and asks again may receive a different result: from the next head,
    /// or from the same core if another core was head in between. A head with a slow disk may
    /// report its result only after the next head has answered the client. The client ignores such
    /// a late result, which another check verifies, so it does not count.
    pub fn reported(
        &mut self,
        head: Head,
        request: RequestId,
        result: &RequestResult,
    ) -> Result<(), String> {
        if head.since.is_none() && !took_effect(result) {
            return Ok(());
        }
        let first = self.reported.entry(request);
        let (by, first) = first.or_insert_with(|| (head, result.clone()));
        if first == result {
            return Ok(());
        }
        if *by != head && !took_effect(first) {
            (*by, *first) = (head, result.clone());
            return Ok(());
        }
        Err(format!(
            "{request:?} was answered {first:?} by {by:?}, now {result:?} by {head:?}"
        ))
    }
}

/// Checks that at most one committed operation carries a request, and no other result of it is
/// recorded.
pub fn one_effect(ledger: &Ledger) -> Result<(), String> {
    for (request, operations) in &ledger.of_request {
        let commits = |id: &&_| {
            let entry = &ledger.operations[*id];
            // A transaction that finds nothing to change runs again at the next first primary.
            let mut records = entry.prepare.requests.iter();
            let changes = records.any(|it| it.request == *request && took_effect(&it.result));
            entry.decision == Some(Decision::Commit) && entry.visible && changes
        };
        let committed: Vec<_> = operations.iter().filter(commits).collect();
        if committed.len() > 1 {
            return Err(format!("{request:?} took effect in {committed:?}"));
        }
        let Some(operation) = committed.first() else {
            continue;
        };
        let mut records = ledger.operations[*operation].prepare.requests.iter();
        let own = records.find(|record| record.request == *request);
        let results = ledger.completed.get(request).into_iter().flatten();
        // A core that fills a partition notes what others know of earlier heads, also of a request
        // that it runs meanwhile.
        let mut others = results.filter(|it| {
            let differs = own.is_none_or(|own| own.result != it.result);
            let is_heads_own = it.at.0 == operation.head && !it.is_learnt;
            differs && (took_effect(&it.result) || is_heads_own)
        });
        if let Some(other) = others.next() {
            return Err(format!(
                "{request:?} took effect in {operation:?} and ended {other:?}"
            ));
        }
    }
    Ok(())
}

fn took_effect(result: &RequestResult) -> bool {
    result.took_effect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::testing::{core, decided, partition, prepare, prepared};
    use protocol::identity::{Position, Version};
    use protocol::operation::{Prepare, RequestRecord, Vote};
    use protocol::record::Record;

    const APPLIED: RequestResult = RequestResult::Applied {
        version: Version(4),
    };

    fn since(epoch: u64) -> Head {
        Head {
            core: core(0),
            since: Some(Epoch(epoch)),
        }
    }

    #[test]
    fn a_second_answer_is_the_first_one() {
        let mut results = Results::default();
        let mut reported = |head, result| results.reported(head, RequestId::default(), &result);
        assert_eq!(reported(since(1), APPLIED), Ok(()));
        assert_eq!(reported(since(1), APPLIED), Ok(()));
        let again = RequestResult::Applied {
            version: Version(5),
        };
        assert!(reported(since(2), again).is_err());
    }

    #[test]
    fn a_result_without_effect_is_lost_with_its_head() {
        let mut results = Results::default();
        let mut reported = |head, result| results.reported(head, RequestId::default(), &result);
        assert_eq!(reported(since(1), RequestResult::NotFound), Ok(()));
        assert!(reported(since(1), APPLIED).is_err());
        assert_eq!(reported(since(2), APPLIED), Ok(()));
        assert!(reported(since(3), RequestResult::NotFound).is_err());
    }

    #[test]
    fn a_late_result_of_a_former_head_counts_only_if_it_took_effect() {
        let former = Head {
            core: core(1),
            since: None,
        };
        let mut results = Results::default();
        let mut reported = |head, result| results.reported(head, RequestId::default(), &result);
        assert_eq!(reported(since(1), APPLIED), Ok(()));
        assert_eq!(reported(former, RequestResult::NotFound), Ok(()));
        let again = RequestResult::Applied {
            version: Version(5),
        };
        assert!(reported(former, again).is_err());
    }

    #[test]
    fn a_request_commits_once() {
        let mut ledger = Ledger::default();
        for sequence in [1, 2] {
            let mut prepare = Prepare::clone(&prepare(sequence, &[Vote::Yes]));
            prepare.requests[0].request.number = 9;
            prepared(&mut ledger, sequence * 2, 0, &prepare.into());
            assert_eq!(one_effect(&ledger), Ok(()));
            let record = decided(sequence, 0, Decision::Commit);
            ledger.append((core(0), Position(sequence * 2 + 1)), &record, None);
        }
        assert!(one_effect(&ledger).is_err());
    }

    /// A head runs a request of which it has a record that nothing happened: its own one before, or
    /// that of another head.
    fn runs_on_record(core_before: Option<u16>) -> Result<(), String> {
        let mut ledger = Ledger::default();
        let prepare = prepare(1, &[Vote::Yes]);
        let nothing = Record::Completed {
            partition: partition(0),
            requests: vec![RequestRecord {
                result: RequestResult::Conflict,
                ..prepare.requests[0].clone()
            }],
        };
        for at in core_before.into_iter().chain([0]) {
            ledger.append((core(at), Position(1)), &nothing, None);
        }
        prepared(&mut ledger, 2, 0, &prepare);
        let commit = decided(1, 0, Decision::Commit);
        ledger.append((core(0), Position(3)), &commit, None);
        one_effect(&ledger)
    }

    #[test]
    fn a_head_runs_nothing_that_it_has_ended() {
        assert!(runs_on_record(None).is_err());
        assert_eq!(runs_on_record(Some(1)), Ok(()));
    }
}
