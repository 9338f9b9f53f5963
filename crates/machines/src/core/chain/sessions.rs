//! Completion records. With them every request has one effect and one result, however often the
//! client sends it (R13, R14).
//!
//! Records are kept apart from rows, because aborts and deletes need them, too. They are removed
//! below the session's lowest unacknowledged number, or when the coordinator has ended the session.

use alloc::collections::BTreeMap;

use protocol::identity::{PartitionId, RequestId, SessionId};
use protocol::operation::{RequestRecord, RequestResult};
use protocol::planted::{self, Bug};
use protocol::record::SavedCompletion;

/// The sessions that this core has seen.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    sessions: BTreeMap<SessionId, Session>,
    /// Sessions below have ended.
    floor: SessionId,
}

#[derive(Debug, Default)]
struct Session {
    acknowledged_below: u64,
    completed: BTreeMap<u64, Completed>,
}

#[derive(Debug)]
struct Completed {
    head: PartitionId,
    digest: u64,
    result: RequestResult,
    /// A record of its own shows it. Otherwise it is known by an operation that ended here, whose
    /// records are not read any more once its partition was with others (`is_of_tenure`).
    is_kept: bool,
}

/// The state of a request, as this core knows it from its session.
#[derive(Debug, PartialEq)]
pub(crate) enum RequestStatus<'a> {
    /// The request is unknown: it may run.
    New,
    /// The request has ended with this result.
    Completed(&'a RequestResult),
    /// The request's number was used with another body, or is acknowledged already.
    Mismatch,
    /// The session has ended.
    Ended,
}

impl Sessions {
    pub fn known(&self, request: RequestId, digest: u64) -> RequestStatus<'_> {
        if request.session < self.floor {
            return RequestStatus::Ended;
        }
        let Some(session) = self.sessions.get(&request.session) else {
            return RequestStatus::New;
        };
        if let Some(completed) = session.completed.get(&request.number) {
            return if completed.digest == digest || planted::is(Bug::DigestUnchecked) {
                RequestStatus::Completed(&completed.result)
            } else {
                RequestStatus::Mismatch
            };
        }
        if request.number < session.acknowledged_below {
            RequestStatus::Mismatch
        } else {
            RequestStatus::New
        }
    }

    /// Returns the result of a request that took effect; none if no effect is known.
    pub fn effect_of(&self, request: RequestId) -> Option<RequestResult> {
        let session = self.sessions.get(&request.session)?;
        let completed = session.completed.get(&request.number)?;
        let result = &completed.result;
        result.took_effect().then(|| result.clone())
    }

    /// Drops the records of requests that the client has acknowledged.
    pub fn acknowledge(&mut self, session: SessionId, below: u64) {
        if session < self.floor {
            return;
        }
        let session = self.sessions.entry(session).or_default();
        if below > session.acknowledged_below {
            session.acknowledged_below = below;
            while let Some(first) = session.completed.first_entry() {
                if *first.key() >= below {
                    break;
                }
                first.remove();
            }
        }
    }

    /// Drops records without recording that they existed. Only a planted bug does this.
    pub fn forget_below(&mut self, session: SessionId, below: u64) {
        if let Some(session) = self.sessions.get_mut(&session) {
            session.completed = session.completed.split_off(&below);
        }
    }

    /// Records a request's result. An effect is final. A result without effect can be lost with its
    /// head. Then the next head evaluates the request again.
    pub fn complete(&mut self, head: PartitionId, record: &RequestRecord, result: &RequestResult) {
        self.acknowledge(record.request.session, record.acknowledged_below);
        if record.request.session < self.floor {
            return;
        }
        let session = self.sessions.entry(record.request.session).or_default();
        if record.request.number < session.acknowledged_below {
            return;
        }
        if let Some(before) = session.completed.get(&record.request.number) {
            assert_eq!(before.digest, record.digest, "one body per request");
            let both = before.result.took_effect() && result.took_effect();
            assert!(
                !both || before.result == *result,
                "one effect per request: {:?}, then {result:?}",
                before.result
            );
            if before.result.took_effect() {
                return;
            }
        }
        let completed = Completed {
            head,
            digest: record.digest,
            result: result.clone(),
            is_kept: false,
        };
        session.completed.insert(record.request.number, completed);
    }

    /// Records a result that has its own log record or checkpoint entry.
    pub fn keep(&mut self, head: PartitionId, record: &RequestRecord) {
        self.complete(head, record, &record.result);
        let session = self.sessions.get_mut(&record.request.session);
        let completed = session.and_then(|it| it.completed.get_mut(&record.request.number));
        if let Some(completed) = completed.filter(|it| it.result == record.result) {
            completed.is_kept = true;
        }
    }

    /// Ends all sessions below `floor`.
    pub fn end_below(&mut self, floor: SessionId) {
        if floor > self.floor {
            self.floor = floor;
            self.sessions = self.sessions.split_off(&floor);
        }
    }

    pub fn floor(&self) -> SessionId {
        self.floor
    }

    /// Returns the number of completion records.
    pub fn count(&self) -> usize {
        self.sessions
            .values()
            .map(|session| session.completed.len())
            .sum()
    }

    /// Returns whether to keep a record: the request has none yet, or only one without effect,
    /// which this one replaces.
    pub fn is_to_be_kept(&self, record: &RequestRecord) -> bool {
        let request = record.request;
        let session = self.sessions.get(&request.session);
        let is_kept = session.is_some_and(|session| {
            let completed = session.completed.get(&request.number);
            let completed = completed.filter(|it| it.is_kept);
            request.number < session.acknowledged_below
                || completed
                    .is_some_and(|it| it.result.took_effect() || !record.result.took_effect())
        });
        request.session >= self.floor && !is_kept
    }

    /// Returns all records, for a checkpoint.
    pub fn saved(&self) -> impl Iterator<Item = SavedCompletion> {
        self.saved_from(RequestId::default())
    }

    /// Returns all records from a request on, by session and request number.
    pub fn saved_from(&self, start: RequestId) -> impl Iterator<Item = SavedCompletion> {
        self.sessions
            .range(start.session..)
            .flat_map(move |(session, records)| {
                let first = if *session == start.session {
                    start.number
                } else {
                    0
                };
                records
                    .completed
                    .range(first..)
                    .map(|(number, completed)| SavedCompletion {
                        head: completed.head,
                        request: RequestRecord {
                            request: RequestId {
                                session: *session,
                                number: *number,
                            },
                            acknowledged_below: records.acknowledged_below,
                            digest: completed.digest,
                            result: completed.result.clone(),
                        },
                    })
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::identity::Version;

    fn record(number: u64, acknowledged_below: u64) -> RequestRecord {
        RequestRecord {
            request: RequestId {
                session: SessionId(5),
                number,
            },
            acknowledged_below,
            digest: number * 10,
            result: RequestResult::NotFound,
        }
    }

    #[test]
    fn a_retry_finds_its_result_until_it_is_acknowledged() {
        let mut sessions = Sessions::default();
        let first = record(1, 1);
        assert_eq!(sessions.known(first.request, 10), RequestStatus::New);
        sessions.complete(PartitionId::default(), &first, &first.result);
        assert_eq!(
            sessions.known(first.request, 10),
            RequestStatus::Completed(&RequestResult::NotFound)
        );
        assert_eq!(sessions.known(first.request, 11), RequestStatus::Mismatch);
        sessions.acknowledge(SessionId(5), 2);
        assert_eq!(sessions.known(first.request, 10), RequestStatus::Mismatch);
        assert_eq!(sessions.count(), 0);
    }

    #[test]
    fn an_applied_result_is_kept_though_a_head_had_answered_otherwise() {
        let mut sessions = Sessions::default();
        let nothing = record(1, 1);
        let applied = RequestRecord {
            result: RequestResult::Applied {
                version: Version(7),
            },
            ..nothing.clone()
        };
        for (record, is_news) in [(&nothing, true), (&nothing, false), (&applied, true)] {
            assert_eq!(sessions.is_to_be_kept(record), is_news);
            sessions.keep(PartitionId::default(), record);
            assert_eq!(
                sessions.known(record.request, 10),
                RequestStatus::Completed(&record.result)
            );
        }
        assert!(!sessions.is_to_be_kept(&nothing) && !sessions.is_to_be_kept(&applied));
        sessions.keep(PartitionId::default(), &nothing);
        assert_eq!(
            sessions.known(applied.request, 10),
            RequestStatus::Completed(&applied.result)
        );
    }

    #[test]
    fn an_ended_session_is_refused() {
        let mut sessions = Sessions::default();
        let first = record(1, 1);
        sessions.complete(PartitionId::default(), &first, &first.result);
        sessions.end_below(SessionId(6));
        assert_eq!(sessions.known(first.request, 10), RequestStatus::Ended);
        sessions.complete(PartitionId::default(), &first, &first.result);
        assert_eq!(sessions.count(), 0);
    }
}
