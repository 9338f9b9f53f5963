//! Leases: until when this core may serve, and the heartbeats that renew them.
//!
//! A lease is the time until which no newer epoch can serve without this core (R15). It is renewed
//! by the coordinator, or by as many other servers as failures are tolerated: one of those is then
//! a survivor of whatever epoch could exclude this core, and a survivor that has left the epoch
//! does not vouch. So no coordinator failure stops reads or writes. A core whose disk hangs asks
//! for neither, so that it is replaced as if it stood still.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::format;
use alloc::vec::Vec;

use protocol::identity::{ClockReading, CoreId, Epoch, Position, ServerId};
use protocol::message::{CoordinatorRequest, PeerMessage, Room};

use crate::core::CoreMachine;
use crate::core::contract::{CoreOutput, PeerSend};

/// Questions to peers that an answer may still come to: more than a lease's worth of heartbeats.
const QUESTIONS_MAX: usize = 64;

/// How long this core may serve.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    /// From the coordinator. It never falls.
    coordinator_until_us: u64,
    /// From other servers of the same epoch.
    vouched_until_us: BTreeMap<ServerId, u64>,
    /// How many servers have to vouch.
    needed: usize,
    /// Until when so many vouch: follows from the two above. Asked for with every request, and
    /// seldom new.
    peers_until_us: u64,
    /// When peers were asked of late: only an answer to one of these renews anything. A peer could
    /// still have one for this core's process before, whose clock began at another time.
    asked_us: VecDeque<u64>,
    /// When this core last vouched for a server.
    vouched_us: BTreeMap<ServerId, u64>,
    next_heartbeat_us: u64,
    fetch: Fetch,
}

/// Whether the configuration is being fetched. An answer that was lost must not keep the core from
/// asking again: a fetch counts until the second heartbeat after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Fetch {
    #[default]
    None,
    /// Since the last heartbeat.
    Young,
    /// Since one before.
    Old,
}

impl Leases {
    /// Returns the time until which this core may serve.
    pub fn until_us(&self) -> u64 {
        self.coordinator_until_us.max(self.peers_until_us)
    }

    /// Renews the lease, as the coordinator has answered.
    pub fn renew(&mut self, until_us: u64) {
        self.coordinator_until_us = self.coordinator_until_us.max(until_us);
    }

    /// Sets how many failures are tolerated from now on. As many servers have to vouch.
    pub fn require(&mut self, failures_tolerated: usize) {
        self.needed = failures_tolerated.max(1);
        self.count();
    }

    /// Notes a server's answer to the question of that time. It vouches for `lease_us` from then
    /// on.
    pub fn vouch(&mut self, server: ServerId, asked_us: u64, lease_us: u64) {
        if self.asked_us.contains(&asked_us) {
            let until_us = self.vouched_until_us.entry(server).or_default();
            *until_us = (*until_us).max(asked_us + lease_us);
            self.count();
        }
    }

    /// Forgets all vouching servers, because the epoch has changed. Call [`Leases::require`] next.
    pub fn forget_vouching(&mut self) {
        self.vouched_until_us.clear();
    }

    fn count(&mut self) {
        let mut vouched: Vec<u64> = self.vouched_until_us.values().copied().collect();
        vouched.sort_unstable_by(|a, b| b.cmp(a));
        let last = self.needed.checked_sub(1).and_then(|it| vouched.get(it));
        self.peers_until_us = last.copied().unwrap_or(0);
    }

    /// Notes that this core vouches for a server.
    pub fn note_vouched(&mut self, server: ServerId, now: ClockReading) {
        self.vouched_us.insert(server, now.monotonic_us);
    }

    /// Returns the time at which this core last vouched for one of these servers.
    pub fn last_vouched_us(&self, servers: impl Fn(ServerId) -> bool) -> Option<u64> {
        let vouched = self.vouched_us.iter();
        let vouched = vouched.filter(|(server, _)| servers(**server));
        vouched.map(|(_, at_us)| *at_us).max()
    }

    /// Schedules the next heartbeat for the next tick.
    pub fn hurry(&mut self, now: ClockReading) {
        self.next_heartbeat_us = now.monotonic_us;
    }

    /// Returns the time of the next heartbeat.
    pub fn next_heartbeat_us(&self) -> u64 {
        self.next_heartbeat_us
    }

    /// Schedules the next heartbeat for this time.
    pub fn heartbeat_at(&mut self, at_us: u64) {
        self.next_heartbeat_us = at_us;
    }

    /// Peers are asked now.
    fn note_asked(&mut self, now: ClockReading) {
        if self.asked_us.len() == QUESTIONS_MAX {
            self.asked_us.pop_front();
        }
        self.asked_us.push_back(now.monotonic_us);
        self.fetch = match self.fetch {
            Fetch::Young => Fetch::Old,
            Fetch::Old | Fetch::None => Fetch::None,
        };
    }

    /// Begins to fetch the configuration; false if it is being fetched.
    fn begin_fetch(&mut self) -> bool {
        let begins = self.fetch == Fetch::None;
        if begins {
            self.fetch = Fetch::Young;
        }
        begins
    }

    /// Ends a fetch of the configuration.
    pub fn end_fetch(&mut self) {
        self.fetch = Fetch::None;
    }
}

impl CoreMachine {
    /// Returns the time until which this core may serve, on its monotonic clock.
    pub fn lease_until_us(&self) -> u64 {
        self.leases.until_us()
    }

    /// Learns that an epoch exists; fetches it if it is newer.
    pub(crate) fn notice_epoch(&mut self, epoch: Epoch, output: &mut CoreOutput) {
        if epoch > self.view.epoch() && self.leases.begin_fetch() {
            output.asks.push(CoordinatorRequest::Fetch {
                known: self.view.epoch(),
            });
        }
    }

    /// Sets the room on this core's disk. The next tick reports it to the coordinator and to the
    /// peers.
    pub(crate) fn set_room(&mut self, now: ClockReading, room: Room) {
        self.space.set_own(room);
        self.leases.hurry(now);
    }

    /// Handles a peer's request to vouch for it.
    pub(crate) fn on_lease_request(
        &mut self,
        now: ClockReading,
        from: CoreId,
        sent_us: u64,
        output: &mut CoreOutput,
    ) {
        self.leases.note_vouched(from.server, now);
        output.sends.push(PeerSend {
            to: from,
            after: Position(0),
            message: PeerMessage::LeaseGrant {
                sent_us,
                room: self.space.own(),
            },
        });
    }

    /// Handles the grant of a peer that vouches for this core.
    pub(crate) fn on_lease_grant(&mut self, from: CoreId, sent_us: u64) {
        self.leases
            .vouch(from.server, sent_us, self.limits.lease_us);
    }

    /// Returns whether a flush of the log takes so long that the disk has to be taken for one that
    /// hangs.
    pub fn disk_hangs(&self, now: ClockReading) -> bool {
        self.log.hangs(now, self.limits.flush_us_max)
    }

    /// Renews this core's leases. One whose disk hangs can end nothing that it is part of, so it
    /// lets them run out: others get what it holds, until its disk works again.
    pub(crate) fn heartbeat(&mut self, now: ClockReading, output: &mut CoreOutput) {
        let hangs = self.disk_hangs(now);
        if self.log.report_hang(hangs) {
            let text = match hangs {
                true => format!(
                    "the log has not become durable for {} ms: the disk hangs, and this core renews \
                     its lease no longer, so that other servers take over",
                    self.limits.flush_us_max / 1_000
                ),
                false => "the disk works again: this core renews its lease".into(),
            };
            self.note(&text, output);
        }
        if hangs {
            return;
        }
        output.asks.push(CoordinatorRequest::Heartbeat {
            core: self.identity.core,
            incarnation: self.identity.incarnation,
            epoch: self.view.epoch(),
            sent_us: now.monotonic_us,
            durable: self.log.durable(),
            filled: self.filled(),
            fills: self.fill_reports(),
            seal: self.seal_report(now),
            room: self.space.own(),
        });
        self.leases.note_asked(now);
        let lease = PeerMessage::LeaseRequest {
            sent_us: now.monotonic_us,
            room: self.space.own(),
        };
        // Repeated, so that a lost message does not make a peer keep operations, and the log behind
        // them, until the next one begins.
        let finished = PeerMessage::Finished(self.own_finished());
        for to in self.peers() {
            for message in [lease.clone(), finished.clone()] {
                let after = Position(0);
                output.sends.push(PeerSend { to, after, message });
            }
        }
    }

    /// Returns the other cores that hold partitions of this core's tables.
    pub(crate) fn peers(&self) -> BTreeSet<CoreId> {
        let mine: BTreeSet<_> = self.partitions.keys().map(|id| id.table).collect();
        let tables = mine.iter().filter_map(|id| self.view.table(*id));
        let places = tables.flat_map(|table| table.placement.iter().flatten());
        let cores = places.map(|place| place.core);
        cores.filter(|core| *core != self.identity.core).collect()
    }
}
