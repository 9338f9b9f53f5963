//! Runs one seed, from an empty cluster to the result of the checks.
//!
//! The table is created without faults. Then clients work while faults happen. Then faults stop,
//! and all operations must finish within a time limit (I16). Then the checks at rest run. With
//! `sync`, a power cut follows, and the same checks again.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use placement::tables::Tables;
use protocol::configuration::PlacedTable;
use protocol::identity::{PartitionId, TableId};

use crate::check::partition_contents::{PartitionContents, PartitionRows, of_replex};
use crate::check::{
    Violation, budget, constraints, copies, cycles, durable, entries, leftovers, places, results,
    thin, versions,
};
use crate::core::SimulatedCore;
use crate::linearizable::{self, Call, Verdict};
use crate::model::{GROUP, GroupState, ModelRow, Observation, WorkloadOperation};
use crate::plan::SECOND;
use crate::splits;
use crate::start::set_up;
use crate::trace::Trace;
use crate::undisturbed;
use crate::workload::Translation;
use crate::world::server::SimulatedServer;
use crate::world::{SimulatedTable, World};

/// Work under faults ends after this, done or not.
const CHAOS_US: u64 = 8 * SECOND;
/// When faults stop, everything finishes within this (I16).
const CALM_US: u64 = 60 * SECOND;
/// Steps of the model that one group's history may take.
const STEPS_MAX: u64 = 300_000;

/// The outcome of a seed.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The property that does not hold, if there is one.
    pub violation: Option<Violation>,
    /// The number of events that were handled.
    pub events: u64,
    /// The number of operations whose outcome a client has learnt.
    pub operations: u64,
    /// The number of histories that took too long to check.
    pub undecided: u64,
}

/// Runs a seed. A failed assertion of the machines is a violation like any other.
pub fn seed(seed: u64, trace: Trace) -> Outcome {
    catch_unwind(AssertUnwindSafe(|| run(seed, trace))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).into()));
        let text = text.unwrap_or_else(|| "a panic without a text".into());
        let violation = Violation {
            property: "assertion",
            text,
        };
        Outcome {
            violation: Some(violation),
            ..Outcome::default()
        }
    })
}

fn run(seed: u64, trace: Trace) -> Outcome {
    let mut world = World::new(seed, trace);
    trace.note(0, || format!("{:#?}", world.plan));
    let mut outcome = Outcome::default();
    if set_up(&mut world) {
        work(&mut world);
    }
    if world.violation.is_none() {
        judge(&mut world, &mut outcome);
    }
    if world.violation.is_none() && undisturbed::is_checked(seed) {
        let checked = undisturbed::check(seed);
        world.check("R44 a change of one table stops no other table", checked);
    }
    outcome.events = world.events;
    outcome.operations = world
        .history
        .iter()
        .filter(|(_, call)| call.ended.is_some())
        .count() as u64;
    outcome.violation = world.violation.take();
    outcome
}

/// Runs the workload under faults, and then without faults until nothing is left to do.
fn work(world: &mut World) {
    for _ in 0..world.plan.workload.clients {
        world.add_client();
    }
    world.begin_faults();
    let limit_us = world.now_us + CHAOS_US;
    world.run(limit_us, World::clients_are_done);
    rest(world);
}

/// Ends faults and waits until everything is done and confirmed.
fn rest(world: &mut World) {
    if world.violation.is_some() {
        return;
    }
    world.end_faults();
    let limit_us = world.now_us + CALM_US;
    if world.run(limit_us, |world| {
        world.clients_are_done() && is_at_rest(world) && splits::pending(world).is_none()
    }) {
        return;
    }
    let text = format!(
        "a minute after faults stopped: {}",
        unfinished_reason(world)
    );
    world.check("I16 when faults stop, everything finishes", Err(text));
}

fn unfinished_reason(world: &World) -> String {
    let mut text = world.clients_left() + &world.coordinator.unfinished_reason();
    if let Some((range, entries)) = splits::pending(world) {
        text += &format!("; range {range} has {entries} entries and is not split");
    }
    for (place, server) in world.servers.iter().enumerate() {
        if !server.is_running() {
            text += &format!("; machine {place} does not run");
        }
        for core in server.cores() {
            let (backlog, recovering) = (core.machine.backlog(), core.machine.is_recovering());
            let (name, epoch) = (core.machine.identity().core, core.machine.epoch().0);
            let stuck = recovering || budget::empty(&backlog).is_err();
            if stuck && world.trace.on {
                println!("{:#?}", core.machine);
            }
            if recovering || budget::empty(&backlog).is_err() {
                text += &format!("; {name}: epoch {epoch}, recovering {recovering}, {backlog:?}");
            }
        }
    }
    text
}

fn is_at_rest(world: &World) -> bool {
    let configuration = world.coordinator.configuration();
    let newest = configuration.map(|configuration| configuration.epoch);
    newest == Some(world.epoch)
        && world.coordinator.is_whole()
        && world.servers.iter().all(|server| {
            let cores = server.cores();
            !cores.is_empty()
                && cores.iter().zip(&server.disks).all(|(core, disk)| {
                    Some(core.machine.epoch()) == newest
                        && !core.machine.is_recovering()
                        && disk.durable() == disk.appended()
                        && budget::empty(&core.machine.backlog()).is_ok()
                })
        })
}

/// Runs the checks at rest, before and after a power cut, and the checks of the whole history.
fn judge(world: &mut World, outcome: &mut Outcome) {
    let before = check_rest(world);
    if world.is_sync() && world.violation.is_none() {
        world.power_cut();
        rest(world);
        if world.violation.is_some() {
            return;
        }
        let after = check_rest(world);
        world.check("I12 acknowledged ⇒ durable", survived(&before, &after));
    }
    let checks = [
        (
            "I7 one effect per request",
            results::one_effect(&world.ledger),
        ),
        ("I8 versions rise per pk", versions::rise(&world.ledger)),
    ];
    for (property, result) in checks {
        world.check(property, result);
    }
    let tables = world.tables.iter();
    let tables: Vec<_> = tables.map(|it| (it.id, &*it.translation)).collect();
    let ordered = cycles::none(&world.ledger, &tables, &world.shown);
    world.check("I19 all operations and reads have one order", ordered);
    if world.violation.is_none() {
        check_histories(world, &before, outcome);
    }
}

/// Each table's rows at rest, with their versions, as its primary replex has them then. Its number
/// can change later: what an operator has asked for can arrive after the rest.
type RestingRows = BTreeMap<TableId, Vec<(u64, ModelRow)>>;

/// Checks each table's rows after a power cut.
fn survived(before: &RestingRows, after: &RestingRows) -> Result<(), String> {
    for (id, before) in before {
        durable::survived(before, after.get(id).map_or(&[], |rows| rows))?;
    }
    Ok(())
}

fn check_rest(world: &mut World) -> RestingRows {
    let mut rows = RestingRows::new();
    let rest = match read_all(world) {
        Ok(rest) => rest,
        Err(text) => {
            world.check("I5 all replexes are equal", Err(text));
            return rows;
        }
    };
    for SimulatedTable { id, translation } in world.tables.clone() {
        let table = &translation;
        let stored = of_table(&rest, id);
        world.check(
            "local entries are what the rows imply",
            entries::implied(&stored, table),
        );
        let all = in_their_ranges(stored, table);
        let mut references = table.schema.constraints.foreign_keys.iter();
        let reference = references.next().map(|key| key.columns[0]);
        world.check(
            "I4 constraints hold",
            constraints::hold(&all, &table.model, reference),
        );
        let (thin, own): (PartitionContents, PartitionContents) = all
            .into_iter()
            .partition(|(partition, _)| table.layout.is_thin(usize::from(partition.replex)));
        world.check(
            "I6 every row is where h puts it",
            places::right(&own, table),
        );
        world.check(
            "I5 all replexes are equal",
            copies::equal(&own, table.layout.primary(), table.layout.copy_numbers()),
        );
        world.check(
            "I13 every row has its entries in thin indexes",
            thin::match_rows(&thin, &own, table),
        );
        world.check("nothing is left of what went", nothing_left(world, id));
        rows.insert(id, of_replex(&own, table.layout.primary()));
    }
    rows
}

/// Returns the contents of the partitions of a table.
fn of_table(rest: &PartitionContents, id: TableId) -> PartitionContents {
    let own = rest.iter().filter(|(partition, _)| partition.table == id);
    own.map(|(partition, rows)| (*partition, rows.clone()))
        .collect()
}

/// Returns the contents without the rows and entries that are outside of the ranges of their
/// partitions. These are removed later, and no read returns them.
fn in_their_ranges(mut contents: PartitionContents, table: &Translation) -> PartitionContents {
    for (id, partition) in &mut contents {
        if let Some(ranges) = &table.layout.replexes[usize::from(id.replex)].ranges {
            let is_own = |(key, ..): &(Vec<u8>, u64, ModelRow)| ranges.owner(key) == id.number;
            partition.rows.retain(is_own);
        }
    }
    contents
}

fn nothing_left(world: &World, table: TableId) -> Result<(), String> {
    let configuration = world.coordinator.configuration();
    let configuration = configuration.ok_or("no coordinator runs")?;
    for core in world.servers.iter().flat_map(SimulatedServer::cores) {
        let own = core.machine.identity().core;
        let kept: BTreeSet<u64> = core.tables.entries().map(|(number, ..)| number).collect();
        // A core whose server was lost keeps the partitions that it may get back.
        let is_own = |partition| {
            let place = configuration.place(partition);
            let is_former = place.is_some_and(|place| place.former == Some(own));
            is_former || configuration.tenure(partition, own).is_some()
        };
        leftovers::none(kept, table, is_own).map_err(|error| format!("{own}: {error}"))?;
    }
    Ok(())
}

/// Returns the contents of the sorted tables of all cores.
fn read_all(world: &World) -> Result<PartitionContents, String> {
    let mut rest = PartitionContents::new();
    for table in &world.tables {
        read_table(world, table, &mut rest)?;
    }
    Ok(rest)
}

/// Adds what the sorted tables of all cores hold of a table.
fn read_table(
    world: &World,
    SimulatedTable { id, translation }: &SimulatedTable,
    rest: &mut PartitionContents,
) -> Result<(), String> {
    let configuration = world
        .coordinator
        .configuration()
        .ok_or("no coordinator runs")?;
    let table = configuration.table(*id).ok_or("the table is gone")?;
    for (replex, places) in table.placement.iter().enumerate() {
        for (number, place) in places.iter().enumerate() {
            let partition = PartitionId {
                table: *id,
                replex: replex as u8,
                number: number as u32,
            };
            let server = &world.servers[world.places[&place.core.server]];
            let core = &server.cores()[usize::from(place.core.core)];
            let mut found = PartitionRows::default();
            let mut bad = None;
            let visit = &mut |key: &[u8], value: &[u8]| {
                let Some((version, row)) = value.split_first_chunk::<8>() else {
                    bad = Some(format!(
                        "{partition} holds an entry of {} bytes",
                        value.len()
                    ));
                    return ControlFlow::Break(());
                };
                let row = match translation.layout.is_thin(replex) {
                    true => translation.parse_entry(row),
                    false => translation.parse(row),
                };
                match row {
                    Ok(row) => {
                        found
                            .rows
                            .push((key.to_vec(), u64::from_le_bytes(*version), row));
                        ControlFlow::Continue(())
                    }
                    Err(error) => {
                        bad = Some(format!("{partition}: {error}"));
                        ControlFlow::Break(())
                    }
                }
            };
            let scanned = core.tables.scan(partition.rows_table(), b"", None, visit);
            scanned.expect("memory can be read");
            if let Some(bad) = bad {
                return Err(bad);
            }
            for order in entry_orders(core, table, partition)? {
                let kept = found.entries.entry(order).or_default();
                let visit = &mut |entry: &[u8], _: &[u8]| {
                    kept.push(entry.to_vec());
                    ControlFlow::Continue(())
                };
                let number = partition.entries_table(order as u8);
                let scanned = core.tables.scan(number, b"", None, visit);
                scanned.expect("memory can be read");
            }
            rest.insert(partition, found);
        }
    }
    Ok(())
}

/// Returns the orders in which a partition has entries: all that it ought to, by now (I16), each
/// marked as whole under the columns that it has, and no others.
fn entry_orders(
    core: &SimulatedCore,
    table: &PlacedTable,
    id: PartitionId,
) -> Result<Vec<usize>, String> {
    let mut marked = BTreeMap::new();
    let visit = &mut |order: &[u8], mark: &[u8]| {
        marked.insert(order.to_vec(), mark.to_vec());
        ControlFlow::Continue(())
    };
    let scanned = core.tables.scan(id.marks_table(), b"", None, visit);
    scanned.expect("memory can be read");
    let wanted = table.layout.entry_orders(usize::from(id.replex));
    let whole = |order: &usize| {
        let columns = table.layout.order_columns(*order);
        let columns = columns.iter().flat_map(|it| (*it as u32).to_le_bytes());
        (vec![*order as u8], [1].into_iter().chain(columns).collect())
    };
    let expected: BTreeMap<Vec<u8>, Vec<u8>> = wanted.iter().map(whole).collect();
    match marked == expected {
        true => Ok(wanted),
        false => Err(format!(
            "{id} marks the orders {marked:?} as those of its entries, not {expected:?}"
        )),
    }
}

/// Checks each group's history, with the rows at rest as one last lookup.
fn check_histories(world: &mut World, rest: &RestingRows, outcome: &mut Outcome) {
    for group in 0..world.plan.workload.groups {
        let SimulatedTable { id, translation } = &world.tables[world.plan.table_of(group)];
        let table = Rc::clone(translation);
        let calls = world.history.iter().filter(|(other, _)| *other == group);
        let mut calls: Vec<_> = calls.map(|(_, call)| call.clone()).collect();
        calls.retain(|call| call.ended.is_some() || !call.operation.is_read());
        let rows = rest.get(id).into_iter().flatten().map(|(_, row)| *row);
        let mut rows: Vec<ModelRow> = rows.filter(|row| row[GROUP] == group).collect();
        rows.sort_unstable_by_key(|row| row[crate::model::ID]);
        let begun = world.moment + 1;
        let ended = Some((begun + 1, Observation::Rows(rows)));
        calls.push(Call {
            begun,
            ended,
            operation: WorkloadOperation::ReadAll,
        });
        match linearizable::check(&table.model, GroupState::default(), &calls, STEPS_MAX) {
            Verdict::Linearizable => {}
            Verdict::Undecided => outcome.undecided += 1,
            Verdict::Violated { ordered, stuck } => {
                let text = describe(&calls, ordered, &stuck);
                world.check("linearisability over every index", Err(text));
                return;
            }
        }
    }
}

fn describe(
    calls: &[Call<WorkloadOperation, Observation>],
    ordered: usize,
    stuck: &[usize],
) -> String {
    let mut text = format!(
        "{ordered} of {} operations can be ordered; then none of:",
        calls.len()
    );
    for index in stuck {
        let Call {
            begun,
            ended,
            operation,
        } = &calls[*index];
        let seen = ended
            .as_ref()
            .map(|(ended, seen)| format!("{seen:?} at {ended}"));
        let seen = seen.unwrap_or_else(|| "an unknown outcome".into());
        text += &format!("\n  {operation:?} from {begun}: {seen}");
    }
    text += "\nhistory:";
    for Call {
        begun,
        ended,
        operation,
    } in calls
    {
        let (end, seen) = match ended {
            Some((end, seen)) => (end.to_string(), format!("{seen:?}")),
            None => ("never".into(), "unknown".into()),
        };
        text += &format!("\n  {begun:>5} to {end:>5}: {operation:?} → {seen}");
    }
    text
}
