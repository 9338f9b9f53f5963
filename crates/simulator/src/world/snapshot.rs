//! Executes clients' statements that read a snapshot of one or several tables: they open it, read
//! range by range with pauses, and close it.

use std::collections::{BTreeMap, BTreeSet};

use placement::{RowView, encode_key};
use protocol::identity::{ReaderId, SnapshotId, Version};
use protocol::message::{OpenedSnapshot, Read, RowPage, SnapshotReply, SnapshotUse};
use session::{SessionFailure, SessionOperation, SessionOutcome, Ticket};

use crate::check::constraints::orphan;
use crate::event::Event;
use crate::model::{GROUP, NULL, Observation, U};
use crate::world::World;
use crate::world::submitted::{SubmittedOperation, is_possible_failure};

/// How many pages are followed by a renewal of the snapshot's lease.
const RENEWED: f64 = 0.3;
/// How many statements never close their snapshot.
const FORGOTTEN: f64 = 0.1;
/// One of so many leases is also renewed in the name of another client.
const MISTAKEN_EVERY: u64 = 3;

/// A statement that reads a snapshot.
#[derive(Debug)]
pub struct SnapshotStatement {
    /// Of each table, in the order in which they are read.
    parts: Vec<StatementPart>,
    opened: Option<OpenedSnapshot>,
    deadline_us: u64,
}

/// A part of a statement: a group of rows of one table, by every copy and thin index.
#[derive(Debug)]
pub struct StatementPart {
    submitted: SubmittedOperation,
    group: i64,
    /// Its ranges; the next page of each is what is asked for next.
    reads: Vec<Read>,
    /// The pages of each range that have been read.
    pages: Vec<Vec<RowPage>>,
}

impl StatementPart {
    /// Returns a part of which nothing has been read. It reads these ranges.
    pub fn new(submitted: SubmittedOperation, group: i64, reads: Vec<Read>) -> StatementPart {
        StatementPart {
            submitted,
            group,
            reads,
            pages: Vec::new(),
        }
    }
}

impl World {
    /// Begins a statement: its client opens a snapshot of its tables.
    pub fn begin_snapshot(&mut self, number: u64, parts: Vec<StatementPart>, deadline_us: u64) {
        let tables = parts
            .iter()
            .map(|part| self.tables[part.submitted.table].id);
        let open = SessionOperation::OpenSnapshot(tables.collect());
        let statement = SnapshotStatement {
            parts,
            opened: None,
            deadline_us,
        };
        self.go_on(number, statement, open, 0);
    }

    /// Submits the next operation of a statement, after a pause.
    fn go_on(
        &mut self,
        number: u64,
        statement: SnapshotStatement,
        operation: SessionOperation,
        pause_us: u64,
    ) {
        let Some(client) = self.clients.get_mut(&number) else {
            return;
        };
        let deadline_us = statement.deadline_us;
        let ticket = client.next_ticket();
        client.statements.insert(ticket, statement);
        match pause_us {
            0 => self.submit(number, ticket, operation, deadline_us),
            _ => self.after(
                pause_us,
                Event::Submit(number, ticket, operation, deadline_us),
            ),
        }
    }

    /// Handles the end of an operation of a statement. Returns the outcome unchanged if the
    /// operation belongs to no statement.
    pub fn statement_learns(
        &mut self,
        number: u64,
        ticket: Ticket,
        outcome: SessionOutcome,
    ) -> Option<SessionOutcome> {
        let client = self.clients.get_mut(&number).expect("it has just stepped");
        let Some(mut statement) = client.statements.remove(&ticket) else {
            return Some(outcome);
        };
        match outcome {
            SessionOutcome::Snapshot(SnapshotReply::Opened(opened)) => {
                statement.opened = Some(opened);
                self.read_on(number, statement);
            }
            SessionOutcome::Rows(page) => {
                statement.take(page);
                self.read_on(number, statement);
            }
            // A renewal, or the end, of which nothing depends on the answer.
            SessionOutcome::Snapshot(_) => {}
            SessionOutcome::Failed(
                SessionFailure::Snapshot(_) | SessionFailure::PlaceGone { .. },
            ) => self.end_statement(number, &statement),
            SessionOutcome::Failed(failure) => {
                let possible = is_possible_failure(&failure);
                self.check("what a client learns makes sense", possible);
                self.end_statement(number, &statement);
            }
            other => {
                let text = format!("no client asked for {other:?}");
                self.check("what a client learns makes sense", Err(text));
            }
        }
        None
    }

    /// Reads the next page, or ends the statement with all that it has read.
    fn read_on(&mut self, number: u64, mut statement: SnapshotStatement) {
        let opened = statement.opened.expect("it reads what is open");
        let share = opened.share;
        if self.random.chance(RENEWED) {
            let keep = SessionOperation::KeepSnapshot(share);
            self.submit_for_statement(number, keep);
        }
        if share.user.is_multiple_of(MISTAKEN_EVERY) {
            self.renew_mistakenly(number, share);
        }
        if let Some(mut read) = statement.next_read() {
            read.snapshot = Some(share.snapshot);
            let pause_us = self
                .random
                .exponential(self.plan.workload.snapshot_pause_us);
            self.go_on(number, statement, SessionOperation::Read(read), pause_us);
            return;
        }
        let parts = core::mem::take(&mut statement.parts);
        let read: Vec<(usize, usize, &[Vec<RowPage>])> = parts
            .iter()
            .filter_map(|part| {
                Some((
                    part.submitted.table,
                    part.submitted.history?,
                    &part.pages[..],
                ))
            })
            .collect();
        self.note_read(&read);
        for part in &parts {
            self.end_part(part, share.snapshot);
        }
        self.end_statement(number, &statement);
    }

    /// Notes what a statement has read of one table, and checks it.
    fn end_part(&mut self, part: &StatementPart, snapshot: SnapshotId) {
        let SubmittedOperation { history, table } = part.submitted;
        match self.ranges(table, &part.pages) {
            Ok(Observation::Ranges(ranges)) => {
                let moment = self.next_moment();
                if let Some(index) = history {
                    self.history[index].1.ended = Some((moment, Observation::Ranges(ranges)));
                }
            }
            Ok(other) => panic!("ranges are read as {other:?}"),
            Err(text) => self.check("what a client learns makes sense", Err(text)),
        }
        let compared = self.compare_with_cut(part, snapshot);
        self.check("I18 a snapshot has the rows of its version", compared);
    }

    /// Compares what every copy and thin index showed of a group with what had been committed up to
    /// the snapshot's version when it was given out.
    fn compare_with_cut(&self, part: &StatementPart, snapshot: SnapshotId) -> Result<(), String> {
        let table = &self.tables[part.submitted.table];
        let schema = &table.translation.schema;
        let Some(expected) = self.snapshots.rows_of(snapshot, table.id) else {
            return Ok(());
        };
        let mut group = BTreeMap::new();
        let mut without_key = BTreeSet::new();
        let mut all = Vec::with_capacity(expected.len());
        for (pk, (version, row)) in expected {
            let row = table.translation.parse(row)?;
            all.push(row);
            if row[GROUP] == part.group {
                group.insert(pk.clone(), *version);
            }
            // A copy by this column has it outside of the group's range.
            if row[U] == NULL {
                without_key.insert(pk.clone());
            }
        }
        // I20: a constraint over several rows holds in every snapshot.
        if let Some(key) = schema.constraints.foreign_keys.first()
            && let Some(row) = orphan(all.iter(), key.columns[0])
        {
            return Err(format!("{row:?} refers to no row of the snapshot"));
        }
        // The ranges of a copy stand together.
        let mut copies: BTreeMap<u8, BTreeMap<Vec<u8>, Version>> = BTreeMap::new();
        for (read, pages) in part.reads.iter().zip(&part.pages) {
            let rows = copies.entry(read.partition.replex).or_default();
            for (version, bytes) in pages.iter().flat_map(RowPage::rows) {
                let view = RowView::parse(&schema.columns, bytes);
                let view = view.map_err(|error| format!("a row does not parse: {error}"))?;
                let pk = encode_key(schema.primary_key.iter().map(|it| view.column(*it)));
                if rows.insert(pk, version).is_some() {
                    return Err("a row is there twice".to_owned());
                }
            }
        }
        let differs = copies.iter().find(|(replex, rows)| {
            // An entry is as old as its values, which `Self::ranges` has compared by version.
            let is_thin = table.translation.layout.is_thin(usize::from(**replex));
            let is_shown = |(pk, version): (&Vec<u8>, &Version)| match rows.get(pk) {
                Some(shown) => shown == version || is_thin && shown < version,
                None => without_key.contains(pk),
            };
            !group.iter().all(is_shown) || rows.keys().any(|pk| !group.contains_key(pk))
        });
        differs.map_or(Ok(()), |(replex, rows)| {
            Err(format!(
                "copy {replex} of table {} shows {rows:?} of group {} in {snapshot:?}, which has \
                 {group:?}",
                table.id.0, part.group
            ))
        })
    }

    /// Closes the snapshot of a statement that has ended; some clients forget to.
    fn end_statement(&mut self, number: u64, statement: &SnapshotStatement) {
        let client = self.clients.get_mut(&number).expect("callers have it");
        client.end_statement();
        let Some(opened) = statement.opened else {
            return;
        };
        if !self.random.chance(FORGOTTEN) {
            let close = SessionOperation::CloseSnapshot(opened.share);
            self.submit_for_statement(number, close);
        }
    }

    /// Renews a lease in the name of a client that does not have it (R51).
    fn renew_mistakenly(&mut self, number: u64, share: SnapshotUse) {
        let reader = ReaderId(!share.reader.0);
        let keep = SessionOperation::KeepSnapshot(SnapshotUse { reader, ..share });
        let ticket = self.submit_for_statement(number, keep);
        self.mistakes.extend(ticket.map(|ticket| (number, ticket)));
    }

    /// Checks the end of an operation on which nothing depends: a client renews no lease of
    /// another client.
    pub fn aside_learns(&mut self, number: u64, ticket: Ticket, outcome: &SessionOutcome) {
        let is_kept = *outcome == SessionOutcome::Snapshot(SnapshotReply::Kept);
        let renewed = match self.mistakes.remove(&(number, ticket)) && is_kept {
            true => Err(format!(
                "client {number} renewed the lease of another client"
            )),
            false => Ok(()),
        };
        self.check("R51 a lease belongs to its client", renewed);
        self.note_watched(number, ticket, outcome);
    }

    /// Records the answer to an operation of a watched client.
    fn note_watched(&mut self, client: u64, ticket: Ticket, outcome: &SessionOutcome) {
        let watch = self.watch.as_ref();
        let Some(watch) = watch.filter(|watch| watch.client == client) else {
            return;
        };
        let place = watch.place;
        let seen = match outcome {
            SessionOutcome::Executed(result) => {
                format!("{:?}", self.tables[place].translation.seen(result))
            }
            SessionOutcome::Rows(page) => {
                let pages = [vec![page.clone()]];
                format!("{:?}", self.ranges(place, &pages))
            }
            SessionOutcome::Moment(pages) => {
                format!("{:?}", self.ranges(place, &pages.ranges))
            }
            SessionOutcome::Snapshot(SnapshotReply::Opened(_)) => "a snapshot".into(),
            other => format!("{other:?}"),
        };
        let now_us = self.now_us;
        let watch = self.watch.as_mut().expect("it is watched");
        watch.answers.insert(ticket.0, (now_us, seen));
    }

    /// Submits an operation on which nothing depends. Returns its ticket.
    fn submit_for_statement(&mut self, number: u64, operation: SessionOperation) -> Option<Ticket> {
        let now_us = self.now_us;
        let client = self.clients.get_mut(&number)?;
        let ticket = client.next_ticket();
        client.asides.insert(ticket);
        let deadline_us = client.deadline_after(now_us, crate::plan::SECOND);
        self.submit(number, ticket, operation, deadline_us);
        Some(ticket)
    }
}

impl SnapshotStatement {
    /// Takes a page of the range that was asked for last.
    fn take(&mut self, page: RowPage) {
        let begun = self.parts.iter_mut().rev();
        let mut begun = begun.filter(|part| !part.pages.is_empty());
        begun.next().expect("a page was asked for").take(page);
    }

    /// Returns the next page to ask for; none if all ranges of all tables are read.
    fn next_read(&mut self) -> Option<Read> {
        self.parts.iter_mut().find_map(StatementPart::next_read)
    }
}

impl StatementPart {
    /// Takes a page of the range that was asked for last.
    fn take(&mut self, page: RowPage) {
        let number = self.pages.len() - 1;
        let read = &mut self.reads[number];
        let asked = u64::from(read.limit);
        read.limit = u32::try_from(asked.saturating_sub(page.count)).expect("it only falls");
        match page.next.clone() {
            Some(next) if read.descending => read.end = Some(next),
            Some(next) => read.start = next,
            None => read.limit = 0,
        }
        self.pages[number].push(page);
    }

    /// Returns the next page to ask for; none if all ranges are read.
    fn next_read(&mut self) -> Option<Read> {
        let under_way = self.pages.len().checked_sub(1);
        if let Some(read) = under_way.map(|number| &self.reads[number])
            && read.limit > 0
        {
            return Some(read.clone());
        }
        let read = self.reads.get(self.pages.len())?;
        self.pages.push(Vec::new());
        Some(read.clone())
    }
}
