//! Where statements run: one decision for every state of a session.
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
use crate::touched::{Touched, WRITES};
use crate::writes::Writes;

/// Where a session stands when statements come.
#[derive(Clone, Copy, Debug)]
pub enum Situation<'a> {
    /// It has no server, and no transaction on one.
    Free {
        /// Its client has begun a transaction, which is on no server yet.
        is_inside: bool,
    },
    /// Its transaction takes the one snapshot that it has where these run.
    TakesSnapshot,
    /// Its transaction waits on the primary, and has written this.
    Waits(&'a Writes),
    /// It has the primary's connection, and keeps it.
    OnPrimary {
        /// For its transaction; otherwise for what it has left there.
        is_inside: bool,
    },
    /// Its transaction has its snapshot at a replica.
    AtSnapshot {
        /// Whether messages that were sent before may have ended that transaction.
        may_be_over: bool,
    },
}

/// Statements that need a place, and the state of the session that has sent them.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// Where the session stands.
    pub situation: Situation<'a>,
    /// What the statements touch.
    pub touched: &'a Touched,
    /// Whether these are all statements of their batch.
    pub is_whole: bool,
    /// Whether they leave no state in the session.
    pub leaves_nothing: bool,
    /// Whether they end their transaction and do nothing else.
    pub is_end: bool,
    /// Whether they share portals with other batches of their transaction.
    pub shares_portals: bool,
    /// Whether the session keeps its connection.
    pub is_pinned: bool,
    /// Whether their reads are checked when the transaction commits.
    pub is_serializable: bool,
    /// Whether they ran at a replica, and failed there or had their answer discarded.
    pub has_failed: bool,
}

impl<'a> Question<'a> {
    /// Asks about a whole batch that leaves nothing, of a session without anything special.
    pub fn of(situation: Situation<'a>, touched: &'a Touched) -> Question<'a> {
        Question {
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

/// Where statements run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoutingDecision {
    /// On the primary, for this reason.
    Primary(&'static str),
    /// On the primary, as they have failed at a replica.
    FailedElsewhere,
    /// Where they are fresh enough: a replica, or the primary while there is none.
    Fresh(ReadTarget),
    /// At a replica that has everything, where their transaction takes its snapshot.
    Snapshot,
    /// At the replica where their transaction has its snapshot.
    Stays,
    /// Nowhere: their transaction must begin again, on the primary.
    BeginsAgain,
}

/// What decisions ask about replicas.
pub trait Freshness {
    /// Returns where a read of these can run.
    fn target(&mut self, reads: &Touched) -> ReadTarget;
    /// Returns the catalogue's generation. It is asked for after [`Freshness::target`]: as long as
    /// a change of the schema is Pending, reads of what it touches go to the primary.
    fn generation(&self) -> u64;
}

/// Decides where statements run.
pub fn decide(question: Question<'_>, freshness: &mut impl Freshness) -> RoutingDecision {
    let touched = question.touched;
    if let Situation::AtSnapshot { may_be_over } = question.situation {
        return match stays_at_snapshot(question) && !may_be_over {
            true => RoutingDecision::Stays,
            false => RoutingDecision::BeginsAgain,
        };
    }
    if let Situation::OnPrimary { is_inside } = question.situation {
        let kept = match is_inside {
            true => "its transaction is there",
            false => "its session is there",
        };
        return RoutingDecision::Primary(touched.needs_primary.unwrap_or(kept));
    }
    if question.has_failed {
        return RoutingDecision::FailedElsewhere;
    }
    if let Some(why) = touched.needs_primary.or(needed_inside(question)) {
        return RoutingDecision::Primary(why);
    }
    let leaves_nothing = question.is_whole && question.leaves_nothing;
    if !leaves_nothing || question.is_serializable || question.is_pinned {
        return RoutingDecision::Primary("what it leaves is kept there");
    }
    let Situation::Waits(writes) = question.situation else {
        return match question.situation {
            Situation::TakesSnapshot if !touched.sets.is_written() => RoutingDecision::Snapshot,
            _ => RoutingDecision::Fresh(freshness.target(touched)),
        };
    };
    if !writes.is_independent(&touched.sets) {
        return RoutingDecision::Primary("it touches what its transaction has written or locked");
    }
    let target = freshness.target(touched);
    let is_replica = matches!(target, ReadTarget::Replica { .. });
    if is_replica && writes.is_outdated(freshness.generation()) {
        return RoutingDecision::Primary("the schema has changed since its transaction wrote");
    }
    RoutingDecision::Fresh(target)
}

/// Returns why statements need the primary as parts of a transaction that is on no server, or waits
/// there: outside of it they would find another time, and other portals.
fn needed_inside(question: Question<'_>) -> Option<&'static str> {
    let is_inside = match question.situation {
        Situation::Free { is_inside } => is_inside,
        Situation::Waits(_) => true,
        Situation::TakesSnapshot | Situation::OnPrimary { .. } | Situation::AtSnapshot { .. } => {
            false
        }
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
fn stays_at_snapshot(question: Question<'_>) -> bool {
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
        Class, Manager, ManagerLimits, Reason, ReplicaId, ServerLife, Sets, TableOid, Touch, Tsid,
        mark,
    };

    const GENERATION: u64 = 3;
    const REPLICA: ReadTarget = ReadTarget::Replica {
        id: ReplicaId(1),
        need: Tsid(1),
        applied: Tsid(2),
        life: ServerLife(7),
    };
    const PENDING: ReadTarget = ReadTarget::Primary(Reason::Pending);

    struct Replicas(ReadTarget, u64);

    impl Freshness for Replicas {
        fn target(&mut self, _: &Touched) -> ReadTarget {
            self.0
        }

        fn generation(&self) -> u64 {
            self.1
        }
    }

    fn sets(table: u32, writes: bool) -> Sets {
        let all = || parts(Class::Rows, &[1], &[1]);
        let mut sets = Sets::default();
        let touch = Touch {
            class: Class::Rows,
            reads: (!writes).then(all),
            writes: writes.then(all),
        };
        sets.touch(TableOid(table), touch);
        sets
    }

    fn read(table: u32) -> Touched {
        Touched {
            sets: sets(table, false),
            count: 1,
            generation: Some(GENERATION),
            ..Touched::default()
        }
    }

    fn write() -> Touched {
        Touched {
            sets: sets(1, true),
            needs_primary: Some(WRITES),
            ..read(1)
        }
    }

    /// Returns a transaction that has written to table 1, known by the catalogue of [`GENERATION`].
    fn written() -> Writes {
        let mut writes = Writes::default();
        let manager = || -> alloc::boxed::Box<Manager> { unreachable!("it does not end") };
        writes.note(&write(), true, manager);
        writes
    }

    // tidy: long — a table of cases
    #[test]
    fn table_of_cases() {
        use RoutingDecision::{BeginsAgain, FailedElsewhere, Fresh, Primary, Snapshot, Stays};
        const KEPT: RoutingDecision = Primary("what it leaves is kept there");
        const FREE: Situation<'_> = Situation::Free { is_inside: false };
        const INSIDE: Situation<'_> = Situation::Free { is_inside: true };
        const AT: Situation<'_> = Situation::AtSnapshot { may_be_over: false };
        let (reads, other, writes) = (read(1), read(2), write());
        let written = written();
        let waits = Situation::Waits(&written);
        let timed = Touched {
            of_transaction_time: true,
            ..read(1)
        };
        let savepoint = Touched {
            commands: 1,
            needs_primary: Some("it begins or ends a transaction"),
            count: 1,
            ..Touched::default()
        };
        let commits = Touched {
            may_end: true,
            ..savepoint.clone()
        };
        let anything = Touched::anything("it is not understood");
        let cases = [
            // Free.
            (Question::of(FREE, &reads), REPLICA, Fresh(REPLICA)),
            (Question::of(FREE, &reads), PENDING, Fresh(PENDING)),
            (Question::of(FREE, &writes), REPLICA, Primary(WRITES)),
            (
                Question::of(FREE, &anything),
                REPLICA,
                Primary("it is not understood"),
            ),
            (Question::of(FREE, &timed), REPLICA, Fresh(REPLICA)),
            (Question::of(INSIDE, &reads), REPLICA, Fresh(REPLICA)),
            (
                Question::of(INSIDE, &timed),
                REPLICA,
                Primary("it asks for the time of its transaction"),
            ),
            (
                Question {
                    shares_portals: true,
                    ..Question::of(INSIDE, &reads)
                },
                REPLICA,
                Primary("its transaction goes on with its portals"),
            ),
            (
                Question {
                    shares_portals: true,
                    ..Question::of(FREE, &reads)
                },
                REPLICA,
                Fresh(REPLICA),
            ),
            (
                Question {
                    is_whole: false,
                    ..Question::of(FREE, &reads)
                },
                REPLICA,
                KEPT,
            ),
            (
                Question {
                    leaves_nothing: false,
                    ..Question::of(FREE, &reads)
                },
                REPLICA,
                KEPT,
            ),
            (
                Question {
                    is_pinned: true,
                    ..Question::of(FREE, &reads)
                },
                REPLICA,
                KEPT,
            ),
            (
                Question {
                    is_serializable: true,
                    ..Question::of(FREE, &reads)
                },
                REPLICA,
                KEPT,
            ),
            (
                Question {
                    has_failed: true,
                    ..Question::of(FREE, &reads)
                },
                REPLICA,
                FailedElsewhere,
            ),
            // One snapshot for all.
            (
                Question::of(Situation::TakesSnapshot, &reads),
                PENDING,
                Snapshot,
            ),
            (
                Question::of(Situation::TakesSnapshot, &timed),
                REPLICA,
                Snapshot,
            ),
            (
                Question::of(Situation::TakesSnapshot, &writes),
                REPLICA,
                Primary(WRITES),
            ),
            // Waits on the primary, where it has written to table 1.
            (Question::of(waits, &other), REPLICA, Fresh(REPLICA)),
            (Question::of(waits, &other), PENDING, Fresh(PENDING)),
            (
                Question::of(waits, &reads),
                REPLICA,
                Primary("it touches what its transaction has written or locked"),
            ),
            (
                Question::of(waits, &timed),
                REPLICA,
                Primary("it asks for the time of its transaction"),
            ),
            (
                Question {
                    has_failed: true,
                    ..Question::of(waits, &other)
                },
                REPLICA,
                FailedElsewhere,
            ),
            (
                Question {
                    is_whole: false,
                    ..Question::of(waits, &other)
                },
                REPLICA,
                KEPT,
            ),
            // On the primary, which it keeps.
            (
                Question::of(Situation::OnPrimary { is_inside: true }, &reads),
                REPLICA,
                Primary("its transaction is there"),
            ),
            (
                Question::of(Situation::OnPrimary { is_inside: false }, &reads),
                REPLICA,
                Primary("its session is there"),
            ),
            (
                Question::of(Situation::OnPrimary { is_inside: true }, &writes),
                REPLICA,
                Primary(WRITES),
            ),
            // At the replica where its transaction has its snapshot.
            (Question::of(AT, &reads), PENDING, Stays),
            (Question::of(AT, &writes), PENDING, Stays),
            (Question::of(AT, &savepoint), PENDING, Stays),
            (Question::of(AT, &anything), PENDING, BeginsAgain),
            (Question::of(AT, &commits), PENDING, BeginsAgain),
            (
                Question {
                    is_end: true,
                    ..Question::of(AT, &commits)
                },
                PENDING,
                Stays,
            ),
            (
                Question {
                    leaves_nothing: false,
                    ..Question::of(AT, &reads)
                },
                PENDING,
                BeginsAgain,
            ),
            (
                Question::of(Situation::AtSnapshot { may_be_over: true }, &reads),
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
        let question = Question::of(Situation::Waits(&written), &other);
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
        struct Real(Manager);
        impl Freshness for Real {
            fn target(&mut self, reads: &Touched) -> ReadTarget {
                self.0.route(&reads.sets, crate::freshness::Level::Gssi)
            }
            fn generation(&self) -> u64 {
                GENERATION
            }
        }
        let key = mark::MarkKey::new(b"secret");
        let manager = Manager::with_limits(key, 1, Tsid(10), ManagerLimits::SMALL);
        let reads = read(1);
        let question = Question::of(Situation::Free { is_inside: false }, &reads);
        let none = ReadTarget::Primary(Reason::NoneFresh { need: Tsid(10) });
        assert_eq!(
            decide(question, &mut Real(manager)),
            RoutingDecision::Fresh(none)
        );
    }
}
