//! Checks each message before it goes to a server of a session. Records the writes that the message
//! may cause, and decides which statements run before it or in its place.

use std::sync::Arc;

use super::routing::{Routing, RoutingReason};
use super::server_settings::{ParseContext, ServerSettings};
use super::trace;
use pg_analysis::effect::{self, GRAMMAR};
use pg_wire::message::ParseMessage;
use pg_wire::report::{Report, Severity};
use proxy_core::freshness::{ConsistencyLevel, ReplicaId};
use proxy_core::grammar::SessionEffect;
use proxy_core::routing::{RoutingDecision, RoutingQuestion, SessionSituation, decide};
use proxy_core::session::{
    ComingMessage, MessageEffect, MessageRouter, MessageTreatment, PreparedStatement, RunKind,
    SnapshotState, StatementText, is_end,
};
use proxy_core::touched::CombinedAnalysis;
use proxy_core::writes::SessionWrites;

/// SQLSTATE: the transaction is to be tried again.
const SERIALIZATION_FAILURE: &str = "40001";
/// How a statement begins that may have the body of a function.
const CREATE: &[u8] = b"create";

/// Checks the messages of one session before they go to a server.
pub struct SessionRouter<'a> {
    /// The routing; none if the session's database has no replicas. Then messages are not checked.
    pub routing: Option<&'a Routing>,
    /// The session's settings on every server.
    pub server_settings: &'a ServerSettings,
    /// The server of the messages; none for the primary.
    pub place: Option<ReplicaId>,
    /// Whether the client has already got a notice for this batch.
    pub is_notified: bool,
    /// The writes of the session's transaction.
    pub writes: &'a mut SessionWrites,
}

impl MessageRouter for SessionRouter<'_> {
    fn look(&mut self, coming: &ComingMessage<'_>) -> MessageTreatment {
        let Some(routing) = self.routing else {
            return MessageTreatment::default();
        };
        let is_known = !coming.is_pinned && !self.writes.has_settings();
        let reading = is_known.then_some(&self.server_settings.reading);
        match coming.snapshot {
            None => self.look_on_primary(coming, (routing, reading)),
            Some(there) => {
                if there == SnapshotState::Quiet {
                    // The message that might have ended it was skipped.
                    self.writes.goes_on();
                }
                self.look_at_snapshot(coming, (routing, reading))
            }
        }
    }
}

impl SessionRouter<'_> {
    /// Notes the possible writes of the message's statements, and adds the statements that must run
    /// in front of them.
    fn look_on_primary(
        &mut self,
        coming: &ComingMessage<'_>,
        (routing, reading): (&Routing, Option<&ParseContext>),
    ) -> MessageTreatment {
        let (text, by) = match &coming.does {
            MessageEffect::Runs(text, by) => (text, *by),
            MessageEffect::Prepares(Some(parse)) => {
                return MessageTreatment {
                    is_schema_only: is_schema_only(*parse, routing, reading),
                    ..MessageTreatment::default()
                };
            }
            MessageEffect::Syncs => {
                let touched = CombinedAnalysis::default();
                self.writes
                    .note(&touched, coming.is_inside, || routing.manager());
                return MessageTreatment::default();
            }
            MessageEffect::Prepares(None)
            | MessageEffect::Describes(_)
            | MessageEffect::Nothing => {
                return MessageTreatment::default();
            }
        };
        let mut touched = routing.touched(text, reading);
        if coming.is_failed {
            // Nothing changes the schema before a rollback.
            touched.schema.clear();
        }
        let is_schema_only = text.text().is_some_and(|text| touched.is_schema_only(text));
        let prelude = match routing.prelude(&touched, reading, &self.server_settings.key.user) {
            Ok(prelude) => prelude,
            Err(report) => {
                return MessageTreatment {
                    raises: Some(report),
                    ..MessageTreatment::default()
                };
            }
        };
        let is_inside = coming.is_inside;
        let question = RoutingQuestion::of(SessionSituation::OnPrimary { is_inside }, &touched);
        let reason = match decide(question, &mut routing.replicas_at(ConsistencyLevel::Gssi)) {
            RoutingDecision::Primary(reason) => reason,
            decided => unreachable!("it keeps the primary's connection: {decided:?}"),
        };
        let notice = self.notice(coming, &RoutingReason::primary(reason), (routing, &touched));
        // A later message ends the transaction of an Execute, unless Execute ends it itself.
        let is_inside = is_inside || by == RunKind::Execute;
        self.writes.note(&touched, is_inside, || routing.manager());
        MessageTreatment {
            prelude,
            is_schema_only,
            notice,
            ..MessageTreatment::default()
        }
    }

    /// Looks at a message that goes to a replica, where its transaction has its snapshot. A
    /// statement whose objects differ from the primary's there fails, so that the client begins
    /// again: then on the primary.
    fn look_at_snapshot(
        &mut self,
        coming: &ComingMessage<'_>,
        (routing, reading): (&Routing, Option<&ParseContext>),
    ) -> MessageTreatment {
        let prepared;
        let text = match &coming.does {
            MessageEffect::Runs(text, _) => text,
            MessageEffect::Prepares(Some(parse)) => {
                prepared =
                    StatementText::Prepared(Arc::new(PreparedStatement::of(*parse, GRAMMAR)));
                &prepared
            }
            MessageEffect::Prepares(None) => &StatementText::Unknown,
            MessageEffect::Describes(statement) => {
                prepared = StatementText::Prepared(Arc::clone(statement));
                &prepared
            }
            MessageEffect::Syncs | MessageEffect::Nothing => return MessageTreatment::default(),
        };
        let touched = routing.touched(text, reading);
        let situation = SessionSituation::AtSnapshot {
            may_be_over: self.writes.may_be_over(),
        };
        let words = text.text().unwrap_or_default();
        let question = RoutingQuestion {
            leaves_nothing: effect::of(words) == SessionEffect::Nothing,
            is_end: is_end(words),
            ..RoutingQuestion::of(situation, &touched)
        };
        if decide(question, &mut routing.replicas_at(ConsistencyLevel::Gssi))
            != RoutingDecision::Stays
        {
            let text = "the transaction has its snapshot at a replica, where this cannot run";
            let report = Report::new(Severity::Error, SERIALIZATION_FAILURE, text)
                .hint("Begin it again: then it has one on the primary.");
            return MessageTreatment {
                raises: Some(report),
                ..MessageTreatment::default()
            };
        }
        let is_run = matches!(
            coming.does,
            MessageEffect::Runs(_, RunKind::Query | RunKind::Execute)
        );
        // Unknown numbers are reported as zero, the number of no table.
        let numbers = self.place.and_then(|id| {
            let named = touched.named();
            routing.numbers.of(id, &named)
        });
        let notice = self.place.filter(|_| is_run).and_then(|id| {
            let reason = RoutingReason::snapshot(id);
            self.notice(coming, &reason, (routing, &touched))
        });
        // Nothing is written: this notes that the transaction may end.
        let is_inside = !is_run || !question.is_end;
        self.writes
            .note(&CombinedAnalysis::default(), is_inside, || {
                routing.manager()
            });
        MessageTreatment {
            notice,
            numbers: numbers.unwrap_or_default(),
            ..MessageTreatment::default()
        }
    }

    /// Returns the notice about the route of a statement for a client that has requested notices,
    /// unless it got one already.
    fn notice(
        &self,
        coming: &ComingMessage<'_>,
        reason: &RoutingReason,
        (routing, touched): (&Routing, &CombinedAnalysis),
    ) -> Option<Report> {
        let is_wanted = coming.is_traced && !self.is_notified;
        is_wanted.then(|| trace::notice(reason, &routing.described(&touched.sets)))
    }
}

/// Returns whether a statement that is being prepared changes the schema, and does nothing else.
/// Otherwise words in its text might make the session keep its server.
fn is_schema_only(
    parse: ParseMessage<'_>,
    routing: &Routing,
    reading: Option<&ParseContext>,
) -> bool {
    let start = parse.rest.trim_ascii_start().get(..CREATE.len());
    if !start.is_some_and(|word| word.eq_ignore_ascii_case(CREATE)) {
        return false;
    }
    let text = StatementText::Prepared(Arc::new(PreparedStatement::of(parse, GRAMMAR)));
    let touched = routing.touched(&text, reading);
    text.text().is_some_and(|text| touched.is_schema_only(text))
}
