//! Creates and drops tables. A table is created only with a placement that provably survives
//! `failures_tolerated` failures.
//!
//! The coordinator answers both requests once every core with partitions of the table has reported
//! the new epoch, so that these cores do not reject the client's next request. It does not wait for
//! a server that is silent.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::vec::Vec;

use placement::{Layout, Schema, assign};
use protocol::codec::Wire;
use protocol::configuration::{Place, PlacedTable};
use protocol::expression::check_constraints;
use protocol::identity::{CoreId, Epoch, ServerId, TableId};
use protocol::message::CoordinatorReply;

use super::{
    CONFIGURATION_BYTES_MAX, Coordinator, CoordinatorOutput, Outcome, Refused, TABLES_MAX,
    WAITING_MAX,
};

impl Coordinator {
    pub(super) fn create_table(
        &mut self,
        schema: Schema,
        if_not_exists: bool,
        output: &mut CoordinatorOutput,
    ) -> Result<Outcome, Refused> {
        schema
            .validate()
            .map_err(|error| Refused::new(error.message))?;
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
        let id = TableId(self.state.next_table);
        let table = self.place(id, schema)?;
        output.notes.push(format!(
            "table {} is number {}, on {} servers",
            table.schema.name,
            id.0,
            servers_of(&table).len()
        ));
        let cores = cores_of(&table);
        self.state.next_table += 1;
        self.state.configuration.tables.put(table);
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
        let removed = self.state.configuration.tables.remove(id);
        let table = removed.expect("it was just found");
        self.state.changes.retain(|change| change.table != table.id);
        output.notes.push(format!("table {name} was dropped"));
        self.reconfigure(output);
        self.drops.note(self.state.configuration.epoch, table.id);
        Ok(self.done(cores_of(&table), None))
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
            sealing: None,
            schema,
            layout,
            placement: replexes
                .map(|places| places.iter().map(serve).collect())
                .collect(),
            building: Vec::new(),
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

fn cores_of(table: &PlacedTable) -> BTreeSet<CoreId> {
    let places = table.placement.iter().flatten();
    places.map(|place| place.core).collect()
}

fn servers_of(table: &PlacedTable) -> BTreeSet<ServerId> {
    let places = table.placement.iter().flatten();
    places.map(|place| place.core.server).collect()
}
