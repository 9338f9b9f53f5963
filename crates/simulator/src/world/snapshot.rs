//! Statements of clients that read a snapshot: opened, read range by range with pauses, closed.

use protocol::message::{OpenedSnapshot, Read, RowPage, SnapshotReply};
use session::{SessionFailure, SessionOperation, SessionOutcome, Ticket};

use crate::event::Event;
use crate::model::Observation;
use crate::world::World;
use crate::world::submitted::{SubmittedOperation, is_possible_failure};

/// How many pages are followed by a renewal of the snapshot's lease.
const RENEWED: f64 = 0.3;
/// How many statements never close their snapshot.
const FORGOTTEN: f64 = 0.1;

/// A statement that reads a snapshot.
#[derive(Debug)]
pub struct SnapshotStatement {
    submitted: SubmittedOperation,
    /// Its ranges; the next page of each is what is asked for next.
    reads: Vec<Read>,
    /// The pages of each range that have been read.
    pages: Vec<Vec<RowPage>>,
    opened: Option<OpenedSnapshot>,
    deadline_us: u64,
}

impl World {
    /// Begins a statement: its client opens a snapshot of the table.
    pub fn begin_snapshot(
        &mut self,
        number: u64,
        submitted: SubmittedOperation,
        reads: Vec<Read>,
        deadline_us: u64,
    ) {
        let table = self.tables[submitted.table].id;
        let statement = SnapshotStatement {
            submitted,
            reads,
            pages: Vec::new(),
            opened: None,
            deadline_us,
        };
        let open = SessionOperation::OpenSnapshot(vec![table]);
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

    /// Handles the end of an operation of a statement. Returns the outcome if it is of none.
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
        if let Some(mut read) = statement.next_read() {
            read.snapshot = Some(share.snapshot);
            let pause_us = self
                .random
                .exponential(self.plan.workload.snapshot_pause_us);
            self.go_on(number, statement, SessionOperation::Read(read), pause_us);
            return;
        }
        let pages = core::mem::take(&mut statement.pages);
        let SubmittedOperation { history, table } = statement.submitted;
        match self.ranges(table, &pages) {
            Ok(Observation::Ranges(ranges)) => {
                let moment = self.next_moment();
                if let Some(index) = history {
                    self.history[index].1.ended = Some((moment, Observation::Ranges(ranges)));
                }
            }
            Ok(other) => panic!("ranges are read as {other:?}"),
            Err(text) => self.check("what a client learns makes sense", Err(text)),
        }
        self.end_statement(number, &statement);
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

    /// Submits an operation whose end is of no interest.
    fn submit_for_statement(&mut self, number: u64, operation: SessionOperation) {
        let now_us = self.now_us;
        let Some(client) = self.clients.get_mut(&number) else {
            return;
        };
        let ticket = client.next_ticket();
        client.asides.insert(ticket);
        let deadline_us = client.deadline_after(now_us, crate::plan::SECOND);
        self.submit(number, ticket, operation, deadline_us);
    }
}

impl SnapshotStatement {
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
