//! Runs the reads of a transaction that is on the primary at a replica.

use std::sync::Arc;
use std::time::Duration;

use super::{CONNECTION_FAILURE, Relay, SessionEnd, violation};
use crate::serve::cancel::CancelGoal;
use crate::serve::router::SessionRouter;
use crate::serve::routing::{ChosenReplica, ReadRoute, RoutedStatements, Routing, RoutingReason};
use pg_wire::report::{Report, Severity};
use proxy_core::freshness::FreshnessManager;
use proxy_core::grammar::SessionEffect;
use proxy_core::routing::{RoutingQuestion, SessionSituation};
use proxy_core::session::{
    AttachedServer, Attachment, BatchTransaction, ReadBalancing, ReplicaRead, SessionEvent,
    TableOidMap, WaitingBatch,
};
use proxy_core::touched::{CombinedAnalysis, NamedTables};
use proxy_pool::Connection;

/// How long a read whose transaction holds locks on the primary waits for a replica's connection.
const CONNECTING_MAX: Duration = Duration::from_secs(1);

impl Relay<'_> {
    /// Lets a transaction on the primary wait for its next batch, if its reads may run at a
    /// replica.
    pub(super) fn pause(&mut self) -> Result<(), SessionEnd> {
        let is_apart = self.session.settings().balancing == ReadBalancing::Statement;
        let goes = is_apart && self.routing.is_some() && self.writes.let_reads_go();
        if goes && self.out.to_server.is_empty() {
            let paused = self.session.step(SessionEvent::Pause, &mut self.out);
            paused.map_err(violation)?;
        }
        Ok(())
    }

    /// Chooses a server for the session's held batch, in a transaction on the primary.
    pub(super) async fn go_on(&mut self) -> Result<(), SessionEnd> {
        // It may take a while: the client gets its finished answers first.
        self.flush_client().await?;
        let (mut route, touches, named) = self.route_inside();
        let mut taken = None;
        if let (Some(chosen), Some(routing)) = (route.replica.take(), self.routing) {
            match self.take_soon(&chosen, routing).await {
                Ok(connection) => taken = Some((chosen, connection)),
                Err(reason) => route.reason = reason,
            }
        }
        self.notify_route(&route.reason, &touches);
        let replica = taken.as_ref().map(|(chosen, _)| chosen.id);
        self.visit.count_route(replica, route.reason.summary);
        let Some((chosen, mut connection)) = taken else {
            return self.resume();
        };
        let numbers = self
            .numbers_there(&chosen, BatchTransaction::Waiting, &named, &mut connection)
            .await;
        let place = chosen.place();
        let goal = CancelGoal::Server(Arc::clone(&place.node), connection.cancel_key.clone());
        self.entry.leads_to(Some(goal)).await;
        self.place = place;
        self.servers.count(&self.place, FreshnessManager::started);
        self.kept = self.connection.replace(connection);
        assert!(
            self.kept.is_some(),
            "its transaction is on the primary's connection"
        );
        let at = AttachedServer::Replica(ReplicaRead {
            proof: self.watches(chosen),
            numbers,
            prepared_form: None,
        });
        self.attaches(Attachment::at(at))
    }

    /// Returns the OIDs of the batch's tables at a replica.
    pub(super) async fn numbers_there(
        &self,
        chosen: &ChosenReplica,
        batch_in: BatchTransaction,
        named: &NamedTables,
        connection: &mut Connection,
    ) -> TableOidMap {
        // Later statements at its snapshot may name more tables.
        let only = named
            .only()
            .filter(|_| batch_in != BatchTransaction::Snapshot);
        match (only, self.routing) {
            (Some(numbers), _) => numbers,
            (None, Some(routing)) => {
                let (known, analyser) = (&routing.numbers, &routing.analyser);
                known.find(analyser, named, chosen.id, connection).await
            }
            (None, None) => TableOidMap::Unknown,
        }
    }

    /// Passes the attached server to the session's machine, which sends the batch.
    pub(super) fn attaches(&mut self, attachment: Attachment) -> Result<(), SessionEnd> {
        let connection = self.connection.as_mut();
        let server = &mut connection.expect("a server is attached").server;
        let event = SessionEvent::Attach { server, attachment };
        let attached = self.session.step(event, &mut self.out);
        attached.map(drop).map_err(violation)
    }

    /// Returns the route of the session's batch in a transaction that waits on the primary. Records
    /// the batch's possible writes if it goes to the primary. Also returns the touched tables for
    /// the client's notice, and the tables that the batch's answer may name.
    fn route_inside(&self) -> (ReadRoute, String, NamedTables) {
        let Some(routing) = self.routing else {
            let reason = RoutingReason::primary("there is no replica");
            return (
                ReadRoute::primary(reason),
                String::new(),
                NamedTables::default(),
            );
        };
        let demand = self.session.demand();
        let (mut touched, leaves_nothing) = self.looked_at(&demand, routing);
        touched.coarsen(self.session.settings().classes);
        let question = RoutingQuestion {
            is_whole: demand.is_whole,
            leaves_nothing,
            shares_portals: demand.shares_portals,
            ..RoutingQuestion::of(SessionSituation::Waits(&self.writes), &touched)
        };
        let level = self.session.settings().level;
        let route = match routing.route(question, demand.fault, level) {
            RoutedStatements::Fresh(route) => route,
            RoutedStatements::Primary(reason) => ReadRoute::primary(reason),
            RoutedStatements::Snapshot => unreachable!("its transaction is on the primary"),
        };
        let touches = self.described(&touched.sets, routing);
        (route, touches, touched.named())
    }

    /// Returns the analysis of the texts of a session without its own settings, and whether they
    /// leave no state behind.
    pub(super) fn looked_at(
        &self,
        demand: &WaitingBatch<'_>,
        routing: &Routing,
    ) -> (CombinedAnalysis, bool) {
        let mut touched = CombinedAnalysis::default();
        let mut leaves_nothing = true;
        for text in &demand.texts {
            touched.merge(routing.touched(text, Some(&self.server_settings.reading)));
            leaves_nothing &= text.effect() == SessionEffect::Nothing;
        }
        (touched, leaves_nothing)
    }

    /// Returns a connection to a replica, if that comes soon.
    async fn take_soon(
        &mut self,
        chosen: &ChosenReplica,
        routing: &Routing,
    ) -> Result<Box<Connection>, RoutingReason> {
        let taken = tokio::time::timeout(CONNECTING_MAX, self.take_there(chosen, routing)).await;
        taken.unwrap_or_else(|_| {
            let text = format!("no connection to {} came soon", chosen.node.address);
            let report = Report::new(Severity::Error, CONNECTION_FAILURE, text);
            Err(RoutingReason::unreachable(report))
        })
    }

    /// Sends the held batch to the primary, where its transaction is.
    fn resume(&mut self) -> Result<(), SessionEnd> {
        let connection = self.connection.as_mut();
        let connection = connection.expect("its transaction is on the primary's connection");
        let event = SessionEvent::Resume {
            server: &mut connection.server,
            router: &mut SessionRouter {
                routing: self.routing,
                server_settings: &self.server_settings,
                place: None,
                is_notified: true,
                writes: &mut self.writes,
            },
        };
        let resumed = self.session.step(event, &mut self.out);
        resumed.map(drop).map_err(violation)
    }

    /// Returns the replica's connection to the pool. If the session kept a connection to the
    /// primary, it uses that again.
    pub(super) async fn return_to_primary(&mut self) {
        // The part of its answer that was kept back may only now wait for the client.
        self.has_read |= self.place.replica.is_some();
        if let Some(kept) = self.kept.take() {
            self.place = self.servers.primary_place();
            let goal = CancelGoal::Server(Arc::clone(&self.place.node), kept.cancel_key.clone());
            self.entry.leads_to(Some(goal)).await;
            self.visit.returns(None);
            self.connection = Some(kept);
        }
    }
}
