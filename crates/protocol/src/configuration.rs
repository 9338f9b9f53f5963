//! The configuration: the coordinator's numbered picture of servers, tables and partitions.
//!
//! Servers and clients hold a copy and route by it; a change is a new epoch (R15). How it
//! is decided is in `coordinator`; where rows belong is `placement`'s.

mod changes;
mod copies;
pub mod losses;
pub mod partitions;
pub mod routes;
mod tables;

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use placement::{Axis, KeySpace, Layout, Replex, ReplexKind, Residue, SlotConstraints};
use placement::{Column, Constraint, Durability, Index, Schema};
use placement::{
    ColumnType, Placement, PlacementProof, TableReport, copies_at_risk, decision_position, prove,
};
use placement::{Cut, Dimension, FurtherCopy, Share};

pub use changes::ConfigurationChanges;
pub use tables::PlacedTables;

use crate::codec::{DecodeError, Reader, Wire, wire_enum, wire_struct};
use crate::identity::{CoreId, Epoch, Incarnation, PartitionId, ServerId, TableId};

/// Everything that servers and clients agree on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Configuration {
    /// Names the cluster, so that two are never mixed.
    pub cluster: u64,
    /// Rises with every change.
    pub epoch: Epoch,
    /// By id, rising.
    pub servers: Vec<Server>,
    /// By id, rising.
    pub tables: PlacedTables,
}

/// The chains of a table stand still: all of its servers but the removed ones seal the epochs
/// before and resolve what these left undecided (R4, R16, R44). Then an epoch of the table without
/// this serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealing {
    /// The first epoch of it.
    pub since: Epoch,
    /// Servers that are not waited for and will hold nothing of the table in the epoch that serves,
    /// by id, rising.
    pub removed: Vec<ServerId>,
    /// Copies that the table will not have in the epoch that serves, by number, rising. They answer
    /// no reads any more: a holder of one may receive that epoch after other servers, which may
    /// have changed rows by then.
    pub leaving: Vec<u8>,
}

impl Sealing {
    /// Returns whether a server is being removed from the table.
    pub fn removes(&self, server: ServerId) -> bool {
        self.removed.binary_search(&server).is_ok()
    }
}

/// A server that has joined and not left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its number.
    pub id: ServerId,
    /// How often it has joined.
    pub incarnation: Incarnation,
    /// Its failure domain: servers of the same domain fail together.
    pub domain: String,
    /// `address:port` of each of its cores, by core number.
    pub cores: Vec<String>,
    /// Its state in the coordinator's view.
    pub state: ServerState,
    /// It is to hold nothing any more: its partitions move to others.
    pub is_draining: bool,
    /// It came with nothing to a cluster with tables, and has not got its share of them yet.
    pub is_new: bool,
}

/// Whether a server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerState {
    /// Its lease is being renewed.
    Up,
    /// Its lease ran out; its partitions wait for it.
    Down,
}

/// A table and where its partitions are.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacedTable {
    /// Its number.
    pub id: TableId,
    /// The configuration's epoch in which the table changed last: its schema, layout, places or
    /// seal, or the incarnation, address or state of a server that one of its places names.
    /// Requests and messages that concern the table name this epoch (R15), so that changes of other
    /// tables do not disturb them. Replies name none: they belong to a request.
    pub epoch: Epoch,
    /// Set while its chains stand still.
    pub sealing: Option<Sealing>,
    /// Its columns and indexes.
    pub schema: Schema,
    /// Its key spaces and replexes.
    pub layout: Layout,
    /// For each replex, for each partition, its place.
    pub placement: Vec<Vec<Place>>,
    /// Replexes that are made while the table is in use and have not served yet, by number, rising.
    /// Chains go through them; no statement reads them.
    pub building: Vec<u8>,
}

/// Where one partition is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The core that holds it.
    pub core: CoreId,
    /// Whether it may answer reads.
    pub state: PartitionState,
    /// The epoch that gave the core the partition. Rows of it on the core's disk, from before an
    /// earlier epoch removed it, are void.
    pub since: Epoch,
    /// The other core that has to do with it, while the partition moves.
    pub moving: Option<MoveProgress>,
    /// The core that held it until its server was lost, as long as the cluster waits for that core:
    /// the rows on its disk are a hint (R25).
    pub former: Option<CoreId>,
}

/// A core that holds a partition, or did, or is going to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tenure {
    /// The core.
    pub core: CoreId,
    /// The epoch that gave it the partition, as in [`Place::since`].
    pub since: Epoch,
}

/// How far a move of a partition is (`docs/reference/protocol-repair.md`, "Moving a partition").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveProgress {
    /// The place serves; this core follows its changes, to hold the partition next.
    To(Tenure),
    /// The place is rebuilding; this core has all rows as they were when the place's epoch began.
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
    /// Returns a place that serves, and has to do with no other core.
    pub fn serving(core: CoreId, since: Epoch) -> Place {
        Place {
            core,
            state: PartitionState::Serving,
            since,
            moving: None,
            former: None,
        }
    }

    /// Returns the cores that have to do with the partition.
    pub fn tenures(self) -> impl Iterator<Item = Tenure> {
        let holder = Tenure {
            core: self.core,
            since: self.since,
        };
        let other = self.moving.map(MoveProgress::tenure);
        core::iter::once(holder).chain(other)
    }

    /// Returns the place as it is once the core that it moves to holds it.
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

    /// Returns the place as it is from `epoch` on without some servers, of which it has had another
    /// one than its own: rows from that server are void.
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

    /// Returns the place as it is once it has all of its rows.
    pub fn filled(self) -> Place {
        Place {
            state: PartitionState::Serving,
            moving: self.moving.filter(|it| matches!(it, MoveProgress::To(_))),
            former: self.former.filter(|former| *former != self.core),
            ..self
        }
    }

    /// Returns the core that gives its rows to the core that is to hold it, while the partition
    /// moves.
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

    /// Returns the core that takes the rows, while the partition moves.
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
    /// Reads and writes.
    Serving,
    /// Logs and votes, answers no read (R17).
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

    /// Returns where a partition is.
    pub fn place(&self, partition: PartitionId) -> Option<Place> {
        let table = self.table(partition.table)?;
        let replex = table.placement.get(usize::from(partition.replex))?;
        replex.get(partition.number as usize).copied()
    }

    /// Returns whether partitions stay where they are until a server is lost, added, drained or
    /// removed: all serve, none moves, and every server either is down and holds nothing or has got
    /// its share.
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

    /// Returns every place of every partition of these tables, as far as they exist.
    pub fn places_of(
        &self,
        tables: &BTreeSet<TableId>,
    ) -> impl Iterator<Item = (PartitionId, Place)> {
        let tables = tables.iter().filter_map(|id| self.table(*id));
        tables.flat_map(PlacedTable::places)
    }

    /// Returns whether a server holds partitions, or has to do with moves of some.
    pub fn holds(&self, server: ServerId) -> bool {
        let mut tenures = self.places().flat_map(|(_, place)| place.tenures());
        tenures.any(|tenure| tenure.core.server == server)
    }

    /// Returns the epoch that gave a partition to a core, or is going to; none if they have nothing
    /// to do with each other.
    pub fn tenure(&self, partition: PartitionId, core: CoreId) -> Option<Epoch> {
        let place = self.place(partition)?;
        let own = place.tenures().find(|tenure| tenure.core == core);
        own.map(|tenure| tenure.since)
    }

    /// Removes these servers as former holders: nothing is given back to them any more.
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

    /// Returns whether the chains of some table stand still.
    pub fn is_sealing(&self) -> bool {
        self.tables.unsettled().any(|table| table.sealing.is_some())
    }

    /// Returns whether a partition's copy goes with the epochs that are being ended.
    pub fn is_leaving(&self, partition: PartitionId) -> bool {
        let table = self.table(partition.table);
        let sealing = table.and_then(|table| table.sealing.as_ref());
        sealing.is_some_and(|it| it.leaving.binary_search(&partition.replex).is_ok())
    }

    /// Gives this configuration's epoch to the tables that differ from how an earlier one had them.
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
        let mut dated: BTreeSet<TableId> = differing
            .filter_map(|(now, _)| now.map(|table| table.id))
            .collect();
        if !changed.is_empty() {
            let naming = self.tables.iter();
            let naming = naming.filter(|table| changed.iter().any(|server| table.names(*server)));
            dated.extend(naming.map(|table| table.id));
        }
        for id in dated {
            let table = self.tables.get_mut(id).expect("it was just found");
            table.epoch = self.epoch;
        }
    }

    /// Returns whether a core holds one of these partitions.
    pub fn takes_part(&self, core: CoreId, partitions: &[PartitionId]) -> bool {
        let mut places = partitions.iter().filter_map(|id| self.place(*id));
        places.any(|place| place.core == core)
    }

    /// Returns the first inconsistency, if there is one. A configuration from outside passes
    /// through this check; after it no function of `placement` panics on the tables.
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
        Ok(())
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
        if table.epoch > self.epoch {
            return fault("a table is of a later epoch than its configuration");
        }
        schema.validate().map_err(|error| error.message)?;
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

    /// Returns what there is to know about a table of a configuration that was checked, where it is
    /// placed.
    pub fn report(&self, table: &PlacedTable) -> TableReport {
        let servers: Vec<placement::PartitionHost> =
            self.servers.iter().map(Server::bare).collect();
        let placed = (&table.bare_placement(), &servers[..]);
        let mut report = TableReport::new(&table.schema, &table.layout, Some(placed));
        self.survive(table, &mut report);
        report
    }

    /// Returns the proof of what a table's placement survives, for a configuration that was
    /// checked.
    pub fn proof(&self, table: &PlacedTable) -> PlacementProof {
        let servers: Vec<placement::PartitionHost> =
            self.servers.iter().map(Server::bare).collect();
        prove(&table.layout, &table.bare_placement(), &servers)
    }

    /// Returns x of R3 for a table of a configuration that was checked, where it is placed: from 1.
    /// The number of replexes means that prepares suffice. It changes only where members change, in
    /// an epoch before which all chains have ended.
    pub fn decision_position(&self, table: &PlacedTable) -> usize {
        let servers: Vec<placement::PartitionHost> =
            self.servers.iter().map(Server::bare).collect();
        let failures = usize::from(table.schema.failures_tolerated);
        let at_risk = copies_at_risk(&table.bare_placement(), &servers, failures);
        let voters = table.layout.voters(&table.schema);
        decision_position(table.layout.copies(), at_risk, voters)
    }

    /// Returns the address of a core.
    pub fn address(&self, core: CoreId) -> Option<&str> {
        let server = self.server(core.server)?;
        server.cores.get(usize::from(core.core)).map(String::as_str)
    }
}

impl Server {
    /// Returns the server as `placement` knows it.
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
        let replex = self.layout.primary();
        PartitionId {
            table: self.id,
            replex: u8::try_from(replex).expect("a table has at most 63 replexes"),
            number,
        }
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

    /// Returns whether a place has to do with a server.
    pub fn names(&self, server: ServerId) -> bool {
        let mut tenures = self.placement.iter().flatten().flat_map(|it| it.tenures());
        tenures.any(|tenure| tenure.core.server == server)
    }

    /// Returns whether a server is being removed from the table.
    pub fn removes(&self, server: ServerId) -> bool {
        let sealing = self.sealing.as_ref();
        sealing.is_some_and(|sealing| sealing.removes(server))
    }

    /// Returns whether a replex is being made, so that no statement reads it.
    pub fn is_building(&self, replex: usize) -> bool {
        let mut building = self.building.iter();
        building.any(|number| usize::from(*number) == replex)
    }

    /// Returns the numbers of the copies that may be read by, rising.
    pub fn readable(&self) -> impl Iterator<Item = usize> {
        let numbers = self.layout.numbers();
        numbers.filter(|number| !self.is_building(*number))
    }

    /// Returns the placement as `placement` knows it.
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
    tables
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
    schema,
    layout,
    placement,
    building
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

wire_struct!(Schema {
    name,
    columns,
    primary_key,
    indexes,
    further,
    partitions,
    failures_tolerated,
    local_entries,
    durability,
    primary_partition_columns,
});
wire_struct!(Column {
    name,
    column_type,
    nullable,
    default
});
wire_struct!(Index {
    name,
    columns,
    constraint,
    partition_columns,
});
wire_struct!(FurtherCopy { name, cut });
wire_enum!(Cut {
    0 => Hybrid { shares }, 1 => HybridsBetween { first, last, factors }, 2 => Replica { of },
    3 => Hyperspace { dimensions },
});
wire_struct!(Share { index, divisions });
wire_struct!(Dimension { column, divisions });
wire_enum!(Constraint { 0 => Unique, 1 => Dense });
wire_enum!(Durability { 0 => Sync, 1 => Replicated });
wire_enum!(ColumnType {
    0 => Bool, 1 => Int64, 2 => Float64, 3 => Text, 4 => Bytes, 5 => Timestamp, 6 => Uuid,
});
wire_struct!(Layout {
    key_spaces,
    replexes,
    local_entries
});
wire_struct!(KeySpace { columns, slots });
wire_struct!(Replex {
    name,
    kind,
    axes,
    sort_columns
});
wire_struct!(Axis {
    key_space,
    stride,
    divisions
});
wire_struct!(SlotConstraints { residues });
wire_struct!(Residue {
    stride,
    divisions,
    coordinate
});
wire_enum!(ReplexKind {
    0 => Primary, 1 => Index { index }, 2 => Hybrid, 3 => Exact { of }, 4 => Hyperspace, 5 => Vacant,
    6 => Successor { of },
});

/// Positions of columns, key spaces and replexes; all are small.
impl Wire for usize {
    fn encode(&self, out: &mut Vec<u8>) {
        u32::try_from(*self)
            .expect("positions in a schema are small")
            .encode(out);
    }
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(u32::decode(reader)? as usize)
    }
}
