//! Handles read-only transactions at REPEATABLE READ. The whole transaction runs on the server
//! where it has its snapshot.

use std::time::Duration;

use super::batch_plan::BatchPlan;
use super::{CONNECTION_FAILURE, Relay};
use crate::serve::routing::{ChosenReplica, ReadRoute, RoutedStatements, Routing, RoutingReason};
use pg_wire::report::{Report, Severity};
use proxy_core::freshness::AccessSets;
use proxy_core::routing::{RoutingQuestion, SessionSituation};
use proxy_core::session::{BatchTransaction, SnapshotProof};
use proxy_core::touched::CombinedAnalysis;
use proxy_pool::Connection;

/// How long it waits for a replica regardless of the load of the primary (P1).
const ALWAYS_WAITED: Duration = Duration::from_millis(10);
/// How long a replica may take for that snapshot; a read there would take longer.
const SNAPSHOT_MAX: Duration = Duration::from_secs(1);

impl Relay<'_> {
    /// Returns the plan for the held batch with which its transaction gets its snapshot.
    pub(super) async fn plan_snapshot(&self) -> Result<BatchPlan, Report> {
        let Some(routing) = self.routing else {
            return self.plan(BatchTransaction::Snapshot);
        };
        let Some(read) = self.snapshot_read(routing) else {
            return self.plan(BatchTransaction::Snapshot);
        };
        let serving = routing.manager().applied_everywhere();
        let route = match serving {
            Some(_) => {
                let anything = AccessSets::reads_anything();
                let is_worth_it = |waited: Duration| {
                    waited < ALWAYS_WAITED || routing.manager().is_primary_busier()
                };
                self.wait(routing, &anything, SnapshotProof::First, is_worth_it)
                    .await?
            }
            None => ReadRoute::primary(RoutingReason::primary("no replica serves")),
        };
        Ok(BatchPlan {
            replica: route.replica,
            named: read.named(),
            touches: self.described(&read.sets, routing),
            ..BatchPlan::on_primary(route.reason)
        })
    }

    /// Takes the transaction's snapshot at a replica. The snapshot is valid if no later commit may
    /// have been visible before a commit in it.
    pub(super) async fn take_snapshot(
        &self,
        chosen: &ChosenReplica,
        mut connection: Box<Connection>,
        routing: &Routing,
    ) -> Result<Box<Connection>, RoutingReason> {
        let begin = self.session.snapshot_taking();
        let begin = begin.expect("its transaction takes its snapshot by the batch that waits");
        let taken = tokio::time::timeout(SNAPSHOT_MAX, connection.row(&begin)).await;
        let failure = match taken {
            Ok(Ok(_)) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(late) => Some(late.to_string()),
        };
        if let Some(text) = failure {
            chosen.node.close(connection);
            let report = Report::new(Severity::Error, CONNECTION_FAILURE, text);
            return Err(RoutingReason::unreachable(report));
        }
        let watch = chosen.watched.as_ref();
        if watch.is_some_and(|watched| routing.manager().is_torn(&watched.0)) {
            chosen.node.recycle(connection, true).await;
            return Err(RoutingReason::torn());
        }
        Ok(connection)
    }

    /// Returns the analysis of the held reads, if their transaction takes its snapshot by them.
    fn snapshot_read(&self, routing: &Routing) -> Option<CombinedAnalysis> {
        let demand = self.session.demand();
        let (touched, leaves_nothing) = self.looked_at(&demand, routing);
        let question = RoutingQuestion {
            leaves_nothing,
            ..RoutingQuestion::of(SessionSituation::TakesSnapshot, &touched)
        };
        let routed = routing.route(question, None, self.session.settings().level);
        matches!(routed, RoutedStatements::Snapshot).then_some(touched)
    }
}
