//! R44: a change of one table stops no other table. A cluster without faults has two tables. A
//! client uses the second table at fixed times, once while the first table changes and once while
//! it does not. Each answer must come at the same time, after the same number of messages.
//!
//! All latencies are constant. Both tables are `replicated`, so that no write waits for a flush,
//! which the tables of a core share.

use std::collections::BTreeMap;

use machines::core::CoreLimits;
use placement::{
    Alteration, Constraint, Cut, Durability, FurtherCopy, Index, Layout, Schema, Value,
};
use protocol::configuration::PlacedTable;
use protocol::identity::{Epoch, PartitionId, TableId};
use protocol::message::{CoordinatorRequest, Read};
use session::{ANY_EPOCH, SessionOperation, Ticket};

use crate::disk::UnflushedTail;
use crate::event::Event;
use crate::model::{A, COLUMNS, ColumnChange, GROUP, ID, ModelRow, N, NULL, U, WorkloadOperation};
use crate::plan::{Faults, MILLISECOND, RunPlan, SECOND, thin_index};
use crate::random::Random;
use crate::start::set_up;
use crate::trace::Trace;
use crate::watch::Watch;
use crate::workload::Translation;
use crate::world::World;

/// One of so many seeds is checked.
const EVERY: u64 = 16;
/// Servers beyond the number of a table's partitions. So many have only the first table, and others
/// have both.
const SERVERS_MORE: u32 = 2;
/// Rows of each table.
const ROWS: u64 = 12;
/// Operations on the watched table.
const OPERATIONS: u64 = 1_000;
/// The time from one of them to the next.
const GAP_US: u64 = 3 * MILLISECOND;
/// The number of them before the change.
const BEFORE: u64 = 50;
/// The tables, by their places in the world.
const CHANGED: usize = 0;
const WATCHED: usize = 1;

/// A change of the first table, or beside both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableChange {
    /// An index is added.
    Index,
    /// A unique index is added, and given up because rows have the same key.
    Collision,
    /// A thin index is added.
    ThinIndex,
    /// A further copy is added, and dropped again.
    Copy,
    /// The number of partitions changes.
    Partitions,
    /// A partition is refilled.
    Renewal,
    /// A server that has partitions of the first table only is drained.
    Drain,
    /// A server that has partitions of the first table only is lost.
    Loss,
    /// The definition of the table changes.
    Definition,
    /// The table is emptied.
    Truncation,
    /// The earlier epochs of the table end.
    Seal,
    /// Clients open snapshots of the table.
    Snapshots,
    /// A third table is created, and dropped again.
    OtherTable,
    /// The table is dropped.
    Drop,
}

impl TableChange {
    /// All changes.
    pub const ALL: [TableChange; 14] = [
        TableChange::Index,
        TableChange::Collision,
        TableChange::ThinIndex,
        TableChange::Copy,
        TableChange::Partitions,
        TableChange::Renewal,
        TableChange::Drain,
        TableChange::Loss,
        TableChange::Definition,
        TableChange::Truncation,
        TableChange::Seal,
        TableChange::Snapshots,
        TableChange::OtherTable,
        TableChange::Drop,
    ];
}

/// Returns whether the run of a seed includes this check.
pub fn is_checked(seed: u64) -> bool {
    seed.is_multiple_of(EVERY)
}

/// Checks one change, which follows from the seed.
///
/// # Errors
/// The change had an effect on the other table, or did not happen.
pub fn check(seed: u64) -> Result<(), String> {
    let number = seed / EVERY % TableChange::ALL.len() as u64;
    check_change(seed, TableChange::ALL[number as usize])
}

fn check_change(seed: u64, change: TableChange) -> Result<(), String> {
    let quiet = ObservedRun {
        seed,
        change: None,
        // A core opens one snapshot at a time, whatever its tables are.
        opens_snapshots: change != TableChange::Snapshots,
    };
    let beside = ObservedRun {
        change: Some(change),
        ..quiet
    };
    let (quiet, beside) = (observe(quiet)?, observe(beside)?);
    for (ticket, (at_us, seen)) in &quiet.answers {
        let answer = beside.answers.get(ticket);
        if answer != Some(&(*at_us, seen.clone())) {
            return Err(format!(
                "beside {change:?}, operation {ticket} had the answer {answer:?}; without the \
                 change it had {seen} at {at_us}"
            ));
        }
    }
    if quiet.messages != beside.messages {
        return Err(format!(
            "beside {change:?} there were the messages {:?}, and {:?} without the change",
            beside.messages, quiet.messages
        ));
    }
    Ok(())
}

/// A run of the cluster.
#[derive(Clone, Copy, Debug)]
struct ObservedRun {
    seed: u64,
    /// The change of the first table; none if it does not change.
    change: Option<TableChange>,
    /// Whether the client also opens snapshots of the watched table.
    opens_snapshots: bool,
}

/// Runs the cluster, and watches the second table.
fn observe(run: ObservedRun) -> Result<Watch, String> {
    let (seed, change) = (run.seed, run.change);
    let mut world = World::of(plan(seed), Random::new(seed), Trace::default());
    set_up(&mut world);
    let [other, client] = [0, 1].map(|_| {
        world.add_client();
        world.next_client - 1
    });
    for number in 0..ROWS {
        for (client, place) in [(other, CHANGED), (client, WATCHED)] {
            let write = write(&world, place, number);
            submit(&mut world, client, write, number * GAP_US);
        }
    }
    let ready_us = world.now_us + SECOND;
    world.run(ready_us, |_| false);
    let watched = world.tables[WATCHED].id;
    world.watch = Some(Watch {
        table: watched,
        place: WATCHED,
        client,
        messages: BTreeMap::new(),
        answers: BTreeMap::new(),
    });
    let tickets: Vec<Ticket> = (0..OPERATIONS)
        .map(|number| {
            let operation = match number % 8 {
                7 if run.opens_snapshots => SessionOperation::OpenSnapshot(vec![watched]),
                _ => operation(&world, number),
            };
            submit(&mut world, client, operation, number * GAP_US)
        })
        .collect();
    world.run(ready_us + BEFORE * GAP_US, |_| false);
    let before = progress(&world);
    let mut finish = None;
    if let Some(change) = change {
        finish = begin(&mut world, change, other)?;
    }
    world.run(ready_us + OPERATIONS / 2 * GAP_US, |_| false);
    if let Some(request) = finish {
        world.ask(request);
    }
    world.run(ready_us + (OPERATIONS + 100) * GAP_US, |_| false);
    if let Some(violation) = world.violation {
        return Err(format!("{}: {}", violation.property, violation.text));
    }
    if change.is_some() && progress(&world) == before {
        return Err(format!("{change:?} did not happen"));
    }
    let watch = world.watch.expect("it was set");
    let missing = tickets
        .iter()
        .filter(|it| !watch.answers.contains_key(&it.0));
    match missing.count() {
        0 => Ok(watch),
        count => Err(format!(
            "{count} operations have no answer, beside {change:?}"
        )),
    }
}

/// Returns the epoch of the cluster, and the number of snapshots of the first table.
fn progress(world: &World) -> (Epoch, usize) {
    let snapshots = world.snapshots.count_of(world.tables[CHANGED].id);
    (world.epoch, snapshots)
}

/// Returns the plan of a cluster without faults, with two tables.
fn plan(seed: u64) -> RunPlan {
    let mut random = Random::new(seed);
    let mut plan = RunPlan::draw(&mut random);
    plan.cores = 1;
    plan.tables = 2;
    plan.lease_us = 300 * MILLISECOND;
    plan.replace_after_us = plan.lease_us;
    plan.limits = CoreLimits {
        lease_us: plan.lease_us,
        heartbeat_us: plan.lease_us / 4,
        snapshot_lease_us: 200 * MILLISECOND,
        ..CoreLimits::default()
    };
    plan.faults = Faults {
        latency_us: 200,
        ..Faults::default()
    };
    plan.workload.groups = 2;
    plan.workload.operations = 0;
    let schema = &mut plan.schema;
    schema.primary_key = vec![ID];
    schema.primary_partition_columns = None;
    schema.indexes = vec![index("by_a", A, None)];
    schema.further.clear();
    schema.thin = match random.chance(0.5) {
        true => vec![thin_index("thin".into(), &mut random)],
        false => Vec::new(),
    };
    schema.partitions = 2;
    schema.failures_tolerated = 1;
    schema.durability = Durability::Replicated;
    let layout = Layout::base(schema);
    let partitions = layout
        .numbers()
        .map(|replex| layout.partition_count(replex));
    plan.servers = partitions.sum::<u32>() + SERVERS_MORE;
    plan
}

fn index(name: &str, column: usize, constraint: Option<Constraint>) -> Index {
    Index {
        name: name.into(),
        columns: vec![column],
        constraint,
        partition_columns: None,
        by_range: false,
    }
}

/// Makes a client submit an operation after a delay, and returns its ticket.
fn submit(world: &mut World, client: u64, operation: SessionOperation, delay_us: u64) -> Ticket {
    let now_us = world.now_us + delay_us;
    let own = world.clients.get_mut(&client).expect("it was added");
    let ticket = own.next_ticket();
    own.asides.insert(ticket);
    let deadline_us = own.deadline_after(now_us, SECOND);
    let event = Event::Submit(client, ticket, operation, deadline_us);
    world.after(delay_us, event);
    ticket
}

/// Returns a write of one of the rows of a table.
fn write(world: &World, place: usize, number: u64) -> SessionOperation {
    let id = (number % ROWS) as i64;
    let mut row: ModelRow = [0; COLUMNS];
    row[GROUP] = place as i64;
    row[ID] = id;
    row[A] = id % 3;
    row[U] = NULL;
    let table = &world.tables[place];
    let changes = vec![
        ColumnChange::Set(A, number as i64 % 5),
        ColumnChange::Add(N, 1),
    ];
    let operation = match number % 7 {
        6 => WorkloadOperation::Delete(id, None),
        _ => WorkloadOperation::Upsert(row, changes, None),
    };
    SessionOperation::Execute {
        table: table.id,
        mutations: vec![table.translation.mutation(&operation)],
        planned: ANY_EPOCH,
    }
}

/// Returns an operation on the watched table.
fn operation(world: &World, number: u64) -> SessionOperation {
    let table = &world.tables[WATCHED];
    let numbers: Vec<usize> = table.translation.layout.numbers().collect();
    let whole = |replex: usize| reads(world, (table.id, &table.translation), replex);
    match number % 8 {
        1 => {
            let reads = whole(numbers[0]);
            let place = number as usize / 8 % reads.len();
            SessionOperation::Read(reads[place].clone())
        }
        3 => SessionOperation::Moment(whole(numbers[0])),
        5 => {
            let replex = numbers[number as usize / 8 % numbers.len()];
            SessionOperation::Moment(whole(replex))
        }
        _ => write(world, WATCHED, number),
    }
}

/// Returns the reads of all partitions of a replex.
fn reads(world: &World, (id, table): (TableId, &Translation), replex: usize) -> Vec<Read> {
    let partitions = 0..table.layout.partition_count(replex);
    let read = |number| Read {
        limit: 100,
        ..Read::of(
            world.epoch,
            PartitionId {
                table: id,
                replex: replex as u8,
                number,
            },
        )
    };
    partitions.map(read).collect()
}

// tidy: long — a dispatching match over the changes
/// Begins a change. Returns the request that ends it, if it has a second part.
fn begin(
    world: &mut World,
    change: TableChange,
    client: u64,
) -> Result<Option<CoordinatorRequest>, String> {
    let id = world.tables[CHANGED].id;
    let before = world.tables[CHANGED].translation.schema.clone();
    let table = before.name.clone();
    let schema = with_copy(&before, change);
    let mut finish = None;
    match change {
        TableChange::Index | TableChange::Collision | TableChange::ThinIndex => {}
        TableChange::Copy => {
            finish = Some(CoordinatorRequest::DropCopy {
                table,
                name: "late".into(),
                if_exists: false,
            });
        }
        TableChange::Partitions => world.ask(CoordinatorRequest::SetPartitions {
            table,
            partitions: 3,
        }),
        TableChange::Renewal => world.ask(CoordinatorRequest::Renew {
            table,
            cells: vec![(0, 1)],
        }),
        TableChange::Drain => {
            let place = server_of_changed(world)?;
            world.drain(place, true);
        }
        TableChange::Loss => {
            let place = server_of_changed(world)?;
            world.crash(place, UnflushedTail::Kept, 1_000 * SECOND);
        }
        TableChange::Definition => {
            let mut column = before.columns[N].clone();
            column.name = "late".into();
            column.missing = Some(Value::Int64(7));
            world.ask(CoordinatorRequest::AlterTable {
                table,
                alterations: vec![Alteration::AddColumn { column }],
            });
        }
        TableChange::Truncation => world.ask(CoordinatorRequest::Truncate {
            tables: vec![table],
            cascade: false,
        }),
        TableChange::Seal => world.seal(id),
        TableChange::Snapshots => {
            for number in 0..100 {
                let open = SessionOperation::OpenSnapshot(vec![id]);
                submit(world, client, open, number * 5 * MILLISECOND);
            }
        }
        TableChange::OtherTable => {
            let name = String::from("third");
            world.ask(CoordinatorRequest::CreateTable {
                schema: Schema {
                    name: name.clone(),
                    ..before.clone()
                },
                if_not_exists: false,
                sequences: Vec::new(),
                owner: Default::default(),
            });
            finish = Some(CoordinatorRequest::DropTable {
                name,
                if_exists: false,
            });
        }
        TableChange::Drop => world.ask(CoordinatorRequest::DropTable {
            name: table,
            if_exists: false,
        }),
    }
    if schema != before {
        world.ask(CoordinatorRequest::AddCopy { schema });
    }
    Ok(finish)
}

/// Returns a schema with the copy or index that a change adds.
fn with_copy(schema: &Schema, change: TableChange) -> Schema {
    let mut schema = schema.clone();
    match change {
        TableChange::Index => schema.indexes.push(index("late", N, None)),
        TableChange::Collision => {
            let unique = index("late", A, Some(Constraint::Unique));
            schema.indexes.push(unique);
        }
        TableChange::ThinIndex => {
            let thin = thin_index("late".into(), &mut Random::new(1));
            schema.thin.push(thin);
        }
        TableChange::Copy => schema.further.push(FurtherCopy {
            name: "late".into(),
            cut: Cut::Replica { of: None },
        }),
        _ => {}
    }
    schema
}

/// Returns the place of a server that has partitions of the first table, and none of the second.
fn server_of_changed(world: &World) -> Result<usize, String> {
    let configuration = world.coordinator.configuration();
    let configuration = configuration.ok_or("no coordinator runs")?;
    let [changed, watched] = [CHANGED, WATCHED].map(|place| {
        let table = configuration.table(world.tables[place].id);
        table.map(PlacedTable::holders).unwrap_or_default()
    });
    let mut only = changed.difference(&watched);
    let core = only.next().ok_or("no server has only the first table")?;
    Ok(world.places[&core.server])
}

#[cfg(test)]
mod tests {
    use super::*;

    // A build with planted bugs plants them one after the other, for the whole process.
    #[cfg(not(feature = "planted"))]
    #[test]
    fn no_change_of_one_table_disturbs_another_one() {
        for (seed, change) in (0..).zip(TableChange::ALL) {
            assert_eq!(check_change(seed, change), Ok(()));
        }
    }
}
