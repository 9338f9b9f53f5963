//! The parameters of one run: the shape of the cluster, the workload, and the rates of faults. The
//! seed determines them once at the start. So runs differ more from each other than the phases of
//! one run.

use machines::core::CoreLimits;
use placement::{
    Column, ColumnType, Constraint, Cut, Deferral, Dimension, Durability, ForeignKey, FurtherCopy,
    Index, ReferentialAction, Schema, Share, SortColumn, TableConstraints, ThinIndex,
};

use crate::model::{self, COLUMNS};
use crate::random::Random;

/// A millisecond of simulated time.
pub const MILLISECOND: u64 = 1_000;
/// A second of simulated time.
pub const SECOND: u64 = 1_000_000;
/// The number of partitions from which a copy can have two axes.
const PARTITIONS_TO_CUT: u32 = 4;
/// Names the stream of draws from which the number of tables comes.
const TABLES_STREAM: u64 = 0x07ab_1e50;
/// Sets the stream of snapshots apart from a seed's others.
const SNAPSHOTS_STREAM: u64 = 0x736e_6170_7368_6f74;
/// Sets the stream of thin indexes apart from a seed's others.
const THIN_STREAM: u64 = 0x7468_696e;
/// Sets the stream of the ranges of copies apart from a seed's others.
const RANGES_STREAM: u64 = 0x0072_616e_6765_7300;
/// Names the stream of random numbers for foreign keys.
const REFERENCES_STREAM: u64 = 0x7265_6665_7273;
/// Slow enough for writes to come in between.
const ENTRIES_PER_SECOND: u64 = 200;

/// Everything that a seed decides before its cluster starts.
#[derive(Clone, Debug)]
pub struct RunPlan {
    /// Servers, each its own failure domain.
    pub servers: u32,
    /// The number of cores of each server.
    pub cores: u16,
    /// The schema of the first table. The other tables have the same schema at first.
    pub schema: Schema,
    /// The number of tables. Each group of rows is in one of them.
    pub tables: usize,
    /// The machines' limits.
    pub limits: CoreLimits,
    /// The duration of a lease.
    pub lease_us: u64,
    /// The time after which a server that is down is replaced; `u64::MAX` means never.
    pub replace_after_us: u64,
    /// The actions of clients.
    pub workload: Workload,
    /// The faults that occur.
    pub faults: Faults,
}

/// The actions of clients.
#[derive(Clone, Debug)]
pub struct Workload {
    /// The number of clients at a time.
    pub clients: u32,
    /// The number of requests that one client has in flight.
    pub window: u32,
    /// The number of operations of all clients together.
    pub operations: u32,
    /// Mean pause between operations of a client, in microseconds.
    pub think_us: u64,
    /// The number of groups of rows. Two groups have no key in common.
    pub groups: i64,
    /// The number of primary keys in a group: few, so that operations collide.
    pub ids: i64,
    /// The number of values of the indexed columns in a group.
    pub values: i64,
    /// The relative rates of insert, insert or keep, upsert, update, delete, point read and range
    /// read.
    pub weights: [u64; 7],
    /// The fraction of operations on the first pk of the first group.
    pub hot: f64,
    /// The fraction of updates and deletes that have a condition.
    pub conditional: f64,
    /// The fraction of writes that are part of a transaction.
    pub transactions: f64,
    /// The fraction of reads that may be stale.
    pub stale: f64,
    /// The fraction of reads that read several ranges.
    pub statements: f64,
    /// The fraction of the other reads that read a snapshot, by every copy.
    pub snapshots: f64,
    /// The fraction of snapshots that cover every table.
    pub wide_snapshots: f64,
    /// Mean pause between two pages of a snapshot, in microseconds.
    pub snapshot_pause_us: u64,
}

/// Rates of faults. Intervals are means in microseconds; 0 is never.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// The least latency of a message.
    pub latency_us: u64,
    /// The mean of the random latency that is added to the least one.
    pub jitter_us: u64,
    /// The fraction of messages between cores that are lost.
    pub loss: f64,
    /// The fraction of messages between cores that arrive twice.
    pub duplication: f64,
    /// The fraction of messages between cores that later messages overtake.
    pub reordering: f64,
    /// The interval at which a connection breaks.
    pub break_every_us: u64,
    /// The interval at which messages from one process to another are delayed for a while.
    pub clog_every_us: u64,
    /// The interval at which a process is killed.
    pub crash_every_us: u64,
    /// The fraction of server starts soon after which this or another server is killed.
    pub crash_at_start: f64,
    /// The fraction of votes and decisions soon after which their process is killed.
    pub crash_at_record: f64,
    /// The fraction of votes and decisions after which two losses come at once: their process for a
    /// long time, and the unflushed records of another process.
    pub loss_at_record: f64,
    /// The interval at which all processes are killed at once, as by a power cut.
    pub power_cut_every_us: u64,
    /// The fraction of hand-overs of partitions soon after which the power is cut.
    pub cut_at_hand_over: f64,
    /// The interval at which a process is suspended, possibly for longer than a lease.
    pub pause_every_us: u64,
    /// The interval at which a wall clock steps.
    pub clock_step_every_us: u64,
    /// The largest drift of a monotonic clock, in parts per million.
    pub drift_ppm: u64,
    /// The interval at which the coordinator restarts.
    pub coordinator_every_us: u64,
    /// The interval at which a process is killed and stays down for a long time.
    pub loss_every_us: u64,
    /// The interval at which the coordinator ends the earlier epochs of a table.
    pub seal_every_us: u64,
    /// The interval at which a drain of a server begins or ends.
    pub drain_every_us: u64,
    /// The interval at which a copy of a table is added or dropped, or another table is created or
    /// dropped.
    pub copies_every_us: u64,
    /// The fraction of the moments for a careless change that an operator uses.
    pub careless: f64,
    /// The interval at which a server stops cleanly and starts again.
    pub stop_every_us: u64,
    /// The interval at which all servers are stopped cleanly and started again, one after the
    /// other.
    pub rolling_every_us: u64,
    /// The interval at which the coordinator is suspended and another coordinator replaces it.
    pub deposition_every_us: u64,
    /// The interval at which a client dies and a new client replaces it.
    pub client_every_us: u64,
    /// The interval at which a disk has no space for a while.
    pub full_every_us: u64,
    /// Mean time of a flush.
    pub flush_us: u64,
    /// The fraction of flushes that fail.
    pub flush_failure: f64,
    /// The fraction of flushes that take a hundred times as long.
    pub flush_slow: f64,
    /// The fraction of restarts in which the disk first misreads a byte of the log.
    pub misread: f64,
    /// The interval at which a checkpoint is taken.
    pub checkpoint_every_us: u64,
}

impl RunPlan {
    /// Returns the plan of a seed.
    pub fn draw(random: &mut Random) -> RunPlan {
        let schema = draw_schema(random);
        let servers = schema.replex_count() as u32 + random.below(3) as u32;
        let workload = draw_workload(random);
        let lease_us = *random.pick(&[40, 300, 1_000]) * MILLISECOND;
        let retry_us = *random.pick(&[20, 60, 250]) * MILLISECOND;
        let page_keys = *random.pick(&[1, 3, 4_096]);
        let limits = CoreLimits {
            wait_us_max: *random.pick(&[300, 1_000, 5_000]) * MILLISECOND,
            retry_us,
            heartbeat_us: lease_us / 4,
            lease_us,
            flush_us_max: *random.pick(&[1, 3]) * lease_us.max(100 * MILLISECOND),
            folded_requests_max: *random.pick(&[1, 4, 256]),
            requests_per_key_max: *random.pick(&[8, 64, 1_024]),
            operations_max: *random.pick(&[16, 256, 65_536]),
            page_keys_max: *random.pick(&[2, 16_384, 16_384]),
            fill_page_keys_max: page_keys,
            entry_page_max: page_keys,
            entries_per_second: ENTRIES_PER_SECOND,
            ..CoreLimits::default()
        };
        let faults = draw_faults(random);
        let replace_after_us = match random.chance(0.4) {
            true => *random.pick(&[0, lease_us / 2, 3 * lease_us]),
            false => u64::MAX,
        };
        let cores = 1 + u16::from(random.chance(0.3));
        // Tables have few rows.
        let range_entries_max = *random.pick(&[2, 4, 8]);
        RunPlan {
            servers,
            cores,
            schema,
            tables: 1,
            limits: CoreLimits {
                range_entries_max,
                // Too few requests reach a range for a split.
                range_requests_max: u64::MAX,
                range_window_us: 0,
                ..limits
            },
            lease_us,
            replace_after_us,
            workload,
            faults,
        }
    }

    /// Returns the whole plan of a seed. `random` is the seed's main stream, at its start.
    pub fn of_seed(seed: u64, random: &mut Random) -> RunPlan {
        let mut plan = RunPlan::draw(random);
        plan.draw_tables(seed);
        plan.draw_snapshots(seed);
        plan.draw_thin(seed);
        plan.draw_ranges(seed);
        plan.draw_references(seed);
        plan
    }

    /// Draws the number of tables, from a separate stream of random numbers. So the run of a seed
    /// with one table is the same as before there were several tables.
    fn draw_tables(&mut self, seed: u64) {
        let mut random = Random::new(seed ^ TABLES_STREAM);
        let tables = *random.pick(&[1, 1, 2, 3]);
        let groups = usize::try_from(self.workload.groups).expect("groups are few");
        self.tables = tables.min(groups);
    }

    /// Draws the thin indexes, from a separate stream as [`RunPlan::draw_tables`] does.
    fn draw_thin(&mut self, seed: u64) {
        let mut random = Random::new(seed ^ THIN_STREAM);
        let count = *random.pick(&[0, 0, 1, 2]);
        for number in 0..count {
            let name = format!("thin_{number}");
            self.schema.thin.push(thin_index(name, &mut random));
        }
    }

    /// Draws which copies ranges divide, from a separate stream as [`RunPlan::draw_tables`] does.
    fn draw_ranges(&mut self, seed: u64) {
        let mut random = Random::new(seed ^ RANGES_STREAM);
        let further = self.schema.further.iter();
        let used: Vec<Option<usize>> = further.flat_map(FurtherCopy::indexes).collect();
        for (number, index) in self.schema.indexes.iter_mut().enumerate() {
            let may_be = index.constraint.is_none() && !used.contains(&Some(number));
            if may_be && random.chance(0.5) {
                index.by_range = true;
                index.partition_columns = None;
            }
        }
    }

    /// Draws a foreign key of each table to itself, from a separate stream as
    /// [`RunPlan::draw_tables`] does. The values of some columns are those of primary keys.
    fn draw_references(&mut self, seed: u64) {
        let mut random = Random::new(seed ^ REFERENCES_STREAM);
        let mut first = self.schema.indexes.iter().map(|index| index.columns[0]);
        let column = first.find(|column| [model::A, model::U].contains(column));
        let is_possible = self.schema.primary_key == [model::ID] && random.chance(0.5);
        let Some(column) = column.filter(|_| is_possible) else {
            return;
        };
        self.schema.constraints.foreign_keys.push(ForeignKey {
            name: "of_its_table".into(),
            columns: vec![column],
            parent: self.schema.name.clone(),
            on_delete: ReferentialAction::NoAction,
            on_update: ReferentialAction::NoAction,
            deferral: Deferral::NotDeferrable,
            is_valid: true,
        });
    }

    /// Draws the parameters of snapshots, from a separate stream as [`RunPlan::draw_tables`] does.
    fn draw_snapshots(&mut self, seed: u64) {
        let mut random = Random::new(seed ^ SNAPSHOTS_STREAM);
        self.workload.snapshots = *random.pick(&[0.0, 0.0, 0.3, 0.8]);
        self.workload.snapshot_pause_us = *random.pick(&[100, 5 * MILLISECOND, 50 * MILLISECOND]);
        self.limits.snapshot_lease_us = *random.pick(&[60, 400, 2_000]) * MILLISECOND;
        self.limits.snapshot_hold_us = *random.pick(&[500, 3 * MILLISECOND, 20 * MILLISECOND]);
        self.limits.history_bytes_max = *random.pick(&[1_000, 64 << 20, 64 << 20]);
        self.limits.snapshots_per_reader_max = *random.pick(&[1, 2, 32]);
        // Openings fail in many ways at once: holds expire, late copies arrive, clocks differ.
        if self.workload.snapshots > 0.0 && random.chance(0.25) {
            self.limits.snapshot_hold_us = 500;
            self.faults.duplication = 0.5;
            self.faults.clock_step_every_us = 50 * MILLISECOND;
        }
        if self.tables > 1 {
            self.workload.wide_snapshots = *random.pick(&[0.0, 0.5, 1.0]);
        }
    }

    /// Returns the schema of the table with this index.
    pub fn schema_of(&self, table: usize) -> Schema {
        let mut schema = self.schema.clone();
        if table > 0 {
            schema.name = format!("{}_{table}", schema.name);
            for key in &mut schema.constraints.foreign_keys {
                key.parent.clone_from(&schema.name);
            }
        }
        schema
    }

    /// Returns the index of the table that has a group of rows.
    pub fn table_of(&self, group: i64) -> usize {
        usize::try_from(group).expect("groups are counted from 0") % self.tables
    }
}

/// Returns a thin index over columns that change. No two groups share keys of a unique one.
pub fn thin_index(name: String, random: &mut Random) -> ThinIndex {
    use model::{A, D, GROUP, N, TAG, U};
    // Ranges of a group are those of `A`. The last one has all columns, so that entries answer
    // alone.
    let (up, down) = (SortColumn::ascending, SortColumn::descending);
    let choices: [(&[SortColumn], &[usize], bool); 7] = [
        (&[down(A)], &[], false),
        (&[up(GROUP), down(A)], &[TAG], false),
        (&[up(GROUP), up(N)], &[], false),
        (&[down(GROUP), up(A)], &[U, D, N, TAG], false),
        (&[up(U)], &[], true),
        (&[down(U)], &[A, N], true),
        (&[up(GROUP), down(U)], &[TAG], true),
    ];
    let (columns, included, unique) = *random.pick(&choices);
    ThinIndex {
        name,
        columns: columns.to_vec(),
        included: included.to_vec(),
        by_range: random.chance(0.5) && !unique,
        unique,
        copies: 1 + u8::from(random.chance(0.4)),
    }
}

// tidy: long — draws one field after the other, in the order that seeds depend on
fn draw_schema(random: &mut Random) -> Schema {
    use model::{A, D, GROUP, ID, N, U};
    let names = ["grp", "id", "a", "u", "d", "n", "tag"];
    let columns = (0..COLUMNS).map(|column| Column {
        name: names[column].into(),
        column_type: ColumnType::Int64,
        nullable: column == U,
        default: None,
        missing: None,
    });
    let mut indexes = Vec::new();
    let mut add = |name: &str, columns: &[usize], constraint| {
        indexes.push(Index {
            name: name.into(),
            columns: columns.to_vec(),
            constraint,
            partition_columns: None,
            by_range: false,
        });
    };
    if random.chance(0.6) {
        let choices: [&[usize]; 3] = [&[A], &[GROUP, A], &[A, N]];
        let columns = random.pick(&choices);
        add("by_a", columns, None);
    }
    if random.chance(0.5) {
        let choices: [&[usize]; 2] = [&[U], &[GROUP, U]];
        let columns = random.pick(&choices);
        add("by_u", columns, Some(Constraint::Unique));
    }
    if random.chance(0.35) {
        add("by_d", &[GROUP, D], Some(Constraint::Dense));
    }
    if random.chance(0.2) {
        add("by_n", &[GROUP, N], None);
    }
    // At most four copies of indexes, five in all: more only make every seed slower.
    indexes.truncate(3);
    let further = if random.chance(0.35) {
        draw_further(random, &indexes)
    } else {
        Vec::new()
    };
    // Mostly some, because what survives them is what most faults are about.
    let failures = if random.chance(0.15) {
        0
    } else {
        random.between(1, (indexes.len() + further.len()).clamp(1, 2) as u64) as u8
    };
    let primary_key = random.pick(&[vec![ID], vec![GROUP, ID]]).clone();
    let partitions = match further.is_empty() {
        true => random.between(1, 4) as u32,
        false => PARTITIONS_TO_CUT,
    };
    let mut schema = Schema {
        name: "simulated".into(),
        columns: columns.collect(),
        primary_partition_columns: None,
        sequence: None,
        constraints: TableConstraints::default(),
        primary_key,
        indexes,
        partitions,
        further,
        thin: Vec::new(),
        failures_tolerated: failures,
        failures_wanted: 0,
        local_entries: true,
        durability: if random.chance(0.5) {
            Durability::Sync
        } else {
            Durability::Replicated
        },
    };
    cut_by_first_columns(&mut schema);
    schema
}

/// Cuts some keys by their first column, whose rows are then in one partition.
fn cut_by_first_columns(schema: &mut Schema) {
    let is_cut = schema.partitions == 3;
    let by_first = |key: &[usize]| (key.len() > 1 && is_cut).then_some(1);
    schema.primary_partition_columns = by_first(&schema.primary_key);
    for index in &mut schema.indexes {
        index.partition_columns = by_first(&index.columns);
    }
}

/// Returns one or two further copies.
fn draw_further(random: &mut Random, indexes: &[Index]) -> Vec<FurtherCopy> {
    let count = 1 + usize::from(indexes.len() < 2);
    let further = (0..count).map(|number| FurtherCopy {
        name: format!("further_{number}"),
        cut: draw_cut(random, indexes, PARTITIONS_TO_CUT),
    });
    further.collect()
}

/// Returns a further copy of any kind that the indexes and the number of partitions allow. Groups
/// share no key of a copy, so a hyperspace is sorted by a column that distinguishes them.
pub fn draw_cut(random: &mut Random, indexes: &[Index], partitions: u32) -> Cut {
    use model::{A, GROUP, N};
    let mut divisions = vec![[1, partitions], [partitions, 1]];
    if partitions == PARTITIONS_TO_CUT {
        divisions.push([2, 2]);
    }
    let divisions = *random.pick(&divisions);
    let dimension = |column, divisions| Dimension { column, divisions };
    let share = |index, divisions| Share { index, divisions };
    let hyperspaces = [
        vec![dimension(A, 2), dimension(N, 3)],
        vec![dimension(GROUP, 2), dimension(A, 2), dimension(N, 2)],
    ];
    let mut cuts = vec![
        Cut::Replica { of: None },
        Cut::Hyperspace {
            dimensions: random.pick(&hyperspaces).clone(),
        },
    ];
    let divided_by_hash = |it: &usize| !indexes[*it].by_range;
    let others: Vec<usize> = (0..indexes.len()).filter(divided_by_hash).collect();
    if !others.is_empty() {
        let other = Some(*random.pick(&others));
        cuts.push(Cut::Replica { of: other });
        cuts.push(Cut::Hybrid {
            shares: vec![share(None, divisions[0]), share(other, divisions[1])],
        });
        cuts.push(Cut::Hybrid {
            shares: vec![share(other, divisions[0]), share(None, divisions[1])],
        });
        if partitions == PARTITIONS_TO_CUT {
            cuts.push(Cut::HybridsBetween {
                first: None,
                last: other,
                factors: random.pick(&[vec![2, 2], vec![2, 1, 2]]).clone(),
            });
        }
    }
    random.pick(&cuts).clone()
}

fn draw_workload(random: &mut Random) -> Workload {
    let weights = *random.pick(&[
        [3, 1, 2, 4, 2, 4, 4],
        [4, 1, 0, 2, 3, 3, 3],
        [1, 0, 2, 8, 1, 4, 4],
        [6, 0, 0, 0, 4, 1, 3],
        [2, 2, 4, 2, 2, 8, 8],
    ]);
    Workload {
        clients: random.between(2, 5) as u32,
        window: *random.pick(&[1, 1, 2, 4]),
        operations: random.between(40, 200) as u32,
        think_us: *random.pick(&[100, 2 * MILLISECOND, 20 * MILLISECOND]),
        groups: random.between(1, 3) as i64,
        ids: random.between(1, 4) as i64,
        values: random.between(1, 3) as i64,
        weights,
        hot: *random.pick(&[0.0, 0.0, 0.3, 0.8]),
        conditional: *random.pick(&[0.0, 0.3]),
        transactions: *random.pick(&[0.0, 0.0, 0.1, 0.5]),
        stale: *random.pick(&[0.0, 0.1]),
        statements: *random.pick(&[0.0, 0.4, 0.4, 1.0]),
        snapshots: 0.0,
        wide_snapshots: 0.0,
        snapshot_pause_us: 0,
    }
}

fn draw_faults(random: &mut Random) -> Faults {
    let mut faults = Faults {
        latency_us: *random.pick(&[50, 200, MILLISECOND]),
        jitter_us: *random.pick(&[20, 500, 10 * MILLISECOND]),
        flush_us: *random.pick(&[100, MILLISECOND, 15 * MILLISECOND]),
        ..Faults::default()
    };
    // Some seeds have none, so that a failure there shows that it needs no fault.
    if random.chance(0.1) {
        return faults;
    }
    let mut every = |probability, ms: [u64; 2]| sometimes(random, probability, ms) * MILLISECOND;
    faults.break_every_us = every(0.4, [50, 400]);
    faults.clog_every_us = every(0.4, [100, 800]);
    faults.crash_every_us = every(0.6, [40, 500]);
    faults.power_cut_every_us = every(0.15, [500, 2_000]);
    faults.pause_every_us = every(0.4, [150, 1_000]);
    faults.clock_step_every_us = every(0.4, [50, 500]);
    faults.coordinator_every_us = every(0.3, [200, 2_000]);
    faults.client_every_us = every(0.4, [100, 1_000]);
    faults.full_every_us = every(0.15, [200, 1_000]);
    faults.checkpoint_every_us = every(0.6, [50, 500]);
    let mut rate = |probability, rates: [f64; 2]| sometimes(random, probability, rates);
    faults.loss = rate(0.5, [0.01, 0.1]);
    faults.duplication = rate(0.5, [0.01, 0.1]);
    faults.reordering = rate(0.5, [0.02, 0.2]);
    faults.flush_failure = rate(0.15, [0.001, 0.01]);
    faults.flush_slow = rate(0.3, [0.01, 0.1]);
    faults.misread = rate(0.2, [0.2, 0.5]);
    if faults.crash_every_us > 0 {
        faults.crash_at_start = rate(0.5, [0.2, 0.6]);
        faults.crash_at_record = rate(0.5, [0.003, 0.03]);
    }
    faults.drift_ppm = *random.pick(&[0, 50, 200]);
    let mut every = |probability, ms: [u64; 2]| sometimes(random, probability, ms) * MILLISECOND;
    faults.seal_every_us = every(0.3, [60, 400]);
    faults.drain_every_us = every(0.3, [100, 500]);
    faults.copies_every_us = every(0.4, [30, 150]);
    faults.stop_every_us = every(0.3, [60, 400]);
    faults.rolling_every_us = every(0.15, [100, 1_000]);
    faults.deposition_every_us = every(0.3, [50, 500]);
    if random.chance(0.3) {
        faults.loss_every_us = *random.pick(&[300, 1_500]) * MILLISECOND;
        faults.loss_at_record = *random.pick(&[0.0, 0.003, 0.02]);
    }
    if faults.drain_every_us > 0 && faults.power_cut_every_us > 0 {
        faults.cut_at_hand_over = *random.pick(&[0.0, 0.2, 0.5]);
    }
    if faults.copies_every_us > 0 {
        // Careless operators seldom let a change of the partitions end, so most are careful.
        faults.careless = sometimes(random, 0.25, [0.1, 0.5]);
    }
    faults
}

/// Returns one of these values with a given probability, otherwise zero.
fn sometimes<T: Copy + Default>(random: &mut Random, probability: f64, values: [T; 2]) -> T {
    match random.chance(probability) {
        true => *random.pick(&values),
        false => T::default(),
    }
}

impl Faults {
    /// Returns the faults after the phase of faults: none, with a working network and disks.
    pub fn calm(&self) -> Faults {
        Faults {
            latency_us: self.latency_us,
            jitter_us: self.jitter_us.min(500),
            flush_us: self.flush_us.min(MILLISECOND),
            drift_ppm: self.drift_ppm,
            ..Faults::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_plan_is_a_valid_table_that_its_servers_can_hold() {
        let (mut dense, mut unique) = (0, 0);
        let mut further = [0; 4];
        for seed in 0..500 {
            let plan = RunPlan::draw(&mut Random::new(seed));
            plan.schema.validate().unwrap();
            let domains = u32::from(plan.schema.failures_tolerated) + 1;
            assert!(plan.servers >= domains, "{plan:?}");
            let has = |constraint| {
                plan.schema
                    .indexes
                    .iter()
                    .any(|index| index.constraint == Some(constraint))
            };
            dense += u32::from(has(Constraint::Dense));
            unique += u32::from(has(Constraint::Unique));
            for copy in &plan.schema.further {
                let kind = match copy.cut {
                    Cut::Hybrid { .. } => 0,
                    Cut::HybridsBetween { .. } => 1,
                    Cut::Replica { .. } => 2,
                    Cut::Hyperspace { .. } => 3,
                };
                further[kind] += 1;
            }
        }
        assert!(dense > 50);
        assert!(unique > 50);
        assert!(further.iter().all(|count| *count > 15), "{further:?}");
    }
}
