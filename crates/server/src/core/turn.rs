//! One turn of a core's event loop, as a list of named phases.
//!
//! The event loop has passed in every frame that arrived. A turn carries out the machine's output,
//! follows the log's progress, and updates the links. The comment of each phase states what it
//! needs from earlier ones.

use machines::core::CoreInput;
use protocol::message::Room;
use storage::log::LogAdmission;

use super::outbox::DelayedMessage;
use super::{CoreDriver, Remote, answer};
use crate::error::ServerError;
use crate::event_loop::Io;
use crate::journal::{self, JournalLevel};
use crate::store::CoreStore;

impl<S: CoreStore> CoreDriver<S> {
    /// Runs the phases of a turn, in order.
    pub(super) fn take_turn(&mut self, io: &mut Io) -> Result<(), ServerError> {
        self.store.health()?;
        self.carry_out(io);
        self.follow_log(io);
        self.follow_room();
        self.tick(io);
        self.carry_out(io);
        self.submit(io);
        self.checkpoint()?;
        self.follow_epoch(io);
        self.open_links(io);
        self.end()
    }

    /// Steps the machine with the durable position of the log, and sends the messages that waited
    /// for it.
    fn follow_log(&mut self, io: &mut Io) {
        let durable = self.store.durable();
        if durable <= self.durable {
            return;
        }
        self.durable = durable;
        self.log_flushes += 1;
        self.step(CoreInput::Durable(durable));
        // First the messages that waited, then those of the step: messages keep their order.
        let fresh_us = self.clock.monotonic_us();
        while let Some(message) = self.outbox.pop(durable) {
            match message {
                DelayedMessage::Message(send) => self.send(io, send),
                DelayedMessage::Reply(reply) => answer(io, reply, fresh_us),
            }
        }
        self.carry_out(io);
    }

    /// Steps the machine with the room on the disk, if that has changed.
    fn follow_room(&mut self) {
        let admission = self.store.admission();
        if admission == self.admission {
            return;
        }
        let (before, room) = (room(self.admission), room(admission));
        if room != before {
            self.step(CoreInput::Space(room));
            self.log_room(before, room);
        }
        self.admission = admission;
    }

    /// Steps the machine with the time, if its deadline has come.
    fn tick(&mut self, io: &Io) {
        if self.deadline_us.is_some_and(|at| at <= io.now_us()) {
            self.deadline_us = None;
            self.step(CoreInput::Tick);
        }
    }

    /// Hands the records of this turn to the log as one batch: every step has been carried out.
    fn submit(&mut self, io: &mut Io) {
        if self.log_records > self.log_records_submitted {
            self.log_records_submitted = self.log_records;
            self.log_batches += 1;
        }
        self.store.submit();
        // A store without a disk is durable at once.
        self.follow_log(io);
        self.store.submit();
    }

    /// Begins a checkpoint, if one is due: the tables agree with the submitted records.
    fn checkpoint(&mut self) -> Result<(), ServerError> {
        if self.store.checkpoint_due() {
            self.machine.before_checkpoint(self.store.tables());
            self.store.checkpoint(self.machine.retain_from())?;
        }
        Ok(())
    }

    /// Publishes the configuration of a new epoch: the steps of this turn may have begun one.
    fn follow_epoch(&mut self, io: &mut Io) {
        if self.machine.epoch() == self.epoch {
            return;
        }
        self.epoch = self.machine.epoch();
        self.peers.follow(io, self.machine.configuration());
        (self.configured)(self.machine.configuration());
    }

    /// Opens the links that are due, to the peers of the configuration that is followed now.
    fn open_links(&mut self, io: &mut Io) {
        for (id, core) in self.peers.open_due(io) {
            self.connections.insert(id, Remote::Link(core));
        }
        self.coordinator.open_due(io);
        if let Some(id) = self.coordinator.connection() {
            self.connections.insert(id, Remote::Coordinator);
        }
    }

    /// Ends the turn with the failure of any of its steps.
    fn end(&mut self) -> Result<(), ServerError> {
        self.now = None;
        self.failure.take().map_or(Ok(()), Err)
    }

    /// Logs for operators that the disk is full, or no longer.
    fn log_room(&self, before: Room, room: Room) {
        let core = self.machine.identity().core;
        let why = self.store.shortage().unwrap_or_default();
        match (before, room) {
            (_, Room::Free) => {
                let fields: [(&str, &dyn std::fmt::Display); 2] = [("core", &core), ("disk", &why)];
                journal::line(JournalLevel::Info, "disk_has_room", &fields);
            }
            (Room::Free, _) | (Room::Reserve, Room::Full) => {
                let takes = match room {
                    Room::Full => "no writes",
                    _ => "deletes, and updates that make no row longer",
                };
                let what = "make room on the disk, or start another server";
                journal::line(
                    JournalLevel::Warn,
                    "disk_full",
                    &[
                        ("core", &core),
                        ("disk", &why),
                        ("takes", &takes),
                        ("do", &what),
                    ],
                );
            }
            (Room::Reserve | Room::Full, Room::Reserve | Room::Full) => {}
        }
    }
}

/// Returns the machine's room by the admission of the store.
fn room(admission: LogAdmission) -> Room {
    match admission {
        LogAdmission::Open | LogAdmission::Busy => Room::Free,
        LogAdmission::Reserve => Room::Reserve,
        LogAdmission::Full => Room::Full,
    }
}
