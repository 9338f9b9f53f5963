//! Transactions at REPEATABLE READ that are to read only: all of one runs where it has its snapshot.

use std::time::{Duration, Instant};

use super::{Plan, Relay};
use crate::proxy::routing::{Route, Routing, Why};
use crate::wire::report::Report;

/// How long it is waited for an Extension that has all that was committed (HIHOOI c6).
const WAIT_MAX: Duration = Duration::from_millis(10);
/// How often one is looked for meanwhile.
const WAIT_STEP: Duration = Duration::from_millis(1);

impl Relay<'_> {
    /// Where what the session holds goes, with which its transaction takes its snapshot.
    pub(super) async fn plan_snapshot(&mut self) -> Result<Plan, Report> {
        let reading = self
            .routing
            .filter(|routing| self.begins_by_reading(routing));
        let Some(routing) = reading else {
            return self.plan();
        };
        let route = self.route_snapshot(routing).await;
        Ok(Plan {
            extension: route.extension,
            why: route.why,
            prelude: Vec::new(),
        })
    }

    /// Does the session hold nothing but reads for any node?
    fn begins_by_reading(&self, routing: &Routing) -> bool {
        let (touched, leaves_nothing) = self.looked_at(&self.session.demand(), routing);
        touched.needs_primary.is_none() && !touched.sets.is_written() && leaves_nothing
    }

    async fn route_snapshot(&self, routing: &Routing) -> Route {
        let level = self.session.settings().level;
        if routing.manager().applied_everywhere().is_none() {
            return Route {
                why: Why::primary("no Extension serves"),
                extension: None,
            };
        }
        let mut moment = routing.manager().moment();
        let started = Instant::now();
        loop {
            let route = routing.route_snapshot(&mut moment, level);
            if route.extension.is_some() || started.elapsed() > WAIT_MAX {
                return route;
            }
            tokio::time::sleep(WAIT_STEP).await;
        }
    }
}
