//! Adds copies to tables and drops them while clients use the tables: indexes, hybrids and exact
//! replicas.
//!
//! A change waits for the end of the table's earlier epochs, so that no operation is in progress
//! when chains change. From its first epoch on, a new copy is part of all chains. It is filled like
//! a lost partition. No statement reads the copy until all of its partitions serve. The
//! coordinator's state has the waiting changes and the copies that could not be made, so that
//! another coordinator can continue.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use placement::{Constraint, FurtherCopy, Layout, ReplexKind, Schema, prove};
use protocol::codec::Wire;
use protocol::configuration::partitions::resize_name;
use protocol::configuration::{ALTERATION_NAME, PlacedTable, ServerState, TRUNCATION_NAME};
use protocol::identity::{CoreId, Epoch, ServerId, TableId};
use protocol::message::{CoordinatorReply, CopyFailure, FillReport};
use protocol::planted::{self, Bug};

use super::sealing::remaining_cores;
use super::{
    CONFIGURATION_BYTES_MAX, Coordinator, CoordinatorOutput, FAILURES_MAX, Outcome, Refused,
    RequestedChange, WaitingChange,
};

/// The reports of fills from the last heartbeat of each core.
pub(super) type FillReports = BTreeMap<CoreId, Vec<FillReport>>;

/// An upper limit of the bytes of a place in an encoded configuration.
pub(super) const PLACE_BYTES_MAX: usize = 32;

/// How well a core suits a new partition, the least best. The first four count in its failure
/// domain: other copies of a thin index's entries, copies of the same rows, partitions of other
/// copies, and partitions of the primary copy, which is never dropped, so that the new copy may
/// have to be apart from it. The last is the core's load.
type Fitness = (usize, usize, usize, usize, u64);

impl Coordinator {
    /// Adds an index or a further copy to a table. Answered at once. The copy is made from the next
    /// epoch that serves on.
    pub(super) fn add_copy(
        &mut self,
        wanted: Schema,
        output: &mut CoordinatorOutput,
    ) -> Result<Outcome, Refused> {
        let invalid = wanted.validate();
        invalid.map_err(|error| Refused::new(error.message))?;
        let table = self.table_to_change(&wanted.name)?;
        check_is_not_resized(table)?;
        if !table.schema.is_extended_by(&wanted) {
            return Err(Refused {
                message: format!("table {} has changed meanwhile: try again", wanted.name),
                retry: true,
            });
        }
        let name = table.schema.added_name(&wanted);
        let last = wanted.indexes.last();
        let is_dense = last
            .is_some_and(|index| index.name == name && index.constraint == Some(Constraint::Dense));
        if is_dense {
            return Err(Refused::new(format!(
                "index {name} is dense, and rows that exist were not counted by it: make it \
                 together with its table"
            )));
        }
        check_indexes_serve(table, &wanted)?;
        let mut layout = table.layout.clone();
        let extended = layout.extend(&table.schema, &wanted);
        let numbers = extended.map_err(|error| Refused::new(error.message))?;
        let partitions = numbers
            .iter()
            .map(|it| layout.partition_count(*it) as usize);
        let places = partitions.sum::<usize>() * PLACE_BYTES_MAX;
        let bytes = self.configuration_bytes() + wanted.to_bytes().len() + places;
        if bytes > CONFIGURATION_BYTES_MAX {
            return Err(Refused::new(format!(
                "with {name} the configuration would take {bytes} bytes, the limit is \
                 {CONFIGURATION_BYTES_MAX}: drop tables or copies, or give them fewer partitions"
            )));
        }
        let id = table.id;
        let known = |failure: &CopyFailure| (failure.table, &failure.name) == (id, &name);
        self.state.failures.retain(|failure| !known(failure));
        output
            .notes
            .push(format!("{name} of table {} will be made", wanted.name));
        self.change(id, RequestedChange::Add { schema: wanted }, output);
        Ok(self.done_now())
    }

    /// Drops an index, a further copy or an exact replica, or cancels one that is being made.
    /// Answered at once. The copy is dropped with the next epoch that serves.
    pub(super) fn drop_copy(
        &mut self,
        (table, name): (&str, String),
        if_exists: bool,
        output: &mut CoordinatorOutput,
    ) -> Result<Outcome, Refused> {
        let table = self.table_to_change(table)?;
        check_is_not_resized(table)?;
        let (mut layout, mut schema) = (table.layout.clone(), table.schema.clone());
        if if_exists && !layout.replexes.iter().any(|it| it.name == name) && !has(&schema, &name) {
            return Ok(self.done_now());
        }
        let removed = layout.remove(&mut schema, &name);
        removed.map_err(|error| Refused::new(error.message))?;
        self.check_without(table, &layout, &name)?;
        let id = table.id;
        output
            .notes
            .push(format!("{name} of table {} will be dropped", schema.name));
        self.change(id, RequestedChange::Drop { name }, output);
        Ok(self.done_now())
    }

    /// Drops an index and gives its name to another one, which is complete. Answered at once. Both
    /// happen with the next epoch that serves.
    pub(super) fn replace_copy(
        &mut self,
        table: &str,
        name: String,
        by: String,
        output: &mut CoordinatorOutput,
    ) -> Result<Outcome, Refused> {
        let table = self.table_to_change(table)?;
        check_is_not_resized(table)?;
        let replaced = table.with_replaced(&name, &by).map_err(Refused::new)?;
        let is_made = |number: usize| {
            let replex = &table.layout.replexes[number].name;
            table.is_building(number) && table.schema.copy_of(replex) == by
        };
        if table.layout.numbers().any(is_made) {
            return Err(Refused {
                message: format!("index {by} is being made: try again when it serves"),
                retry: true,
            });
        }
        self.check_without(table, &replaced.layout, &name)?;
        let id = table.id;
        output.notes.push(format!(
            "{name} of table {} will be dropped, and {by} gets its name",
            replaced.schema.name
        ));
        self.change(id, RequestedChange::Replace { name, by }, output);
        Ok(self.done_now())
    }

    /// Returns the table, if its copies can be changed now: every server with partitions of it must
    /// be up, because the change ends an epoch.
    pub(super) fn table_to_change(&self, name: &str) -> Result<&PlacedTable, Refused> {
        let configuration = &self.state.configuration;
        let table = configuration.table_named(name);
        let table = table.ok_or_else(|| Refused::new(format!("there is no table {name:?}")))?;
        let mut changes = self.state.changes.iter();
        if changes.any(|change| change.table == table.id) {
            return Err(Refused {
                message: format!("another copy of table {name} is just coming or going: try again"),
                retry: true,
            });
        }
        match self.missing(table) {
            None => Ok(table),
            Some(server) => Err(Refused::new(format!(
                "server {} is down, and writes would stand still until it is back: start it, or \
                 remove it with `replex admin server remove`",
                server.0
            ))),
        }
    }

    /// Returns a server that is down, holds partitions of a table, and is not being removed.
    pub(super) fn missing(&self, table: &PlacedTable) -> Option<ServerId> {
        let configuration = &self.state.configuration;
        let cores = remaining_cores(table);
        let mut servers = cores.iter().map(|core| core.server);
        servers.find(|id| {
            let server = configuration.server(*id);
            server.is_none_or(|server| server.state == ServerState::Down)
        })
    }

    /// Returns the table without a copy, if nothing is lost with that by now: a server that was
    /// lost meanwhile may have had the others.
    fn without_copy(&self, table: &PlacedTable, name: &str) -> Result<PlacedTable, String> {
        let without = table.without_copy(name)?;
        if planted::is(Bug::LastCopyDropped) {
            return Ok(without);
        }
        let checked = self.check_without(table, &without.layout, name);
        checked.map_err(|refused| refused.message)?;
        Ok(without)
    }

    /// Checks that the tolerance of a table stays proven without a copy, and that its foreign keys
    /// stay served. A copy that is being made counts for nothing, now as later: it may turn out
    /// that it cannot be made, and then it must be able to go.
    fn check_without(
        &self,
        table: &PlacedTable,
        layout: &Layout,
        name: &str,
    ) -> Result<(), Refused> {
        check_references_served(table, name)?;
        let servers = self.state.configuration.hosts();
        let before = table.full_copies();
        let mut after = before.clone();
        after.replexes.truncate(layout.replexes.len());
        for (replex, places) in after.replexes.iter_mut().enumerate() {
            places.truncate(layout.partition_count(replex) as usize);
        }
        let proof = prove(layout, &after, &servers);
        if proof.copies_guaranteed == 0 {
            return Err(Refused {
                message: format!(
                    "partitions of table {} are being filled from {name}, which has the only copies \
                     of some rows: try again when they serve",
                    table.schema.name
                ),
                retry: true,
            });
        }
        let needed = u32::from(table.schema.failures_tolerated);
        let proven = proof.failures_tolerated();
        let is_made = |number: &usize| !table.is_building(*number);
        let made = layout.copy_numbers().filter(is_made).count();
        let loses_one = made < table.layout.copy_numbers().filter(is_made).count();
        let few = loses_one && made <= needed as usize;
        let proven_before = prove(&table.layout, &before, &servers).failures_tolerated();
        if few || proven < needed && proven < proven_before {
            return Err(Refused::new(format!(
                "without {name} table {} survives {} failures, and it promises to survive \
                 {needed}: add another copy first, as with CREATE INDEX … ON {} USING replica ({})",
                table.schema.name,
                proven.min(made as u32 - 1),
                table.schema.name,
                table.schema.name
            )));
        }
        Ok(())
    }

    /// Records a change, and ends the earlier epochs of its table.
    pub(super) fn change(
        &mut self,
        table: TableId,
        wanted: RequestedChange,
        output: &mut CoordinatorOutput,
    ) {
        self.state.changes.push(WaitingChange { table, wanted });
        let changed = self.state.configuration.table(table);
        let is_sealing = changed.is_some_and(|table| table.sealing.is_some());
        let is_altered = matches!(
            self.state.changes.last().map(|change| &change.wanted),
            Some(RequestedChange::Alter { .. })
        );
        let at_once = planted::is(Bug::CopiesChangeAtOnce) && !is_altered
            || planted::is(Bug::DefinitionChangesAtOnce) && is_altered;
        if at_once && !is_sealing {
            let epoch = Epoch(self.state.configuration.epoch.0 + 1);
            self.change_copies(|id| id == table, epoch, output);
            return self.reconfigure(output);
        }
        if !is_sealing || !self.leaving(table).is_empty() {
            // All its holders must know that a copy goes, before it is gone.
            return self.begin_seal(table, output);
        }
        self.keep(output);
    }

    /// Returns the copies of a table that waiting changes will drop, ascending.
    pub(super) fn leaving(&self, table: TableId) -> Vec<u8> {
        let changes = self
            .state
            .changes
            .iter()
            .filter(|change| change.table == table);
        let number = |number: usize| u8::try_from(number).expect("a table has at most 63 replexes");
        let dropped = changes.filter_map(|change| {
            let table = self.state.configuration.table(change.table)?;
            match &change.wanted {
                RequestedChange::Drop { name } | RequestedChange::Replace { name, .. } => {
                    let numbers = table.layout.removable(&table.schema, name).ok()?;
                    Some(numbers.into_iter().map(number).collect::<Vec<u8>>())
                }
                RequestedChange::Promote if planted::is(Bug::SupersededIsRead) => None,
                RequestedChange::Promote => Some(table.superseded()),
                RequestedChange::Add { .. }
                | RequestedChange::Renew { .. }
                | RequestedChange::Resize { .. }
                | RequestedChange::Alter { .. } => None,
                // A holder that learns late of the empty table must not return the rows.
                RequestedChange::Truncate { .. } => {
                    Some(table.layout.numbers().map(number).collect())
                }
            }
        });
        let mut leaving: Vec<u8> = dropped.flatten().collect();
        leaving.sort_unstable();
        leaving
    }

    /// Adds and drops copies of these tables from `epoch` on, once their earlier epochs have ended.
    pub(super) fn change_copies(
        &mut self,
        of: impl Fn(TableId) -> bool,
        epoch: Epoch,
        output: &mut CoordinatorOutput,
    ) {
        let changes = self.state.changes.extract_if(.., |change| of(change.table));
        let changes: Vec<WaitingChange> = changes.collect();
        let drops = |it: &&WaitingChange| {
            use RequestedChange::{Drop, Promote, Replace, Truncate};
            matches!(
                it.wanted,
                Drop { .. } | Replace { .. } | Promote | Truncate { .. }
            )
        };
        let fewer: BTreeSet<TableId> = changes.iter().filter(drops).map(|it| it.table).collect();
        // The tolerance of moves was proven with a copy that is being dropped.
        self.cancel_moves(|table| fewer.contains(&table), output);
        for change in changes {
            let tables = &self.state.configuration.tables;
            let Some(table) = tables.get(change.table) else {
                continue;
            };
            let changed = match &change.wanted {
                RequestedChange::Add { schema } => {
                    let held = self.places_held_beside(table);
                    let place = |table: &PlacedTable, replex, number| {
                        self.core_for(table, (replex, number), &held)
                    };
                    table.with_copy(schema, epoch, &place)
                }
                RequestedChange::Drop { name } => self.without_copy(table, name),
                RequestedChange::Replace { name, by } => {
                    let without = self.without_copy(table, name);
                    without.and_then(|table| table.with_renamed(by, name))
                }
                RequestedChange::Renew { cells } => self.renewed(table, cells, epoch),
                RequestedChange::Resize { partitions } => self.resized(table, *partitions, epoch),
                RequestedChange::Promote => self.promoted(table),
                RequestedChange::Alter { alterations } => self.altered(table, alterations),
                RequestedChange::Truncate { .. } => {
                    Ok(table.truncated(TableId(self.state.next_table), epoch))
                }
            };
            match changed {
                Ok(changed) => {
                    let before = Arc::clone(table);
                    self.resizes.note(&changed);
                    self.install(&before, changed, epoch);
                }
                Err(why) => {
                    let name = reported_name(&change.wanted, table);
                    output
                        .notes
                        .push(format!("{name} of table {}: {why}", table.schema.name));
                    // It is tried again once the new partitions serve.
                    if change.wanted != RequestedChange::Promote {
                        let table = change.table;
                        self.fail(CopyFailure { table, name, why });
                    }
                }
            }
        }
    }

    /// Returns the best core for a new partition. `others_held` counts the partitions of other
    /// tables.
    fn core_for(
        &self,
        table: &PlacedTable,
        (replex, partition): (usize, u32),
        others_held: &BTreeMap<CoreId, u64>,
    ) -> Option<CoreId> {
        let configuration = &self.state.configuration;
        let layout = &table.layout;
        let axes = &layout.replexes[replex].axes;
        // Ranges divide rows in ways of their own.
        let alike = layout.numbers().filter(|other| {
            let is_hashed = [*other, replex].iter().all(|it| !layout.is_ranged(*it));
            *other != replex && is_hashed && layout.replexes[*other].axes == *axes
        });
        let same_rows: Vec<CoreId> = alike
            .filter_map(|other| table.placement[other].get(partition as usize))
            .map(|place| place.core)
            .collect();
        let twins = layout.twins(replex, partition).into_iter();
        let twins = twins.filter_map(|(of, number)| table.placement[of].get(number as usize));
        let twins: Vec<CoreId> = twins.map(|place| place.core).collect();
        let primary: Vec<CoreId> = match layout.is_thin(replex) {
            true => Vec::new(),
            false => {
                let places = table.placement[layout.primary()].iter();
                places.map(|place| place.core).collect()
            }
        };
        // Entries of thin indexes are no copies of rows.
        let counts =
            |other: &usize| *other != replex && (layout.is_thin(replex) || !layout.is_thin(*other));
        let others = layout.numbers().filter(counts);
        let others = others.flat_map(|other| &table.placement[other]);
        let others: Vec<CoreId> = others.map(|place| place.core).collect();
        let mut held = others_held.clone();
        for place in table.placement.iter().flatten() {
            *held.entry(place.core).or_default() += 1;
        }
        let up = configuration.servers.iter();
        let up = up.filter(|server| server.state == ServerState::Up);
        let cores = up.flat_map(|server| {
            let in_domain = |core: &&CoreId| {
                let holder = configuration.server(core.server);
                holder.is_some_and(|holder| holder.domain == server.domain)
            };
            let beside = twins.iter().filter(in_domain).count();
            let same = same_rows.iter().filter(in_domain).count();
            let shared = others.iter().filter(in_domain).count();
            let primary = primary.iter().filter(in_domain).count();
            let held = &held;
            (0..server.cores.len()).map(move |core| {
                let core = super::core_id(server.id, core);
                let load = held.get(&core).copied().unwrap_or(0);
                let fitness: Fitness = (beside, same, shared, primary, load);
                (fitness, core)
            })
        });
        cores.min().map(|(_, core)| core)
    }

    /// Handles a core's report on its fills. A copy that cannot be made is dropped.
    pub(super) fn take_fill_reports(
        &mut self,
        core: CoreId,
        fills: Vec<FillReport>,
        output: &mut CoordinatorOutput,
    ) {
        for report in &fills {
            let table = self.state.configuration.table(report.table);
            let is_whole = table.is_some_and(|table| self.missing(table).is_none());
            if let Some(obstacle) = report.obstacles.first()
                && is_whole
            {
                let more = report.obstacles[1..].iter();
                let why = more.fold(obstacle.clone(), |why, one| format!("{why}; {one}"));
                self.give_up(report, why, output);
            }
        }
        match fills.is_empty() {
            true => self.fills.remove(&core),
            false => self.fills.insert(core, fills),
        };
    }

    fn give_up(&mut self, report: &FillReport, why: String, output: &mut CoordinatorOutput) {
        let Some(table) = self.state.configuration.table(report.table) else {
            return;
        };
        let replex = usize::from(report.replex);
        let mut changes = self.state.changes.iter();
        if !table.is_building(replex) || changes.any(|change| change.table == table.id) {
            return;
        }
        let (id, schema) = (table.id, &table.schema);
        let (name, without, wanted) = match table.layout.next_partitions() {
            Some(next) => {
                let partitions = schema.partitions;
                let wanted = RequestedChange::Resize { partitions };
                (resize_name(next), self.given_up(table), wanted)
            }
            None => {
                let name: String = schema.copy_of(&table.layout.replexes[replex].name).into();
                let without = self.without_copy(table, &name);
                (name.clone(), without, RequestedChange::Drop { name })
            }
        };
        // It is reported again with every heartbeat.
        if without.is_err() {
            return;
        }
        output.notes.push(format!(
            "{name} of table {} is given up: {why}",
            schema.name
        ));
        self.fail(CopyFailure {
            table: id,
            name,
            why,
        });
        self.change(id, wanted, output);
    }

    /// Records why a copy could not be made, for the client that requested it.
    fn fail(&mut self, failure: CopyFailure) {
        let failures = &mut self.state.failures;
        failures.push(failure);
        let excess = failures.len().saturating_sub(FAILURES_MAX);
        failures.drain(..excess);
    }

    /// Returns the progress of fills, the waiting changes, and the copies that could not be made.
    pub(super) fn progress(&self) -> Outcome {
        let mut fills: BTreeMap<_, FillReport> = BTreeMap::new();
        for report in self.fills.values().flatten() {
            let sum = fills.entry((report.table, report.replex));
            let sum = sum.or_insert_with(|| FillReport::new(report.table, report.replex));
            sum.add(report);
        }
        let changes = self.state.changes.iter();
        let waiting = changes.filter_map(|change| {
            let name = match &change.wanted {
                RequestedChange::Drop { name } | RequestedChange::Replace { name, .. } => {
                    name.clone()
                }
                RequestedChange::Renew { .. } => return None,
                RequestedChange::Add { schema } => {
                    let table = self.state.configuration.table(change.table)?;
                    table.schema.added_name(schema)
                }
                RequestedChange::Resize { partitions } => resize_name(*partitions),
                RequestedChange::Alter { .. } => ALTERATION_NAME.into(),
                RequestedChange::Truncate { .. } => TRUNCATION_NAME.into(),
                RequestedChange::Promote => {
                    let table = self.state.configuration.table(change.table)?;
                    resize_name(table.layout.next_partitions()?)
                }
            };
            Some((change.table, name))
        });
        let waiting = waiting.chain(self.unknown_definitions());
        Outcome::Now(CoordinatorReply::Progress {
            fills: fills.into_values().collect(),
            waiting: waiting.collect(),
            failures: self.state.failures.clone(),
            without_room: self.shortages(),
        })
    }
}

/// Returns the name under which the failure of a change is reported.
fn reported_name(wanted: &RequestedChange, table: &PlacedTable) -> String {
    match wanted {
        RequestedChange::Add { schema } => table.schema.added_name(schema),
        RequestedChange::Drop { name } | RequestedChange::Replace { name, .. } => name.clone(),
        RequestedChange::Renew { .. } => "what was to be refilled".into(),
        RequestedChange::Resize { partitions } => resize_name(*partitions),
        RequestedChange::Promote => "the change of partitions".into(),
        RequestedChange::Alter { .. } => ALTERATION_NAME.into(),
        RequestedChange::Truncate { .. } => TRUNCATION_NAME.into(),
    }
}

/// Checks that a copy which serves stays for each foreign key of the table (R57).
fn check_references_served(table: &PlacedTable, without: &str) -> Result<(), Refused> {
    let mut made = table.schema.clone();
    made.remove(without);
    let Some(key) = unserved(table, made) else {
        return Ok(());
    };
    Err(Refused {
        message: format!(
            "index {without} of table {} serves foreign key {key}, and the other index for it is \
             being made: try again when that one serves",
            table.schema.name
        ),
        retry: true,
    })
}

/// Returns the name of a foreign key of a schema that no copy serves. `table` has the copies of the
/// schema, some of which may be in the making.
pub(super) fn unserved(table: &PlacedTable, mut schema: Schema) -> Option<String> {
    let building = table
        .layout
        .numbers()
        .filter(|number| table.is_building(*number));
    for number in building.filter(|_| !planted::is(Bug::MadeIndexServes)) {
        schema.remove(table.schema.copy_of(&table.layout.replexes[number].name));
    }
    schema.unserved_reference().map(|key| key.name.clone())
}

/// Checks that all indexes of the requested copy are built. The copy would have to be dropped with
/// an index whose building is given up.
fn check_indexes_serve(table: &PlacedTable, wanted: &Schema) -> Result<(), Refused> {
    let copy = wanted.further.get(table.schema.further.len());
    let indexes = copy.map(FurtherCopy::indexes).unwrap_or_default();
    for index in indexes.into_iter().flatten() {
        let kind = ReplexKind::Index { index };
        let mut replexes = table.layout.replexes.iter();
        let number = replexes.position(|replex| replex.kind == kind);
        if number.is_some_and(|number| table.is_building(number)) {
            let name = &table.schema.indexes[index].name;
            return Err(Refused {
                message: format!("index {name} is being made: try again when it serves"),
                retry: true,
            });
        }
    }
    Ok(())
}

/// Checks that no copies of a table are being cut into another number of partitions.
pub(super) fn check_is_not_resized(table: &PlacedTable) -> Result<(), Refused> {
    let Some(next) = table.layout.next_partitions() else {
        return Ok(());
    };
    let (name, now) = (&table.schema.name, table.schema.partitions);
    Err(Refused::new(format!(
        "table {name} is being cut into {next} partitions: wait until that is done, or give it up \
         with ALTER TABLE {name} SET (partitions = {now})"
    )))
}

fn has(schema: &Schema, name: &str) -> bool {
    schema.indexes.iter().any(|index| index.name == name)
        || schema.further.iter().any(|copy| copy.name == name)
}
