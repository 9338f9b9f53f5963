//! Lookups and scans of one partition, and its checksum.
//!
//! No pending operation on what is read: answered at once from the tables, which hold settled
//! state only. A pending one: the read waits for its outcome (SAFETY R10), and later operations
//! on the same keys wait behind the read, so that it sees every key at one moment. That makes
//! lookups over every index linearisable. `Stale` reads do not wait.

use alloc::collections::BTreeSet;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::{Bound, ControlFlow, RangeBounds};

use placement::tables::{Tables, TablesError};
use placement::{Column, RowView, ValueRef, encode_row_refs};

use super::redirect::{self, Wanted, Way};
use super::rows::{KeyRange, Rows, stored_row};
use super::table::TableInfo;
use super::{Asked, ClientId, CoreMachine, Member, Output};
use crate::codec::Bytes;
use crate::expression::holds;
use crate::identity::{Now, OperationId, PartitionId, Position};
use crate::message::{
    ChecksumPart, ChecksumRead, Consistency, Read, Refusal, Reply, Request, RowPage,
};
use crate::planted::{self, Bug};

/// A read that waits for decisions. It covers some key: one that covers none finds no holder to
/// wait for.
#[derive(Debug)]
pub(super) struct WaitingRead {
    pub asked: Asked,
    read: Read,
    waits_for: BTreeSet<OperationId>,
    since_us: u64,
}

impl WaitingRead {
    /// Whether it reads a key of its partition's order. One that is redirected looks at rows.
    pub fn covers(&self, key: &[u8]) -> bool {
        self.read.redirect.is_none() && self.range().contains(key)
    }

    /// Whether it reads what the operation changes, and holds it back until it is answered. In the
    /// primary replex a redirected read holds back nothing: the order of operations per pk is made
    /// there from held keys alone (SAFETY R6).
    pub fn covers_operation(&self, member: &Member) -> bool {
        match Wanted::of(&member.table, &self.read) {
            Some(wanted) => {
                self.read.partition.replex != 0 && wanted.is_touched_by(&member.prepare)
            }
            None => member.held.iter().any(|held| self.covers(held)),
        }
    }

    fn range(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        let end = self.read.end.as_deref();
        (
            Bound::Included(&self.read.start),
            end.map_or(Bound::Unbounded, Bound::Excluded),
        )
    }
}

impl CoreMachine {
    pub(super) fn on_request<T: Tables>(
        &mut self,
        now: Now,
        asked: Asked,
        request: Request,
        tables: &mut T,
        output: &mut Output,
    ) -> Result<(), TablesError> {
        match request {
            Request::Execute(execute) => self.execute(now, asked, execute, tables, output),
            Request::Read(read) => self.read(now, asked, read, tables, output),
            Request::Checksum(read) => self.checksum(now, asked, &read, tables, output),
            Request::Status => {
                let counters = Reply::Status(self.counters());
                self.answer(asked, Position(0), None, counters, output);
                Ok(())
            }
        }
    }

    fn read<T: Tables>(
        &mut self,
        now: Now,
        asked: Asked,
        read: Read,
        tables: &T,
        output: &mut Output,
    ) -> Result<(), TablesError> {
        self.counters.reads += 1;
        self.notice_epoch(read.epoch, output);
        if let Err(refusal) = self.check_readable(now, read.epoch, read.partition) {
            self.refuse(asked, refusal, output);
            return Ok(());
        }
        if let Err(message) = redirect::check(&self.partitions[&read.partition].table, &read) {
            self.refuse(asked, Refusal::Invalid { message }, output);
            return Ok(());
        }
        if read.redirect.is_some() {
            self.watch_changes(now, read.partition);
        }
        let waits_for = self.waits_of(&read);
        if waits_for.is_empty() {
            return self.answer_read(now, asked, &read, tables, output);
        }
        let reads = &mut self
            .partitions
            .get_mut(&read.partition)
            .expect("it is readable")
            .reads;
        if reads.len() >= self.limits.waiting_reads_max {
            self.refuse(asked, Refusal::Overloaded, output);
            return Ok(());
        }
        self.counters.reads_waited += 1;
        let since_us = now.monotonic_us;
        reads.push(WaitingRead {
            asked,
            read,
            waits_for,
            since_us,
        });
        Ok(())
    }

    /// Operations under way on what is read, unless it may be stale.
    fn waits_of(&self, read: &Read) -> BTreeSet<OperationId> {
        if read.consistency == Consistency::Stale || planted::is(Bug::ReadDoesNotWait) {
            return BTreeSet::new();
        }
        let partition = &self.partitions[&read.partition];
        if let Some(wanted) = Wanted::of(&partition.table, read) {
            return self.pending_on(partition, &wanted);
        }
        let mut end = read.end.as_deref();
        if planted::is(Bug::RangeNotWatched) {
            end = Some(&read.start);
        }
        let holders = partition.locks.holders_in(&read.start, end);
        holders.into_iter().collect()
    }

    /// As [`CoreMachine::check_serving`]. A core that may have forgotten operations whose outcome
    /// others have seen answers nothing until its peers have told it of them.
    fn check_readable(
        &self,
        now: Now,
        epoch: crate::identity::Epoch,
        partition: PartitionId,
    ) -> Result<(), Refusal> {
        self.check_serving(now, epoch, partition)?;
        if self.recovering.is_some() && !planted::is(Bug::ReadBeforeRecovery) {
            Err(Refusal::NotServing)
        } else {
            Ok(())
        }
    }

    fn answer_read<T: Tables>(
        &mut self,
        now: Now,
        asked: Asked,
        read: &Read,
        tables: &T,
        output: &mut Output,
    ) -> Result<(), TablesError> {
        let partition = &self.partitions[&read.partition];
        let rows = Rows::of(partition);
        let way = Way::of(rows, read);
        let mut page = match PageBuilder::new(&partition.table, read, way) {
            Ok(page) => page,
            Err(message) => {
                self.refuse(asked, Refusal::Invalid { message }, output);
                return Ok(());
            }
        };
        page.keys_left = self.limits.page_keys_max;
        page.bytes_max = self.limits.page_bytes_max;
        if let Some(wanted) = &page.wanted {
            page.page.quiet_us = Some(self.quiet_us(now, partition, wanted));
        }
        let range = KeyRange {
            start: &read.start,
            end: read.end.as_deref(),
            descending: read.descending,
        };
        let visit = &mut |key: &[u8], value: &[u8]| page.visit(key, value);
        match way {
            Way::Rows => range.visit(read.partition.rows_table(), tables, visit)?,
            Way::Entries(order) => rows.look_up(order, range, tables, visit)?,
            Way::Scan(from) => tables.scan(read.partition.rows_table(), from, None, visit)?,
        }
        let looked_at = (self.limits.page_keys_max - page.keys_left) as u64;
        let is_redirected = page.wanted.is_some();
        let reply = match page.error {
            Some(message) => Reply::Refused(Refusal::Invalid { message }),
            None => Reply::Rows(page.page),
        };
        if is_redirected {
            self.counters.redirected_rows_looked_at += looked_at;
        }
        // The lease is checked once more when the reply goes out, after the value was taken
        // (SAFETY R15).
        self.answer(
            asked,
            Position(0),
            Some(self.lease_until_us()),
            reply,
            output,
        );
        Ok(())
    }

    /// An operation has settled or given up: reads that waited for it alone are answered, and
    /// what came after them goes on.
    pub(super) fn answer_waiting_reads<T: Tables>(
        &mut self,
        now: Now,
        id: PartitionId,
        operation: OperationId,
        tables: &mut T,
        output: &mut Output,
    ) -> Result<(), TablesError> {
        let Some(partition) = self.partitions.get_mut(&id) else {
            return Ok(());
        };
        if partition.reads.is_empty() {
            return Ok(());
        }
        for read in &mut partition.reads {
            read.waits_for.remove(&operation);
        }
        let ready: Vec<WaitingRead> = partition
            .reads
            .extract_if(.., |read| read.waits_for.is_empty())
            .collect();
        for WaitingRead { asked, read, .. } in &ready {
            match self.check_readable(now, read.epoch, read.partition) {
                Ok(()) => self.answer_read(now, *asked, read, tables, output)?,
                Err(refusal) => self.refuse(*asked, refusal, output),
            }
        }
        self.reads_gone(now, id, &ready, tables, output)
    }

    /// Lets in what came after reads of a partition that are gone.
    pub(super) fn reads_gone<T: Tables>(
        &mut self,
        now: Now,
        id: PartitionId,
        gone: &[WaitingRead],
        tables: &mut T,
        output: &mut Output,
    ) -> Result<(), TablesError> {
        let Some(partition) = self.partitions.get_mut(&id) else {
            return Ok(());
        };
        if gone.is_empty() {
            return Ok(());
        }
        // Requests that wait for something else have their turn when that is gone.
        let mut waited = BTreeSet::new();
        for read in gone {
            let queues = partition.queues.range::<[u8], _>(read.range());
            waited.extend(queues.map(|(pk, _)| pk.clone()));
        }
        for operation in core::mem::take(&mut partition.behind_reads) {
            self.wake(now, (operation, id), tables, output)?;
        }
        for pk in waited {
            self.start_queue(now, id, &pk, tables, output)?;
        }
        Ok(())
    }

    /// Reads of a client that is gone, or that have waited too long, end.
    pub(super) fn drop_reads<T: Tables>(
        &mut self,
        now: Now,
        gone: Option<ClientId>,
        tables: &mut T,
        output: &mut Output,
    ) -> Result<(), TablesError> {
        let deadline = now.monotonic_us.saturating_sub(self.limits.wait_us_max);
        let mut late = Vec::new();
        for partition in self
            .partitions
            .values_mut()
            .filter(|one| !one.reads.is_empty())
        {
            let ends = |read: &mut WaitingRead| {
                gone == Some(read.asked.client) || read.since_us < deadline
            };
            let ended: Vec<WaitingRead> = partition.reads.extract_if(.., ends).collect();
            late.push((partition.id, ended));
        }
        for (id, ended) in late {
            for WaitingRead { asked, .. } in &ended {
                if gone != Some(asked.client) {
                    self.refuse(*asked, Refusal::Overloaded, output);
                }
            }
            self.reads_gone(now, id, &ended, tables, output)?;
        }
        Ok(())
    }

    pub(super) fn on_client_gone<T: Tables>(
        &mut self,
        now: Now,
        client: ClientId,
        tables: &mut T,
        output: &mut Output,
    ) -> Result<(), TablesError> {
        for running in self.running.values_mut() {
            running.forget_client(client);
        }
        self.drop_reads(now, Some(client), tables, output)
    }

    /// Sums a part of a partition. Tells settled state: two replexes agree when nothing is under
    /// way.
    fn checksum<T: Tables>(
        &mut self,
        now: Now,
        asked: Asked,
        read: &ChecksumRead,
        tables: &T,
        output: &mut Output,
    ) -> Result<(), TablesError> {
        if let Err(refusal) = self.check_readable(now, read.epoch, read.partition) {
            self.refuse(asked, refusal, output);
            return Ok(());
        }
        let limit = (read.limit as usize).clamp(1, self.limits.page_keys_max) as u64;
        let mut part = ChecksumPart::default();
        tables.scan(
            read.partition.rows_table(),
            &read.start,
            None,
            &mut |key, value| {
                if part.count == limit {
                    part.next = Some(key.into());
                    return ControlFlow::Break(());
                }
                part.count += 1;
                part.sum = part.sum.wrapping_add(xxhash_rust::xxh3::xxh3_64(value));
                ControlFlow::Continue(())
            },
        )?;
        let lease = Some(self.lease_until_us());
        self.answer(asked, Position(0), lease, Reply::Checksum(part), output);
        Ok(())
    }
}

/// Gathers one page of a read.
struct PageBuilder<'a> {
    columns: &'a [Column],
    read: &'a Read,
    /// Set if the read is redirected.
    wanted: Option<Wanted<'a>>,
    /// Rows come in the partition's own order, forwards, and are looked through for those of the
    /// range.
    scans: bool,
    /// The columns of a projected row.
    projected: Option<Vec<Column>>,
    page: RowPage,
    keys_left: usize,
    bytes_max: usize,
    /// Where a descending read stands: the end of its next page.
    last_key: Vec<u8>,
    error: Option<String>,
}

impl<'a> PageBuilder<'a> {
    fn new(table: &'a TableInfo, read: &'a Read, way: Way<'_>) -> Result<Self, String> {
        let columns = &table.schema.columns[..];
        if let Some(filter) = &read.filter {
            let scope = crate::expression::Scope::Row;
            crate::expression::check_condition(filter, columns, scope)
                .map_err(|error| error.to_string())?;
        }
        let column = |index: &u16| columns.get(usize::from(*index)).cloned();
        let projected = match &read.projection {
            None => None,
            Some(indexes) => {
                let projected: Option<Vec<Column>> = indexes.iter().map(column).collect();
                Some(projected.ok_or("the projection names a column that is not there")?)
            }
        };
        Ok(PageBuilder {
            columns,
            read,
            wanted: Wanted::of(table, read),
            scans: matches!(way, Way::Scan(_)),
            projected,
            page: RowPage {
                own_order: matches!(way, Way::Scan(_)),
                ..RowPage::default()
            },
            keys_left: 0,
            bytes_max: 0,
            last_key: Vec::new(),
            error: None,
        })
    }

    fn visit(&mut self, key: &[u8], value: &[u8]) -> ControlFlow<()> {
        let full = self.page.count >= u64::from(self.read.limit)
            || self.keys_left == 0
            || self.page.rows.len() >= self.bytes_max;
        if full {
            let next = if self.descends() {
                &self.last_key[..]
            } else {
                key
            };
            self.page.next = Some(Bytes::from(next));
            return ControlFlow::Break(());
        }
        self.keys_left -= 1;
        if self.descends() {
            self.last_key.clear();
            self.last_key.extend_from_slice(key);
        }
        match self.take(value) {
            Ok(()) => ControlFlow::Continue(()),
            Err(message) => {
                self.error = Some(message);
                ControlFlow::Break(())
            }
        }
    }

    fn descends(&self) -> bool {
        self.read.descending && !self.scans
    }

    /// Adds a row to the page if it is asked for and passes the filter.
    fn take(&mut self, value: &[u8]) -> Result<(), String> {
        let (version, row) = stored_row(value);
        if self.read.filter.is_none() && self.projected.is_none() && self.wanted.is_none() {
            match self.read.count_only {
                true => self.page.count += 1,
                false => self.page.push(version, row),
            }
            return Ok(());
        }
        let view = RowView::parse(self.columns, row).map_err(|error| error.to_string())?;
        if let Some(wanted) = &self.wanted
            && (!wanted.admits(&view) || self.scans && !wanted.ranges_over(&view))
        {
            return Ok(());
        }
        if let Some(filter) = &self.read.filter
            && !holds(filter, &view, None).map_err(|error| error.to_string())?
        {
            return Ok(());
        }
        match (&self.projected, &self.read.projection) {
            _ if self.read.count_only => self.page.count += 1,
            (Some(columns), Some(indexes)) => {
                let indexes = indexes.iter().map(|index| usize::from(*index));
                let values: Vec<ValueRef<'_>> = indexes.map(|index| view.column(index)).collect();
                let row = encode_row_refs(columns, &values).map_err(|error| error.to_string())?;
                self.page.push(version, &row);
            }
            _ => self.page.push(version, row),
        }
        Ok(())
    }
}
