//! Changes the definitions of tables in use, and empties tables (R50).
//!
//! Like a change of copies (`copies`), each change waits for the end of the table's earlier epochs.
//! So no operation is in progress that was judged by the earlier definition, and none of a
//! truncated table can still have an effect. The coordinator's state has the waiting change, so
//! that another coordinator can continue.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use placement::Alteration;
use protocol::codec::Wire;
use protocol::configuration::{ALTERATION_NAME, PlacedTable, TRUNCATION_NAME};
use protocol::identity::{CoreId, Epoch, TableId};
use protocol::message::CopyFailure;
use protocol::planted::{self, Bug};

use super::copies::{check_is_not_resized, unserved};
use super::sealing::removed;
use super::{CONFIGURATION_BYTES_MAX, Coordinator, CoordinatorOutput};
use super::{Outcome, Refused, RequestedChange, WaitingChange};

impl Coordinator {
    /// Changes the definition of a table. Answered at once. The change takes effect with the
    /// table's next epoch that serves.
    pub(super) fn alter_table(
        &mut self,
        name: &str,
        alterations: Vec<Alteration>,
        output: &mut CoordinatorOutput,
    ) -> Result<Outcome, Refused> {
        if !alterations.is_empty() && alterations.iter().all(Alteration::is_comment) {
            return self.comment(name, &alterations, output);
        }
        let table = self.table_to_change(name)?;
        check_is_not_resized(table)?;
        let is_tolerance = |it: &Alteration| matches!(it, Alteration::SetFailures { .. });
        if !alterations.iter().all(is_tolerance) {
            check_is_no_sequence(table)?;
        }
        let altered = self.altered(table, &alterations).map_err(Refused::new)?;
        let bytes = self.configuration_bytes() + altered.schema.to_bytes().len();
        if bytes > CONFIGURATION_BYTES_MAX {
            return Err(Refused::new(format!(
                "with this change of table {name} the configuration would take {bytes} bytes, the \
                 limit is {CONFIGURATION_BYTES_MAX}: drop tables, or give them fewer partitions"
            )));
        }
        let id = table.id;
        self.forget_failures(id, ALTERATION_NAME);
        output
            .notes
            .push(format!("the definition of table {name} will change"));
        self.change(id, RequestedChange::Alter { alterations }, output);
        Ok(self.done_now())
    }

    /// Changes comments of a table or a sequence. Nothing depends on them, so that no chain has to
    /// stop, and they change while servers of the table are down.
    fn comment(
        &mut self,
        name: &str,
        comments: &[Alteration],
        output: &mut CoordinatorOutput,
    ) -> Result<Outcome, Refused> {
        let table = self.state.configuration.table_named(name);
        let table = table.ok_or_else(|| Refused::new(format!("there is no table {name:?}")))?;
        let commented = table.altered(comments).map_err(Refused::new)?;
        let bytes = self.configuration_bytes() + commented.comments.to_bytes().len();
        if bytes > CONFIGURATION_BYTES_MAX {
            return Err(Refused::new(format!(
                "with this comment the configuration would take {bytes} bytes, the limit is \
                 {CONFIGURATION_BYTES_MAX}: drop tables, or shorten comments"
            )));
        }
        if commented != *table {
            self.state.configuration.tables.put(commented);
            self.reconfigure(output);
        }
        Ok(self.done_now())
    }

    /// Empties tables, all in one epoch. Answered at once.
    pub(super) fn truncate(
        &mut self,
        names: &[String],
        cascade: bool,
        output: &mut CoordinatorOutput,
    ) -> Result<Outcome, Refused> {
        let tables = self.tables_to_truncate(names, cascade)?;
        for (id, name) in &tables {
            self.forget_failures(*id, TRUNCATION_NAME);
            output.notes.push(format!("table {name} will be emptied"));
        }
        let all: Vec<TableId> = tables.keys().copied().collect();
        for table in &all {
            let wanted = RequestedChange::Truncate {
                tables: all.clone(),
            };
            let table = *table;
            self.state.changes.push(WaitingChange { table, wanted });
        }
        // All holders must know that the rows go, before they are gone.
        let begun = all.into_iter().map(|id| {
            let table = self.state.configuration.table(id);
            (id, table.map(removed).unwrap_or_default())
        });
        self.begin_seals(&begun.collect(), output);
        Ok(self.done_now())
    }

    /// Returns the tables that are emptied together, with their names.
    fn tables_to_truncate(
        &self,
        names: &[String],
        cascade: bool,
    ) -> Result<BTreeMap<TableId, String>, Refused> {
        let mut tables = BTreeMap::new();
        let mut open: Vec<String> = names.to_vec();
        while let Some(name) = open.pop() {
            let table = self.table_to_change(&name)?;
            check_is_not_resized(table)?;
            check_is_no_sequence(table)?;
            if !table.building.is_empty() {
                return Err(Refused {
                    message: format!("a copy of table {name} is being made: try again later"),
                    retry: true,
                });
            }
            if tables.insert(table.id, name.clone()).is_some() {
                continue;
            }
            let children = table.schema.constraints.referenced_by.iter();
            let mut children = children.filter(|child| !names.contains(child));
            if cascade {
                open.extend(children.cloned());
            } else if let Some(child) = children.find(|child| **child != name) {
                return Err(Refused::new(format!(
                    "cannot truncate table {name}, because table {child} refers to it: truncate \
                     table {child} at the same time, or use TRUNCATE ... CASCADE"
                )));
            }
        }
        Ok(tables)
    }

    /// Returns the table with an altered definition.
    ///
    /// # Errors
    /// A message for people: the definition would be invalid, another table has the new name, or a
    /// default takes values from a sequence that does not exist.
    pub(super) fn altered(
        &self,
        table: &PlacedTable,
        alterations: &[Alteration],
    ) -> Result<PlacedTable, String> {
        let altered = table.altered(alterations)?;
        let name = &altered.schema.name;
        if *name != table.schema.name && self.state.configuration.table_named(name).is_some() {
            return Err(format!(
                "there is a table {name} already: choose another name"
            ));
        }
        self.check_sequences(&altered.schema, &[])
            .map_err(|refused| refused.message)?;
        for alteration in alterations {
            match alteration {
                Alteration::AddForeignKey { key } => self.check_reference(&altered.schema, key)?,
                Alteration::SetFailures { failures } => self.check_survives(table, *failures)?,
                _ => {}
            }
        }
        if let Some(key) = unserved(table, altered.schema.clone()) {
            return Err(format!(
                "foreign key {key} of table {} needs a copy whose order begins with its columns: \
                 create an index on them USING replex, and wait until it serves",
                table.schema.name
            ));
        }
        Ok(altered)
    }

    /// Checks that the copies of a table that serve, at the servers where they are, survive so many
    /// failures.
    fn check_survives(&self, table: &PlacedTable, failures: u8) -> Result<(), String> {
        let configuration = &self.state.configuration;
        let survives = configuration.survived_by_complete_copies(table);
        match survives >= u32::from(failures) {
            true => Ok(()),
            false => Err(format!(
                "the copies of table {} survive {survives} failures, and not {failures}: add servers \
                 in other failure domains, and copies, as with CREATE INDEX … ON {} USING replica \
                 ({})",
                table.schema.name, table.schema.name, table.schema.name
            )),
        }
    }

    /// Puts a changed table into the configuration. Tables with references to it follow its name,
    /// as do its sequences. A table to which it does not refer any more forgets it, and a table to
    /// which it newly refers knows it (R57).
    pub(super) fn install(&mut self, before: &PlacedTable, changed: PlacedTable, epoch: Epoch) {
        let configuration = &mut self.state.configuration;
        if changed.id != before.id {
            assert_eq!(changed.id.0, self.state.next_table, "numbers rise");
            self.state.next_table += 1;
            configuration.tables.remove(before.id);
            self.drops.note(epoch, before.id);
            self.follow_rights(before.id, changed.id);
        }
        let configuration = &mut self.state.configuration;
        let (old, new) = (&before.schema.name, changed.schema.name.clone());
        let constraints = &before.schema.constraints;
        let referred = &changed.schema.constraints.foreign_keys;
        let parents = constraints.foreign_keys.iter().chain(referred);
        let parents = parents.map(|key| &key.parent);
        let related: BTreeSet<&String> = parents.chain(&constraints.referenced_by).collect();
        let refers = |parent: &String| referred.iter().any(|key| key.parent == *parent);
        let mut changed = changed.clone();
        let by = &mut changed.schema.constraints.referenced_by;
        note_child(by, &new, refers(&new));
        for name in related.into_iter().filter(|name| *name != old) {
            let id = configuration.table_named(name).map(|table| table.id);
            let Some(mut table) = id.and_then(|id| configuration.table(id)).cloned() else {
                continue;
            };
            table.schema.rename_referred(old, &new);
            let by = &mut table.schema.constraints.referenced_by;
            note_child(by, &new, refers(name));
            if configuration.table(table.id) != Some(&table) {
                configuration.tables.put(table);
            }
        }
        let followed = configuration.tables.iter().filter_map(|table| {
            let mut followed = PlacedTable::clone(table);
            let (before, after) = (&before.schema, &changed.schema);
            followed.schema.follow_owner(before, after);
            (followed.schema != table.schema).then_some(followed)
        });
        for sequence in followed.collect::<Vec<_>>() {
            configuration.tables.put(sequence);
        }
        configuration.tables.put(changed);
    }

    /// Returns the tables that change in one epoch with this one, and this one. They serve again
    /// together.
    pub(super) fn changed_with(&self, table: TableId) -> Vec<&Arc<PlacedTable>> {
        let mut changes = self.state.changes.iter();
        let own = changes.find(|change| change.table == table);
        let tables = &self.state.configuration.tables;
        match own.map(|change| &change.wanted) {
            Some(RequestedChange::Truncate { tables: all })
                if !planted::is(Bug::TablesTruncatedApart) =>
            {
                all.iter().filter_map(|id| tables.get(*id)).collect()
            }
            _ => tables.get(table).into_iter().collect(),
        }
    }

    /// Returns the tables with altered columns that some core which holds them does not know yet.
    /// Such a core still returns rows with the earlier columns.
    pub(super) fn unknown_definitions(&self) -> Vec<(TableId, String)> {
        let Some(known_by_all) = self.reports.values().map(|report| report.epoch).min() else {
            return Vec::new();
        };
        let is_behind = |table: &&PlacedTable| {
            let since = table.columns_since;
            let is_old = |core: CoreId| {
                let report = self.reports.get(&core);
                report.is_some_and(|report| report.epoch < since)
            };
            // A core without an earlier tenure has no such rows.
            let places = table.placement.iter().flatten();
            let mut earlier = places.filter(|place| place.since < since);
            since > known_by_all && earlier.any(|place| is_old(place.core))
        };
        let tables = self.state.configuration.tables.iter().filter(is_behind);
        tables.map(|it| (it.id, ALTERATION_NAME.into())).collect()
    }

    fn forget_failures(&mut self, table: TableId, name: &str) {
        let is_old = |it: &CopyFailure| it.table == table && it.name == name;
        self.state.failures.retain(|failure| !is_old(failure));
    }
}

/// Puts a table among those that refer to another one, or removes it from them.
pub(super) fn note_child(by: &mut Vec<String>, child: &str, refers: bool) {
    by.retain(|known| known != child);
    if refers {
        by.push(child.into());
        by.sort_unstable();
    }
}

fn check_is_no_sequence(table: &PlacedTable) -> Result<(), Refused> {
    if table.schema.sequence.is_none() {
        return Ok(());
    }
    let name = &table.schema.name;
    Err(Refused::new(format!(
        "\"{name}\" is not a table but a sequence: name a table"
    )))
}
