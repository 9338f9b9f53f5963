//! A store in memory for tests. It implements the cluster's guarantees as simply as possible. It
//! checks that each read asks the partition that holds the rows.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use placement::{
    Alteration, Constraint, Schema, SequenceLimit, SequenceState, SortColumn, Value, encode_row,
    encode_sorted,
};
use protocol::configuration::roles::RoleId;
use protocol::configuration::{Configuration, PartitionState, PlacedTable, routes};
use protocol::expression::holds;
use protocol::identity::{CoreId, Epoch, ServerId, SnapshotId, TableId, Version};
use protocol::message::{FillReport, Read, RowPage};
use protocol::operation::{Mutation, RequestResult};
use protocol::transaction::{
    AbortReason, ChangeOutcome, RangeCheck, RowCheck, TransactionChange, TransactionResult,
    digest_of_rows,
};
use session::MomentPages;
use session::statistics::TableStatistics;

use crate::fixture::{add_table, servers};
use crate::model_references::{note_child, violated};
use crate::run::SqlSession;
use crate::run::row::row_after;
use crate::store::{SnapshotAnswer, Store, StoreError};

/// Rows of a page, few so that reads take several.
const PAGE_ROWS: usize = 3;
/// The most rows that the model visits for a page.
const PAGE_KEYS: usize = 16;

pub(crate) type RowsByKey = BTreeMap<Vec<u8>, (Version, Vec<Value>)>;

/// An in-memory store for tests. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) state: Arc<Mutex<State>>,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) configuration: Arc<Configuration>,
    /// The configuration of a client that has not refreshed.
    pub(crate) known: Arc<Configuration>,
    pub(crate) rows: BTreeMap<TableId, RowsByKey>,
    pub(crate) version: u64,
    reads: Vec<Read>,
    executed: usize,
    /// Fails every operation from this one on.
    fails_from: Option<(usize, StoreError)>,
    /// Rows that are given as of one moment at most.
    moment_rows_max: u64,
    /// Snapshots that were opened.
    snapshots: u64,
    /// The rows of each snapshot.
    kept: BTreeMap<SnapshotId, BTreeMap<TableId, RowsByKey>>,
    /// Why none can be, if so.
    without_snapshots: Option<String>,
    /// The number of snapshots that end when their first page is requested.
    snapshots_ending: u64,
    /// Runs once this many pages more were read, if it has not.
    growth: Option<(usize, Vec<Mutation>)>,
    /// Never answers any operation from this one on.
    holds_from: Option<usize>,
    conflicts_left: usize,
    /// The most cores with primaries of one transaction.
    cores_per_transaction: usize,
    /// The estimates that statements are planned with.
    statistics: BTreeMap<TableId, Arc<TableStatistics>>,
}

impl Model {
    pub fn new() -> Model {
        let configuration = Arc::new(servers());
        Model {
            state: Arc::new(Mutex::new(State {
                known: configuration.clone(),
                configuration,
                rows: BTreeMap::new(),
                version: 0,
                reads: Vec::new(),
                executed: 0,
                fails_from: None,
                moment_rows_max: u64::MAX,
                snapshots: 0,
                kept: BTreeMap::new(),
                without_snapshots: None,
                snapshots_ending: 0,
                growth: None,
                holds_from: None,
                conflicts_left: 0,
                cores_per_transaction: 0,
                statistics: BTreeMap::new(),
            })),
        }
    }

    /// Returns a session over a new store, after it has run these statements.
    pub fn session(setup: &str) -> SqlSession<Model> {
        let mut session = SqlSession::new(Model::new());
        let outcome = block_on(session.run_text(setup));
        outcome.unwrap_or_else(|error| panic!("line {}: {}", error.line, error.error));
        session
    }

    /// Returns the reads since the last call.
    pub fn take_reads(&self) -> Vec<Read> {
        std::mem::take(&mut self.state.lock().unwrap().reads)
    }

    /// Returns the number of operations so far.
    pub fn executed(&self) -> usize {
        self.state.lock().unwrap().executed
    }

    /// Makes all operations fail after this many more.
    pub fn fail_after(&self, operations: usize, error: StoreError) {
        let mut state = self.state.lock().unwrap();
        state.fails_from = Some((state.executed + operations, error));
    }

    /// Makes operations succeed again.
    pub fn heal(&self) {
        self.state.lock().unwrap().fails_from = None;
    }

    /// Leaves all operations without an answer after this many more.
    pub fn hold_after(&self, operations: usize) {
        let mut state = self.state.lock().unwrap();
        state.holds_from = Some(state.executed + operations);
    }

    /// Never answers again.
    pub fn hold(&self) {
        self.hold_after(0);
    }

    /// Answers again.
    pub fn release(&self) {
        self.state.lock().unwrap().holds_from = None;
    }

    async fn answer_unless_held(&self) {
        let held = {
            let state = self.state.lock().unwrap();
            state.holds_from.is_some_and(|from| state.executed >= from)
        };
        if held {
            std::future::pending::<()>().await;
        }
    }

    /// Makes reads of more rows than this show no single moment.
    pub fn moments_of(&self, rows: u64) {
        self.state.lock().unwrap().moment_rows_max = rows;
    }

    /// Makes all later openings of snapshots fail with this reason.
    pub fn refuse_snapshots(&self, why: &str) {
        self.state.lock().unwrap().without_snapshots = Some(why.into());
    }

    /// Makes the next `count` snapshots end when they are read.
    pub fn end_snapshots(&self, count: u64) {
        self.state.lock().unwrap().snapshots_ending = count;
    }

    /// Returns the number of opened snapshots.
    pub fn snapshots(&self) -> u64 {
        self.state.lock().unwrap().snapshots
    }

    /// Executes these mutations of the only table once `pages` further pages were read.
    pub fn grow_after(&self, pages: usize, mutations: Vec<Mutation>) {
        self.state.lock().unwrap().growth = Some((pages, mutations));
    }

    /// Sets the estimates about a table.
    pub fn estimate(&self, table: &str, statistics: TableStatistics) {
        let mut state = self.state.lock().unwrap();
        let table = state.configuration.table_named(table);
        let id = table.expect("there is such a table").id;
        state.statistics.insert(id, Arc::new(statistics));
    }

    /// Places the primaries of a table on all servers.
    pub fn spread(&self, table: &str) {
        let changed = self.change_table(table, |table| {
            let mut table = table.clone();
            for (number, place) in (0..).zip(&mut table.placement[0]) {
                place.core.server = ServerId(number % 3 + 1);
            }
            Ok(table)
        });
        changed.expect("there is such a table");
    }

    /// Returns the most cores with primaries of one transaction.
    pub fn cores_per_transaction(&self) -> usize {
        self.state.lock().unwrap().cores_per_transaction
    }

    /// Makes the next operations end with `Conflict`.
    pub fn conflict(&self, times: usize) {
        self.state.lock().unwrap().conflicts_left = times;
    }

    /// Drops a table and creates it again. Sessions with the earlier configuration do not notice.
    pub fn replace_table(&self, schema: Schema) {
        let mut state = self.state.lock().unwrap();
        let mut configuration = (*state.configuration).clone();
        let known = configuration.table_named(&schema.name);
        if let Some(known) = known.map(|table| table.id) {
            configuration.tables.remove(known);
        }
        let id = add_table(&mut configuration, schema);
        let child = configuration.table(id).expect("it was added").clone();
        note_child(&mut configuration, &child, true);
        state.rows.insert(id, BTreeMap::new());
        state.configuration = Arc::new(configuration);
    }
}

/// Polls a future that never waits for anything outside of itself.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..10_000_000 {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
    }
    panic!("the future waits for no event");
}

impl Store for Model {
    type Snapshot = ();

    fn configuration(&self) -> Arc<Configuration> {
        self.state.lock().unwrap().known.clone()
    }

    async fn refresh(&self) -> Result<Arc<Configuration>, StoreError> {
        let mut state = self.state.lock().unwrap();
        state.known = state.configuration.clone();
        Ok(state.known.clone())
    }

    async fn page(&self, read: Read) -> Result<RowPage, StoreError> {
        let mut state = self.state.lock().unwrap();
        state.reads.push(read.clone());
        if read.snapshot.is_some() && state.snapshots_ending > 0 {
            state.snapshots_ending -= 1;
            return Err(StoreError {
                snapshot_ended: true,
                ..refused("the snapshot has ended")
            });
        }
        let configuration = state.configuration.clone();
        let table = find(&configuration, read.partition.table)?;
        if let Some((pages, mutations)) = state.growth.take() {
            match pages.checked_sub(1) {
                Some(pages) => state.growth = Some((pages, mutations)),
                None => {
                    let rows = state.rows.get_mut(&table.id).expect("made with the table");
                    for mutation in mutations {
                        let applied = apply(table, rows, Version(1), &mutation);
                        assert!(applied.is_ok(), "the table grows");
                    }
                }
            }
        }
        let rows = match read.snapshot {
            Some(snapshot) => &state.kept[&snapshot],
            None => &state.rows,
        };
        page(table, &rows[&table.id], &read)
    }

    fn statistics(&self, table: TableId) -> Option<Arc<TableStatistics>> {
        self.state.lock().unwrap().statistics.get(&table).cloned()
    }

    async fn measure(&self, _: TableId) {}

    async fn moment(&self, reads: Vec<Read>) -> Result<Option<MomentPages>, StoreError> {
        let mut ranges = Vec::new();
        let mut rows = 0;
        let rows_max = self.state.lock().unwrap().moment_rows_max;
        for mut read in reads {
            let mut pages = Vec::new();
            loop {
                let page = self.page(read.clone()).await?;
                read.limit -= u32::try_from(page.count).expect("a page keeps its limit");
                let next = page.next.clone();
                rows += page.count;
                pages.push(page);
                if rows > rows_max {
                    return Ok(None);
                }
                match next {
                    Some(next) if read.limit > 0 && read.descending => read.end = Some(next),
                    Some(next) if read.limit > 0 => read.start = next,
                    _ => break,
                }
            }
            ranges.push(pages);
        }
        Ok(Some(MomentPages { ranges, rounds: 1 }))
    }

    async fn snapshot(&self, _: Vec<TableId>) -> Result<SnapshotAnswer<()>, StoreError> {
        let mut state = self.state.lock().unwrap();
        if let Some(why) = &state.without_snapshots {
            return Ok(SnapshotAnswer::Impossible(why.clone()));
        }
        state.snapshots += 1;
        let id = SnapshotId {
            number: state.snapshots,
            ..SnapshotId::default()
        };
        let rows = state.rows.clone();
        state.kept.insert(id, rows);
        Ok(SnapshotAnswer::Open((), id))
    }

    async fn execute(
        &self,
        _: Epoch,
        table: TableId,
        mutation: Mutation,
    ) -> Result<RequestResult, StoreError> {
        self.answer_unless_held().await;
        let mut state = self.state.lock().unwrap();
        let configuration = state.configuration.clone();
        let table = find(&configuration, table)?;
        state.execute()?;
        if state.conflicts_left > 0 {
            state.conflicts_left -= 1;
            return Ok(RequestResult::Conflict);
        }
        state.version += 1;
        let version = Version(state.version);
        let before = state.rows.clone();
        let rows = state.rows.get_mut(&table.id).expect("made with the table");
        let result = apply(table, rows, version, &mutation).unwrap_or_else(|refused| refused);
        if let Some(violated) = violated(&configuration, &before, &state.rows) {
            state.rows = before;
            return Ok(RequestResult::Transaction(violated));
        }
        Ok(result)
    }

    async fn transact(
        &self,
        _: Epoch,
        changes: Vec<TransactionChange>,
        checks: Vec<RowCheck>,
        ranges: Vec<RangeCheck>,
    ) -> Result<TransactionResult, StoreError> {
        self.answer_unless_held().await;
        let mut state = self.state.lock().unwrap();
        let configuration = state.configuration.clone();
        state.execute()?;
        state.note_cores(&changes);
        let first = changes.first().expect("a transaction has changes").table;
        if state.conflicts_left > 0 {
            state.conflicts_left -= 1;
            return Ok(TransactionResult::conflict(first));
        }
        state.version += 1;
        let version = Version(state.version);
        if let Some(changed) = changed_row(&state.rows, &checks) {
            return Ok(changed);
        }
        let first = u32::try_from(checks.len()).unwrap();
        for (index, check) in (first..).zip(&ranges) {
            let table = find(&configuration, check.read.partition.table)?;
            let found = page(table, &state.rows[&table.id], &check.read)?;
            let is_cut = found.next.is_some() && found.count < u64::from(check.read.limit);
            if is_cut || digest_of_rows(found.rows(), check.versions) != check.digest {
                return Ok(TransactionResult::Aborted {
                    table: table.id,
                    reason: AbortReason::Changed { check: index },
                });
            }
        }
        let before = state.rows.clone();
        let mut outcomes = Vec::new();
        for (index, change) in (0..).zip(&changes) {
            let table = find(&configuration, change.table)?;
            let rows = state.rows.get_mut(&table.id).expect("made with the table");
            let outcome = match apply(table, rows, version, &change.mutation) {
                Ok(_) => ChangeOutcome::Applied,
                Err(RequestResult::Kept) => ChangeOutcome::Kept,
                Err(RequestResult::NotFound) => ChangeOutcome::NotFound,
                Err(RequestResult::ConditionFailed) => ChangeOutcome::ConditionFailed,
                Err(refused) => {
                    state.rows = before;
                    return Ok(refused.refuses_transaction(table.id));
                }
            };
            if change.must_apply && outcome != ChangeOutcome::Applied {
                state.rows = before;
                return Ok(TransactionResult::Aborted {
                    table: change.table,
                    reason: AbortReason::NotApplied {
                        change: index,
                        outcome,
                    },
                });
            }
            outcomes.push(outcome);
        }
        if let Some(violated) = violated(&configuration, &before, &state.rows) {
            state.rows = before;
            return Ok(violated);
        }
        Ok(TransactionResult::Committed { version, outcomes })
    }

    async fn next_values(
        &self,
        sequence: TableId,
        count: usize,
    ) -> Result<Result<Vec<i64>, SequenceLimit>, StoreError> {
        self.draw(sequence, count)
    }

    async fn reset_sequence(
        &self,
        sequence: TableId,
        last_value: i64,
        is_called: bool,
    ) -> Result<(), StoreError> {
        let (_, state) = self.sequence(sequence)?;
        let state = SequenceState {
            last_value,
            is_called,
            resets: state.resets + 1,
        };
        self.set_sequence(sequence, state);
        Ok(())
    }

    async fn create_table(
        &self,
        schema: Schema,
        sequences: Vec<Schema>,
        owner: RoleId,
        if_not_exists: bool,
    ) -> Result<(), StoreError> {
        let mut state = self.state.lock().unwrap();
        let mut configuration = (*state.configuration).clone();
        if configuration.table_named(&schema.name).is_some() {
            let message = format!("table {} exists", schema.name);
            return if if_not_exists {
                Ok(())
            } else {
                Err(refused(&message))
            };
        }
        for schema in sequences.into_iter().chain([schema]) {
            let domains = configuration.servers.len();
            let needed = usize::from(schema.failures_tolerated) + 1;
            if needed > domains {
                return Err(refused(&format!(
                    "failures_tolerated = {} needs {needed} failure domains, there are {domains}",
                    schema.failures_tolerated
                )));
            }
            let id = add_table(&mut configuration, schema);
            Arc::make_mut(&mut configuration.roles).set_owner(id, owner);
            let child = configuration.table(id).expect("it was added").clone();
            note_child(&mut configuration, &child, true);
            state.rows.insert(id, BTreeMap::new());
        }
        state.configuration = Arc::new(configuration);
        state.known = state.configuration.clone();
        Ok(())
    }

    async fn alter_table(
        &self,
        table: &str,
        alterations: Vec<Alteration>,
    ) -> Result<(), StoreError> {
        self.alter(table, alterations)
    }

    async fn truncate(&self, tables: &[String], _: bool) -> Result<(), StoreError> {
        self.empty(tables)
    }

    async fn add_copy(
        &self,
        wanted: Schema,
        progress: &(dyn Fn(&FillReport) + Send + Sync),
    ) -> Result<(), StoreError> {
        self.change_table(&wanted.name, |table| {
            let core = table.placement[0][0].core;
            let mut table = table.with_copy(&wanted, Epoch(1), &|_, _, _| Some(core))?;
            let places = table.placement.iter_mut().flatten();
            places.for_each(|place| place.state = PartitionState::Serving);
            table.finish_building();
            progress(&FillReport::new(table.id, 0));
            Ok(table)
        })
    }

    async fn set_failures_tolerated(
        &self,
        table: &str,
        failures: u8,
        _: &(dyn Fn(&FillReport) + Send + Sync),
    ) -> Result<(), StoreError> {
        let alteration = Alteration::SetFailures { failures };
        self.change_table(table, |table| table.altered(&[alteration]))
    }

    async fn set_partitions(
        &self,
        table: &str,
        partitions: u32,
        progress: &(dyn Fn(&FillReport) + Send + Sync),
    ) -> Result<(), StoreError> {
        self.change_table(table, |table| {
            let core = table.placement[0][0].core;
            let table = table.with_successors(partitions, Epoch(1), &|_, _, _| Some(core))?;
            progress(&FillReport::new(table.id, 0));
            let mut table = table.with_promoted();
            let places = table.placement.iter_mut().flatten();
            places.for_each(|place| place.state = PartitionState::Serving);
            Ok(table)
        })
    }

    async fn drop_copy(&self, table: &str, name: &str, _: bool) -> Result<(), StoreError> {
        self.change_table(table, |table| table.without_copy(name))
    }

    async fn replace_copy(
        &self,
        table: &str,
        name: &str,
        by: &str,
        progress: &(dyn Fn(&FillReport) + Send + Sync),
    ) -> Result<(), StoreError> {
        progress(&FillReport::new(TableId(0), 0));
        self.change_table(table, |table| table.with_replaced(name, by))
    }

    async fn drop_table(&self, name: &str, if_exists: bool) -> Result<(), StoreError> {
        let mut state = self.state.lock().unwrap();
        let mut configuration = (*state.configuration).clone();
        match configuration.table_named(name).map(|table| table.id) {
            Some(id) => {
                let belongs = |table: &&PlacedTable| {
                    let sequence = table.schema.sequence.as_ref();
                    let owner = sequence.and_then(|it| it.owner.as_ref());
                    owner.is_some_and(|owner| owner.table == name)
                };
                let own = configuration.tables.iter().filter(belongs);
                for own in own.map(|table| table.id).collect::<Vec<_>>() {
                    configuration.tables.remove(own);
                }
                let removed = configuration.tables.remove(id);
                let child = removed.clone().expect("it was found");
                note_child(&mut configuration, &child, false);
                removed
            }
            None if if_exists => None,
            None => return Err(refused(&format!("there is no table {name}"))),
        };
        state.configuration = Arc::new(configuration);
        state.known = state.configuration.clone();
        Ok(())
    }
}

impl State {
    /// Counts an operation, which fails if the test wants it to.
    fn execute(&mut self) -> Result<(), StoreError> {
        if let Some((from, error)) = &self.fails_from
            && self.executed >= *from
        {
            return Err(error.clone());
        }
        self.executed += 1;
        Ok(())
    }

    fn note_cores(&mut self, changes: &[TransactionChange]) {
        let cores = changes.iter().map(|it| core_of(&self.configuration, it));
        let cores: BTreeSet<_> = cores.collect();
        self.cores_per_transaction = self.cores_per_transaction.max(cores.len());
    }
}

/// Returns the core of the primary of a change.
fn core_of(configuration: &Configuration, change: &TransactionChange) -> Option<CoreId> {
    let table = configuration.table(change.table)?;
    let primary = routes::primary_partition(table, &change.mutation.pk)?;
    Some(configuration.place(primary)?.core)
}

pub(crate) fn refused(message: &str) -> StoreError {
    StoreError {
        refused: true,
        ..StoreError::plain(message.to_string())
    }
}

fn find(configuration: &Configuration, table: TableId) -> Result<&PlacedTable, StoreError> {
    let dropped = || StoreError::dropped(table);
    configuration.table(table).ok_or_else(dropped)
}

fn page(table: &PlacedTable, rows: &RowsByKey, read: &Read) -> Result<RowPage, StoreError> {
    let replex = usize::from(read.partition.replex);
    let order = table.layout.order(usize::from(read.partition.replex));
    let mut found: Vec<(Vec<u8>, Version, &Vec<Value>)> = rows
        .values()
        .filter(|(_, row)| {
            let partition = table
                .layout
                .partition_of_values(replex, |column| row[column].as_ref());
            partition == read.partition.number
        })
        .map(|(version, row)| {
            let key = encode_sorted(&order, |column| row[column].as_ref());
            (key, *version, row)
        })
        .filter(|(key, ..)| {
            key[..] >= *read.start && read.end.as_ref().is_none_or(|end| key[..] < **end)
        })
        .collect();
    found.sort_by(|one, other| one.0.cmp(&other.0));
    if read.descending {
        found.reverse();
    }
    let passes = |row: &Vec<Value>| {
        let holds = read.filter.as_ref().map(|it| holds(it, row, None));
        let holds = holds.unwrap_or(Ok(true));
        holds.map_err(|it| refused(&it.to_string()))
    };
    let columns: Vec<_> = match &read.projection {
        None => table.schema.columns.clone(),
        Some(columns) => columns
            .iter()
            .map(|it| table.schema.columns[usize::from(*it)].clone())
            .collect(),
    };
    let mut page = RowPage::default();
    let rows_max = match read.count_only {
        true => read.limit as usize,
        false => PAGE_ROWS.min(read.limit as usize),
    };
    for (position, (key, version, row)) in found.iter().enumerate() {
        if page.count as usize == rows_max || position == PAGE_KEYS {
            let end = match read.descending {
                // The first key beyond: the row before it is the last one returned.
                true => found[position - 1].0.clone(),
                false => key.clone(),
            };
            page.next = Some(protocol::codec::Bytes(end));
            break;
        }
        if !passes(row)? {
            continue;
        }
        if read.count_only {
            page.count += 1;
            continue;
        }
        let values: Vec<Value> = match &read.projection {
            None => (*row).clone(),
            Some(columns) => columns
                .iter()
                .map(|it| row[usize::from(*it)].clone())
                .collect(),
        };
        page.push(*version, &encode_row(&columns, &values).unwrap());
    }
    Ok(page)
}

fn apply(
    table: &PlacedTable,
    rows: &mut RowsByKey,
    version: Version,
    mutation: &Mutation,
) -> Result<RequestResult, RequestResult> {
    let schema = &table.schema;
    let old = rows.get(&*mutation.pk).map(|(_, row)| row.clone());
    let new = row_after(table, mutation, old.as_ref())?;
    for (number, replex) in table.layout.replexes.iter().enumerate() {
        if let Some(constraint) = table.layout.constraint(schema, number) {
            let change = (old.as_ref(), new.as_ref());
            vote(rows, &mutation.pk, &replex.sort_columns, constraint, change)
                .map_err(|vote| vote.by(number))?;
        }
    }
    match new {
        Some(new) => rows.insert(mutation.pk.to_vec(), (version, new)),
        None => rows.remove(&*mutation.pk),
    };
    Ok(RequestResult::Applied { version })
}

/// Returns the result of a transaction one of whose rows has changed; none if no row has.
fn changed_row(
    rows: &BTreeMap<TableId, RowsByKey>,
    checks: &[RowCheck],
) -> Option<TransactionResult> {
    let mut checks = (0..).zip(checks);
    let changed = checks.find(|(_, check)| {
        let row = rows[&check.table].get(&*check.pk);
        row.map(|(version, _)| *version) != check.version
    });
    changed.map(|(index, check)| TransactionResult::Aborted {
        table: check.table,
        reason: AbortReason::Changed { check: index },
    })
}

enum RefusedMutation {
    Duplicate(Vec<u8>),
    NotDense(i64),
}

impl RefusedMutation {
    fn by(self, replex: usize) -> RequestResult {
        let replex = replex as u8;
        match self {
            RefusedMutation::Duplicate(key) => RequestResult::Duplicate {
                replex,
                key: protocol::codec::Bytes(key),
            },
            RefusedMutation::NotDense(expected) => RequestResult::NotDense { replex, expected },
        }
    }
}

fn vote(
    rows: &RowsByKey,
    pk: &[u8],
    columns: &[SortColumn],
    constraint: Constraint,
    (old, new): (Option<&Vec<Value>>, Option<&Vec<Value>>),
) -> Result<(), RefusedMutation> {
    let key = |row: &Vec<Value>| -> Vec<Value> {
        columns.iter().map(|it| row[it.column].clone()).collect()
    };
    let old_key = old.map(key);
    let new_key = new.map(key);
    if old_key == new_key {
        return Ok(());
    }
    let others = || {
        let others = rows.iter().filter(|(other, _)| other[..] != *pk);
        others.map(|(_, (_, row))| key(row))
    };
    match constraint {
        Constraint::Unique => {
            let Some(new_key) = new_key else {
                return Ok(());
            };
            let has_null = new_key.contains(&Value::Null);
            if !has_null && others().any(|other| other == new_key) {
                let row = new.expect("it has this key");
                let key = encode_sorted(columns, |column| row[column].as_ref());
                return Err(RefusedMutation::Duplicate(key));
            }
        }
        Constraint::Dense => {
            let some = new_key.as_ref().or(old_key.as_ref());
            let group = some.expect("the keys differ").split_last().unwrap().1;
            let count = others()
                .filter(|other| other.split_last().unwrap().1 == group)
                .count();
            let next = count as i64 + 1;
            for key in [&old_key, &new_key].into_iter().flatten() {
                if key.last() != Some(&Value::Int64(next)) {
                    // Of a delete, the next value is one beyond the last.
                    return Err(RefusedMutation::NotDense(
                        next + i64::from(old_key.is_some()),
                    ));
                }
            }
        }
    }
    Ok(())
}
