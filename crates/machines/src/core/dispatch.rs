//! Passes every input, request of a client, and message of a peer to its handler.

use alloc::sync::Arc;

use placement::tables::{Tables, TablesError};
use protocol::identity::{ClockReading, CoreId, Epoch, Position, TableId};
use protocol::message::{PeerHeader, PeerMessage, Reply, Request};
use protocol::planted::{self, Bug};

use crate::core::CoreMachine;
use crate::core::answers::ReplyDestination;
use crate::core::contract::{ClientId, CoreInput, CoreOutput, PeerSend};
use crate::core::member::IncomingDecision;
use crate::core::step::Step;

/// How this core treats a message of a peer.
enum Admission {
    Handle,
    /// It is of an epoch of its table that this core has not begun.
    Keep,
    Drop,
}

impl CoreMachine {
    /// Calls the handler of an input.
    pub(crate) fn dispatch<T: Tables>(
        &mut self,
        input: CoreInput,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        match input {
            CoreInput::Request {
                client,
                correlation,
                request,
            } => {
                let asker = ReplyDestination {
                    client,
                    correlation,
                };
                self.on_request(asker, request, step)?;
            }
            CoreInput::ClientGone { client } => self.on_client_gone(client, step)?,
            CoreInput::Peer { header, message } => {
                self.on_peer_message(header, message, step)?;
            }
            CoreInput::PeerConnected { core } => {
                self.on_peer_connected(step.now, core, step.output)
            }
            CoreInput::Configuration(configuration) => {
                self.on_configuration(configuration, step)?;
            }
            CoreInput::Changes(changes) => match changes.apply(self.view.configuration()) {
                Some(next) => self.on_configuration(Arc::new(next), step)?,
                None => self.fetch_whole(step.output),
            },
            CoreInput::Beat {
                sent_us,
                epoch,
                lease_us,
                session_floor,
            } => {
                let arrival = planted::is(Bug::LeaseFromArrival);
                let sent_us = if arrival {
                    step.now.monotonic_us
                } else {
                    sent_us
                };
                self.leases.renew(sent_us + lease_us);
                self.sessions.end_below(session_floor);
                self.notice_epoch(epoch, step.output);
            }
            CoreInput::NewEpoch(epoch) => self.notice_epoch(epoch, step.output),
            CoreInput::Durable(position) => self.on_durable(position, step)?,
            CoreInput::Space(room) => self.set_room(step.now, room),
            CoreInput::Tick => self.on_tick(step)?,
        }
        Ok(())
    }

    fn on_request<T: Tables>(
        &mut self,
        asker: ReplyDestination,
        request: Request,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        if matches!(
            request,
            Request::Execute(_) | Request::Read(_) | Request::Transact(_)
        ) {
            self.fills.note_operation(step.now);
        }
        match request {
            Request::Execute(execute) => self.execute(asker, execute, step),
            Request::Transact(transact) => self.transact(asker, transact, step),
            Request::Read(read) => self.read(asker, read, step),
            Request::Checksum(read) => self.checksum(asker, &read, step),
            Request::Statistics(read) => self.statistics(asker, &read, step),
            Request::Status => {
                let counters = Reply::Status(self.counters());
                self.answer(asker, Position(0), None, counters, step.output);
                Ok(())
            }
            Request::Release(release) => self.release_holds(asker, &release, step),
            Request::Snapshot(request) => {
                self.on_snapshot_request(asker, step.now, request, step.output);
                Ok(())
            }
        }
    }

    /// Ends everything that depends on a client's connection, which is closed: its snapshots, reads
    /// and holds.
    fn on_client_gone<T: Tables>(
        &mut self,
        client: ClientId,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        self.requests.forget_client(client);
        self.drop_snapshots_of(step.now, client);
        self.drop_reads(Some(client), step)?;
        self.drop_holds(Some(client), step)
    }

    /// Sends the messages again that a peer may have missed, because the connection to it is new.
    fn on_peer_connected(&mut self, now: ClockReading, core: CoreId, output: &mut CoreOutput) {
        self.ask_sealed_of(core, None, output);
        let configuration = self.view.configuration().clone();
        self.hurry(now, |member| {
            configuration.takes_part(core, &member.prepare.members)
        });
        self.hurry_transactions(now, |members, _| configuration.takes_part(core, members));
        self.ask_again(core, output);
        self.ask_cover_again(now, core, output);
    }

    /// Handles a message of a peer, keeps it until this core has begun its epoch, or drops it.
    fn on_peer_message<T: Tables>(
        &mut self,
        header: PeerHeader,
        message: PeerMessage,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        match self.admit_message(header, &message, step.output) {
            Admission::Handle => self.on_peer(header, message, step),
            Admission::Keep => {
                let is_kept = self.early.keep(header, message);
                self.counters.early_messages += u64::from(is_kept);
                Ok(())
            }
            Admission::Drop => Ok(()),
        }
    }

    /// Handles the messages that arrived before this core had begun their epochs. Messages of
    /// further epochs are kept again.
    pub(crate) fn on_early_messages<T: Tables>(
        &mut self,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        for (header, message) in self.early.take() {
            match planted::is(Bug::EarlyMessageUnchecked) {
                true => self.on_peer(header, message, step)?,
                false => self.on_peer_message(header, message, step)?,
            }
        }
        Ok(())
    }

    /// Returns whether this core handles a message of a peer, keeps it or drops it. The message
    /// must have the peer's present incarnation (R16) and this core's epoch of the table (R15). A
    /// message of a chain is dropped while the table's chains are blocked.
    fn admit_message(
        &mut self,
        header: PeerHeader,
        message: &PeerMessage,
        output: &mut CoreOutput,
    ) -> Admission {
        let (peer, incarnation) = (header.from, header.incarnation);
        if !self.view.notice_incarnation(peer, incarnation) {
            return Admission::Drop;
        }
        if let PeerMessage::NewerEpoch { epoch } = message {
            self.notice_epoch(*epoch, output);
            return Admission::Drop;
        }
        self.notice_epoch(header.epoch, output);
        if let PeerMessage::Transaction(message) = message {
            return self.admit_of_tables(header, &message.epochs, output);
        }
        let own = self.view.epoch();
        let Some(table) = message.table() else {
            let is_current = match message {
                // As of an epoch that this core does not know, it would be of another cluster view.
                PeerMessage::LeaseGrant { .. } | PeerMessage::Finished(_) => header.epoch <= own,
                // It names the epochs of its tables itself.
                PeerMessage::Snapshot(_) => true,
                // A core that does not know of its removal would be vouched for without end.
                _ => header.epoch >= own,
            };
            let counts = match message {
                PeerMessage::LeaseRequest { .. } | PeerMessage::LeaseGrant { .. } => {
                    planted::is(Bug::VouchingOfAnyEpoch)
                }
                _ => false,
            };
            if !is_current && !counts && !planted::is(Bug::EpochUnchecked) {
                self.reject_epoch(header, output);
                return Admission::Drop;
            }
            return Admission::Handle;
        };
        let known = self.view.table_epoch(table);
        if header.table_epoch > known && !planted::is(Bug::EpochUnchecked) {
            return Admission::Keep;
        }
        if header.table_epoch != known && !planted::is(Bug::EpochUnchecked) {
            self.reject_epoch(header, output);
            return Admission::Drop;
        }
        // It dropped questions that came before it had this epoch.
        let stands_still = self.stands_still(table);
        if stands_still && self.sealing.note_arrival(table, peer) {
            self.ask_sealed_of(peer, Some(table), output);
        }
        match stands_still && message.is_of_chain() {
            true => Admission::Drop,
            false => Admission::Handle,
        }
    }

    /// Returns whether this core handles a message about a transaction: it must have the same epoch
    /// of each of the tables as the sender (R15, R44).
    fn admit_of_tables(
        &mut self,
        header: PeerHeader,
        epochs: &[(TableId, Epoch)],
        output: &mut CoreOutput,
    ) -> Admission {
        if planted::is(Bug::EpochUnchecked) {
            return Admission::Handle;
        }
        let is_early = |(table, epoch): &(TableId, Epoch)| *epoch > self.view.table_epoch(*table);
        if epochs.iter().any(is_early) {
            return Admission::Keep;
        }
        let is_current =
            |(table, epoch): &(TableId, Epoch)| *epoch == self.view.table_epoch(*table);
        if !epochs.iter().all(is_current) {
            self.reject_epoch(header, output);
            return Admission::Drop;
        }
        let mut tables = epochs.iter().map(|(table, _)| *table);
        match tables.any(|table| self.stands_still(table)) {
            true => Admission::Drop,
            false => Admission::Handle,
        }
    }

    /// Counts a message of another epoch, and reports this core's to its sender if that is newer.
    fn reject_epoch(&mut self, header: PeerHeader, output: &mut CoreOutput) {
        self.counters.stale_epochs += 1;
        let epoch = self.view.epoch();
        if header.epoch < epoch {
            output.sends.push(PeerSend {
                to: header.from,
                after: Position(0),
                message: PeerMessage::NewerEpoch { epoch },
            });
        }
    }

    // tidy: long — the one dispatching match over the messages of peers.
    fn on_peer<T: Tables>(
        &mut self,
        header: PeerHeader,
        message: PeerMessage,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let peer = header.from;
        match message {
            PeerMessage::Prepare(prepare) => {
                self.fills.note_operation(step.now);
                self.on_prepare(prepare, step)
            }
            PeerMessage::Decision {
                operation,
                to,
                decision,
                settled,
            } => {
                let incoming = IncomingDecision {
                    decision,
                    settled,
                    in_order: true,
                };
                self.on_decision((operation, to), incoming, step)
            }
            PeerMessage::Settled { operation, to } => self.on_settled(operation, to, step),
            PeerMessage::Reported {
                operation,
                to,
                side,
            } => self.on_reported(operation, (to, side), step),
            PeerMessage::Durable { operations } => self.on_member_durable(operations, step),
            PeerMessage::Confirm { operations } => self.on_confirm(peer, operations, step),
            PeerMessage::Finished(below) => self.on_finished((peer, below), step),
            PeerMessage::Recover { table, attempt } => {
                self.on_recover(peer, (table, attempt), step)
            }
            PeerMessage::Adopt {
                attempt,
                prepare,
                decision,
            } => self.on_adopt(peer, attempt, prepare, decision, step),
            PeerMessage::RecoverEnd {
                table,
                attempt,
                count,
                finished_below,
            } => {
                if header.epoch <= self.view.epoch() {
                    self.on_finished((peer, finished_below), step)?;
                }
                self.on_recover_end(peer, (table, attempt), count, step)
            }
            PeerMessage::AskSealed { table, attempt } => {
                self.on_ask_sealed(peer, (table, attempt), step.output);
                Ok(())
            }
            PeerMessage::Witness {
                table,
                attempt,
                prepare,
                decision,
            } => {
                let of = (peer, table, attempt);
                self.on_witness(step.now, of, prepare, decision, step.output);
                Ok(())
            }
            PeerMessage::WitnessEnd {
                table,
                attempt,
                count,
                forgot_nothing,
            } => {
                let (of, end) = ((peer, table, attempt), (count, forgot_nothing));
                self.on_witness_end(step.now, of, end, step.output);
                Ok(())
            }
            PeerMessage::LeaseRequest {
                sent_us,
                room,
                finished_below,
            } => {
                self.space.set_peer(peer, room);
                self.on_lease_request(step.now, peer, sent_us, step.output);
                if header.epoch <= self.view.epoch() {
                    self.on_finished((peer, finished_below), step)?;
                }
                Ok(())
            }
            PeerMessage::LeaseGrant { sent_us, room } => {
                self.space.set_peer(peer, room);
                self.on_lease_grant((peer, header.epoch), sent_us);
                Ok(())
            }
            PeerMessage::Snapshot(message) => self.on_snapshot_message(peer, message, step),
            PeerMessage::Transaction(message) => self.on_transaction(peer, message, step),
            PeerMessage::NewerEpoch { .. } => unreachable!("handled before"),
            PeerMessage::Copy { of, from, start } => self.on_copy(peer, of, from, start, step),
            PeerMessage::Copied {
                of,
                from,
                start,
                page,
                sum,
                looked,
            } => {
                let page = (start, page, sum);
                self.on_copied(of, from, page, looked, step)
            }
            PeerMessage::Fetch {
                of,
                from,
                pass,
                wanted,
                start,
            } => {
                let way = (pass, wanted, start);
                self.on_fetch(peer, of, from, way, step)
            }
            PeerMessage::Fetched {
                of,
                from,
                pass,
                start,
                page,
                complete_from,
            } => {
                let incoming = (page, complete_from);
                self.on_fetched(of, from, (pass, start), incoming, step)
            }
            PeerMessage::CopyCompletions { of, start } => {
                self.on_copy_completions(peer, of, start, step.output);
                Ok(())
            }
            PeerMessage::CopiedCompletions {
                of,
                start,
                completions,
                next,
                last_version,
            } => {
                let incoming = (completions, last_version);
                self.on_copied_completions(peer, of, (start, next), incoming, step)
            }
            PeerMessage::Compare {
                of,
                question,
                start,
                ranges,
            } => self.on_compare(peer, of, question, (start, ranges), step),
            PeerMessage::Compared {
                of,
                question,
                list,
                changes,
                differing,
                page,
                looked_at_bytes,
            } => {
                let about = (of, question, (list, changes));
                self.on_compared(about, differing, (page, looked_at_bytes), step)
            }
            PeerMessage::Changes {
                of,
                question,
                list,
                since,
            } => self.on_changes(peer, of, question, (list, since), step),
            PeerMessage::Changed {
                of,
                question,
                list,
                page,
                gone,
                until,
                is_all,
            } => {
                let (about, incoming) = ((of, question, list), (page, gone));
                self.on_changed(about, incoming, (until, is_all), step)
            }
        }
    }
}
