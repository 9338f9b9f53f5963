//! Handles reads that wait for a fresh replica while the primary has more load than the replicas.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::Relay;
use super::batch_plan::BatchPlan;
use crate::serve::cancel::CancelGoal;
use crate::serve::routing::{ReadRoute, Routing};
use pg_wire::report::{Report, Severity};
use proxy_core::freshness::AccessSets;
use proxy_core::session::{BatchTransaction, SnapshotProof};

/// How often a replica is looked for.
const STEP: Duration = Duration::from_millis(1);
/// SQLSTATE: its client has cancelled it.
const QUERY_CANCELED: &str = "57014";

impl Relay<'_> {
    /// Returns the plan for the held batch. If the plan is the primary only because no replica is
    /// fresh enough, the batch first waits for one, while the primary is busier.
    pub(super) async fn plan_or_wait(
        &self,
        batch_in: BatchTransaction,
    ) -> Result<BatchPlan, Report> {
        let mut plan = self.plan(batch_in)?;
        if let (Some(touched), Some(routing)) = (plan.waits.take(), self.routing) {
            let is_busy = |_| routing.manager().is_primary_busier();
            if is_busy(Duration::ZERO) {
                let proof = touched.proof();
                let route = self.wait(routing, &touched.sets, proof, is_busy).await?;
                plan.replica = route.replica;
                plan.reason = route.reason;
            }
        }
        Ok(plan)
    }

    /// Waits until a replica has every commit that a read must see, and returns the route. Returns
    /// the primary if that takes too long or the primary is not busier any more. Returns an error
    /// if the read was cancelled meanwhile.
    pub(super) async fn wait(
        &self,
        routing: &Routing,
        reads: &AccessSets,
        proof: SnapshotProof,
        is_worth_it: impl Fn(Duration) -> bool,
    ) -> Result<ReadRoute, Report> {
        let is_cancelled = Arc::<AtomicBool>::default();
        self.entry
            .leads_to(Some(CancelGoal::Wait(Arc::clone(&is_cancelled))))
            .await;
        let waited = self.wait_until((routing, reads), proof, is_worth_it, &is_cancelled);
        let waited = waited.await;
        self.entry.leads_to(None).await;
        waited
    }

    async fn wait_until(
        &self,
        (routing, reads): (&Routing, &AccessSets),
        proof: SnapshotProof,
        is_worth_it: impl Fn(Duration) -> bool,
        is_cancelled: &AtomicBool,
    ) -> Result<ReadRoute, Report> {
        let level = self.session.settings().level;
        let mut moment = routing.manager().moment(reads, level);
        let is_hopeless = routing.manager().is_hopeless(&moment);
        // Each that waits looks again and again.
        let waits = self.waiting.try_acquire();
        let started = Instant::now();
        loop {
            let route = routing.route_moment(&mut moment, proof);
            let waited = started.elapsed();
            let is_over = !route.may_wait || is_hopeless || waits.is_err();
            if is_cancelled.load(Ordering::Acquire) {
                let text = "canceling statement due to user request";
                return Err(Report::new(Severity::Error, QUERY_CANCELED, text));
            }
            if is_over || !is_worth_it(waited) {
                return Ok(route);
            }
            if waited >= self.wait_max {
                routing.manager().wait_timed_out(&moment);
                return Ok(route);
            }
            tokio::time::sleep(STEP).await;
        }
    }
}
