//! The plan of a batch: the server that runs it, and the reason.

use super::Relay;
use crate::serve::routing::{ChosenReplica, RoutedStatements, Routing};
use crate::serve::routing_reason::RoutingReason;
use crate::serve::server_settings::{IsolationLevel, ParseContext};
use pg_wire::report::Report;
use proxy_core::freshness::ConsistencyLevel;
use proxy_core::grammar::SessionEffect;
use proxy_core::routing::{RoutingQuestion, SessionSituation};
use proxy_core::session::{BatchTransaction, PreparedForm, StatementText, WaitingBatch};
use proxy_core::touched::{CombinedAnalysis, NamedTables};

/// The plan of a batch: its server, the reason, and the statements that run before it.
pub(super) struct BatchPlan {
    /// The replica; none for the primary.
    pub replica: Option<ChosenReplica>,
    pub reason: RoutingReason,
    pub prelude: Vec<String>,
    /// The touched tables for the client's notice, see `serve::trace`; empty without a notice.
    pub touches: String,
    /// The analysis of the batch, if the batch may wait for a replica.
    pub waits: Option<Box<CombinedAnalysis>>,
    /// The tables whose columns the answer may have.
    pub named: NamedTables,
    /// The batch's prepared form at a replica, if it has one.
    pub prepared_form: Option<PreparedForm>,
    /// The writes that become Pending before the batch is sent, and whether the batch runs inside a
    /// transaction.
    pub writes: Option<Box<(CombinedAnalysis, bool)>>,
    /// Whether the batch changes the schema and nothing else.
    pub is_schema_only: bool,
}

impl BatchPlan {
    pub fn on_primary(reason: RoutingReason) -> BatchPlan {
        BatchPlan {
            replica: None,
            reason,
            prelude: Vec::new(),
            touches: String::new(),
            waits: None,
            named: NamedTables::default(),
            prepared_form: None,
            writes: None,
            is_schema_only: false,
        }
    }
}

impl Relay<'_> {
    /// Returns the plan for the held batch: the server that runs it, and why.
    pub(super) fn plan(&self, batch_in: BatchTransaction) -> Result<BatchPlan, Report> {
        let demand = self.session.demand();
        if let Some(report) = demand.refusal() {
            return Err(report);
        }
        let Some(routing) = self.routing else {
            return Ok(BatchPlan::on_primary(RoutingReason::primary(
                "there is no replica",
            )));
        };
        let mut reading = (!demand.is_pinned).then_some(&self.server_settings.reading);
        let (mut touched, is_schema_only) = touched_in_order(&demand, routing, &mut reading);
        let mut effects = demand.texts.iter().map(StatementText::effect);
        let leaves_nothing = effects.all(|effect| effect == SessionEffect::Nothing);
        if !demand.executes {
            touched.schema.clear();
        }
        let prelude = routing.prelude(&touched, reading, &self.server_settings.key.user)?;
        let is_inside = batch_in != BatchTransaction::NoTransaction;
        let settings = self.session.settings();
        if touched.needs_primary.is_none() {
            touched.coarsen(settings.classes);
        }
        let question = RoutingQuestion {
            is_whole: demand.is_whole,
            leaves_nothing,
            shares_portals: demand.shares_portals,
            is_pinned: demand.is_pinned,
            is_serializable: self.server_settings.isolation == IsolationLevel::Serializable,
            ..RoutingQuestion::of(SessionSituation::Free { is_inside }, &touched)
        };
        let routed = routing.route(question, demand.fault, settings.level);
        let touches = self.described(&touched.sets, routing);
        let route = match routed {
            RoutedStatements::Fresh(route) => route,
            RoutedStatements::Primary(reason) => {
                let is_inside = is_inside || touched.begins || demand.is_open;
                return Ok(BatchPlan {
                    prelude,
                    touches,
                    is_schema_only,
                    writes: demand.executes.then(|| Box::new((touched, is_inside))),
                    ..BatchPlan::on_primary(reason)
                });
            }
            RoutedStatements::Snapshot => unreachable!("it takes no snapshot for its transaction"),
        };
        // At other levels a replica may have to prepare it before it knows its tables as they
        // are now.
        let knows_all = matches!(
            settings.level,
            ConsistencyLevel::Gssi | ConsistencyLevel::OneCopy
        );
        let prepared_form = touched.prepared_form.take();
        Ok(BatchPlan {
            prepared_form: prepared_form.filter(|_| knows_all),
            replica: route.replica,
            reason: route.reason,
            named: touched.named(),
            prelude,
            touches,
            waits: route.may_wait.then(|| Box::new(touched)),
            writes: None,
            is_schema_only,
        })
    }
}

/// Returns the analysis of a session's statements that are parsed like this, and whether they
/// change the schema and do nothing else. Afterwards `reading` is how later statements are parsed.
fn touched_in_order(
    demand: &WaitingBatch<'_>,
    routing: &Routing,
    reading: &mut Option<&ParseContext>,
) -> (CombinedAnalysis, bool) {
    let mut touched = CombinedAnalysis::default();
    let mut is_schema_only = true;
    for text in &demand.texts {
        let by_text = routing.touched(text, *reading);
        let bytes = text.text().unwrap_or_default();
        is_schema_only &= by_text.is_schema_only(bytes);
        // Later statements may run with other settings.
        *reading = reading.filter(|_| !by_text.changes_settings);
        touched.merge(by_text);
    }
    (touched, is_schema_only)
}
