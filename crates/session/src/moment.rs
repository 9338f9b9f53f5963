//! Reads several ranges, or several pages of one range, as of one moment (R35).
//!
//! A read of several partitions sends several requests. Between two of their answers a row can move
//! from a partition that answers later to one that has answered. So the answers must show one
//! moment. The client reads in two kinds of rounds:
//!
//! | round | asks | the answers are of one moment if |
//! |---|---|---|
//! | quiet | all ranges at once | each range has not changed since before the first was asked |
//! | held | one range after the other, with a hold | nothing changed while each hold lasted |
//!
//! The client releases holds after the last answer.
//!
//! A quiet round costs no more than the reads themselves, and fails if a range is written all the
//! time. After [`ROUNDS_QUIET`] of them, a held round follows: writers of the ranges wait until it
//! ends (`machines::core::reads`). The client holds ranges in the order in which operations acquire
//! keys (replex, partition, key; R7), so that a reader and a writer do not wait for each other.
//!
//! A range of a lost partition is read from its cover (`redirect`), which is never held. Such a
//! read continues in quiet rounds, with pauses between them. A range of a thin index is never held
//! either (R28); after [`ROUNDS_THIN`] rounds the caller reads a snapshot.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use protocol::configuration::routes::is_thin;
use protocol::identity::{CoreId, Epoch, PartitionId, TableId};
use protocol::message::{Agreement, Consistency, HoldRelease, Read, RowPage};
use protocol::planted::{self, Bug};

use super::{
    MomentPages, RequestParent, RequestPhase, SessionMachine, SessionOperation, SessionOutcome,
    SessionOutput, Ticket,
};

/// Quiet rounds that follow one another before one with holds.
const ROUNDS_QUIET: u32 = 3;
/// Rounds after which a moment is given up.
const ROUNDS_MAX: u32 = 24;
/// Rounds after which a moment is given up that reads a thin index.
const ROUNDS_THIN: u32 = 6;
/// How long the holds of the first held round may last. Each further round doubles this time.
const HOLD_US: u64 = 25_000;
/// How long the machine tries to end holds that it does not need any more.
const RELEASE_US: u64 = 200_000;

/// A `Moment` in progress.
#[derive(Debug)]
pub(super) struct Moment {
    way: MomentMode,
    /// When the first range of this round was asked for.
    begun_us: u64,
    ranges: Vec<Range>,
    /// Ranges that are still to be asked for, in this order.
    unread: VecDeque<usize>,
    /// The requests in progress: reads, with their range, or releases.
    open: BTreeMap<Ticket, usize>,
    pages: usize,
    rows: u64,
    bytes: usize,
    /// Some range was read from a cover.
    redirected: bool,
    /// By partition and the core that was asked: the correlations of reads that it holds for.
    holds: Holds,
}

type Holds = BTreeMap<(PartitionId, CoreId), Vec<u64>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MomentMode {
    /// Stale reads, whose pages need not agree.
    Stale,
    /// One range that may be complete with one page.
    Alone,
    Quiet,
    Held,
}

/// The pages of one range.
#[derive(Debug, Default)]
struct Range {
    pages: Vec<RowPage>,
    rows: u64,
}

/// A page as it was received.
#[derive(Debug)]
pub(super) struct ReceivedPage {
    pub page: RowPage,
    /// The core and the correlation of the page; none if the page was merged from a cover.
    pub held_by: Option<(CoreId, u64)>,
}

impl ReceivedPage {
    /// Returns a page that was merged from a cover.
    pub fn from_cover(page: RowPage) -> ReceivedPage {
        ReceivedPage {
            page,
            held_by: None,
        }
    }
}

/// All `Moment`s in progress, by the ticket of their request.
pub(super) type Moments = BTreeMap<Ticket, Moment>;

impl SessionMachine {
    /// Begins a round of a `Moment`: chooses how the answers must agree, and asks for its ranges.
    pub(super) fn begin_moment(&mut self, now_us: u64, ticket: Ticket, output: &mut SessionOutput) {
        self.drop_moment(ticket);
        let SessionOperation::Moment(reads) = &self.requests[&ticket].operation else {
            panic!("callers have looked");
        };
        let rounds = self.requests[&ticket].rounds;
        let stale = |read: &Read| read.consistency == Consistency::Stale;
        let reads_thin = self.reads_thin(reads);
        let way = match rounds {
            _ if reads.iter().all(stale) => MomentMode::Stale,
            0 if reads.len() == 1 && !reads_thin => MomentMode::Alone,
            ..ROUNDS_QUIET => MomentMode::Quiet,
            _ if self.requests[&ticket].redirected || reads_thin => MomentMode::Quiet,
            _ => MomentMode::Held,
        };
        let mut unread: Vec<usize> = (0..reads.len()).collect();
        if way == MomentMode::Held {
            unread.sort_by_key(|number| (reads[*number].partition, &reads[*number].start));
        }
        let moment = Moment {
            way,
            begun_us: now_us,
            ranges: unread.iter().map(|_| Range::default()).collect(),
            unread: unread.into(),
            open: BTreeMap::new(),
            pages: 0,
            rows: 0,
            bytes: 0,
            redirected: false,
            holds: BTreeMap::new(),
        };
        self.move_to(ticket, RequestPhase::Parted, None);
        self.moments.insert(ticket, moment);
        self.read_on(now_us, ticket, output);
    }

    /// Requests as many ranges as may be in flight. Ends the round when all ranges have been read.
    fn read_on(&mut self, now_us: u64, ticket: Ticket, output: &mut SessionOutput) {
        loop {
            let Some(moment) = self.moments.get_mut(&ticket) else {
                return;
            };
            let most = match moment.way {
                MomentMode::Held => 1,
                MomentMode::Stale | MomentMode::Alone | MomentMode::Quiet => {
                    self.limits.moment_reads_max
                }
            };
            if moment.open.len() >= most {
                return;
            }
            let Some(number) = moment.unread.pop_front() else {
                if moment.open.is_empty() {
                    self.end_round(now_us, ticket, output);
                }
                return;
            };
            self.read_range(now_us, (ticket, number), output);
        }
    }

    /// Asks for the next page of a range.
    fn read_range(
        &mut self,
        now_us: u64,
        (ticket, number): (Ticket, usize),
        output: &mut SessionOutput,
    ) {
        let pending = &self.requests[&ticket];
        let (deadline_us, rounds) = (pending.deadline_us, pending.rounds);
        let SessionOperation::Moment(reads) = &pending.operation else {
            panic!("callers have looked");
        };
        let mut read = reads[number].clone();
        let moment = &self.moments[&ticket];
        let range = &moment.ranges[number];
        read.limit -= u32::try_from(range.rows).expect("a range is read up to its limit");
        if let Some(next) = range.pages.last().and_then(|page| page.next.clone()) {
            match read.descending {
                true => read.end = Some(next),
                false => read.start = next,
            }
        }
        read.agreement = match moment.way {
            MomentMode::Stale | MomentMode::Alone => Agreement::Alone,
            MomentMode::Quiet => Agreement::Quiet,
            MomentMode::Held => Agreement::Hold(HOLD_US << (rounds - ROUNDS_QUIET).min(3)),
        };
        let part = self.part(
            RequestParent::Moment(ticket),
            deadline_us,
            SessionOperation::Read(read),
        );
        let moment = self.moments.get_mut(&ticket).expect("callers hold it");
        moment.open.insert(part, number);
        self.place(now_us, part, output);
    }

    /// Handles a page of a range.
    pub(super) fn on_range_page(
        &mut self,
        now_us: u64,
        part: Ticket,
        came: ReceivedPage,
        output: &mut SessionOutput,
    ) {
        let ReceivedPage { page, held_by } = came;
        let pending = &self.requests[&part];
        let Some(RequestParent::Moment(ticket)) = pending.part_of else {
            panic!("callers have looked");
        };
        let SessionOperation::Read(read) = &pending.operation else {
            panic!("ranges are read");
        };
        let (partition, limit) = (read.partition, u64::from(read.limit));
        self.remove(part);
        let moment = self.moments.get_mut(&ticket).expect("it has parts");
        moment.redirected |= held_by.is_none();
        let number = moment.open.remove(&part).expect("it was under way");
        let goes_on = page.next.is_some() && page.count < limit;
        let elapsed_us = now_us - moment.begun_us;
        // Clocks differ by less than a sixteenth.
        let is_quiet = page.quiet_us.unwrap_or(0) > elapsed_us + elapsed_us / 16;
        let agrees = match moment.way {
            MomentMode::Stale => true,
            MomentMode::Alone => !goes_on,
            MomentMode::Quiet => is_quiet || planted::is(Bug::StatementUnchecked),
            MomentMode::Held => page.held,
        };
        if !agrees {
            self.moment_again(now_us, ticket, output);
            return;
        }
        let moment = self.moments.get_mut(&ticket).expect("it has parts");
        if let (MomentMode::Held, Some((core, correlation))) = (moment.way, held_by) {
            let holds = moment.holds.entry((partition, core)).or_default();
            holds.push(correlation);
        }
        moment.pages += 1;
        moment.bytes += page.rows.len();
        moment.rows += if page.rows.is_empty() { 0 } else { page.count };
        let range = &mut moment.ranges[number];
        range.rows += page.count;
        range.pages.push(page);
        let limits = &self.limits;
        let is_more = moment.rows > limits.moment_rows_max
            || moment.bytes > limits.moment_bytes_max
            || moment.pages >= moment.ranges.len() + limits.moment_pages_max;
        if is_more && (goes_on || !moment.unread.is_empty() || !moment.open.is_empty()) {
            self.finish(ticket, SessionOutcome::NoMoment, output);
        } else if goes_on {
            self.read_range(now_us, (ticket, number), output);
        } else {
            self.read_on(now_us, ticket, output);
        }
    }

    /// Ends a round in which all ranges were read: reports the pages, or releases the holds first.
    fn end_round(&mut self, now_us: u64, ticket: Ticket, output: &mut SessionOutput) {
        let moment = self.moments.get_mut(&ticket).expect("callers hold it");
        let holds = core::mem::take(&mut moment.holds);
        if holds.is_empty() {
            let moment = self.moments.remove(&ticket).expect("callers hold it");
            let ranges = moment.ranges.into_iter();
            let pages = MomentPages {
                ranges: ranges.map(|range| range.pages).collect(),
                rounds: self.requests[&ticket].rounds + 1,
            };
            self.finish(ticket, SessionOutcome::Moment(pages), output);
            return;
        }
        let deadline_us = self.requests[&ticket].deadline_us;
        // The round ends with the last answer, not between two questions.
        let parts: Vec<Ticket> = releases(holds)
            .map(|release| {
                let operation = SessionOperation::Release(release);
                let part = self.part(RequestParent::Moment(ticket), deadline_us, operation);
                let moment = self.moments.get_mut(&ticket).expect("it was there");
                moment.open.insert(part, 0);
                part
            })
            .collect();
        for part in parts {
            // Each of them can have ended the round.
            if self.requests.contains_key(&part) {
                self.place(now_us, part, output);
            }
        }
    }

    /// Handles a core's report that it has released holds. The report states whether they had
    /// lasted and nothing had changed.
    pub(super) fn on_released(
        &mut self,
        now_us: u64,
        part: Ticket,
        lasted: bool,
        output: &mut SessionOutput,
    ) {
        let Some(RequestParent::Moment(ticket)) = self.requests[&part].part_of else {
            self.remove(part);
            return;
        };
        if !lasted {
            self.moment_again(now_us, ticket, output);
            return;
        }
        self.remove(part);
        let moment = self.moments.get_mut(&ticket).expect("it has parts");
        moment.open.remove(&part);
        if moment.open.is_empty() {
            self.end_round(now_us, ticket, output);
        }
    }

    /// Reads all ranges again, because they did not agree.
    pub(super) fn moment_again(&mut self, now_us: u64, ticket: Ticket, output: &mut SessionOutput) {
        let redirected = self.moments[&ticket].redirected;
        self.drop_moment(ticket);
        let SessionOperation::Moment(reads) = &self.requests[&ticket].operation else {
            panic!("callers have looked");
        };
        // Nothing holds the entries of a thin index, so more rounds need not end.
        let most = match self.reads_thin(reads) {
            true => ROUNDS_THIN,
            false => ROUNDS_MAX,
        };
        let pending = self.requests.get_mut(&ticket).expect("callers hold it");
        pending.rounds += 1;
        pending.redirected = redirected;
        let rounds = pending.rounds;
        if rounds >= most && !redirected {
            self.finish(ticket, SessionOutcome::NoMoment, output);
        } else if rounds <= ROUNDS_QUIET {
            self.begin_moment(now_us, ticket, output);
        } else {
            self.pause(now_us, ticket, rounds - ROUNDS_QUIET);
        }
    }

    /// Returns whether any of these reads is one of a thin index.
    fn reads_thin(&self, reads: &[Read]) -> bool {
        let configuration = self.configuration.as_ref();
        configuration.is_some_and(|known| reads.iter().any(|it| is_thin(known, it.partition)))
    }

    /// Reads the ranges of all moments of these tables again, because the tables' epochs have
    /// changed. Earlier pages agree with no later ones.
    pub(super) fn all_moments_again(
        &mut self,
        now_us: u64,
        tables: &BTreeSet<TableId>,
        output: &mut SessionOutput,
    ) {
        for ticket in self.moments.keys().copied().collect::<Vec<Ticket>>() {
            if self.reads_any(ticket, tables) {
                self.begin_moment(now_us, ticket, output);
            }
        }
    }

    /// Drops the requests of a round, and releases its holds for the writers that wait.
    pub(super) fn drop_moment(&mut self, ticket: Ticket) {
        let Some(moment) = self.moments.remove(&ticket) else {
            return;
        };
        for part in moment.open.into_keys() {
            self.remove(part);
        }
        let releases = releases(moment.holds).map(SessionOperation::Release);
        self.abandoned.extend(releases);
    }

    /// Sends the release of holds of failed rounds, and of snapshots that arrived too late. If a
    /// message is lost, holds and snapshots end by their time limit.
    pub(super) fn release_abandoned(&mut self, now_us: u64, output: &mut SessionOutput) {
        for operation in core::mem::take(&mut self.abandoned) {
            let deadline_us = now_us + RELEASE_US;
            let part = self.part(RequestParent::Nothing, deadline_us, operation);
            self.place(now_us, part, output);
        }
    }
}

/// Returns the requests that end these holds.
fn releases(holds: Holds) -> impl Iterator<Item = HoldRelease> {
    holds
        .into_iter()
        .map(|((partition, _), holds)| HoldRelease {
            epoch: Epoch(0),
            partition,
            holds,
        })
}
