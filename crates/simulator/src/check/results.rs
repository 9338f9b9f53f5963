//! I7: one effect and one result per request (R13).

use std::collections::BTreeMap;

use protocol::identity::RequestId;
use protocol::operation::{Decision, RequestResult};

use crate::ledger::Ledger;

/// What clients were told.
#[derive(Debug, Default)]
pub struct Results {
    told: BTreeMap<RequestId, RequestResult>,
}

impl Results {
    /// A core answers a request: with what was told before, if something was.
    pub fn told(&mut self, request: RequestId, result: &RequestResult) -> Result<(), String> {
        let first = self.told.entry(request).or_insert_with(|| result.clone());
        if first == result {
            Ok(())
        } else {
            Err(format!(
                "{request:?} was answered {first:?}, now {result:?}"
            ))
        }
    }
}

/// At most one committed operation carries a request, and no other result of it is recorded.
pub fn one_effect(ledger: &Ledger) -> Result<(), String> {
    for (request, operations) in &ledger.of_request {
        let commits = |id: &&_| ledger.operations[*id].decision == Some(Decision::Commit);
        let committed: Vec<_> = operations.iter().filter(commits).collect();
        if committed.len() > 1 {
            return Err(format!("{request:?} took effect in {committed:?}"));
        }
        if let (Some(operation), Some(results)) = (committed.first(), ledger.completed.get(request))
        {
            return Err(format!(
                "{request:?} took effect in {operation:?} and ended {results:?}"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::testing::{core, decided, prepare, prepared};
    use protocol::identity::{Position, Version};
    use protocol::operation::{Prepare, Vote};

    #[test]
    fn a_second_answer_is_the_first_one() {
        let mut results = Results::default();
        let applied = RequestResult::Applied {
            version: Version(4),
        };
        assert_eq!(results.told(RequestId::default(), &applied), Ok(()));
        assert_eq!(results.told(RequestId::default(), &applied), Ok(()));
        let again = RequestResult::Applied {
            version: Version(5),
        };
        assert!(results.told(RequestId::default(), &again).is_err());
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
            ledger.append(core(0), Position(sequence * 2 + 1), &record);
        }
        assert!(one_effect(&ledger).is_err());
    }
}
