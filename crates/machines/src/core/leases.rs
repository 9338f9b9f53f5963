//! The lease of a core, which is the time until which it may serve, and the heartbeats that renew
//! it.
//!
//! A lease for a table is the time until which no newer epoch of the table can serve without this
//! core (R15). The coordinator renews it for all tables. So do other servers with partitions of the
//! table: as many as it tolerates failures, at least one. One of those takes part in any epoch that
//! could exclude this core from the table. A core vouches as of its own configuration. Once it has
//! sealed the table, it reports when it last vouched before. So no failure of the coordinator stops
//! reads or writes. A core whose disk hangs requests no lease, so that it is replaced like a server
//! that stopped responding.
//!
//! | a vouching of core P counts for table T at core S | because |
//! |---|---|
//! | P's epoch is not above that of S | S knows every seal that P knew when it vouched |
//! | T has not changed after P's epoch | P may have reported its last vouching since |
//! | T is not sealed in the view of S | P's later vouchings are not reported |
//! | P holds a partition of T | the coordinator waits for the holders alone |

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::format;
use alloc::vec::Vec;

use protocol::identity::{ClockReading, CoreId, Epoch, Position, ServerId, TableId};
use protocol::message::{CoordinatorRequest, PeerMessage, Room};
use protocol::planted::{self, Bug};

use crate::core::CoreMachine;
use crate::core::contract::{CoreOutput, PeerSend};
use crate::core::table::TableInfo;

/// Questions to peers that an answer may still come to: more than a lease's worth of heartbeats.
const QUESTIONS_MAX: usize = 64;

/// The leases of this core: the times until which it may serve.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    /// From the coordinator. It never falls.
    coordinator_until_us: u64,
    /// From other cores.
    vouchings: BTreeMap<CoreId, Vouching>,
    /// When peers were asked of late: only an answer to one of these renews anything. A peer could
    /// still have one for this core's process before, whose clock began at another time.
    asked_us: VecDeque<u64>,
    /// When this core last vouched for a server.
    vouched_us: BTreeMap<ServerId, u64>,
    /// When this process started: the one before may have vouched for anyone until then.
    started_us: u64,
    next_heartbeat_us: u64,
    fetch: Fetch,
    /// The newest epoch that is known to exist, and the newest one of these when the configuration
    /// was last fetched.
    noticed: Epoch,
    asked_for: Epoch,
}

/// A core's grant.
#[derive(Clone, Copy, Debug)]
struct Vouching {
    /// The epoch of its configuration then.
    epoch: Epoch,
    until_us: u64,
}

/// Whether the configuration is being fetched. An answer that was lost must not keep the core from
/// asking again: a fetch counts until the second heartbeat after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Fetch {
    #[default]
    None,
    /// The fetch came since the last heartbeat.
    Young,
    /// The fetch came before the last heartbeat.
    Old,
}

impl Leases {
    /// Returns the time until which this core may serve a table.
    pub fn until_us(&self, now: ClockReading, own: ServerId, table: &TableInfo) -> u64 {
        if self.coordinator_until_us > now.monotonic_us {
            return self.coordinator_until_us;
        }
        self.coordinator_until_us
            .max(self.vouched_until_us(own, table))
    }

    /// Returns the time until which enough other servers vouch for this core.
    fn vouched_until_us(&self, own: ServerId, table: &TableInfo) -> u64 {
        if table.sealing.is_some() && !planted::is(Bug::SealedIsVouchedFor) {
            return 0;
        }
        let mut servers: BTreeMap<ServerId, u64> = BTreeMap::new();
        for core in table.holders.iter().filter(|core| core.server != own) {
            let vouching = self.vouchings.get(core);
            let Some(vouching) = vouching
                .filter(|it| table.epoch <= it.epoch || planted::is(Bug::VouchingOutlivesEpoch))
            else {
                continue;
            };
            let until_us = servers.entry(core.server).or_default();
            *until_us = (*until_us).max(vouching.until_us);
        }
        let mut until_us: Vec<u64> = servers.into_values().collect();
        until_us.sort_unstable_by(|a, b| b.cmp(a));
        let last = until_us.get(table.vouchers_needed - 1);
        last.copied().unwrap_or(0)
    }

    /// Renews the lease of the coordinator.
    pub fn renew(&mut self, until_us: u64) {
        self.coordinator_until_us = self.coordinator_until_us.max(until_us);
    }

    /// Records a core's grant, requested at `asked_us`. It counts for `lease_us` from then on, as
    /// of `epoch`.
    pub fn vouch(&mut self, (core, epoch): (CoreId, Epoch), asked_us: u64, lease_us: u64) {
        if !self.asked_us.contains(&asked_us) {
            return;
        }
        let until_us = asked_us + lease_us;
        let known = self.vouchings.entry(core);
        let known = known.or_insert(Vouching { epoch, until_us });
        if known.epoch == epoch {
            known.until_us = known.until_us.max(until_us);
        } else if known.epoch < epoch {
            *known = Vouching { epoch, until_us };
        }
    }

    /// Records that this core vouches for a server.
    pub fn note_vouched(&mut self, server: ServerId, now: ClockReading) {
        self.vouched_us.insert(server, now.monotonic_us);
    }

    /// Starts. It is unknown for which servers the earlier process vouched.
    pub fn start(&mut self, now: ClockReading) {
        self.started_us = now.monotonic_us;
    }

    /// Returns the time at which this core last vouched for one of these servers, or may have
    /// before its restart.
    pub fn last_vouched_us(&self, servers: &[ServerId]) -> Option<u64> {
        let vouched = servers.iter().map(|server| self.vouched_us.get(server));
        let vouched = vouched.map(|at_us| at_us.copied().unwrap_or(0).max(self.started_us));
        vouched.max()
    }

    /// Makes the next heartbeat due at the next tick.
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
    /// Returns the time until which this core may serve a table, on its monotonic clock.
    pub fn lease_until_us(&self, now: ClockReading, table: TableId) -> u64 {
        let table = self.view.table(table);
        let own = self.identity.core.server;
        table.map_or(0, |table| self.leases.until_us(now, own, table))
    }

    /// Handles the news that an epoch exists: fetches it if it is newer.
    pub(crate) fn notice_epoch(&mut self, epoch: Epoch, output: &mut CoreOutput) {
        self.leases.noticed = self.leases.noticed.max(epoch);
        if epoch > self.view.epoch() && self.leases.begin_fetch() {
            self.leases.asked_for = self.leases.noticed;
            output.asks.push(CoordinatorRequest::Fetch {
                known: self.view.epoch(),
            });
        }
    }

    /// Fetches the configuration again if a newer epoch than the fetched one was noticed meanwhile:
    /// its notice does not come again. Each epoch leads to one such fetch, whatever the coordinator
    /// answers.
    pub(crate) fn fetch_noticed(&mut self, output: &mut CoreOutput) {
        let noticed = self.leases.noticed;
        if noticed > self.leases.asked_for {
            self.notice_epoch(noticed, output);
        }
    }

    /// Fetches the whole configuration, because changes arrived that do not fit the known one.
    pub(crate) fn fetch_whole(&mut self, output: &mut CoreOutput) {
        output
            .asks
            .push(CoordinatorRequest::Fetch { known: Epoch(0) });
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

    /// Handles a grant of a peer, as of the peer's epoch.
    pub(crate) fn on_lease_grant(&mut self, from: (CoreId, Epoch), sent_us: u64) {
        self.leases.vouch(from, sent_us, self.limits.lease_us);
    }

    /// Returns whether a flush of the log has taken so long that the disk counts as hanging.
    pub fn disk_hangs(&self, now: ClockReading) -> bool {
        self.log.hangs(now, self.limits.flush_us_max)
    }

    /// Renews this core's leases. If its disk hangs, the core can complete no operation, so it does
    /// not renew them. Other cores then receive its partitions, until its disk works again.
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
            seals: self.seal_reports(now),
            room: self.space.own(),
            ranges: self.ranges.reports(),
        });
        self.leases.note_asked(now);
        let lease = PeerMessage::LeaseRequest {
            sent_us: now.monotonic_us,
            room: self.space.own(),
            finished_below: self.own_finished(),
        };
        for to in self.peers() {
            output.sends.push(PeerSend {
                to,
                after: Position(0),
                message: lease.clone(),
            });
        }
    }

    /// Returns the other cores that hold partitions of this core's tables.
    pub(crate) fn peers(&self) -> BTreeSet<CoreId> {
        let own = self.identity.core;
        let holders = self.partitions.holders_of_same_tables();
        holders.filter(|core| *core != own).collect()
    }

    /// Returns the other cores that hold partitions of a table.
    pub(crate) fn peers_of(&self, table: TableId) -> impl Iterator<Item = CoreId> {
        let holders = self.view.table(table).map(|table| table.holders.iter());
        let own = self.identity.core;
        let holders = holders.into_iter().flatten().copied();
        holders.filter(move |core| *core != own)
    }
}
