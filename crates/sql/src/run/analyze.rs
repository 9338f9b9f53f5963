//! Runs a statement for `EXPLAIN ANALYZE`, and counts its requests to the store.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use placement::{Alteration, Schema, SequenceLimit, Value};
use protocol::configuration::Configuration;
use protocol::configuration::roles::RoleId;
use protocol::identity::{Epoch, TableId};
use protocol::message::{FillReport, Read, RowPage};
use protocol::operation::{Mutation, RequestResult};
use protocol::transaction::{RangeCheck, RowCheck, TransactionChange, TransactionResult};
use session::MomentPages;
use session::statistics::TableStatistics;

use super::{Attempt, ReadContext, StatementOutcome, describe};
use crate::plan::StatementPlan;
use crate::store::{SnapshotAnswer, Store, StoreError};

/// Runs a plan. Returns the lines of its explanation, and then the work that it was.
pub(super) async fn run<S: Store>(
    reading: &ReadContext<'_, S>,
    mut lines: Vec<String>,
    plan: StatementPlan,
) -> Result<StatementOutcome, Attempt> {
    let store = MeasuredStore {
        store: reading.store,
        work: Mutex::default(),
    };
    let measured = ReadContext {
        store: &store,
        configuration: reading.configuration,
        settings: reading.settings,
        notices: reading.notices,
        needs_one_state: reading.needs_one_state,
    };
    let begun = Instant::now();
    let outcome = measured.run(plan).await?;
    let time = begun.elapsed();
    let result = match outcome {
        StatementOutcome::Rows(rows) => match rows.rows.len() {
            1 => "1 row".to_string(),
            count => format!("{count} rows"),
        },
        StatementOutcome::Done(done) | StatementOutcome::Returned(_, done) => done,
        StatementOutcome::Description(_) => unreachable!("these statements describe nothing"),
    };
    lines.push(format!("result: {result}"));
    lines.extend(store.work().lines());
    lines.push(format!("time: {}", milliseconds(time)));
    Ok(describe::plan(lines))
}

fn milliseconds(time: Duration) -> String {
    format!("{:.3} ms", time.as_secs_f64() * 1000.0)
}

/// The requests of a statement to the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct StatementWork {
    /// The partitions' ranges that were read as of one moment.
    ranges: u64,
    /// The rounds until these showed one moment; none if they were not read so, or never did.
    rounds: Option<u32>,
    /// Whether ranges were too large for one moment, or changed too often.
    without_moment: bool,
    /// The snapshots that were opened.
    snapshots: u64,
    /// The pages that were read one by one.
    pages: u64,
    /// The rows in the answers, counted ones included.
    rows: u64,
    /// The operations that changed rows.
    operations: u64,
}

impl StatementWork {
    fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut add = |line: String| lines.push(format!("  {line}"));
        let plural = |count: u64, what: &str| match count {
            1 => format!("1 {what}"),
            count => format!("{count} {what}s"),
        };
        if let Some(rounds) = self.rounds {
            let ranges = plural(self.ranges, "range");
            let rounds = plural(rounds.into(), "round");
            add(format!("read as of one moment: {ranges}, in {rounds}"));
        }
        if self.without_moment {
            add("too large for one moment, or changed too often".to_string());
        }
        if self.snapshots > 0 {
            add(format!("opened: {}", plural(self.snapshots, "snapshot")));
        }
        if self.pages > 0 {
            add(format!("read page by page: {}", plural(self.pages, "page")));
        }
        add(format!(
            "partitions returned or counted: {}",
            plural(self.rows, "row")
        ));
        if self.operations > 0 {
            add(format!(
                "changed rows by: {}",
                plural(self.operations, "operation")
            ));
        }
        lines
    }
}

/// A store that counts its requests.
struct MeasuredStore<'a, S> {
    store: &'a S,
    work: Mutex<StatementWork>,
}

impl<S> MeasuredStore<'_, S> {
    fn work(&self) -> MutexGuard<'_, StatementWork> {
        self.work.lock().expect("nothing panics while it is held")
    }
}

impl<S: Store> Store for MeasuredStore<'_, S> {
    type Snapshot = S::Snapshot;

    fn configuration(&self) -> Arc<Configuration> {
        self.store.configuration()
    }

    async fn refresh(&self) -> Result<Arc<Configuration>, StoreError> {
        self.store.refresh().await
    }

    async fn page(&self, read: Read) -> Result<RowPage, StoreError> {
        let page = self.store.page(read).await?;
        let mut work = self.work();
        work.pages += 1;
        work.rows += page.count;
        Ok(page)
    }

    async fn moment(&self, reads: Vec<Read>) -> Result<Option<MomentPages>, StoreError> {
        let ranges = reads.len() as u64;
        let pages = self.store.moment(reads).await?;
        let mut work = self.work();
        match &pages {
            Some(pages) => {
                work.ranges += ranges;
                work.rounds = Some(work.rounds.unwrap_or(0).max(pages.rounds));
                let rows = pages.ranges.iter().flatten().map(|page| page.count);
                work.rows += rows.sum::<u64>();
            }
            None => work.without_moment = true,
        }
        drop(work);
        Ok(pages)
    }

    async fn snapshot(
        &self,
        tables: Vec<TableId>,
    ) -> Result<SnapshotAnswer<S::Snapshot>, StoreError> {
        let answer = self.store.snapshot(tables).await?;
        self.work().snapshots += u64::from(matches!(answer, SnapshotAnswer::Open(..)));
        Ok(answer)
    }

    fn statistics(&self, table: TableId) -> Option<Arc<TableStatistics>> {
        self.store.statistics(table)
    }

    async fn measure(&self, table: TableId) {
        self.store.measure(table).await;
    }

    async fn execute(
        &self,
        planned: Epoch,
        table: TableId,
        mutation: Mutation,
    ) -> Result<RequestResult, StoreError> {
        self.work().operations += 1;
        self.store.execute(planned, table, mutation).await
    }

    fn is_transaction(&self) -> bool {
        self.store.is_transaction()
    }

    async fn row_of_transaction(
        &self,
        table: TableId,
        pk: &[u8],
    ) -> Result<Option<Vec<Value>>, StoreError> {
        self.store.row_of_transaction(table, pk).await
    }

    async fn transact(
        &self,
        planned: Epoch,
        changes: Vec<TransactionChange>,
        checks: Vec<RowCheck>,
        ranges: Vec<RangeCheck>,
    ) -> Result<TransactionResult, StoreError> {
        self.work().operations += 1;
        self.store.transact(planned, changes, checks, ranges).await
    }

    async fn next_values(
        &self,
        sequence: TableId,
        count: usize,
    ) -> Result<Result<Vec<i64>, SequenceLimit>, StoreError> {
        self.store.next_values(sequence, count).await
    }

    async fn reset_sequence(
        &self,
        sequence: TableId,
        last_value: i64,
        is_called: bool,
    ) -> Result<(), StoreError> {
        let reset = self.store.reset_sequence(sequence, last_value, is_called);
        reset.await
    }

    async fn create_table(
        &self,
        schema: Schema,
        sequences: Vec<Schema>,
        owner: RoleId,
        if_not_exists: bool,
    ) -> Result<(), StoreError> {
        let created = self
            .store
            .create_table(schema, sequences, owner, if_not_exists);
        created.await
    }

    async fn add_copy(
        &self,
        wanted: Schema,
        progress: &(dyn Fn(&FillReport) + Send + Sync),
    ) -> Result<(), StoreError> {
        self.store.add_copy(wanted, progress).await
    }

    async fn set_failures_tolerated(
        &self,
        table: &str,
        failures: u8,
        progress: &(dyn Fn(&FillReport) + Send + Sync),
    ) -> Result<(), StoreError> {
        let set = self.store.set_failures_tolerated(table, failures, progress);
        set.await
    }

    async fn set_partitions(
        &self,
        table: &str,
        partitions: u32,
        progress: &(dyn Fn(&FillReport) + Send + Sync),
    ) -> Result<(), StoreError> {
        self.store.set_partitions(table, partitions, progress).await
    }

    async fn drop_copy(&self, table: &str, name: &str, if_exists: bool) -> Result<(), StoreError> {
        self.store.drop_copy(table, name, if_exists).await
    }

    async fn replace_copy(
        &self,
        table: &str,
        name: &str,
        by: &str,
        progress: &(dyn Fn(&FillReport) + Send + Sync),
    ) -> Result<(), StoreError> {
        self.store.replace_copy(table, name, by, progress).await
    }

    async fn alter_table(
        &self,
        table: &str,
        alterations: Vec<Alteration>,
    ) -> Result<(), StoreError> {
        self.store.alter_table(table, alterations).await
    }

    async fn truncate(&self, tables: &[String], cascade: bool) -> Result<(), StoreError> {
        self.store.truncate(tables, cascade).await
    }

    async fn drop_table(&self, name: &str, if_exists: bool) -> Result<(), StoreError> {
        self.store.drop_table(name, if_exists).await
    }
}
