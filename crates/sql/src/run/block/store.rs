//! The store that the statements of a transaction use: its own changes over those of the cluster.

use std::collections::BTreeSet;
use std::sync::Arc;

use placement::{Alteration, RowView, Schema, SequenceLimit, Value, encode_key, prefix_end};
use protocol::codec::Bytes;
use protocol::configuration::roles::RoleId;
use protocol::configuration::{Configuration, PlacedTable, routes};
use protocol::identity::{Epoch, TableId, Version};
use protocol::message::{Consistency, FillReport, Read, RowPage};
use protocol::operation::{Action, Mutation, RequestResult};
use protocol::transaction::{
    CHANGES_MAX, RANGES_MAX, RangeCheck, RowCheck, TransactionChange, TransactionResult,
    digest_of_rows,
};
use session::MomentPages;
use session::statistics::TableStatistics;

use super::pages::{ReadKind, is_in_range, kind_of, page_in_order, page_of, passes};
use super::{Block, KnownRow, RowName, Work, changed};
use crate::run::row::row_after;
use crate::statement::{Statement, TransactionMode};
use crate::store::{SnapshotAnswer, Store, StoreError};

/// The most rows that a transaction may have changed in a table which it reads by an index.
const CHANGED_ROWS_READ_MAX: usize = 500;

/// The store as a statement of a transaction sees it.
#[derive(Debug)]
pub(in crate::run) struct BlockStore<'a, S: Store> {
    store: &'a S,
    pub(super) block: &'a Block<S::Snapshot>,
    /// Whether the statement finds rows to change them, by conditions that each change checks. Then
    /// a row counts only if it is not changed: the change itself must apply at the commit.
    changes: bool,
}

/// A row with its version.
type VersionedRow = (Version, Vec<Value>);

impl<'a, S: Store> BlockStore<'a, S> {
    pub fn new(
        store: &'a S,
        block: &'a Block<S::Snapshot>,
        statement: &Statement,
    ) -> BlockStore<'a, S> {
        let changes = matches!(statement, Statement::Update(_) | Statement::Delete(_))
            && statement.further_table().is_none();
        BlockStore {
            store,
            block,
            changes,
        }
    }

    /// Notes that the statement reads what the commit cannot compare.
    fn exceeds(&self, error: StoreError) -> StoreError {
        self.block.work().exceeds = true;
        error
    }

    fn is_read_only(&self) -> bool {
        self.block.mode == TransactionMode::ReadOnly
    }

    /// Reads ranges and rows as of one moment, together with all rows and ranges that count, and
    /// compares these. So two statements never show what no serial order has. Returns the rows of
    /// the ranges.
    async fn read_together(
        &self,
        ranges: Vec<Read>,
        wanted: BTreeSet<RowName>,
    ) -> Result<Vec<Vec<VersionedRow>>, StoreError> {
        let configuration = self.store.configuration();
        let mut names = wanted;
        let known: Vec<RangeCheck> = {
            let work = self.block.work();
            let counting = work.rows.iter().filter(|(_, row)| row.counts);
            names.extend(counting.map(|(name, _)| name.clone()));
            work.ranges.clone()
        };
        let mut reads = Vec::with_capacity(names.len() + known.len() + ranges.len());
        for (table, pk) in &names {
            reads.push(read_of_row(&configuration, *table, pk)?);
        }
        for check in &known {
            let table = find(&configuration, check.read.partition.table)?;
            if check.read.epoch < table.epoch {
                return Err(range_changed(table));
            }
            reads.push(check.read.clone());
        }
        let tables: Vec<TableId> = ranges.iter().map(|read| read.partition.table).collect();
        reads.extend(ranges);
        let Some(pages) = self.store.moment(reads).await? else {
            return Err(self.exceeds(StoreError::begin_again(
                "the rows that this transaction has used change too often, or are too many to be read \
                 as of one moment"
                    .into(),
            )));
        };
        let mut found = pages.ranges.into_iter();
        let mut work = self.block.work();
        for (name, pages) in names.iter().zip(found.by_ref().take(names.len())) {
            let table = find(&configuration, name.0)?;
            let row = decode(table, &pages)?.pop();
            work.learn(table, name, row)?;
        }
        drop(work);
        for (check, pages) in known.iter().zip(found.by_ref().take(known.len())) {
            let rows = pages.iter().flat_map(RowPage::rows);
            if digest_of_rows(rows, check.versions) != check.digest {
                let table = find(&configuration, check.read.partition.table)?;
                return Err(range_changed(table));
            }
        }
        let ranges = tables.iter().zip(found);
        let rows = ranges.map(|(table, pages)| {
            let table = find(&configuration, *table)?;
            if pages.len() > 1 {
                return Err(self.exceeds(too_many(table)));
            }
            decode(table, &pages)
        });
        rows.collect()
    }

    /// Returns the rows of those changes from this one on that concern something.
    pub(super) fn changed_from(
        &self,
        first: usize,
        concerns: impl Fn(&TransactionChange) -> bool,
    ) -> BTreeSet<RowName> {
        let work = self.block.work();
        let changes = work.changes.iter().skip(first).filter(|it| concerns(it));
        let names = changes.map(|it| (it.table, it.mutation.pk.to_vec()));
        names.collect()
    }

    /// Returns a row as the transaction sees it. The commit does not compare it.
    pub(super) async fn row(
        &self,
        table: &PlacedTable,
        pk: &[u8],
    ) -> Result<Option<Vec<Value>>, StoreError> {
        let name = (table.id, pk.to_vec());
        let is_known = {
            let work = self.block.work();
            let known = work.rows.get(&name);
            known.is_some_and(|known| known.read_in == work.statement)
        };
        if !is_known {
            let wanted = BTreeSet::from([name]);
            self.read_together(Vec::new(), wanted).await?;
        }
        self.block.work().current(table, pk)
    }

    /// Compares the rows that count, if the statement has made more than one of them count: they
    /// may have been read one after the other.
    pub async fn compare_if_several(&self) -> Result<(), StoreError> {
        let several = self.block.work().counted > 1;
        if several && !self.is_read_only() {
            self.read_together(Vec::new(), BTreeSet::new()).await?;
        }
        Ok(())
    }

    /// Returns the rows that must be known for a read, beside those of its range: those that the
    /// transaction has changed.
    fn changed_rows(
        &self,
        table: &PlacedTable,
        read: &Read,
        kind: ReadKind,
    ) -> Result<BTreeSet<RowName>, StoreError> {
        if kind == ReadKind::PrimaryKey {
            return Ok(BTreeSet::from([(table.id, read.start.to_vec())]));
        }
        let changed = self.block.work().may_enter(table, read);
        if changed.len() > CHANGED_ROWS_READ_MAX {
            return Err(StoreError::plain(format!(
                "the transaction has changed more than {CHANGED_ROWS_READ_MAX} rows of table {}: \
                 read it by its primary key, or before they are changed",
                table.schema.name
            )));
        }
        Ok(changed)
    }

    /// Returns the ranges of a statement as the transaction sees them.
    async fn ranges(&self, reads: &[Read]) -> Result<Vec<RowPage>, StoreError> {
        let configuration = self.store.configuration();
        let mut bases = Vec::with_capacity(reads.len());
        let mut kinds = Vec::with_capacity(reads.len());
        let mut wanted = BTreeSet::new();
        for read in reads {
            let table = find(&configuration, read.partition.table)?;
            let kind = kind_of(table, read);
            let changed = self.changed_rows(table, read, kind)?;
            bases.push(whole_rows(read, kind, self.block.work().changes.len()));
            wanted.extend(changed);
            kinds.push(kind);
        }
        let found = self.read_together(bases.clone(), wanted).await?;
        let mut work = self.block.work();
        let mut pages = Vec::with_capacity(reads.len());
        let kinds = kinds.into_iter().zip(bases);
        for ((read, (kind, base)), found) in reads.iter().zip(kinds).zip(found) {
            let table = find(&configuration, read.partition.table)?;
            pages.push(self.range(&mut work, table, (read, kind, base), found)?);
        }
        if work.ranges.len() > RANGES_MAX {
            work.exceeds = true;
            return Err(StoreError::plain(format!(
                "the transaction has read more than {RANGES_MAX} ranges: use several"
            )));
        }
        Ok(pages)
    }

    /// Returns the page of one range. `found` are the rows of `base` in the table.
    fn range(
        &self,
        work: &mut Work,
        table: &PlacedTable,
        (read, kind, base): (&Read, ReadKind, Read),
        found: Vec<VersionedRow>,
    ) -> Result<RowPage, StoreError> {
        let (check, by_rows) = match kind {
            ReadKind::PrimaryKey => (None, true),
            // No other row can have the key while the one that was found stays as it is.
            ReadKind::UniqueKey { .. } if !found.is_empty() => (None, true),
            // The entries of a thin index show which rows there are. Each row shows its content.
            ReadKind::UniqueKey { is_thin: true } | ReadKind::Range { is_thin: true } => {
                (Some(range_check(table, base, &found, false)?), true)
            }
            ReadKind::UniqueKey { .. } | ReadKind::Range { .. } => (
                Some(range_check(table, base, &found, !self.changes)?),
                false,
            ),
        };
        let mut names: BTreeSet<RowName> = BTreeSet::new();
        for (version, row) in found {
            let name = (table.id, pk_of(table, &row));
            work.learn(table, &name, Some((version, row)))?;
            names.insert(name);
        }
        let mut entered = match kind {
            ReadKind::PrimaryKey => BTreeSet::from([(table.id, read.start.to_vec())]),
            _ => work.may_enter(table, read),
        };
        names.extend(entered.iter().cloned());
        let mut rows = Vec::new();
        let mut shown = BTreeSet::new();
        for name in &names {
            let Some(row) = work.current(table, &name.1)? else {
                continue;
            };
            let version = work.rows[name].version.unwrap_or(Version(0));
            if is_in_range(table, read, &row) && passes(read, &row)? {
                rows.push((version, row));
                shown.insert(name.clone());
            }
        }
        let page = page_of(table, read, rows)?;
        if by_rows {
            entered.extend(names);
        }
        for name in &entered {
            if !(self.changes && shown.contains(name)) {
                work.count(name);
            }
        }
        if let Some(check) = check.filter(|check| !work.ranges.contains(check)) {
            work.counted += 1;
            work.ranges.push(check);
        }
        Ok(page)
    }
}

impl Work {
    /// Returns the rows of a table that changes of the transaction can have brought into a range.
    fn may_enter(&self, table: &PlacedTable, read: &Read) -> BTreeSet<RowName> {
        let replex = usize::from(read.partition.replex);
        let order = &table.layout.replexes[replex].sort_columns;
        let matters = |column: u16| {
            let filter = read.filter.as_ref();
            let is_filtered = filter.is_some_and(|it| !it.all_columns(&|other| other != column));
            is_filtered || order.iter().any(|it| it.column == usize::from(column))
        };
        let enters = |change: &&TransactionChange| {
            let assignments = match &change.mutation.action {
                Action::Update { assignments, .. } => assignments,
                Action::Delete { .. } => return false,
                _ => return true,
            };
            assignments.iter().any(|it| matters(it.column))
        };
        let changes = self.changes.iter().filter(|it| it.table == table.id);
        let entering = changes.filter(enters);
        let names = entering.map(|it| (it.table, it.mutation.pk.to_vec()));
        names.collect()
    }

    /// Records a row as it is in its table.
    ///
    /// # Errors
    /// The row counts, and has changed.
    fn learn(
        &mut self,
        table: &PlacedTable,
        name: &RowName,
        row: Option<VersionedRow>,
    ) -> Result<(), StoreError> {
        let (version, values) = row.unzip();
        let known = self.rows.entry(name.clone());
        let known = known.or_insert_with(|| KnownRow {
            version,
            values: values.clone(),
            counts: false,
            read_in: 0,
        });
        if known.version != version {
            if known.counts {
                return Err(changed(table, &name.1));
            }
            (known.version, known.values) = (version, values);
        }
        known.read_in = self.statement;
        Ok(())
    }
}

fn pk_of(table: &PlacedTable, row: &[Value]) -> Vec<u8> {
    let columns = table.schema.primary_key.iter();
    encode_key(columns.map(|column| row[*column].as_ref()))
}

fn find(configuration: &Configuration, table: TableId) -> Result<&PlacedTable, StoreError> {
    let known = configuration.table(table);
    known.ok_or_else(|| StoreError::dropped(table))
}

/// Returns the read of the row with this pk.
pub(in crate::run) fn read_of_row(
    configuration: &Configuration,
    table: TableId,
    pk: &[u8],
) -> Result<Read, StoreError> {
    let table = find(configuration, table)?;
    let partition = routes::primary_partition(table, pk);
    let partition = partition.ok_or_else(|| {
        StoreError::plain(format!(
            "a primary key of table {} is damaged",
            table.schema.name
        ))
    })?;
    Ok(Read {
        start: Bytes(pk.to_vec()),
        end: prefix_end(pk).map(Bytes),
        limit: 1,
        ..Read::of(configuration.epoch, partition)
    })
}

/// Returns the read of the rows from which a transaction makes its own: whole ones, and as many
/// more as it may have changed.
fn whole_rows(read: &Read, kind: ReadKind, changes: usize) -> Read {
    let more = u32::try_from(changes).unwrap_or(u32::MAX);
    let whole = Read {
        projection: None,
        count_only: false,
        ..read.clone()
    };
    match kind {
        // Its entries do not have all columns of a condition.
        ReadKind::Range { is_thin: true } if read.filter.is_some() => Read {
            filter: None,
            limit: u32::MAX,
            ..whole
        },
        ReadKind::Range { .. } => Read {
            limit: read.limit.saturating_add(more),
            ..whole
        },
        ReadKind::PrimaryKey | ReadKind::UniqueKey { .. } => Read {
            filter: None,
            descending: false,
            limit: 2,
            ..whole
        },
    }
}

/// Returns the check that the commit makes of a range with these rows.
fn range_check(
    table: &PlacedTable,
    base: Read,
    found: &[VersionedRow],
    versions: bool,
) -> Result<RangeCheck, StoreError> {
    let read = Read {
        projection: Some(table.schema.key_projection()),
        ..base
    };
    let page = page_in_order(table, &read, found.to_vec())?;
    Ok(RangeCheck {
        digest: digest_of_rows(page.rows(), versions),
        read,
        versions,
    })
}

pub(super) fn range_changed(table: &PlacedTable) -> StoreError {
    StoreError::begin_again(format!(
        "rows of table {} that this transaction has found have changed since, or others have come",
        table.schema.name
    ))
}

fn too_many(table: &PlacedTable) -> StoreError {
    StoreError::plain(format!(
        "a transaction that can write reads too many rows of table {} at once: read fewer, read \
         them before BEGIN, or in a transaction that is READ ONLY",
        table.schema.name
    ))
}

fn decode(table: &PlacedTable, pages: &[RowPage]) -> Result<Vec<VersionedRow>, StoreError> {
    let rows = pages.iter().flat_map(RowPage::rows);
    let rows = rows.map(|(version, row)| {
        let view = RowView::parse(&table.schema.columns, row);
        let view = view.map_err(|error| StoreError::plain(error.to_string()))?;
        Ok((version, view.to_values()))
    });
    rows.collect()
}

fn refused<T>() -> Result<T, StoreError> {
    Err(StoreError::plain(
        "this is not possible in a transaction: COMMIT it first".into(),
    ))
}

impl<S: Store> Store for BlockStore<'_, S> {
    type Snapshot = ();

    fn configuration(&self) -> Arc<Configuration> {
        self.store.configuration()
    }

    async fn refresh(&self) -> Result<Arc<Configuration>, StoreError> {
        self.store.refresh().await
    }

    async fn page(&self, read: Read) -> Result<RowPage, StoreError> {
        if self.is_read_only() {
            let (_, snapshot) = self.block.snapshot.as_ref().expect("it was opened before");
            let snapshot = Some(*snapshot);
            return self.store.page(Read { snapshot, ..read }).await;
        }
        // It only asks how large a table is.
        if read.consistency == Consistency::Stale {
            return self.store.page(read).await;
        }
        let mut pages = self.ranges(std::slice::from_ref(&read)).await?;
        Ok(pages.pop().expect("each range has a page"))
    }

    async fn moment(&self, reads: Vec<Read>) -> Result<Option<MomentPages>, StoreError> {
        if self.is_read_only() {
            // Everything is read from the snapshot.
            return Ok(None);
        }
        let pages = self.ranges(&reads).await?;
        let ranges = pages.into_iter().map(|page| vec![page]).collect();
        Ok(Some(MomentPages { ranges, rounds: 1 }))
    }

    async fn snapshot(&self, _: Vec<TableId>) -> Result<SnapshotAnswer<()>, StoreError> {
        match &self.block.snapshot {
            Some((_, snapshot)) => Ok(SnapshotAnswer::Open((), *snapshot)),
            None => refused(),
        }
    }

    fn statistics(&self, table: TableId) -> Option<Arc<TableStatistics>> {
        self.store.statistics(table)
    }

    async fn measure(&self, table: TableId) {
        self.store.measure(table).await;
    }

    fn is_transaction(&self) -> bool {
        true
    }

    async fn execute(
        &self,
        planned: Epoch,
        table: TableId,
        mutation: Mutation,
    ) -> Result<RequestResult, StoreError> {
        let configuration = self.store.configuration();
        let table = find(&configuration, table)?;
        if planned < table.columns_since {
            return Err(StoreError::altered(&table.schema.name));
        }
        let name = (table.id, mutation.pk.to_vec());
        let current = self.row(table, &name.1).await?;
        let mut work = self.block.work();
        if let Err(result) = row_after(table, &mutation, current.as_ref()) {
            work.count(&name);
            return Ok(result);
        }
        if work.changes.len() >= CHANGES_MAX {
            return Err(StoreError::plain(format!(
                "the transaction changes more than {CHANGES_MAX} rows: use several"
            )));
        }
        work.changes.push(TransactionChange {
            table: table.id,
            mutation,
            must_apply: true,
        });
        let version = Version(0);
        Ok(RequestResult::Applied { version })
    }

    async fn row_of_transaction(
        &self,
        table: TableId,
        pk: &[u8],
    ) -> Result<Option<Vec<Value>>, StoreError> {
        let configuration = self.store.configuration();
        let table = find(&configuration, table)?;
        let row = self.row(table, pk).await?;
        self.block.work().count(&(table.id, pk.to_vec()));
        Ok(row)
    }

    async fn transact(
        &self,
        _: Epoch,
        _: Vec<TransactionChange>,
        _: Vec<RowCheck>,
        _: Vec<RangeCheck>,
    ) -> Result<TransactionResult, StoreError> {
        refused()
    }

    /// A transaction does not give values back, and others need not wait for its end.
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
        self.store
            .reset_sequence(sequence, last_value, is_called)
            .await
    }

    async fn create_table(
        &self,
        _: Schema,
        _: Vec<Schema>,
        _: RoleId,
        _: bool,
    ) -> Result<(), StoreError> {
        refused()
    }

    async fn add_copy(
        &self,
        _: Schema,
        _: &(dyn Fn(&FillReport) + Send + Sync),
    ) -> Result<(), StoreError> {
        refused()
    }

    async fn set_failures_tolerated(
        &self,
        _: &str,
        _: u8,
        _: &(dyn Fn(&FillReport) + Send + Sync),
    ) -> Result<(), StoreError> {
        refused()
    }

    async fn set_partitions(
        &self,
        _: &str,
        _: u32,
        _: &(dyn Fn(&FillReport) + Send + Sync),
    ) -> Result<(), StoreError> {
        refused()
    }

    async fn drop_copy(&self, _: &str, _: &str, _: bool) -> Result<(), StoreError> {
        refused()
    }

    async fn replace_copy(
        &self,
        _: &str,
        _: &str,
        _: &str,
        _: &(dyn Fn(&FillReport) + Send + Sync),
    ) -> Result<(), StoreError> {
        refused()
    }

    async fn alter_table(&self, _: &str, _: Vec<Alteration>) -> Result<(), StoreError> {
        refused()
    }

    async fn truncate(&self, _: &[String], _: bool) -> Result<(), StoreError> {
        refused()
    }

    async fn drop_table(&self, _: &str, _: bool) -> Result<(), StoreError> {
        refused()
    }
}
