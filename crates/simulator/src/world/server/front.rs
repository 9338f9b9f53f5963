//! Passes clients' requests to cores, and checks the replies against all records so far.

use machines::core::{ClientId, ClientReply, CoreInput};
use protocol::identity::{CoreId, PartitionId};
use protocol::message::{Refusal, Reply, Request, SnapshotRequest};
use protocol::operation::{Decision, RequestResult};
use protocol::planted::{self, Bug};

use crate::check::results::Head;
use crate::check::{outcomes, prepared};
use crate::event::{CoreLife, Event, PacketContent};
use crate::network::Node;
use crate::world::World;

impl World {
    /// Delivers a client's request to a core.
    pub fn client_request(
        &mut self,
        life: CoreLife,
        client: u64,
        correlation: u64,
        request: Request,
    ) {
        let core = life.core;
        let Some(place) = self.alive(life) else {
            let delay_us = self.faults.latency_us;
            self.after(delay_us, Event::ClientDisconnected(client, core));
            return;
        };
        let breaks = self
            .network
            .connection(Node::Client(client), Node::Core(core));
        let name = self.connections.name(client, life, breaks);
        let concerns = match &request {
            Request::Execute(execute) => {
                self.connections
                    .writes
                    .insert((name, correlation), (execute.request, execute.partition));
                Some((execute.partition.table, execute.epoch))
            }
            Request::Transact(transact) => {
                self.connections
                    .writes
                    .insert((name, correlation), (transact.request, transact.partition));
                let table = transact.partition.table;
                let mut epochs = transact.epochs.iter();
                let epoch = epochs.find(|(named, _)| *named == table);
                epoch.copied()
            }
            Request::Read(read) => Some((read.partition.table, read.epoch)),
            Request::Release(release) => Some((release.partition.table, release.epoch)),
            Request::Snapshot(SnapshotRequest::Open { tables, .. }) => {
                let asked = self.connections.snapshots.entry((name, correlation));
                asked.or_insert_with(|| tables.clone());
                None
            }
            Request::Checksum(_)
            | Request::Statistics(_)
            | Request::Status
            | Request::Snapshot(_) => None,
        };
        if let Some((table, epoch)) = concerns {
            self.connections.tables.insert((name, correlation), table);
            let cores = self.servers[place].cores();
            let machine = &cores[usize::from(core.core)].machine;
            let known = machine.configuration().table(table);
            if known.is_none_or(|known| known.epoch != epoch) {
                self.leases.mismatched(name, correlation);
            }
        }
        self.input(
            life,
            CoreInput::Request {
                client: name,
                correlation,
                request,
            },
        );
    }

    /// Reports the loss of a client's connection to a core.
    pub fn client_gone(&mut self, life: CoreLife, client: ClientId) {
        self.input(life, CoreInput::ClientGone { client });
    }

    /// Sends a reply. First checks the lease again, because the value was read earlier (R15).
    pub fn reply_leaves(&mut self, life: CoreLife, reply: ClientReply) {
        let Some(place) = self.alive(life) else {
            return;
        };
        let ClientReply {
            client,
            correlation,
            valid_until_us,
            mut reply,
            ..
        } = reply;
        let now = self.servers[place].clock.now(self.now_us);
        let over = valid_until_us.is_some_and(|until_us| until_us <= now.monotonic_us);
        if over && !planted::is(Bug::LeaseUnchecked) {
            reply = Reply::Refused(Refusal::NotServing);
        }
        if !matches!(reply, Reply::Refused(_)) {
            let served = self.leases.served(client, correlation);
            self.check("R15 another epoch's request is refused", served);
            if valid_until_us.is_some() {
                let table = self.connections.tables.get(&(client, correlation));
                let table = table.copied().unwrap_or_default();
                let leased = self.leases.answers(life.core, table, self.now_us);
                self.check("R15 a read needs a lease", leased);
            }
        }
        if let Reply::Executed(result) = &reply {
            self.check_reported(life.core, client, correlation, result);
        }
        let (receiver, life, breaks) = self.connections.ends(client);
        let (from, to) = (Node::Core(life.core), Node::Client(receiver));
        if self.network.connection(to, from) == breaks {
            self.send(from, to, PacketContent::Reply(correlation, reply));
        }
    }

    /// Returns a core as a partition's head, in the tenure that it has now.
    fn head(&self, core: CoreId, partition: PartitionId) -> Head {
        let cores = self.servers[self.places[&core.server]].cores();
        let configuration = cores[usize::from(core.core)].machine.configuration();
        Head {
            core,
            since: configuration.tenure(partition, core),
        }
    }

    fn check_reported(
        &mut self,
        core: CoreId,
        client: ClientId,
        correlation: u64,
        result: &RequestResult,
    ) {
        let (request, partition) = self.connections.writes[&(client, correlation)];
        // With `replicated`, a result without effect is in the head's memory alone: when that is
        // lost before the client has it, there may be another one. The client's session makes sure
        // that it receives only one.
        if self.is_sync() {
            let reported = self
                .results
                .reported(self.head(core, partition), request, result);
            self.check("I7 one result per request", reported);
        }
        let operations = self.ledger.of_request.get(&request);
        let last = operations.and_then(|operations| {
            let entries = operations
                .iter()
                .map(|operation| &self.ledger.operations[operation]);
            entries.max_by_key(|entry| entry.decision == Some(Decision::Commit))
        });
        let (mut outcome, mut complete) = (Ok(()), Ok(()));
        match last {
            Some(entry) if result.took_effect() => {
                outcome = outcomes::reported(entry, result);
                if self.is_sync() || entry.is_transaction() {
                    complete = prepared::reported(&self.ledger, entry);
                }
            }
            None if result.took_effect() => {
                outcome = Err(format!(
                    "{request:?} is reported as applied, but no operation did it"
                ));
            }
            _ => {}
        }
        let shown = last.filter(|entry| entry.is_transaction() && result.took_effect());
        let shown = shown.map(|entry| entry.prepare.operation);
        self.check("I2 a seen outcome is never reversed", outcome);
        self.check("I1 commit ⇒ prepared at all members", complete);
        if let Some(operation) = shown {
            self.transaction_shows(core, operation, partition);
        }
    }
}
