//! Executes lookups and scans of one partition.
//!
//! If no operation holds a key of the range, the core answers a read at once from the tables, which
//! have only settled rows. Otherwise the read waits for the outcome (R10), and later operations on
//! the same keys wait behind the read, so that it sees every key at one moment. That makes lookups
//! by every index linearizable. `Stale` reads do not wait.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::{Bound, RangeBounds};

use placement::tables::{Tables, TablesError};
use protocol::codec::Bytes;
use protocol::identity::{ClockReading, OperationId, PartitionId, Position, Version};
use protocol::message::{Agreement, Consistency, KEYS_MAX, Read, Refusal, Reply, RowPage};
use protocol::planted::{self, Bug};

use crate::core::CoreMachine;
use crate::core::answers::ReplyDestination;
use crate::core::contract::ClientId;
use crate::core::partition::ranges::{KeyBounds, RedirectFilter, WaitingRead, bounds};
use crate::core::partition::rows::{AccessPath, KeyRange, Rows};
use crate::core::reads::page::PageBuilder;
use crate::core::reads::redirect;
use crate::core::step::Step;

impl CoreMachine {
    pub(crate) fn read<T: Tables>(
        &mut self,
        asker: ReplyDestination,
        mut read: Read,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        self.counters.reads += 1;
        self.notice_epoch(read.epoch, step.output);
        if let Err(refusal) = self.check_readable(step.now, read.epoch, read.partition) {
            self.refuse(asker, refusal, step.output);
            return Ok(());
        }
        let (snapshot, table) = (read.snapshot, read.partition.table);
        if let Err(failure) = self.version_of(step.now, snapshot, table) {
            self.refuse(asker, Refusal::Snapshot(failure), step.output);
            return Ok(());
        }
        let table = &self.partitions[&read.partition].table;
        let checked = check_keys(&read).and_then(|()| redirect::check(table, &read));
        if let Err(message) = checked {
            self.refuse(asker, Refusal::Invalid { message }, step.output);
            return Ok(());
        }
        if read.redirect.is_some() {
            self.counters.reads_redirected += 1;
        } else if table.is_ranged(read.partition) && !planted::is(Bug::EntriesOutsideRead) {
            let keys = (&read.start[..], read.end.as_deref());
            let (start, end) = table.keys_in_partition(read.partition, keys);
            (read.start, read.end) = (start.into(), end.map(Bytes::from));
            self.ranges.note_read(&read);
        }
        if read.must_agree() {
            self.watch_changes(step.now, read.partition);
        }
        let waits_for = self.waits_of(step.now, &read);
        if waits_for.is_empty() {
            return self.answer_read(asker, &read, step);
        }
        self.partitions.note_waiting(read.partition);
        let reads = &mut self
            .partitions
            .get_mut(&read.partition)
            .expect("it is readable")
            .reads;
        if reads.len() >= self.limits.waiting_reads_max {
            self.refuse(asker, Refusal::Overloaded, step.output);
            return Ok(());
        }
        self.counters.reads_waited += 1;
        let since_us = step.now.monotonic_us;
        reads.push(WaitingRead {
            asker,
            read,
            waits_for,
            since_us,
        });
        Ok(())
    }

    /// Returns the unsettled operations that the read must wait for: those that hold a key in its
    /// range. A read that may return stale rows waits for none.
    fn waits_of(&self, now: ClockReading, read: &Read) -> BTreeSet<OperationId> {
        let may_be_stale = read.consistency == Consistency::Stale && read.snapshot.is_none();
        if may_be_stale || planted::is(Bug::ReadDoesNotWait) {
            return BTreeSet::new();
        }
        let partition = &self.partitions[&read.partition];
        if read.snapshot.is_none() && partition.is_thin() {
            // It would wait at a side member (R28).
            return BTreeSet::new();
        }
        if let Some(wanted) = RedirectFilter::of(&partition.table, read) {
            return self.pending_on(partition, &wanted);
        }
        let mut end = read.end.as_deref();
        if planted::is(Bug::RangeNotWatched) {
            end = Some(&read.start);
        }
        let holders = match read.keys.is_empty() {
            true => partition.locks.holders_in(&read.start, end),
            false => {
                let wanted = read
                    .keys
                    .iter()
                    .filter(|key| bounds(read).contains(&key[..]));
                let holders = wanted.flat_map(|key| partition.locks.holders(key));
                holders.copied().collect()
            }
        };
        let Ok(Some(at)) = self.version_of(now, read.snapshot, read.partition.table) else {
            // A walk that holds a key has changed nothing yet.
            let has_voted = |holder: &OperationId| {
                let member = (*holder, read.partition);
                self.members.contains_key(&member)
            };
            return holders.into_iter().filter(has_voted).collect();
        };
        if planted::is(Bug::SnapshotDoesNotWait) {
            return BTreeSet::new();
        }
        // Later ones are none of the snapshot's. Of earlier ones the outcome is on its way.
        let is_earlier = |operation: &OperationId| {
            let member = self.members.get(&(*operation, read.partition));
            member.is_some_and(|member| member.oldest_version() <= at)
        };
        holders.into_iter().filter(is_earlier).collect()
    }

    /// Checks the conditions of [`CoreMachine::check_serving`]. Also refuses a read while the core
    /// may have forgotten operations whose outcome clients have seen, until its peers have reported
    /// them.
    pub(crate) fn check_readable(
        &self,
        now: ClockReading,
        epoch: protocol::identity::Epoch,
        partition: PartitionId,
    ) -> Result<(), Refusal> {
        self.check_serving(now, epoch, partition)?;
        if self.recovers(partition.table) && !planted::is(Bug::ReadBeforeRecovery) {
            Err(Refusal::NotServing)
        } else {
            Ok(())
        }
    }

    fn answer_read<T: Tables>(
        &mut self,
        asker: ReplyDestination,
        read: &Read,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let at = match self.version_of(step.now, read.snapshot, read.partition.table) {
            Ok(at) => at,
            Err(failure) => {
                self.refuse(asker, Refusal::Snapshot(failure), step.output);
                return Ok(());
            }
        };
        let partition = &self.partitions[&read.partition];
        let rows = Rows::of(partition);
        let way = AccessPath::of(rows, read);
        let mut page = match self.begin_page(read, way) {
            Ok(page) => page,
            Err(message) => {
                self.refuse(asker, Refusal::Invalid { message }, step.output);
                return Ok(());
            }
        };
        if read.must_agree() {
            let quiet_us = self.quiet_us(step.now, partition, read, page.wanted.as_ref());
            page.page.quiet_us = Some(quiet_us);
        }
        self.visit_rows((read, at), way, step.tables, &mut page)?;
        let looked_at = (self.limits.page_keys_max - page.keys_left) as u64;
        let is_redirected = page.wanted.is_some();
        let reply = match page.error {
            Some(message) => Reply::Refused(Refusal::Invalid { message }),
            None => {
                let mut page = page.page;
                self.hold_page(step.now, asker, read, &mut page);
                Reply::Rows(page)
            }
        };
        if is_redirected {
            self.counters.redirected_rows_looked_at += looked_at;
        }
        // The lease is checked once more when the reply goes out, after the value was taken
        // (R15).
        self.answer(
            asker,
            Position(0),
            Some(self.lease_until_us(step.now, read.partition.table)),
            reply,
            step.output,
        );
        Ok(())
    }

    /// Returns an empty page for a read, with the limits of this core.
    fn begin_page<'a>(
        &'a self,
        read: &'a Read,
        way: AccessPath<'_>,
    ) -> Result<PageBuilder<'a>, String> {
        let partition = &self.partitions[&read.partition];
        let mut page = PageBuilder::new(&partition.table, read, way)?;
        page.keys_left = self.limits.page_keys_max;
        page.bytes_max = self.limits.page_bytes_max;
        Ok(page)
    }

    /// Returns the page of a read of present rows. None if it is not complete, or the read is
    /// invalid.
    pub(crate) fn present_page<T: Tables>(
        &self,
        read: &Read,
        tables: &T,
    ) -> Result<Option<RowPage>, TablesError> {
        let partition = &self.partitions[&read.partition];
        let way = AccessPath::of(Rows::of(partition), read);
        let Ok(mut page) = self.begin_page(read, way) else {
            return Ok(None);
        };
        if partition.is_thin() {
            // Without what unsettled operations add.
            let range = KeyRange {
                start: &read.start,
                end: read.end.as_deref(),
                descending: read.descending,
            };
            let visit = &mut |key: &[u8], value: &[u8]| page.visit(key, value);
            range.visit(read.partition.rows_table(), tables, visit)?;
        } else {
            self.visit_rows((read, None), way, tables, &mut page)?;
        }
        let is_cut = page.page.next.is_some() && page.page.count < u64::from(read.limit);
        Ok((page.error.is_none() && !is_cut).then_some(page.page))
    }

    /// Fills a page with the rows of a read: the present rows, or those of a snapshot's version
    /// `at`.
    fn visit_rows<T: Tables>(
        &self,
        (read, at): (&Read, Option<Version>),
        way: AccessPath<'_>,
        tables: &T,
        page: &mut PageBuilder<'_>,
    ) -> Result<(), TablesError> {
        let wanted = bounds(read);
        for key in read.keys.iter().filter(|key| wanted.contains(&key[..])) {
            let after = [&key[..], &[0]].concat();
            let range = KeyRange {
                start: key,
                end: Some(&after),
                descending: false,
            };
            self.visit_range((read, at), (way, range), tables, page)?;
            if page.is_over() {
                break;
            }
        }
        let range = KeyRange {
            start: &read.start,
            end: read.end.as_deref(),
            descending: read.descending,
        };
        match read.keys.is_empty() {
            true => self.visit_range((read, at), (way, range), tables, page),
            false => Ok(()),
        }
    }

    fn visit_range<T: Tables>(
        &self,
        (read, at): (&Read, Option<Version>),
        (way, range): (AccessPath<'_>, KeyRange<'_>),
        tables: &T,
        page: &mut PageBuilder<'_>,
    ) -> Result<(), TablesError> {
        let rows = Rows::of(&self.partitions[&read.partition]);
        if let (AccessPath::Rows, Some(at)) = (way, at) {
            let rows = self.participation.rows_at(read.partition, at);
            let visit = &mut |key: &[u8], value: Option<&[u8]>| match value {
                Some(value) => page.visit(key, value),
                None => page.pass(key),
            };
            return rows.visit(read.partition, range, tables, visit);
        }
        if self.partitions[&read.partition].is_thin() {
            return self.visit_entries(read, range, tables, page);
        }
        let finer_than = match way {
            AccessPath::Rows => rows.finer_than(read),
            AccessPath::Entries(_) | AccessPath::Scan(_) => None,
        };
        let visit = &mut |key: &[u8], value: &[u8]| match finer_than {
            None => page.visit(key, value),
            Some(order) => page.visit(&rows.key_in_order(order, value), value),
        };
        let table = read.partition.rows_table();
        match way {
            AccessPath::Rows => range.visit(table, tables, visit),
            AccessPath::Entries(order) => rows.look_up(order, range, tables, visit),
            AccessPath::Scan(from) => tables.scan(table, from, None, visit),
        }
    }

    /// Answers the reads that waited only for this operation, which has settled or given up.
    /// Operations behind these reads continue.
    pub(crate) fn answer_waiting_reads<T: Tables>(
        &mut self,
        id: PartitionId,
        operation: OperationId,
        step: &mut Step<'_, T>,
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
        for WaitingRead { asker, read, .. } in &ready {
            match self.check_readable(step.now, read.epoch, read.partition) {
                Ok(()) => self.answer_read(*asker, read, step)?,
                Err(refusal) => self.refuse(*asker, refusal, step.output),
            }
        }
        self.reads_gone(id, &ready, step)
    }

    /// Lets the operations continue that waited behind ended reads of a partition.
    pub(crate) fn reads_gone<T: Tables>(
        &mut self,
        id: PartitionId,
        gone: &[WaitingRead],
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let ranges: Vec<_> = gone.iter().map(WaitingRead::range).collect();
        self.ranges_free(id, &ranges, step)
    }

    /// Lets the operations continue that waited for ranges of a partition that are free now.
    pub(crate) fn ranges_free<T: Tables>(
        &mut self,
        id: PartitionId,
        ranges: &[KeyBounds<'_>],
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let Some(partition) = self.partitions.get_mut(&id) else {
            return Ok(());
        };
        if ranges.is_empty() {
            return Ok(());
        }
        // Requests that wait for something else have their turn when that is gone.
        let mut waited = BTreeSet::new();
        // A client may ask for a range that ends before it starts: it covers no key.
        let covers_keys = |range: &&KeyBounds<'_>| match **range {
            (Bound::Included(start), Bound::Excluded(end)) => start <= end,
            _ => true,
        };
        for range in ranges.iter().filter(covers_keys) {
            let queues = partition.queues.range::<[u8], _>(*range);
            waited.extend(queues.map(|(pk, _)| pk.clone()));
        }
        for operation in core::mem::take(&mut partition.behind_reads) {
            self.wake((operation, id), step)?;
        }
        for pk in waited {
            self.start_queue(id, &pk, step)?;
        }
        Ok(())
    }

    /// Ends the reads of clients whose connection has ended, and reads that have waited too long.
    pub(crate) fn drop_reads<T: Tables>(
        &mut self,
        gone: Option<ClientId>,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let deadline = step
            .now
            .monotonic_us
            .saturating_sub(self.limits.wait_us_max);
        let mut late = Vec::new();
        for id in self.partitions.waited_in_ids() {
            let partition = self.partitions.get_mut(&id).expect("it is held");
            let ends = |read: &mut WaitingRead| {
                gone == Some(read.asker.client) || read.since_us < deadline
            };
            let ended: Vec<WaitingRead> = partition.reads.extract_if(.., ends).collect();
            late.push((id, ended));
        }
        for (id, ended) in late {
            for WaitingRead { asker, .. } in &ended {
                if gone != Some(asker.client) {
                    self.refuse(*asker, Refusal::Overloaded, step.output);
                }
            }
            self.reads_gone(id, &ended, step)?;
        }
        Ok(())
    }
}

/// Returns an error if a read of some keys is invalid. A partition answers one only with its own
/// rows or entries, ascending.
fn check_keys(read: &Read) -> Result<(), String> {
    if read.keys.is_empty() {
        return Ok(());
    }
    let holds = matches!(read.agreement, Agreement::Hold(_));
    if holds || read.redirect.is_some() || read.descending {
        return Err("single keys are read from their partition, ascending, and never held".into());
    }
    let ascend = read.keys.is_sorted_by(|one, next| one[..] < next[..]);
    if read.keys.len() > KEYS_MAX || !ascend {
        return Err(format!("a read names at most {KEYS_MAX} keys, ascending"));
    }
    Ok(())
}
