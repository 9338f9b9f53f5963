//! Decides on which server statements run, in one function for every state of a session.
//!
//! | the session's transaction | the statements | they run on |
//! |---|---|---|
//! | any | failed at a replica before, or did not count there | the primary |
//! | none, or one that is on no server | reads of which all is understood | a fresh replica |
//! | takes one snapshot for all | reads | a replica that has everything |
//! | waits on the primary | reads that are independent of its writes | a fresh replica |
//! | has its snapshot at a replica | what is a read for any node, or is refused | that replica |
//! | has its snapshot at a replica | anything else | nowhere: it must begin again |
//! | is on the primary | any | the primary |
//!
//! Everything that is not in the table runs on the primary (R33).

use crate::freshness::ReadTarget;
use crate::touched::{CombinedAnalysis, WRITES};
use crate::writes::SessionWrites;

/// The situation of a session when it sends statements.
#[derive(Clone, Copy, Debug)]
pub enum SessionSituation<'a> {
    /// It has no server, and no transaction on one.
    Free {
        /// The session's client has begun a transaction, which is on no server yet.
        is_inside: bool,
    },
    /// The session's transaction takes its only snapshot where these statements run.
    TakesSnapshot,
    /// The session's transaction waits on the primary, and has these writes.
    Waits(&'a SessionWrites),
    /// It has a connection to the primary and keeps it.
    OnPrimary {
        /// For its transaction; otherwise for the state that it has left there.
        is_inside: bool,
    },
    /// The session's transaction has its snapshot at a replica.
    AtSnapshot {
        /// Whether messages that were sent before may have ended that transaction.
        may_be_over: bool,
    },
}

/// Statements that need a server, and the state of the session that sends them.
#[derive(Clone, Copy, Debug)]
pub struct RoutingQuestion<'a> {
    /// The situation of the session.
    pub situation: SessionSituation<'a>,
    /// The analysis of the statements.
    pub touched: &'a CombinedAnalysis,
    /// Whether the statements are all statements of their batch.
    pub is_whole: bool,
    /// Whether the statements leave no state in the session.
    pub leaves_nothing: bool,
    /// Whether the statements only end their transaction.
    pub is_end: bool,
    /// Whether the statements share portals with other batches of their transaction.
    pub shares_portals: bool,
    /// Whether the session keeps its connection.
    pub is_pinned: bool,
    /// Whether the transaction is SERIALIZABLE, so that its reads are checked at the commit.
    pub is_serializable: bool,
    /// Whether the statements ran at a replica before, and failed there or had their answer
    /// discarded.
    pub has_failed: bool,
}

impl<'a> RoutingQuestion<'a> {
    /// Returns the routing question for a complete batch that leaves no state, in a session without
    /// special settings.
    pub fn of(
        situation: SessionSituation<'a>,
        touched: &'a CombinedAnalysis,
    ) -> RoutingQuestion<'a> {
        RoutingQuestion {
            situation,
            touched,
            is_whole: true,
            leaves_nothing: true,
            is_end: false,
            shares_portals: false,
            is_pinned: false,
            is_serializable: false,
            has_failed: false,
        }
    }
}

/// The decision where statements run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoutingDecision {
    /// The statements run on the primary, for this reason.
    Primary(&'static str),
    /// The statements run on the primary, because they failed at a replica.
    FailedAtReplica,
    /// The statements run at a replica that is fresh enough, or on the primary if there is none.
    Fresh(ReadTarget),
    /// The statements run at a replica that has every commit, and their transaction takes its
    /// snapshot there.
    Snapshot,
    /// The statements run at the replica where their transaction has its snapshot.
    Stays,
    /// The statements run on no server: their transaction must begin again, on the primary.
    BeginsAgain,
}

/// The view of the replicas' freshness that decisions need.
pub trait ReplicaFreshness {
    /// Returns the server on which a read can run.
    fn target(&mut self, reads: &CombinedAnalysis) -> ReadTarget;
    /// Returns the catalogue's generation. It is read after [`ReplicaFreshness::target`]: as long
    /// as a change of the schema is Pending, reads of its tables go to the primary.
    fn generation(&self) -> u64;
}

/// Decides where statements run.
pub fn decide(
    question: RoutingQuestion<'_>,
    freshness: &mut impl ReplicaFreshness,
) -> RoutingDecision {
    let touched = question.touched;
    if let SessionSituation::AtSnapshot { may_be_over } = question.situation {
        return match stays_at_snapshot(question) && !may_be_over {
            true => RoutingDecision::Stays,
            false => RoutingDecision::BeginsAgain,
        };
    }
    if let SessionSituation::OnPrimary { is_inside } = question.situation {
        let kept = match is_inside {
            true => "its transaction is there",
            false => "its session is there",
        };
        return RoutingDecision::Primary(touched.needs_primary.unwrap_or(kept));
    }
    if question.has_failed {
        return RoutingDecision::FailedAtReplica;
    }
    if let Some(why) = touched.needs_primary.or(needed_inside(question)) {
        return RoutingDecision::Primary(why);
    }
    let leaves_nothing = question.is_whole && question.leaves_nothing;
    if !leaves_nothing || question.is_serializable || question.is_pinned {
        return RoutingDecision::Primary("it leaves state in the session");
    }
    let SessionSituation::Waits(writes) = question.situation else {
        return match question.situation {
            SessionSituation::TakesSnapshot if !touched.sets.is_written() => {
                RoutingDecision::Snapshot
            }
            _ => RoutingDecision::Fresh(freshness.target(touched)),
        };
    };
    if !writes.is_independent(&touched.sets) {
        return RoutingDecision::Primary("it touches writes or locks of its transaction");
    }
    let target = freshness.target(touched);
    let is_replica = matches!(target, ReadTarget::Replica { .. });
    if is_replica && writes.is_outdated(freshness.generation()) {
        return RoutingDecision::Primary("the schema has changed since its transaction wrote");
    }
    RoutingDecision::Fresh(target)
}

/// Returns the reason why statements need the primary as parts of a transaction that is on no
/// server or waits on the primary; none if they do not. Outside of the transaction they would find
/// another time and other portals.
fn needed_inside(question: RoutingQuestion<'_>) -> Option<&'static str> {
    let is_inside = match question.situation {
        SessionSituation::Free { is_inside } => is_inside,
        SessionSituation::Waits(_) => true,
        SessionSituation::TakesSnapshot
        | SessionSituation::OnPrimary { .. }
        | SessionSituation::AtSnapshot { .. } => false,
    };
    match (
        question.touched.of_transaction_time,
        question.shares_portals,
    ) {
        _ if !is_inside => None,
        (true, _) => Some("it asks for the time of its transaction"),
        (_, true) => Some("its transaction goes on with its portals"),
        _ => None,
    }
}

/// Returns whether statements may run in a transaction that has its snapshot at a replica. Reads
/// and savepoints may, and so may statements that only end it; after these, another transaction may
/// begin. A write may in a transaction that the client has declared read-only: PostgreSQL refuses
/// it there before it does anything, as it would on the primary.
fn stays_at_snapshot(question: RoutingQuestion<'_>) -> bool {
    let touched = question.touched;
    let is_read = touched.needs_primary.is_none();
    let is_savepoint = touched.count == 1 && touched.commands == 1 && !touched.may_end;
    let writes_nothing = touched.sets.tables().all(|(_, it)| !it.is_written());
    let is_refused = touched.count == 1 && touched.needs_primary == Some(WRITES);
    let goes_on = (is_read || is_savepoint) && writes_nothing || is_refused;
    let may_write = touched.sets.may_write_anything();
    question.is_end || goes_on && question.leaves_nothing && !may_write
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::freshness::paper::parts;
    use crate::freshness::{
        AccessSets, AffectingClass, FreshnessManager, ManagerLimits, PrimaryReason, ReplicaId,
        ServerLife, TableAccess, TableOid, Tsid, mark,
    };

    const GENERATION: u64 = 3;
    const REPLICA: ReadTarget = ReadTarget::Replica {
        id: ReplicaId(1),
        need: Tsid(1),
        applied: Tsid(2),
        life: ServerLife(7),
    };
    const PENDING: ReadTarget = ReadTarget::Primary(PrimaryReason::Pending);

    struct Replicas(ReadTarget, u64);

    impl ReplicaFreshness for Replicas {
        fn target(&mut self, _: &CombinedAnalysis) -> ReadTarget {
            self.0
        }

        fn generation(&self) -> u64 {
            self.1
        }
    }

    fn sets(table: u32, writes: bool) -> AccessSets {
        let all = || parts(AffectingClass::Rows, &[1], &[1]);
        let mut sets = AccessSets::default();
        let touch = TableAccess {
            class: AffectingClass::Rows,
            reads: (!writes).then(all),
            writes: writes.then(all),
        };
        sets.touch(TableOid(table), touch);
        sets
    }

    fn read(table: u32) -> CombinedAnalysis {
        CombinedAnalysis {
            sets: sets(table, false),
            count: 1,
            generation: Some(GENERATION),
            ..CombinedAnalysis::default()
        }
    }

    fn write() -> CombinedAnalysis {
        CombinedAnalysis {
            sets: sets(1, true),
            needs_primary: Some(WRITES),
            ..read(1)
        }
    }

    /// Returns a transaction that has written to table 1, known by the catalogue of [`GENERATION`].
    fn written() -> SessionWrites {
        let mut writes = SessionWrites::default();
        let manager = || -> alloc::boxed::Box<FreshnessManager> { unreachable!("it does not end") };
        writes.note(&write(), true, manager);
        writes
    }

    // tidy: long — a table of cases
    #[test]
    fn table_of_cases() {
        use RoutingDecision::{BeginsAgain, FailedAtReplica, Fresh, Primary, Snapshot, Stays};
        const KEPT: RoutingDecision = Primary("it leaves state in the session");
        const FREE: SessionSituation<'_> = SessionSituation::Free { is_inside: false };
        const INSIDE: SessionSituation<'_> = SessionSituation::Free { is_inside: true };
        const AT: SessionSituation<'_> = SessionSituation::AtSnapshot { may_be_over: false };
        let (reads, other, writes) = (read(1), read(2), write());
        let written = written();
        let waits = SessionSituation::Waits(&written);
        let timed = CombinedAnalysis {
            of_transaction_time: true,
            ..read(1)
        };
        let savepoint = CombinedAnalysis {
            commands: 1,
            needs_primary: Some("it begins or ends a transaction"),
            count: 1,
            ..CombinedAnalysis::default()
        };
        let commits = CombinedAnalysis {
            may_end: true,
            ..savepoint.clone()
        };
        let anything = CombinedAnalysis::anything("it is not understood");
        let cases = [
            // Free.
            (RoutingQuestion::of(FREE, &reads), REPLICA, Fresh(REPLICA)),
            (RoutingQuestion::of(FREE, &reads), PENDING, Fresh(PENDING)),
            (RoutingQuestion::of(FREE, &writes), REPLICA, Primary(WRITES)),
            (
                RoutingQuestion::of(FREE, &anything),
                REPLICA,
                Primary("it is not understood"),
            ),
            (RoutingQuestion::of(FREE, &timed), REPLICA, Fresh(REPLICA)),
            (RoutingQuestion::of(INSIDE, &reads), REPLICA, Fresh(REPLICA)),
            (
                RoutingQuestion::of(INSIDE, &timed),
                REPLICA,
                Primary("it asks for the time of its transaction"),
            ),
            (
                RoutingQuestion {
                    shares_portals: true,
                    ..RoutingQuestion::of(INSIDE, &reads)
                },
                REPLICA,
                Primary("its transaction goes on with its portals"),
            ),
            (
                RoutingQuestion {
                    shares_portals: true,
                    ..RoutingQuestion::of(FREE, &reads)
                },
                REPLICA,
                Fresh(REPLICA),
            ),
            (
                RoutingQuestion {
                    is_whole: false,
                    ..RoutingQuestion::of(FREE, &reads)
                },
                REPLICA,
                KEPT,
            ),
            (
                RoutingQuestion {
                    leaves_nothing: false,
                    ..RoutingQuestion::of(FREE, &reads)
                },
                REPLICA,
                KEPT,
            ),
            (
                RoutingQuestion {
                    is_pinned: true,
                    ..RoutingQuestion::of(FREE, &reads)
                },
                REPLICA,
                KEPT,
            ),
            (
                RoutingQuestion {
                    is_serializable: true,
                    ..RoutingQuestion::of(FREE, &reads)
                },
                REPLICA,
                KEPT,
            ),
            (
                RoutingQuestion {
                    has_failed: true,
                    ..RoutingQuestion::of(FREE, &reads)
                },
                REPLICA,
                FailedAtReplica,
            ),
            // One snapshot for all.
            (
                RoutingQuestion::of(SessionSituation::TakesSnapshot, &reads),
                PENDING,
                Snapshot,
            ),
            (
                RoutingQuestion::of(SessionSituation::TakesSnapshot, &timed),
                REPLICA,
                Snapshot,
            ),
            (
                RoutingQuestion::of(SessionSituation::TakesSnapshot, &writes),
                REPLICA,
                Primary(WRITES),
            ),
            // Waits on the primary, where it has written to table 1.
            (RoutingQuestion::of(waits, &other), REPLICA, Fresh(REPLICA)),
            (RoutingQuestion::of(waits, &other), PENDING, Fresh(PENDING)),
            (
                RoutingQuestion::of(waits, &reads),
                REPLICA,
                Primary("it touches writes or locks of its transaction"),
            ),
            (
                RoutingQuestion::of(waits, &timed),
                REPLICA,
                Primary("it asks for the time of its transaction"),
            ),
            (
                RoutingQuestion {
                    has_failed: true,
                    ..RoutingQuestion::of(waits, &other)
                },
                REPLICA,
                FailedAtReplica,
            ),
            (
                RoutingQuestion {
                    is_whole: false,
                    ..RoutingQuestion::of(waits, &other)
                },
                REPLICA,
                KEPT,
            ),
            // On the primary, which it keeps.
            (
                RoutingQuestion::of(SessionSituation::OnPrimary { is_inside: true }, &reads),
                REPLICA,
                Primary("its transaction is there"),
            ),
            (
                RoutingQuestion::of(SessionSituation::OnPrimary { is_inside: false }, &reads),
                REPLICA,
                Primary("its session is there"),
            ),
            (
                RoutingQuestion::of(SessionSituation::OnPrimary { is_inside: true }, &writes),
                REPLICA,
                Primary(WRITES),
            ),
            // At the replica where its transaction has its snapshot.
            (RoutingQuestion::of(AT, &reads), PENDING, Stays),
            (RoutingQuestion::of(AT, &writes), PENDING, Stays),
            (RoutingQuestion::of(AT, &savepoint), PENDING, Stays),
            (RoutingQuestion::of(AT, &anything), PENDING, BeginsAgain),
            (RoutingQuestion::of(AT, &commits), PENDING, BeginsAgain),
            (
                RoutingQuestion {
                    is_end: true,
                    ..RoutingQuestion::of(AT, &commits)
                },
                PENDING,
                Stays,
            ),
            (
                RoutingQuestion {
                    leaves_nothing: false,
                    ..RoutingQuestion::of(AT, &reads)
                },
                PENDING,
                BeginsAgain,
            ),
            (
                RoutingQuestion::of(SessionSituation::AtSnapshot { may_be_over: true }, &reads),
                PENDING,
                BeginsAgain,
            ),
        ];
        for (number, (question, target, expected)) in cases.into_iter().enumerate() {
            let found = decide(question, &mut Replicas(target, GENERATION));
            assert_eq!(found, expected, "case {number}: {question:?}");
        }
    }

    #[test]
    fn schema_that_changed_since_its_transaction_wrote() {
        let (written, other) = (written(), read(2));
        let question = RoutingQuestion::of(SessionSituation::Waits(&written), &other);
        let newer = GENERATION + 1;
        let why = "the schema has changed since its transaction wrote";
        assert_eq!(
            decide(question, &mut Replicas(REPLICA, newer)),
            RoutingDecision::Primary(why)
        );
        // The change is Pending still: that is the reason.
        assert_eq!(
            decide(question, &mut Replicas(PENDING, newer)),
            RoutingDecision::Fresh(PENDING)
        );
    }

    /// The manager's own choice is the target.
    #[test]
    fn managers_target_counts() {
        struct Real(FreshnessManager);
        impl ReplicaFreshness for Real {
            fn target(&mut self, reads: &CombinedAnalysis) -> ReadTarget {
                self.0
                    .route(&reads.sets, crate::freshness::ConsistencyLevel::Gssi)
            }
            fn generation(&self) -> u64 {
                GENERATION
            }
        }
        let key = mark::MarkKey::new(b"secret");
        let manager = FreshnessManager::with_limits(key, 1, Tsid(10), ManagerLimits::SMALL);
        let reads = read(1);
        let question = RoutingQuestion::of(SessionSituation::Free { is_inside: false }, &reads);
        let none = ReadTarget::Primary(PrimaryReason::NoneFresh { need: Tsid(10) });
        assert_eq!(
            decide(question, &mut Real(manager)),
            RoutingDecision::Fresh(none)
        );
    }
}
