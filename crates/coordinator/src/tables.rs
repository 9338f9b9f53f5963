//! Creates and drops tables. A table is created only with a placement that provably survives
//! `failures_tolerated` failures.
//!
//! The coordinator answers both requests once every core with partitions of the table has reported
//! the new epoch, so that these cores do not reject the client's next request. It does not wait for
//! a server that is silent.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use placement::{
    ColumnDefault, ColumnType, ForeignKey, Layout, REFERENCED_BY_MAX, Schema, SequenceDefault,
    TableComments, assign,
};
use protocol::codec::Wire;
use protocol::configuration::roles::RoleId;
use protocol::configuration::{Place, PlacedTable};
use protocol::expression::check_constraints;
use protocol::identity::{CoreId, Epoch, ServerId, TableId};
use protocol::message::CoordinatorReply;

use super::alterations::note_child;
use super::{
    CONFIGURATION_BYTES_MAX, Coordinator, CoordinatorOutput, Outcome, Refused, TABLES_MAX,
    WAITING_MAX,
};

impl Coordinator {
    /// Creates a table, and the sequences of its columns.
    pub(super) fn create_table(
        &mut self,
        (schema, sequences): (Schema, Vec<Schema>),
        owner: RoleId,
        if_not_exists: bool,
        output: &mut CoordinatorOutput,
    ) -> Result<Outcome, Refused> {
        for schema in sequences.iter().chain([&schema]) {
            schema
                .validate()
                .map_err(|error| Refused::new(error.message))?;
        }
        check_constraints(&schema).map_err(Refused::new)?;
        self.check_waiting()?;
        if let Some(table) = self.state.configuration.table_named(&schema.name) {
            if !if_not_exists {
                return Err(Refused::new(format!(
                    "there is a table {} already: choose another name, drop it first, or write IF \
                     NOT EXISTS",
                    schema.name
                )));
            }
            return Ok(self.done(cores_of(table), Some(table.id)));
        }
        self.check_sequences(&schema, &sequences)?;
        let parents = self.check_references(&schema)?;
        self.check_owner(owner)?;
        let name = schema.name.clone();
        let before = self.state.configuration.tables.clone();
        let roles = self.state.configuration.roles.clone();
        let first = self.state.next_table;
        let (mut cores, mut notes) = (BTreeSet::new(), Vec::new());
        for schema in sequences.into_iter().chain([schema]) {
            let id = TableId(self.state.next_table);
            let table = match self.place(id, schema) {
                Ok(table) => table,
                Err(refused) => {
                    self.state.configuration.tables = before;
                    self.state.configuration.roles = roles;
                    self.state.next_table = first;
                    return Err(refused);
                }
            };
            notes.push(format!(
                "table {} is number {}, on {} servers",
                table.schema.name,
                id.0,
                servers_of(&table).len()
            ));
            cores.extend(cores_of(&table));
            self.state.next_table += 1;
            self.state.configuration.tables.put(table);
            self.give(id, owner);
        }
        output.notes.extend(notes);
        let id = TableId(self.state.next_table - 1);
        cores.extend(self.change_parents(&parents, |by| note_child(by, &name, true)));
        self.reconfigure(output);
        Ok(self.done(cores, Some(id)))
    }

    pub(super) fn drop_table(
        &mut self,
        name: &str,
        if_exists: bool,
        output: &mut CoordinatorOutput,
    ) -> Result<Outcome, Refused> {
        self.check_waiting()?;
        let table = self.state.configuration.table_named(name);
        let Some(id) = table.map(|table| table.id) else {
            if if_exists {
                return Ok(self.done(BTreeSet::new(), None));
            }
            return Err(Refused::new(format!(
                "there is no table {name:?}: add IF EXISTS if that is fine"
            )));
        };
        let table = self.state.configuration.table(id).expect("just found");
        let mut parents = self.check_unreferenced(table)?;
        parents.remove(name);
        let dropped = self.check_unused(table)?;
        let mut cores = self.change_parents(&parents, |by| note_child(by, name, false));
        for id in &dropped {
            let removed = self.state.configuration.tables.remove(*id);
            let table = removed.expect("it was just found");
            cores.extend(cores_of(&table));
            self.state.changes.retain(|change| change.table != *id);
            self.forget_rights(*id);
            let name = &table.schema.name;
            output.notes.push(format!("table {name} was dropped"));
        }
        self.reconfigure(output);
        for id in dropped {
            self.drops.note(self.state.configuration.epoch, id);
        }
        Ok(self.done(cores, None))
    }

    /// Checks that the sequences of a new table can be created, and that the sequences of its
    /// defaults exist.
    pub(super) fn check_sequences(
        &self,
        schema: &Schema,
        sequences: &[Schema],
    ) -> Result<(), Refused> {
        let configuration = &self.state.configuration;
        for (position, sequence) in sequences.iter().enumerate() {
            let name = &sequence.name;
            let mut others = sequences[..position].iter().chain([schema]);
            let is_taken = configuration.table_named(name).is_some();
            if is_taken || others.any(|other| other.name == *name) {
                return Err(Refused::new(format!(
                    "relation \"{name}\" already exists: choose another name"
                )));
            }
            if sequence.sequence.is_none() {
                return Err(Refused::new(format!(
                    "{name} is no sequence: create it with a request of its own"
                )));
            }
        }
        if let Some(owner) = schema.sequence.as_ref().and_then(|it| it.owner.as_ref()) {
            let table = configuration.table_named(&owner.table);
            let column = table.and_then(|table| table.schema.column_index(&owner.column));
            if column.is_none() {
                return Err(Refused::new(format!(
                    "table {} has no column {}, so no sequence can belong to it",
                    owner.table, owner.column
                )));
            }
        }
        for default in sequence_defaults(schema) {
            let new = sequences.iter().find(|it| it.name == default.sequence);
            let known = configuration.table_named(&default.sequence);
            let found = new.or(known.map(|known| &known.schema));
            if found.is_none_or(|found| found.sequence.is_none()) {
                return Err(Refused::new(format!(
                    "there is no sequence {:?}: create it first",
                    default.sequence
                )));
            }
        }
        Ok(())
    }

    /// Checks that no other table takes defaults from the sequences that are dropped with a table,
    /// or from the table if it is a sequence. Returns all that are dropped.
    fn check_unused(&self, table: &PlacedTable) -> Result<Vec<TableId>, Refused> {
        let name = &table.schema.name;
        let tables = &self.state.configuration.tables;
        let belongs = |other: &&PlacedTable| {
            let sequence = other.schema.sequence.as_ref();
            let owner = sequence.and_then(|sequence| sequence.owner.as_ref());
            owner.is_some_and(|owner| owner.table == *name)
        };
        let dropped: Vec<&PlacedTable> = core::iter::once(table)
            .chain(tables.iter().filter(belongs))
            .collect();
        let is_dropped = |sequence: &String| dropped.iter().any(|it| it.schema.name == *sequence);
        for other in tables.iter().filter(|other| other.id != table.id) {
            let mut defaults = sequence_defaults(&other.schema);
            if let Some(default) = defaults.find(|default| is_dropped(&default.sequence)) {
                let sequence = &default.sequence;
                return Err(Refused::new(format!(
                    "cannot drop {name} because other objects depend on it: a default of table {} \
                     depends on sequence {sequence}. Drop table {} first",
                    other.schema.name, other.schema.name
                )));
            }
        }
        Ok(dropped.into_iter().map(|table| table.id).collect())
    }

    /// Checks the foreign keys of a new table. Returns the names of the tables to which they refer.
    ///
    /// The new table and the names in the schemas of its parents come with one configuration: a
    /// core that knows the new table has the later epoch of the parents (R57).
    fn check_references(&self, schema: &Schema) -> Result<BTreeSet<String>, Refused> {
        let constraints = &schema.constraints;
        if !constraints.referenced_by.is_empty() {
            let table = &schema.name;
            return Err(Refused::new(format!(
                "no table refers to table {table} before it exists: leave that out"
            )));
        }
        let mut parents = BTreeSet::new();
        for key in &constraints.foreign_keys {
            if key.parent != schema.name {
                self.table_to_change(&key.parent)?;
            }
            self.check_reference(schema, key).map_err(Refused::new)?;
            parents.insert(key.parent.clone());
        }
        Ok(parents)
    }

    /// Checks that a table may refer to the table of a foreign key.
    ///
    /// # Errors
    /// A message for people.
    pub(super) fn check_reference(&self, schema: &Schema, key: &ForeignKey) -> Result<(), String> {
        let parent = match key.parent == schema.name {
            true => schema,
            false => {
                let parent = self.state.configuration.table_named(&key.parent);
                let parent = parent.ok_or_else(|| format!("there is no table {}", key.parent))?;
                &parent.schema
            }
        };
        let types = |schema: &Schema, columns: &[usize]| -> Vec<ColumnType> {
            let columns = columns.iter().filter_map(|it| schema.columns.get(*it));
            columns.map(|column| column.column_type).collect()
        };
        let own = types(schema, &key.columns);
        let others = types(parent, &parent.primary_key);
        let mut pairs = own.iter().zip(&others);
        if own.len() != others.len() || !pairs.all(|(own, other)| own.shares_keys(*other)) {
            return Err(format!(
                "the columns of foreign key {} have other types than the primary key of table {}: \
                 both have to be the same",
                key.name, key.parent
            ));
        }
        let by = &parent.constraints.referenced_by;
        if by.len() >= REFERENCED_BY_MAX && !by.contains(&schema.name) {
            return Err(format!(
                "{REFERENCED_BY_MAX} tables refer to table {}, which is the limit",
                key.parent
            ));
        }
        Ok(())
    }

    /// Checks that no other table refers to a table that is dropped. Returns the names of the
    /// tables to which it refers.
    fn check_unreferenced(&self, table: &PlacedTable) -> Result<BTreeSet<String>, Refused> {
        let name = &table.schema.name;
        let constraints = &table.schema.constraints;
        let mut children = constraints.referenced_by.iter();
        if let Some(child) = children.find(|child| *child != name) {
            let child_table = self.state.configuration.table_named(child);
            let keys = child_table.map(|child| &child.schema.constraints.foreign_keys);
            let key = keys.and_then(|keys| keys.iter().find(|key| key.parent == *name));
            let key = key.map_or("", |key| &key.name);
            return Err(Refused::new(format!(
                "cannot drop table {name} because other objects depend on it: constraint {key} on \
                 table {child} depends on table {name}. Drop table {child} first"
            )));
        }
        let keys = constraints.foreign_keys.iter();
        let parents: BTreeSet<String> = keys.map(|key| key.parent.clone()).collect();
        for parent in parents.iter().filter(|parent| *parent != name) {
            self.table_to_change(parent)?;
        }
        Ok(parents)
    }

    /// Changes the tables that refer to these tables. Returns the cores that hold them.
    fn change_parents(
        &mut self,
        parents: &BTreeSet<String>,
        change: impl Fn(&mut Vec<String>),
    ) -> BTreeSet<CoreId> {
        let mut cores = BTreeSet::new();
        for parent in parents {
            let configuration = &mut self.state.configuration;
            let id = configuration.table_named(parent).map(|parent| parent.id);
            let parent = id.and_then(|id| configuration.tables.get_mut(id));
            let parent = parent.expect("it was checked before");
            change(&mut parent.schema.constraints.referenced_by);
            cores.extend(cores_of(parent));
        }
        cores
    }

    /// Returns the table with its layout and a proven placement on the servers that are up.
    fn place(&self, id: TableId, schema: Schema) -> Result<PlacedTable, Refused> {
        let configuration = &self.state.configuration;
        if configuration.tables.len() >= TABLES_MAX {
            return Err(Refused::new(format!(
                "the cluster has {TABLES_MAX} tables, which is the limit: drop one first"
            )));
        }
        let held = self.loads();
        let layout = Layout::base(&schema);
        let failures = usize::from(schema.failures_tolerated);
        let assign_to =
            |servers: &[placement::PartitionHost]| assign(&layout, failures, servers, &held);
        let assigned = assign_to(&self.takers(&self.without_room()))
            .or_else(|_| assign_to(&self.takers(&BTreeSet::new())));
        let (placement, proof) = assigned.map_err(|error| Refused::new(format!("{error}")))?;
        assert!(
            proof.failures_tolerated() as usize >= failures,
            "a placement is proven before it is used"
        );
        let serve = |place: &placement::HostCore| {
            Place::serving(CoreId::from(*place), Epoch(configuration.epoch.0 + 1))
        };
        let replexes = placement.replexes.iter();
        let table = PlacedTable {
            id,
            epoch: Epoch(configuration.epoch.0 + 1),
            columns_since: Epoch(0),
            sealing: None,
            schema,
            layout,
            placement: replexes
                .map(|places| places.iter().map(serve).collect())
                .collect(),
            building: Vec::new(),
            comments: TableComments::default(),
        };
        let bytes = self.configuration_bytes() + table.to_bytes().len();
        if bytes > CONFIGURATION_BYTES_MAX {
            return Err(Refused::new(format!(
                "with table {} the configuration would take {bytes} bytes, the limit is \
                 {CONFIGURATION_BYTES_MAX}: drop tables, or give them fewer partitions",
                table.schema.name
            )));
        }
        Ok(table)
    }

    fn check_waiting(&self) -> Result<(), Refused> {
        if self.waiting.len() >= WAITING_MAX {
            return Err(Refused {
                message: format!("{WAITING_MAX} changes of tables wait for servers: try again"),
                retry: true,
            });
        }
        Ok(())
    }

    fn done(&self, cores: BTreeSet<CoreId>, table: Option<TableId>) -> Outcome {
        let epoch = self.state.configuration.epoch;
        Outcome::WhenKnown(cores, CoordinatorReply::Done { epoch, table })
    }
}

/// Returns the defaults of a table's columns that come from sequences.
fn sequence_defaults(schema: &Schema) -> impl Iterator<Item = &SequenceDefault> {
    schema
        .columns
        .iter()
        .filter_map(|column| match &column.default {
            Some(ColumnDefault::Sequence(default)) => Some(default),
            _ => None,
        })
}

fn cores_of(table: &PlacedTable) -> BTreeSet<CoreId> {
    let places = table.placement.iter().flatten();
    places.map(|place| place.core).collect()
}

fn servers_of(table: &PlacedTable) -> BTreeSet<ServerId> {
    let places = table.placement.iter().flatten();
    places.map(|place| place.core.server).collect()
}
