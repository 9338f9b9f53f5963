//! The configuration: the coordinator's numbered list of servers, tables, and the core of each
//! partition.
//!
//! Servers and clients have a copy of it and route requests by it. Each change is a new epoch
//! (R15). Crate `coordinator` decides the changes, and `placement` computes which partition a row
//! belongs to.

mod alterations;
mod changes;
mod copies;
pub mod losses;
pub mod partitions;
pub mod roles;
pub mod routes;
mod schemas;
mod tables;

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use placement::{
    Layout, Placement, PlacementProof, Schema, TableComments, TableReport, decision_position,
    members_at_risk, prove,
};

pub use alterations::{ALTERATION_NAME, TRUNCATION_NAME};
pub use changes::ConfigurationChanges;
pub use roles::Roles;
pub use tables::PlacedTables;

use crate::codec::{wire_enum, wire_struct};
use crate::expression::check_constraints;
use crate::identity::{CoreId, Epoch, Incarnation, PartitionId, ServerId, TableId};

/// The configuration that servers and clients agree on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Configuration {
    /// Identifies the cluster, so that servers and clients of two clusters never mix.
    pub cluster: u64,
    /// Rises with every change.
    pub epoch: Epoch,
    /// The servers, by ascending id.
    pub servers: Vec<Server>,
    /// By id, rising.
    pub tables: PlacedTables,
    /// The roles, and what they may do.
    pub roles: Arc<Roles>,
}

/// The end of a table's earlier epochs: the chains of the table are stopped. All of its servers,
/// except the removed ones, seal the earlier epochs and resolve their undecided operations (R4,
/// R16, R44). Then the table serves in an epoch without this field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealing {
    /// The first epoch in which the table is sealed.
    pub since: Epoch,
    /// Servers that the others do not wait for, by ascending id. They hold nothing of the table in
    /// the next epoch that serves.
    pub removed: Vec<ServerId>,
    /// Copies that are dropped in the next epoch that serves, by ascending number. They answer no
    /// reads already now. A holder of such a copy may learn of that epoch later than other servers,
    /// which may have changed rows by then.
    pub leaving: Vec<u8>,
}

impl Sealing {
    /// Returns whether a server is being removed from the table.
    pub fn removes(&self, server: ServerId) -> bool {
        self.removed.binary_search(&server).is_ok()
    }
}

/// A server that has joined and has not been deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// The server's number.
    pub id: ServerId,
    /// A number that rises with each start of the server.
    pub incarnation: Incarnation,
    /// The server's failure domain. Servers of the same domain fail together.
    pub domain: String,
    /// `address:port` of each of its cores, by core number.
    pub cores: Vec<String>,
    /// The server's state, as the coordinator knows it.
    pub state: ServerState,
    /// Whether the server's partitions move to other servers, until it holds none.
    pub is_draining: bool,
    /// Whether the server joined empty when the cluster had tables, and may still receive
    /// partitions to balance the load of the cores.
    pub is_new: bool,
}

/// The state of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerState {
    /// The server's lease is being renewed.
    Up,
    /// The server's lease has ended. Its partitions wait for it.
    Down,
}

/// A table and the places of its partitions.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacedTable {
    /// The table's number.
    pub id: TableId,
    /// The epoch in which the table last changed: its schema, layout, places or seal, or the
    /// incarnation, address or state of a server that one of its places names. Requests and
    /// messages about the table carry this epoch (R15), so changes of other tables do not disturb
    /// them. Replies carry no epoch, because they belong to a request.
    pub epoch: Epoch,
    /// Set while the table's chains are stopped.
    pub sealing: Option<Sealing>,
    /// The epoch in which the table's columns last changed. A request that was planned with earlier
    /// columns is planned again (R50).
    pub columns_since: Epoch,
    /// The table's columns and indexes.
    pub schema: Schema,
    /// The table's key spaces and replexes.
    pub layout: Layout,
    /// The place of each partition of each replex.
    pub placement: Vec<Vec<Place>>,
    /// Replexes that are being added while clients use the table, by ascending number. Chains
    /// include them, but no statement reads them.
    pub building: Vec<u8>,
    /// The comments on the table and its parts.
    pub comments: TableComments,
}

/// The place of one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The core that holds the partition.
    pub core: CoreId,
    /// Whether the core may answer reads of it.
    pub state: PartitionState,
    /// The epoch since which the core has the partition. Rows on the core's disk from an earlier
    /// tenure are void.
    pub since: Epoch,
    /// The other core, while the partition moves.
    pub moving: Option<MoveProgress>,
    /// The core that held the partition before it was rebuilt. Set as long as the cluster waits for
    /// this core to return, because the rows on its disk are a hint (R25).
    pub former: Option<CoreId>,
}

/// The time for which a core holds a partition without interruption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tenure {
    /// The core.
    pub core: CoreId,
    /// The epoch in which the tenure began, as in [`Place::since`].
    pub since: Epoch,
}

/// The state of a partition's move (`docs/reference/protocol-repair.md`, "Moving a partition").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveProgress {
    /// The place serves. This other core copies its rows and changes, and will hold the partition
    /// next.
    To(Tenure),
    /// The place is rebuilding. This other core has all rows as they were when the place's epoch
    /// began.
    From(Tenure),
}

impl MoveProgress {
    /// Returns the other core.
    pub fn tenure(self) -> Tenure {
        match self {
            MoveProgress::To(tenure) | MoveProgress::From(tenure) => tenure,
        }
    }
}

impl Place {
    /// Returns a place that serves and does not move.
    pub fn serving(core: CoreId, since: Epoch) -> Place {
        Place {
            core,
            state: PartitionState::Serving,
            since,
            moving: None,
            former: None,
        }
    }

    /// Returns the cores that hold, give or receive the partition.
    pub fn tenures(self) -> impl Iterator<Item = Tenure> {
        let holder = Tenure {
            core: self.core,
            since: self.since,
        };
        let other = self.moving.map(MoveProgress::tenure);
        core::iter::once(holder).chain(other)
    }

    /// Returns the place after its move: the receiving core holds it.
    pub fn handed_over(self) -> Place {
        let Some(MoveProgress::To(next)) = self.moving else {
            return self;
        };
        Place {
            core: next.core,
            state: PartitionState::Rebuilding,
            since: next.since,
            moving: Some(MoveProgress::From(Tenure {
                core: self.core,
                since: self.since,
            })),
            former: self.former,
        }
    }

    /// Returns the place after some servers were removed in `epoch`. If one of them was the other
    /// core of the place's move, rows from that server become void.
    pub fn without(self, is_removed: impl Fn(ServerId) -> bool, epoch: Epoch) -> Place {
        let lost = self.moving.filter(|it| is_removed(it.tenure().core.server));
        let (since, moving) = match lost {
            None => (self.since, self.moving),
            Some(MoveProgress::To(_)) => (self.since, None),
            Some(MoveProgress::From(_)) => (epoch, None),
        };
        Place {
            since,
            moving,
            ..self
        }
    }

    /// Returns the place after its fill: it serves.
    pub fn filled(self) -> Place {
        Place {
            state: PartitionState::Serving,
            moving: self.moving.filter(|it| matches!(it, MoveProgress::To(_))),
            former: self.former.filter(|former| *former != self.core),
            ..self
        }
    }

    /// Returns the core that gives the rows, while the partition moves.
    pub fn giver(&self) -> Option<CoreId> {
        self.moving.map(|moving| match moving {
            MoveProgress::To(_) => self.core,
            MoveProgress::From(tenure) => tenure.core,
        })
    }

    fn fits_its_state(&self) -> bool {
        match self.moving {
            None => true,
            Some(MoveProgress::To(_)) => self.state == PartitionState::Serving,
            Some(MoveProgress::From(_)) => self.state == PartitionState::Rebuilding,
        }
    }

    /// Returns the core that receives the rows, while the partition moves.
    pub fn taker(&self) -> Option<CoreId> {
        self.moving.map(|moving| match moving {
            MoveProgress::To(tenure) => tenure.core,
            MoveProgress::From(_) => self.core,
        })
    }
}

/// The state of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartitionState {
    /// The partition answers reads and takes part in writes.
    Serving,
    /// The partition's core logs and votes, but answers no reads (R17).
    Rebuilding,
}

impl Configuration {
    /// Returns the table with this number.
    pub fn table(&self, id: TableId) -> Option<&PlacedTable> {
        self.tables.get(id).map(|table| &**table)
    }

    /// Returns the table with this name.
    pub fn table_named(&self, name: &str) -> Option<&PlacedTable> {
        self.tables.named(name).map(|table| &**table)
    }

    /// Returns the server with this number.
    pub fn server(&self, id: ServerId) -> Option<&Server> {
        let index = self
            .servers
            .binary_search_by_key(&id, |server| server.id)
            .ok()?;
        Some(&self.servers[index])
    }

    /// Returns the place of a partition.
    pub fn place(&self, partition: PartitionId) -> Option<Place> {
        let table = self.table(partition.table)?;
        let replex = table.placement.get(usize::from(partition.replex))?;
        replex.get(partition.number as usize).copied()
    }

    /// Returns whether partitions stay where they are until a server is lost, added, drained or
    /// removed. All partitions must serve, none may move, and no server that is up may be
    /// [new](Server::is_new). A server that is down must hold no partitions.
    pub fn is_at_rest(&self) -> bool {
        let is_up = |server: &Server| match server.state {
            ServerState::Up => !server.is_new,
            ServerState::Down => !self.holds(server.id),
        };
        let rests =
            |place: &Place| place.state == PartitionState::Serving && place.moving.is_none();
        let mut unsettled = self.tables.unsettled();
        self.servers.iter().all(is_up)
            && unsettled
                .all(|table| table.sealing.is_none() && table.placement.iter().flatten().all(rests))
    }

    /// Returns every place of every partition.
    pub fn places(&self) -> impl Iterator<Item = (PartitionId, Place)> {
        self.tables.iter().flat_map(PlacedTable::places)
    }

    /// Returns every place of the partitions of these tables. Tables that do not exist are skipped.
    pub fn places_of(
        &self,
        tables: &BTreeSet<TableId>,
    ) -> impl Iterator<Item = (PartitionId, Place)> {
        let tables = tables.iter().filter_map(|id| self.table(*id));
        tables.flat_map(PlacedTable::places)
    }

    /// Returns whether a server holds partitions, or gives or receives some.
    pub fn holds(&self, server: ServerId) -> bool {
        let mut tenures = self.places().flat_map(|(_, place)| place.tenures());
        tenures.any(|tenure| tenure.core.server == server)
    }

    /// Returns the epoch since which a core has a partition, or is going to have it. Returns none
    /// if the core neither holds, gives nor receives it.
    pub fn tenure(&self, partition: PartitionId, core: CoreId) -> Option<Epoch> {
        let place = self.place(partition)?;
        let own = place.tenures().find(|tenure| tenure.core == core);
        own.map(|tenure| tenure.since)
    }

    /// Removes these servers as former holders: no partition moves back to them any more.
    pub fn forget_formers(&mut self, servers: &BTreeSet<ServerId>) {
        let forgotten = |former: &mut CoreId| servers.contains(&former.server);
        let waits = |place: &Place| {
            place
                .former
                .is_some_and(|mut former| forgotten(&mut former))
        };
        let waiting = self.tables.unsettled();
        let waiting = waiting.filter(|table| table.placement.iter().flatten().any(waits));
        let waiting: Vec<TableId> = waiting.map(|table| table.id).collect();
        for id in waiting {
            let table = self.tables.get_mut(id).expect("it was just found");
            for place in table.placement.iter_mut().flatten() {
                place.former.take_if(forgotten);
            }
        }
    }

    /// Returns whether a server is being removed from some table.
    pub fn is_removed(&self, server: ServerId) -> bool {
        self.tables.unsettled().any(|table| table.removes(server))
    }

    /// Returns whether the chains of some table are stopped.
    pub fn is_sealing(&self) -> bool {
        self.tables.unsettled().any(|table| table.sealing.is_some())
    }

    /// Returns whether the partition's copy will be dropped when its table serves again.
    pub fn is_leaving(&self, partition: PartitionId) -> bool {
        let table = self.table(partition.table);
        let sealing = table.and_then(|table| table.sealing.as_ref());
        sealing.is_some_and(|it| it.leaving.binary_search(&partition.replex).is_ok())
    }

    /// Sets the epoch of each table that differs from an earlier configuration to this
    /// configuration's epoch, and the epoch of its columns if they differ. Does the same for the
    /// roles.
    pub fn date_changes(&mut self, before: &Configuration) {
        let changed: BTreeSet<ServerId> = {
            let differs = |server: &&Server| {
                let known = before.server(server.id);
                known.is_none_or(|known| {
                    (known.incarnation, &known.cores, &known.domain, known.state)
                        != (
                            server.incarnation,
                            &server.cores,
                            &server.domain,
                            server.state,
                        )
                })
            };
            let changed = self.servers.iter().filter(differs);
            changed.map(|server| server.id).collect()
        };
        let differing = self.tables.differing(&before.tables);
        let differing = differing.filter(|(now, then)| now != then);
        let (mut dated, mut altered) = (BTreeSet::new(), BTreeSet::new());
        for (now, then) in differing {
            let Some(now) = now else {
                continue;
            };
            dated.insert(now.id);
            // No request can be planned with earlier columns of a new table.
            if then.is_some_and(|then| then.schema.columns != now.schema.columns) {
                altered.insert(now.id);
            }
        }
        if !changed.is_empty() {
            let naming = self.tables.iter();
            let naming = naming.filter(|table| changed.iter().any(|server| table.names(*server)));
            dated.extend(naming.map(|table| table.id));
        }
        for id in dated {
            let table = self.tables.get_mut(id).expect("it was just found");
            table.epoch = self.epoch;
            if altered.contains(&id) {
                table.columns_since = self.epoch;
            }
        }
        if self.roles != before.roles {
            Arc::make_mut(&mut self.roles).epoch = self.epoch;
        }
    }

    /// Returns whether a core holds one of these partitions.
    pub fn takes_part(&self, core: CoreId, partitions: &[PartitionId]) -> bool {
        let mut places = partitions.iter().filter_map(|id| self.place(*id));
        places.any(|place| place.core == core)
    }

    /// Returns the first inconsistency, if there is one. Every received configuration must pass
    /// this check. After it no function of `placement` panics on the tables.
    pub fn check(&self) -> Result<(), String> {
        let fault = |what: &str| Err(String::from(what));
        if !self.servers.is_sorted_by(|a, b| a.id < b.id) {
            return fault("servers are out of order");
        }
        let cores_max = usize::from(u16::MAX);
        if self
            .servers
            .iter()
            .any(|it| it.cores.is_empty() || it.cores.len() > cores_max)
        {
            return fault("a server has no cores, or too many");
        }
        if !self.tables.is_in_order() {
            return fault("tables are out of order");
        }
        let mut names = BTreeSet::new();
        for table in self.tables.iter() {
            self.check_table(table)?;
            if !names.insert(&table.schema.name[..]) {
                return fault("two tables have one name");
            }
        }
        if self.roles.epoch > self.epoch {
            return fault("the roles are of a later epoch than their configuration");
        }
        self.roles.check(&self.tables).map_err(String::from)
    }

    /// Returns the first inconsistency of a table with itself and with the servers.
    fn check_table(&self, table: &PlacedTable) -> Result<(), String> {
        let fault = |what: &str| Err(String::from(what));
        let PlacedTable {
            schema,
            layout,
            placement,
            ..
        } = table;
        if table.epoch > self.epoch || table.columns_since > table.epoch {
            return fault("a table is of a later epoch than its configuration");
        }
        schema.validate().map_err(|error| error.message)?;
        check_constraints(schema)?;
        layout.validate(schema).map_err(|error| error.message)?;
        let counts = (0..layout.replexes.len()).map(|replex| layout.partition_count(replex));
        if !counts.eq(placement.iter().map(|places| places.len() as u32)) {
            return fault("a table has places for other partitions than it has");
        }
        let is_copy = |number: &u8| layout.numbers().any(|it| it == usize::from(*number));
        if layout
            .successors()
            .any(|(number, _)| !table.is_building(number))
        {
            return fault("a copy that is to take the place of another serves already");
        }
        if !table.building.is_sorted_by(|a, b| a < b) || !table.building.iter().all(is_copy) {
            return fault("a copy is being made that the table does not have");
        }
        let places = placement.iter().flatten();
        if places.clone().any(|place| !self.is_possible(place)) {
            return fault("a partition is on a core that does not exist, or moves to its own");
        }
        if places.clone().any(|place| !place.fits_its_state()) {
            return fault("a partition moves from where it serves, or to where it is rebuilt");
        }
        Ok(())
    }

    /// Returns whether all cores of a place exist, each once.
    fn is_possible(&self, place: &Place) -> bool {
        let exists = |tenure: Tenure| self.address(tenure.core).is_some();
        place.tenures().all(exists) && place.giver().is_none_or(|it| Some(it) != place.taker())
    }

    /// Returns a report about a table: its copies, and what they survive. The configuration must
    /// have been checked.
    pub fn report(&self, table: &PlacedTable) -> TableReport {
        let servers = self.hosts();
        let placed = (&table.bare_placement(), &servers[..]);
        let mut report = TableReport::new(&table.schema, &table.layout, Some(placed));
        self.survive(table, &mut report);
        report
    }

    /// Returns the proof of how many failures a table's placement survives. The configuration must
    /// have been checked.
    pub fn proof(&self, table: &PlacedTable) -> PlacementProof {
        let servers = self.hosts();
        prove(&table.layout, &table.bare_placement(), &servers)
    }

    /// Returns x of R3 for a table, counted from 1. If x is the number of replexes, durable
    /// prepares are enough. x changes only with the members, in an epoch before which all chains
    /// have ended. The configuration must have been checked.
    pub fn decision_position(&self, table: &PlacedTable) -> usize {
        let servers = self.hosts();
        let failures = usize::from(table.schema.failures_tolerated);
        let of = (&table.schema, &table.layout);
        let at_risk = members_at_risk(of, &table.bare_placement(), &servers, failures);
        let voters = table.layout.voters(&table.schema);
        decision_position(table.layout.chain(&table.schema).len(), at_risk, voters)
    }

    /// Returns the address of a core.
    pub fn address(&self, core: CoreId) -> Option<&str> {
        let server = self.server(core.server)?;
        server.cores.get(usize::from(core.core)).map(String::as_str)
    }
}

impl Configuration {
    /// Returns all servers as `placement` knows them.
    pub fn hosts(&self) -> Vec<placement::PartitionHost> {
        self.servers.iter().map(Server::bare).collect()
    }
}

impl Server {
    /// Returns the server as a type of crate `placement`.
    pub fn bare(&self) -> placement::PartitionHost {
        placement::PartitionHost {
            id: self.id.0,
            domain: self.domain.clone(),
            cores: u16::try_from(self.cores.len()).expect("a server has at most CORES_MAX cores"),
        }
    }
}

impl PlacedTable {
    /// Returns every place of every partition of the table.
    pub fn places(&self) -> impl Iterator<Item = (PartitionId, Place)> {
        let replexes = (0..).zip(&self.placement);
        replexes.flat_map(move |(replex, places)| {
            let places = (0..).zip(places);
            places.map(move |(number, place)| {
                let partition = PartitionId {
                    table: self.id,
                    replex,
                    number,
                };
                (partition, *place)
            })
        })
    }

    /// Returns a partition of the primary replex by its number.
    pub fn primary_partition(&self, number: u32) -> PartitionId {
        self.partition(self.layout.primary(), number)
    }

    /// Returns a partition by the number of its replex and its own.
    pub fn partition(&self, replex: usize, number: u32) -> PartitionId {
        PartitionId {
            table: self.id,
            replex: u8::try_from(replex).expect("a table has at most 63 replexes"),
            number,
        }
    }

    /// Returns whether all partitions of a replex serve.
    pub fn is_filled(&self, replex: usize) -> bool {
        let mut places = self.placement[replex].iter();
        places.all(|place| place.state == PartitionState::Serving)
    }

    /// Returns whether a partition is one of the primary replex.
    pub fn is_primary(&self, partition: PartitionId) -> bool {
        usize::from(partition.replex) == self.layout.primary()
    }

    /// Returns the cores that hold a partition.
    pub fn holders(&self) -> BTreeSet<CoreId> {
        let places = self.placement.iter().flatten();
        places.map(|place| place.core).collect()
    }

    /// Returns whether a place names a server, as its holder or as the other core of its move.
    pub fn names(&self, server: ServerId) -> bool {
        let mut tenures = self.placement.iter().flatten().flat_map(|it| it.tenures());
        tenures.any(|tenure| tenure.core.server == server)
    }

    /// Returns whether a server is being removed from the table.
    pub fn removes(&self, server: ServerId) -> bool {
        let sealing = self.sealing.as_ref();
        sealing.is_some_and(|sealing| sealing.removes(server))
    }

    /// Returns whether a replex is being added, so that no statement reads it.
    pub fn is_building(&self, replex: usize) -> bool {
        let mut building = self.building.iter();
        building.any(|number| usize::from(*number) == replex)
    }

    /// Returns the numbers of the copies that statements may read, ascending.
    pub fn readable(&self) -> impl Iterator<Item = usize> {
        let numbers = self.layout.copy_numbers();
        numbers.filter(|number| !self.is_building(*number))
    }

    /// Returns the numbers of the copies and thin indexes that statements may name, ascending. Of
    /// the copies of a thin index it is the first.
    pub fn searchable(&self) -> impl Iterator<Item = usize> {
        let numbers = self.layout.numbers();
        let names = |number: &usize| !self.layout.is_thin_copy(*number);
        numbers.filter(move |number| !self.is_building(*number) && names(number))
    }

    /// Returns the table's placement as a type of crate `placement`.
    pub fn bare_placement(&self) -> Placement {
        let bare = |place: &Place| placement::HostCore {
            server: place.core.server.0,
            core: place.core.core,
        };
        let replexes = self.placement.iter();
        Placement {
            replexes: replexes
                .map(|places| places.iter().map(bare).collect())
                .collect(),
        }
    }
}

wire_struct!(Configuration {
    cluster,
    epoch,
    servers,
    tables,
    roles
});
wire_struct!(Sealing {
    since,
    removed,
    leaving
});
wire_struct!(Server {
    id,
    incarnation,
    domain,
    cores,
    state,
    is_draining,
    is_new
});
wire_enum!(ServerState { 0 => Up, 1 => Down });
wire_struct!(PlacedTable {
    id,
    epoch,
    sealing,
    columns_since,
    schema,
    layout,
    placement,
    building,
    comments
});
wire_struct!(Place {
    core,
    state,
    since,
    moving,
    former
});
wire_struct!(Tenure { core, since });
wire_enum!(MoveProgress { 0 => To(tenure), 1 => From(tenure) });
wire_enum!(PartitionState { 0 => Serving, 1 => Rebuilding });
