//! Redirects reads of a lost partition: the client reads its rows from a cover (Replex sections 3.1
//! and 4, Fig. 6).
//!
//! A partition is lost for a client if the configuration lists its server as down, or if the client
//! cannot reach it. Then the client reads its rows from the cheapest available cover, with one
//! request per member, and merges the answers into the requested page. If no cover is left, the
//! read waits a little for a server to return, then reports the missing partition.
//!
//! The pages of several members must show one moment: that at which the client asked. Each member
//! reports for how long nothing has changed there ([`RowPage::quiet_us`]). If that is less than the
//! time since the client asked, it asks all members again. A row that moves between two members is
//! such a change, too (R12).

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use placement::{Cover, SlotConstraints};
use protocol::codec::Bytes;
use protocol::configuration::routes::{is_down, is_thin};
use protocol::configuration::{Configuration, PlacedTable};
use protocol::identity::{CoreId, PartitionId, ServerId, TableId};
use protocol::message::{Consistency, Read, Redirect, RowPage, SnapshotFailure};
use protocol::planted::{self, Bug};

use super::merge::Merge;
use super::moment::ReceivedPage;
use super::{
    LinkState, RequestParent, RequestPhase, SessionFailure, SessionMachine, SessionOperation,
    SessionOutput, Ticket,
};

/// A silent core's partitions are requested again after this part of the silence. Inquiries then
/// add little to a wait, and a long wait causes few inquiries.
const INQUIRY_SHARE: u64 = 4;
/// Rounds that follow one another at once.
const ROUNDS_AT_ONCE: u32 = 3;

/// A redirected read: it goes to the members of a cover.
#[derive(Debug)]
pub(super) struct Redirected {
    /// When the members were asked.
    asked_us: u64,
    /// Since when nothing has changed at any member that has given a page.
    quiet_since_us: u64,
    /// More than one member: they must agree on a moment.
    several: bool,
    /// Members that have not given all.
    open: BTreeSet<Ticket>,
    merge: Merge,
}

impl SessionMachine {
    /// Sends a read to the members of a cover if its partition is lost. Returns true if it did, or
    /// if the read waits.
    pub(super) fn redirect(
        &mut self,
        now_us: u64,
        ticket: Ticket,
        output: &mut SessionOutput,
    ) -> bool {
        let pending = &self.requests[&ticket];
        let SessionOperation::Read(read) = &pending.operation else {
            return false;
        };
        let configuration = self.configuration.as_ref().expect("it was routed");
        let place = configuration.place(read.partition).expect("it was routed");
        let down = is_down(configuration, place);
        if !down && self.is_reachable(place.core, now_us) {
            return false;
        }
        if self.other_source(now_us, read).is_some() {
            let Some(RequestParent::Entries(parent)) = pending.part_of else {
                // It is divided, and another copy of the index is asked.
                return false;
            };
            self.entries_again(now_us, parent, output);
            return true;
        }
        if read.snapshot.is_some() {
            // A cover does not have the rows that the partition had at the version.
            if down {
                let failure = SnapshotFailure::ServerMissing(place.core.server);
                self.fail(ticket, SessionFailure::Snapshot(failure), output);
            }
            return down;
        }
        if let Some(RequestParent::Cover(parent)) = pending.part_of {
            // Not this cover, then.
            self.redirect_again(now_us, parent, output);
            return true;
        }
        let links = self.links.iter();
        let suspected = links.filter(|(_, link)| link.suspected_until_us > now_us);
        let unreachable = suspected.map(|(core, _)| *core).collect();
        let cover = self.covers.of(configuration, unreachable, read.partition);
        if let Some(RequestParent::Entries(parent)) = pending.part_of
            && is_thin(configuration, read.partition)
            && (down || cover.is_some())
        {
            // A cover has whole rows, and no entries.
            self.entries_again(now_us, parent, output);
            return true;
        }
        if let Some(cover) = cover {
            match read.keys.is_empty() {
                true => self.ask_members(now_us, ticket, &cover, output),
                false => self.part_batch(now_us, ticket, output),
            }
            return true;
        }
        if !down {
            // It may answer still.
            return false;
        }
        self.wait_for_lost(now_us, ticket, place.core.server, output);
        true
    }

    /// Returns a server without which a write through this head cannot complete: the head's own
    /// server, or a server of the table whose loss blocks the table.
    pub(super) fn lost_to_write(&self, ticket: Ticket, head: CoreId) -> Option<ServerId> {
        let tables = match &self.requests[&ticket].operation {
            SessionOperation::Execute { table, .. } => BTreeSet::from([*table]),
            SessionOperation::Transact {
                changes,
                checks,
                ranges,
                ..
            } => super::routing::tables_of(changes, checks, ranges),
            _ => return None,
        };
        let configuration = self.configuration.as_ref()?;
        tables.into_iter().find_map(|table| {
            let lost = self.lost.get(&table)?;
            let seals = configuration.table(table)?.sealing.is_some();
            let mut lost = lost.iter().copied();
            lost.find(|server| seals || *server == head.server)
        })
    }

    /// Returns whether a core is not suspected.
    pub(super) fn is_reachable(&self, core: CoreId, now_us: u64) -> bool {
        let link = self.links.get(&core);
        link.is_none_or(|link| link.suspected_until_us <= now_us)
    }

    /// Asks every member of a cover.
    fn ask_members(
        &mut self,
        now_us: u64,
        ticket: Ticket,
        cover: &Cover,
        output: &mut SessionOutput,
    ) {
        let configuration = self.configuration.clone().expect("it was routed");
        let pending = self.requests.get_mut(&ticket).expect("callers hold it");
        pending.lost_us = None;
        let deadline_us = pending.deadline_us;
        let SessionOperation::Read(read) = &pending.operation else {
            panic!("only reads are redirected");
        };
        let table = configuration
            .table(read.partition.table)
            .expect("it was routed");
        let read = in_its_partition(table, read);
        let merge = Merge::new(table, &read);
        let reads = members(table, &read, &merge, cover);
        for correlation in pending.flying.clone() {
            self.uncount(correlation);
        }
        self.move_to(ticket, RequestPhase::Parted, None);
        let mut open = BTreeSet::new();
        for read in reads {
            let member = self.part(
                RequestParent::Cover(ticket),
                deadline_us,
                SessionOperation::Read(read),
            );
            open.insert(member);
        }
        let redirected = Redirected {
            asked_us: now_us,
            quiet_since_us: 0,
            several: open.len() > 1,
            open: open.clone(),
            merge,
        };
        let before = self.redirects.insert(ticket, redirected);
        assert!(before.is_none(), "a round ends before the next one");
        for member in open {
            // Another member can have found that the cover is none.
            if self.requests.contains_key(&member) {
                self.place(now_us, member, output);
            }
        }
    }

    /// Handles a page of a member of a cover.
    pub(super) fn on_member_page(
        &mut self,
        now_us: u64,
        member: Ticket,
        page: &RowPage,
        output: &mut SessionOutput,
    ) {
        let pending = self.requests.get_mut(&member).expect("it was flying");
        let Some(RequestParent::Cover(parent)) = pending.part_of else {
            panic!("callers have looked");
        };
        let SessionOperation::Read(read) = &mut pending.operation else {
            panic!("members are read");
        };
        let stale = read.consistency == Consistency::Stale;
        // Elsewhere more operations can follow the awaited one before it is answered.
        let configuration = self.configuration.as_ref();
        let table = configuration.and_then(|it| it.table(read.partition.table));
        let holds_back = table.is_none_or(|table| !table.is_primary(read.partition));
        let asked = read.redirect.as_mut().expect("members are asked so");
        let begins = asked.scan_from.is_none();
        let in_order = !page.own_order;
        let goes_on = !in_order && page.next.is_some();
        if goes_on {
            asked.scan_from.clone_from(&page.next);
        }
        let redirected = self.redirects.get_mut(&parent).expect("it has members");
        let alone = !redirected.several && holds_back && begins && !goes_on;
        let elapsed_us = now_us - redirected.asked_us;
        // Clocks differ by less than a sixteenth.
        let quiet = page.quiet_us.unwrap_or(0) > elapsed_us + elapsed_us / 16;
        if !alone && !stale && !quiet && !planted::is(Bug::MomentUnchecked) {
            self.redirect_again(now_us, parent, output);
            return;
        }
        // Up to when it was taken, which was not after now.
        let quiet_us = page.quiet_us.unwrap_or(0);
        let since_us = now_us.saturating_sub(quiet_us - quiet_us / 16);
        redirected.quiet_since_us = redirected.quiet_since_us.max(since_us);
        if let Err(error) = redirected.merge.take(page, in_order) {
            let message = format!("a row of a page is malformed: {error}");
            self.fail(parent, SessionFailure::Invalid { message }, output);
            return;
        }
        if goes_on {
            self.place(now_us, member, output);
            return;
        }
        redirected.open.remove(&member);
        let ended = redirected.open.is_empty();
        self.remove(member);
        if ended {
            self.end_redirected(now_us, parent, output);
        }
    }

    fn end_redirected(&mut self, now_us: u64, ticket: Ticket, output: &mut SessionOutput) {
        let redirected = self.redirects.remove(&ticket).expect("callers hold it");
        match redirected.merge.page() {
            Ok(mut page) => {
                page.quiet_us = Some(now_us.saturating_sub(redirected.quiet_since_us));
                self.give_page(now_us, ticket, ReceivedPage::from_cover(page), output);
            }
            Err(error) => {
                let message = format!("a row cannot be projected: {error}");
                self.fail(ticket, SessionFailure::Invalid { message }, output);
            }
        }
    }

    /// Begins a redirected read again, with the cover that is available then.
    fn redirect_again(&mut self, now_us: u64, ticket: Ticket, output: &mut SessionOutput) {
        self.drop_members(ticket);
        let pending = self.requests.get_mut(&ticket).expect("members go with it");
        pending.rounds += 1;
        match pending.rounds.checked_sub(ROUNDS_AT_ONCE) {
            None => self.place(now_us, ticket, output),
            Some(rounds) => self.pause(now_us, ticket, rounds + 1),
        }
    }

    /// Starts all redirected reads of these tables again, because the members of a cover may have
    /// moved, and all reads of their thin indexes.
    pub(super) fn redirect_all_again(
        &mut self,
        now_us: u64,
        tables: &BTreeSet<TableId>,
        output: &mut SessionOutput,
    ) {
        for ticket in self.redirects.keys().copied().collect::<Vec<Ticket>>() {
            if !self.reads_any(ticket, tables) {
                continue;
            }
            self.drop_members(ticket);
            self.place(now_us, ticket, output);
        }
        for ticket in self.entry_reads.keys().copied().collect::<Vec<Ticket>>() {
            if self.reads_any(ticket, tables) {
                self.entries_again(now_us, ticket, output);
            }
        }
    }

    /// Drops the requests of a redirected read.
    pub(super) fn drop_members(&mut self, ticket: Ticket) {
        if let Some(redirected) = self.redirects.remove(&ticket) {
            for member in redirected.open {
                self.remove(member);
            }
        }
    }

    /// Lets a request wait for a server to return, for a limited time, because no cover is left or
    /// no write is possible.
    pub(super) fn wait_for_lost(
        &mut self,
        now_us: u64,
        ticket: Ticket,
        server: ServerId,
        output: &mut SessionOutput,
    ) {
        let pending = self.requests.get_mut(&ticket).expect("callers hold it");
        let lost_us = *pending.lost_us.get_or_insert(now_us);
        let until_us = lost_us.saturating_add(self.limits.lost_us);
        if now_us < until_us {
            let wake_us = until_us.min(now_us + self.limits.pause_us_max);
            self.move_to(ticket, RequestPhase::Waiting, Some(wake_us));
            // No other event would report that a server is back.
            self.fetch_newer(now_us, output);
            return;
        }
        let configuration = self.configuration.as_ref().expect("it was routed");
        let (partition, message) = match &pending.operation {
            SessionOperation::Read(read) => {
                (read.partition, missing(configuration, read.partition))
            }
            SessionOperation::Execute {
                table, mutations, ..
            } => {
                let partition = super::routing::head(configuration, *table, mutations);
                let partition = partition.expect("it was routed");
                (
                    partition,
                    stands_still(configuration, partition.table, server),
                )
            }
            SessionOperation::Transact { changes, .. } => {
                let partition = super::routing::first_of_walk(configuration, changes);
                let partition = partition.expect("it was routed");
                (
                    partition,
                    stands_still(configuration, partition.table, server),
                )
            }
            SessionOperation::Checksum(_)
            | SessionOperation::Statistics(_)
            | SessionOperation::Status(_)
            | SessionOperation::Moment(_)
            | SessionOperation::OpenSnapshot(_)
            | SessionOperation::KeepSnapshot(_)
            | SessionOperation::CloseSnapshot(_)
            | SessionOperation::Release(_) => panic!("these are just repeated"),
        };
        self.fail(ticket, SessionFailure::Lost { partition, message }, output);
    }

    /// Checks a core that has not answered a request for a while. If nothing has arrived from it
    /// since, asks the coordinator whether another core has the partition. After a read, the core
    /// is also suspected: other reads avoid it for a time, or until it answers. Returns whether
    /// nothing has arrived.
    pub(super) fn suspect_silent(
        &mut self,
        now_us: u64,
        ticket: Ticket,
        output: &mut SessionOutput,
    ) -> bool {
        let Some((core, since_us)) = self.silence(now_us, ticket) else {
            return false;
        };
        if self.requests[&ticket].is_read() {
            self.suspect(now_us, core);
        }
        self.inquire(now_us, (core, since_us), output);
        true
    }

    /// Asks the coordinator whether other cores have the partitions of a core that has served no
    /// request since `since_us`. It does not ask if it has done so recently.
    pub(super) fn inquire(
        &mut self,
        now_us: u64,
        (core, since_us): (CoreId, u64),
        output: &mut SessionOutput,
    ) {
        let shortest_us = self.limits.silent_us;
        let longest_us = self.limits.attempt_us.max(shortest_us);
        let link = self.links.entry(core).or_default();
        let since_us = *link.useless_since_us.get_or_insert(since_us);
        if link.inquiry_not_before_us > now_us || planted::is(Bug::SilenceOverlooked) {
            return;
        }
        let useless_us = now_us.saturating_sub(since_us);
        let pause_us = (useless_us / INQUIRY_SHARE).clamp(shortest_us, longest_us);
        link.inquiry_not_before_us = now_us.saturating_add(pause_us);
        self.fetch_newer(now_us, output);
    }

    /// Returns the core of a request, and since when nothing was received from it, if that is too
    /// long.
    fn silence(&self, now_us: u64, ticket: Ticket) -> Option<(CoreId, u64)> {
        let pending = &self.requests[&ticket];
        let (core, since_us) = match pending.place {
            RequestPhase::Queued(core) => {
                let link = self.links.get(&core)?;
                if link.state == LinkState::Up {
                    return None;
                }
                (
                    core,
                    link.received_us.max(link.useless_since_us.unwrap_or(0)),
                )
            }
            RequestPhase::Flying => {
                let core = self.attempts.get(pending.flying.last()?)?.core;
                let flights = pending.flying.iter().map(|flying| &self.attempts[flying]);
                let first = flights
                    .filter(|it| it.core == core)
                    .map(|it| it.sent_us)
                    .min();
                (core, self.links[&core].received_us.max(first?))
            }
            _ => return None,
        };
        (since_us.saturating_add(self.limits.silent_us) <= now_us).then_some((core, since_us))
    }

    /// Returns whether the last attempt at a request has more time before it is repeated. Before
    /// that its core is checked again.
    pub(super) fn waits_on(&mut self, now_us: u64, ticket: Ticket) -> bool {
        let pending = &self.requests[&ticket];
        let last = pending.flying.last().and_then(|it| self.attempts.get(it));
        let Some(flight) = last.filter(|_| pending.place == RequestPhase::Flying) else {
            return false;
        };
        let attempt_us = self.limits.attempt_us << (pending.tries - 1).min(3);
        let until_us = flight.sent_us.saturating_add(attempt_us);
        if until_us <= now_us {
            return false;
        }
        let received_us = self.links[&flight.core].received_us;
        let look_us = match received_us.saturating_add(self.limits.silent_us) {
            past if past <= now_us => now_us.saturating_add(self.limits.silent_us),
            next => next,
        };
        self.move_to(ticket, RequestPhase::Flying, Some(until_us.min(look_us)));
        true
    }

    /// Sends unanswered requests to the cores that hold their partitions in a newer configuration,
    /// under the same names. Those cores know what took effect at the earlier cores (R13).
    pub(super) fn follow_partitions(&mut self, now_us: u64, output: &mut SessionOutput) {
        let configuration = self.configuration.clone().expect("callers have set it");
        let mut left = Vec::new();
        for (ticket, pending) in &self.requests {
            let newest = pending.flying.last().map(|newest| &self.attempts[newest]);
            let Some(flight) = newest.filter(|_| pending.place == RequestPhase::Flying) else {
                continue;
            };
            let core = super::routing::target(&configuration, &pending.operation);
            if core.is_ok_and(|core| core != Some(flight.core)) {
                left.push((pending.order, *ticket));
            }
        }
        left.sort_unstable();
        for (_, ticket) in left {
            // An event at one member of a cover can end the reads at others.
            let Some(pending) = self.requests.get(&ticket) else {
                continue;
            };
            for correlation in pending.flying.clone() {
                self.uncount(correlation);
            }
            self.place(now_us, ticket, output);
        }
    }

    /// Makes a core suspected: for a while reads avoid it.
    pub(super) fn suspect(&mut self, now_us: u64, core: CoreId) {
        let link = self.links.entry(core).or_default();
        link.suspected_until_us = now_us.saturating_add(self.limits.suspect_us);
    }
}

/// Returns a read of the keys that its partition has. The members of a cover know nothing of the
/// ranges of thin indexes.
fn in_its_partition(table: &PlacedTable, read: &Read) -> Read {
    let (replex, number) = (usize::from(read.partition.replex), read.partition.number);
    let keys = (&read.start[..], read.end.as_deref());
    let (start, end) = table.layout.keys_in_partition(replex, number, keys);
    Read {
        start: start.into(),
        end: end.map(Bytes::from),
        ..read.clone()
    }
}

/// Returns the request to each member of a cover. A partition that is a member twice is asked once,
/// for all wanted rows: rows that others return, too, are left out when pages are merged.
fn members(table: &PlacedTable, read: &Read, merge: &Merge, cover: &Cover) -> Vec<Read> {
    let lost = usize::from(read.partition.replex);
    let all = table
        .layout
        .constraints_of_partition(lost, read.partition.number);
    let mut wanted = BTreeMap::new();
    for member in &cover.members {
        let constraints = wanted.entry((member.replex, member.partition));
        constraints
            .and_modify(|constraints: &mut SlotConstraints| constraints.clone_from(&all))
            .or_insert_with(|| member.constraints.clone());
    }
    let members = wanted.into_iter().map(|((replex, number), constraints)| {
        let replex = u8::try_from(replex).expect("a table has at most 63 replexes");
        Read {
            partition: PartitionId {
                replex,
                number,
                ..read.partition
            },
            projection: merge.projection.clone(),
            count_only: false,
            // A read of a cover never holds its range.
            agreement: read.agreement.without_hold(),
            redirect: Some(Redirect {
                replex: read.partition.replex,
                constraints,
                scan_from: None,
            }),
            ..read.clone()
        }
    });
    members.collect()
}

/// Returns the missing parts for a read of a partition, and the remedy, for people.
fn missing(configuration: &Configuration, partition: PartitionId) -> String {
    let table = configuration.table(partition.table).expect("it was routed");
    let replex = &table.layout.replexes[usize::from(partition.replex)].name;
    let place = configuration.place(partition).expect("it was routed");
    let places = table.placement.iter().flatten();
    let down = places.filter(|place| is_down(configuration, **place));
    let servers: BTreeSet<u32> = down.map(|place| place.core.server.0).collect();
    let servers: Vec<String> = servers.iter().map(u32::to_string).collect();
    format!(
        "partition {} of {replex} (replex {} of table {}) is on server {}, which is down, and the \
         other copies of its rows are on servers that are down too ({}): start one of them \
         again",
        partition.number,
        partition.replex,
        table.schema.name,
        place.core.server.0,
        servers.join(", ")
    )
}

/// Returns the reason, for people, why a write does not end in which a server that is down has to
/// take part.
fn stands_still(configuration: &Configuration, table: TableId, server: ServerId) -> String {
    let table = configuration.table(table).expect("it was routed");
    let why = configuration.cannot_lose(table, &configuration.lost(table));
    let why = why.unwrap_or_else(|| "try again".into());
    format!(
        "a copy of the row is on server {}, which is down, so it cannot be written: {why}",
        server.0
    )
}

/// Redirected reads by the ticket of the original read.
pub(super) type Redirects = BTreeMap<Ticket, Redirected>;
