//! Executes `EXPLAIN`: shows which replex, partitions and servers a statement reads or writes, and
//! how.

use std::collections::{BTreeMap, BTreeSet};

use placement::{
    ColumnType, Replex, ReplexKind, RowView, Schema, Value, amplification_of, columns_of,
    decode_key,
};
use protocol::configuration::routes;
use protocol::configuration::{Configuration, PlacedTable};
use protocol::expression::{Assignment, Expression};
use protocol::identity::{CoreId, PartitionId};
use protocol::operation::Action;

use super::access::{Access, AccessKind, ValueRange};
use super::group::RowLimits;
use super::{
    AggregatePart, AggregatePlan, AggregateRead, ChangeKind, ChangePlan, ChangeTarget, Context,
    InsertPlan, JoinedPlan, ReadPlan, SelectPlan, SourceRows, StatementPlan, UnaskedScan, cost,
    text,
};

/// The most keys, or partitions of one core, that are listed one by one.
const LISTED_MAX: usize = 12;

/// The line for a statement without a table.
const CONSTANTS: &str = "one row computed from constants; no server is asked";

/// Returns the lines of `EXPLAIN` for a plan.
pub(super) fn lines(plan: &StatementPlan, context: &Context<'_>) -> Vec<String> {
    let configuration = context.configuration;
    match plan {
        StatementPlan::Select(select) => self::select(select, context),
        StatementPlan::Aggregate(plan) => aggregate(plan, context),
        StatementPlan::Insert(insert) => self::insert(insert, configuration),
        StatementPlan::Change(change) => self::change(change, context),
        StatementPlan::Joined(plan) => joined(plan, context),
        _ => vec!["nothing is read or written".to_string()],
    }
}

fn select(select: &SelectPlan, context: &Context<'_>) -> Vec<String> {
    let Some(read) = &select.read else {
        return vec![CONSTANTS.to_string()];
    };
    let mut lines = self::read(read, context);
    let table = table(context.configuration, read);
    lines.push(format!("  output: {}", output(table, read)));
    if !select.order.is_empty() {
        let how = match (select.ordered_by_index, read.descending) {
            (true, false) => "comes from the index",
            (true, true) => "comes from the index, read from the end",
            (false, _) => "is made by the client from all rows that match",
        };
        lines.push(format!("  order: {how}"));
    }
    lines.extend(limit((select.limit, select.offset)));
    lines.push(survived(context.configuration, table));
    lines
}

/// Returns the columns that the partitions return.
fn output(table: &PlacedTable, read: &ReadPlan) -> String {
    let Some(columns) = &read.projection else {
        return "all columns".to_string();
    };
    let columns = columns.iter().map(|it| usize::from(*it));
    let columns = columns.map(|it| table.schema.columns[it].name.as_str());
    columns.collect::<Vec<_>>().join(", ")
}

fn aggregate(plan: &AggregatePlan, context: &Context<'_>) -> Vec<String> {
    let Some(first) = plan.reads.first() else {
        return vec![CONSTANTS.to_string()];
    };
    let mut lines = Vec::new();
    let table = table(context.configuration, &first.read);
    for (number, AggregateRead { read, part }) in plan.reads.iter().enumerate() {
        lines.extend(self::read(read, context));
        let columns = output(table, read);
        let calls = plan.aggregates.iter().filter(|it| it.read == number);
        let names: Vec<&str> = calls.map(|it| it.function.name()).collect();
        let names = match names[..] {
            [] => "the groups".to_string(),
            _ => names.join(", "),
        };
        lines.push(match part {
            AggregatePart::Count => "  output: only the number of rows".to_string(),
            AggregatePart::First if read.descending => {
                format!("  output: {columns}, of the last row of each partition, for {names}")
            }
            AggregatePart::First => {
                format!("  output: {columns}, of the first row of each partition, for {names}")
            }
            AggregatePart::All => {
                format!("  output: {columns}, of all rows that match, for {names}")
            }
        });
    }
    if plan.has_keys {
        let keys = plan.names[..plan.keys.len()].join(", ");
        lines.push(format!("  groups: by {keys}, made by the client"));
    }
    if !plan.order.is_empty() {
        lines.push("  order: is made by the client from all groups".to_string());
    }
    lines.extend(limit((plan.limit, plan.offset)));
    lines.push(survived(context.configuration, table));
    lines
}

/// Returns the line about the limits of a result.
fn limit((limit, offset): RowLimits) -> Option<String> {
    let offset = match offset {
        0 => String::new(),
        offset => format!(", after leaving out {offset}"),
    };
    limit.map(|limit| format!("  limit: {limit}{offset}"))
}

fn insert(insert: &InsertPlan, configuration: &Configuration) -> Vec<String> {
    let table = configuration.table(insert.table).expect("planned over it");
    let count = insert.mutations.len();
    let schema = &table.schema;
    let order = if insert.in_order {
        ", one after the other (a dense index takes its values in order)"
    } else {
        ", many at a time"
    };
    let mut lines = vec![match count {
        1 => format!("Insert into {}: 1 row", schema.name),
        count => format!("Insert into {}: {count} rows{order}", schema.name),
    }];
    if let Some(mutation) = insert.mutations.first() {
        let (Action::Insert { row } | Action::InsertOrKeep { row } | Action::Upsert { row, .. }) =
            &mutation.action
        else {
            unreachable!("an INSERT plans rows");
        };
        let view = RowView::parse(&schema.columns, row).expect("the planner encoded it");
        let which = if count == 1 { "" } else { " of the first row" };
        lines.push(format!("  chain{which}, from head to decider:"));
        for replex in table.layout.chain(schema) {
            let partition = table.layout.partition_of_row(replex, &view);
            let places = places(configuration, table, replex, &BTreeSet::from([partition]));
            lines.extend(places.iter().map(|it| format!("    {it}")));
        }
        lines.extend(beside(table));
        if matches!(mutation.action, Action::Upsert { .. }) {
            lines.push(
                "  where the key exists, the row is updated; if that moves it, the partitions it \
                 leaves join the chain"
                    .to_string(),
            );
        }
    }
    lines.push(decided(configuration, table));
    lines.push(survived(configuration, table));
    lines
}

fn change(change: &ChangePlan, context: &Context<'_>) -> Vec<String> {
    let configuration = context.configuration;
    let table = configuration.table(change.table).expect("planned over it");
    let schema = &table.schema;
    let verb = match change.change {
        ChangeKind::Update(_) => "Update",
        ChangeKind::Delete => "Delete from",
    };
    let mut lines = Vec::new();
    match &change.target {
        ChangeTarget::Keys(keys) => {
            lines.push(format!(
                "{verb} {}: {} by the primary key",
                schema.name,
                rows(keys.len())
            ));
            lines.push("  head:".to_string());
            let heads = places(
                configuration,
                table,
                table.layout.primary(),
                &heads(table, keys),
            );
            lines.extend(heads.iter().map(|it| format!("    {it}")));
        }
        ChangeTarget::Rows(read) => {
            lines.push(format!(
                "{verb} {}: each row that this read finds, by its primary key",
                schema.name
            ));
            lines.extend(self::read(read, context).iter().map(|it| format!("  {it}")));
        }
    }
    if let Some(condition) = &change.condition {
        lines.push(format!(
            "  condition, checked atomically at the head: {}",
            text::expression(schema, condition)
        ));
    }
    if let ChangeKind::Update(assignments) = &change.change {
        lines.extend(moves(table, assignments));
    }
    let chain = names(table, table.layout.chain(schema));
    lines.push(format!(
        "  chain of each row: its partition in {}",
        chain.join(", then in ")
    ));
    lines.extend(beside(table));
    lines.push(decided(configuration, table));
    lines.push(survived(configuration, table));
    lines
}

/// Returns the lines about a change with a further table. Its rows are not known yet, so a row of
/// any values stands for them where the reads of the changed table are planned.
fn joined(plan: &JoinedPlan, context: &Context<'_>) -> Vec<String> {
    let configuration = context.configuration;
    let table = configuration.table(plan.table).expect("planned over it");
    let tables = &plan.tables;
    let verb = match plan.change {
        ChangeKind::Update(_) => "Update",
        ChangeKind::Delete => "Delete from",
    };
    let mut lines = vec![format!(
        "{verb} {}: each row that matches a row of {}, once, by its primary key",
        table.schema.name, tables.second
    )];
    let any = plan.any_row();
    let (own, further) = any.split_at(tables.own);
    let (reads, first) = match &plan.source {
        SourceRows::Known(known) => {
            lines.push(format!("  {} of {}", rows(known.len()), tables.second));
            let sample = known.iter().take(1).map(Vec::as_slice);
            (plan.target_reads(table, sample), &tables.second)
        }
        SourceRows::Read(read) if plan.begins_with_target => {
            let found = self::read(&plan.target_read(table), context);
            lines.extend(found.iter().map(|it| format!("  {it}")));
            let source = self::table(configuration, read);
            (plan.source_reads(source, [own].into_iter()), &tables.target)
        }
        SourceRows::Read(read) => {
            lines.extend(self::read(read, context).iter().map(|it| format!("  {it}")));
            let reads = plan.target_reads(table, [further].into_iter());
            (reads, &tables.second)
        }
    };
    for found in reads {
        let way = read(&found, context).swap_remove(0);
        lines.push(match found.access.kind {
            AccessKind::Scan => format!("  {way}"),
            _ => format!("  {way}, for each row of {first}"),
        });
    }
    let conditions = plan.target_filter.iter().chain(&plan.join);
    let conditions: Vec<Expression> = conditions.cloned().collect();
    if let Some(condition) = Expression::all(conditions) {
        lines.push(format!(
            "  condition, checked by the client, whose commit compares the rows: {}",
            text::expression(&tables.qualified(), &condition)
        ));
    }
    lines.push(survived(configuration, table));
    lines
}

/// Returns the primary partitions of these keys.
fn heads(table: &PlacedTable, keys: &[Vec<u8>]) -> BTreeSet<u32> {
    let schema = &table.schema;
    let types: Vec<ColumnType> = schema
        .primary_key
        .iter()
        .map(|it| schema.columns[*it].column_type)
        .collect();
    let heads = keys.iter().map(|key| {
        let values = decode_key(key, &types).expect("the planner made it");
        table
            .layout
            .partition_of_values(table.layout.primary(), |column| {
                let place = schema.primary_key.iter().position(|it| *it == column);
                values[place.expect("the primary key places rows")].as_ref()
            })
    });
    heads.collect()
}

/// Returns a text about the replexes in which the assignments may move a row; none if there are
/// none.
fn moves(table: &PlacedTable, assignments: &[Assignment]) -> Option<String> {
    let assigned = |column: &usize| {
        assignments
            .iter()
            .any(|it| usize::from(it.column) == *column)
    };
    let chain = table.layout.chain(&table.schema).into_iter();
    let moved: Vec<&str> = chain
        .map(|number| &table.layout.replexes[number])
        .filter(|replex| {
            let key_spaces = replex.axes.iter().map(|axis| axis.key_space);
            let cut = key_spaces.flat_map(|it| &table.layout.key_spaces[it].columns);
            cut.chain(&columns_of(&replex.sort_columns)).any(assigned)
        })
        .map(|replex| replex.name.as_str())
        .collect();
    (!moved.is_empty()).then(|| {
        format!(
            "  moves the row in {}: the partition it leaves and the one it enters are both in the \
             chain",
            moved.join(", ")
        )
    })
}

fn names(table: &PlacedTable, numbers: impl IntoIterator<Item = usize>) -> Vec<&str> {
    let replexes = numbers.into_iter();
    let replexes = replexes.map(|number| &table.layout.replexes[number]);
    replexes.map(|replex| replex.name.as_str()).collect()
}

/// Returns a text about the thin indexes whose entries a write changes beside its chain; none if
/// there are none.
fn beside(table: &PlacedTable) -> Option<String> {
    let names = names(table, table.layout.side_numbers(&table.schema));
    (!names.is_empty()).then(|| {
        format!(
            "  beside the chain: entries of {}, where their columns change",
            names.join(", ")
        )
    })
}

/// Returns a text about the copies that no statement reads yet; none if there are none.
fn made(table: &PlacedTable) -> Option<String> {
    let numbers = table.building.iter().map(|number| usize::from(*number));
    let names = names(table, numbers);
    let plural = if names.len() == 1 { "is" } else { "are" };
    (!names.is_empty())
        .then(|| format!("  not used yet, {plural} being made: {}", names.join(", ")))
}

fn index_in_words(table: &PlacedTable, replex: usize) -> String {
    let Replex { name, kind, .. } = &table.layout.replexes[replex];
    match kind {
        ReplexKind::Primary => "the primary key".to_string(),
        ReplexKind::Hyperspace => format!("hyperspace {name}"),
        ReplexKind::Thin { .. } => format!("thin index {name}"),
        _ => format!("index {name}"),
    }
}

fn read(read: &ReadPlan, context: &Context<'_>) -> Vec<String> {
    let configuration = context.configuration;
    let table = table(configuration, read);
    let schema = &table.schema;
    let Access {
        replex,
        kind,
        segments,
        ..
    } = &read.access;
    let index = index_in_words(table, *replex);
    let partitions: BTreeSet<u32> = segments.iter().map(|it| it.partition).collect();
    let count = table.layout.partitions_with_rows(*replex).len();
    let mut lines = vec![match kind {
        AccessKind::Nothing => {
            return vec![format!(
                "nothing is read of {}: no row can satisfy the WHERE",
                schema.name
            )];
        }
        AccessKind::Scan => format!("Scan of {}, whole, through {index}", schema.name),
        AccessKind::Point => format!("Lookup in {} by {index}", schema.name),
        AccessKind::Lookup => format!("Range lookup in {} by {index}", schema.name),
        AccessKind::Range if table.layout.is_ranged(*replex) || partitions.len() < count => {
            format!("Range of {} by {index}", schema.name)
        }
        AccessKind::Range => format!("Range of every partition of {} by {index}", schema.name),
        AccessKind::First => format!("First rows of {} by {index}", schema.name),
    }];
    if *kind != AccessKind::Scan {
        lines.extend(keys(schema, &read.access));
    }
    let places = places(configuration, table, *replex, &partitions);
    lines.extend(places.iter().map(|it| format!("  {it}")));
    let instead = |it: &u32| instead(configuration, table, *replex, *it);
    lines.extend(partitions.iter().flat_map(instead));
    lines.extend(rows_of_entries(table, read));
    if let Some(estimated) = &read.estimated {
        lines.extend(cost::lines(table, estimated));
    }
    if *kind != AccessKind::Scan {
        let predicted = amplification_of(&table.layout, *replex);
        lines.push(format!(
            "  after a failure: partitions of other copies instead of a lost one: {}; after two: {}",
            predicted.after_one, predicted.after_two
        ));
    }
    if let Some(UnaskedScan { rows_max, .. }) = read.unasked {
        lines.push(format!(
            "  only while the table has no more than {rows_max} rows (scan_rows)"
        ));
    }
    lines.extend(made(table));
    if let Some(filter) = &read.filter {
        let filter = text::expression(schema, filter);
        let place = match rows_of_entries(table, read) {
            Some(_) => "at the partitions of the rows",
            None => "at the partition",
        };
        lines.push(format!("  filter, {place}: {filter}"));
    }
    if context.settings.stale_reads {
        lines.push("  stale: does not wait for operations under way".to_string());
    }
    lines
}

/// Returns a text about the rows that are read by the entries of a thin index; none for a copy, and
/// where the entries have all that is wanted.
fn rows_of_entries(table: &PlacedTable, read: &ReadPlan) -> Option<String> {
    let columns = table
        .layout
        .entry_columns(&table.schema, read.access.replex)?;
    let has = |column: u16| columns.contains(&usize::from(column));
    let named = read.projection.as_ref();
    let has_output = named.is_some_and(|columns| columns.iter().all(|column| has(*column)));
    let filter = read.filter.as_ref();
    let answers = has_output && filter.is_none_or(|filter| filter.all_columns(&has));
    (!answers).then(|| "  rows: by the primary key in each entry".to_string())
}

/// Returns the keys and the range that an access asks for.
fn keys(schema: &Schema, access: &Access) -> Vec<String> {
    let mut lines = Vec::new();
    let fixed_columns = &columns_of(&access.order_columns[..access.fixed]);
    // The cells of a hyperspace can be asked for the same key; these stand together.
    let mut keys: Vec<&[Value]> = access.segments.iter().map(|it| &it.keys[..]).collect();
    keys.dedup();
    keys.retain(|key| !key.is_empty());
    for key in keys.iter().take(LISTED_MAX) {
        let key = text::key("key", schema, fixed_columns, key);
        lines.push(format!("  {key}"));
    }
    if keys.len() > LISTED_MAX {
        lines.push(format!("  and {} more keys", keys.len() - LISTED_MAX));
    }
    if access.range != ValueRange::default() {
        let column = access.order_columns[access.fixed].column;
        let range = text::range(schema, column, &access.range);
        lines.push(format!("  range: {range}"));
    }
    lines
}

/// Returns lines about the partitions that a read visits instead of one whose server is down; no
/// lines if the server is up.
fn instead(
    configuration: &Configuration,
    table: &PlacedTable,
    replex: usize,
    number: u32,
) -> Vec<String> {
    let place = table.placement[replex][number as usize];
    if !routes::is_down(configuration, place) {
        return Vec::new();
    }
    let name = &table.layout.replexes[replex].name;
    let server = place.core.server.0;
    let lost = PartitionId {
        table: table.id,
        replex: replex as u8,
        number,
    };
    if let Some((copy, numbers)) = other_copy(configuration, table, (replex, number)) {
        let mut lines = vec![format!(
            "  partition {number} of {name} is lost with server {server}; read instead, from \
             another copy of the index:"
        )];
        let places = places(configuration, table, copy, &numbers);
        lines.extend(places.iter().map(|it| format!("    {it}")));
        return lines;
    }
    let Some(cover) = routes::cover_of_lost(configuration, lost, &|_| true) else {
        return vec![format!(
            "  partition {number} of {name} is lost with server {server}, and its rows with other \
             servers: start one of them again"
        )];
    };
    let mut accesses = cover.members.iter().map(|member| member.access);
    let mut lines = vec![format!(
        "  partition {number} of {name} is lost with server {server}; read instead, {}, {}:",
        match cover.amplification() {
            1 => "1 partition".to_string(),
            count => format!("{count} partitions"),
        },
        match accesses.any(|access| access == placement::RowAccess::Scan) {
            true => "with scans",
            false => "index lookup at each member",
        }
    )];
    let mut members: BTreeMap<usize, BTreeSet<u32>> = BTreeMap::new();
    for member in &cover.members {
        members
            .entry(member.replex)
            .or_default()
            .insert(member.partition);
    }
    for (replex, numbers) in members {
        let places = places(configuration, table, replex, &numbers);
        lines.extend(places.iter().map(|it| format!("    {it}")));
    }
    lines
}

/// Returns another copy of a thin index, and its partitions that have the entries of a partition
/// that is lost; none if there is no copy of which all these partitions can be read.
fn other_copy(
    configuration: &Configuration,
    table: &PlacedTable,
    (replex, number): (usize, u32),
) -> Option<(usize, BTreeSet<u32>)> {
    let mut copies: BTreeMap<usize, BTreeSet<u32>> = BTreeMap::new();
    for (copy, number) in table.layout.twins(replex, number) {
        copies.entry(copy).or_default().insert(number);
    }
    let is_there = |copy: usize, number: u32| {
        !routes::is_down(configuration, table.placement[copy][number as usize])
    };
    let mut copies = copies.into_iter();
    copies.find(|(copy, numbers)| numbers.iter().all(|number| is_there(*copy, *number)))
}

/// Returns one line per core: `replex 1 (by_tail), partition 7 of 12, on server 2 core 0 at …`
fn places(
    configuration: &Configuration,
    table: &PlacedTable,
    replex: usize,
    partitions: &BTreeSet<u32>,
) -> Vec<String> {
    let mut by_core: BTreeMap<Option<CoreId>, Vec<u32>> = BTreeMap::new();
    for number in partitions {
        let id = PartitionId {
            table: table.id,
            replex: replex as u8,
            number: *number,
        };
        let core = configuration.place(id).map(|place| place.core);
        by_core.entry(core).or_default().push(*number);
    }
    let name = &table.layout.replexes[replex].name;
    let count = table.layout.partitions_with_rows(replex).len();
    let lines = by_core.into_iter().map(|(core, numbers)| {
        let on = match core {
            None => "nowhere".to_string(),
            Some(core) => {
                let address = configuration.address(core).unwrap_or("no address");
                format!("{core} at {address}")
            }
        };
        let plural = if numbers.len() == 1 { "" } else { "s" };
        let listed: Vec<String> = numbers
            .iter()
            .take(LISTED_MAX)
            .map(u32::to_string)
            .collect();
        let more = match numbers.len().saturating_sub(LISTED_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!(
            "replex {replex} ({name}), partition{plural} {}{more} of {count}, on {on}",
            listed.join(", ")
        )
    });
    lines.collect()
}

/// Returns the guarantees of the placement, as it is now.
fn survived(configuration: &Configuration, table: &PlacedTable) -> String {
    format!(
        "  failures that every row survives: {} ({} asked for)",
        configuration.proof(table).failures_tolerated(),
        table.schema.failures_tolerated
    )
}

fn decided(configuration: &Configuration, table: &PlacedTable) -> String {
    let members = table.layout.chain(&table.schema).len();
    let position = configuration.decision_position(table);
    format!("  answered once the decision is durable at position {position} of {members}")
}

fn table<'a>(configuration: &'a Configuration, read: &ReadPlan) -> &'a PlacedTable {
    configuration.table(read.table).expect("planned over it")
}

fn rows(count: usize) -> String {
    match count {
        1 => "1 row".to_string(),
        count => format!("{count} rows"),
    }
}
