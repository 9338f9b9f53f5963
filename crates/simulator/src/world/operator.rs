//! The actions of operators on a cluster in use: they add, drop and refill copies of a table,
//! change its number of partitions, and stop and restart servers cleanly, one alone or all in turn.

use std::sync::Arc;

use placement::{
    Alteration, CheckConstraint, Column, ColumnDefault, ColumnType, Constraint, Expression,
    FurtherCopy, Index, Schema, UnaryOperator, Value, ascending,
};
use protocol::configuration::{PartitionState, PlacedTable};
use protocol::identity::{CoreId, Epoch};
use protocol::message::{CoordinatorReply, CoordinatorRequest};

use crate::disk::{SimulatedDisk, UnflushedTail};
use crate::event::{Event, PacketContent};
use crate::model::{A, COLUMNS, GROUP, ID, N, U};
use crate::network::Node;
use crate::plan::{MILLISECOND, draw_cut, thin_index};
use crate::random::Random;
use crate::world::World;
use crate::world::server::ServerPhase;

/// The most copies of a table. More copies only make every seed slower.
const COPIES_MAX: usize = 6;
/// The share of changes of copies that change the number of partitions.
const RESIZES: f64 = 0.3;
/// The share of changes of copies that change the definition of the table instead.
const ALTERATIONS: f64 = 0.15;
/// The most columns that are added to a table.
const LATE_COLUMNS_MAX: usize = 4;
/// The share of changes of copies that refill partitions, as after a comparison of copies.
const RENEWALS: f64 = 0.15;
/// The share of changes of copies that do not wait for a change of the number of partitions.
const IMPATIENT: f64 = 0.2;
/// The most partitions that a table is cut into.
const PARTITIONS_MAX: u64 = 7;
/// Mean time from a server's clean stop to its next start.
const STOPPED_US: u64 = 20 * MILLISECOND;
/// The number of clean stops of which one is used to restore an older copy of the folder.
const OLD_COPY_EVERY: u64 = 2;
/// The time after which the newest copy is restored, if the server was not admitted.
const OLD_COPY_US: u64 = 3_000 * MILLISECOND;

/// The sender of an operator's requests. Clients have other numbers.
pub const OPERATOR: Node = Node::Client(0);

impl World {
    /// Requests, for an operator, a change of a table: a copy is added, dropped or refilled, all
    /// copies get another number of partitions, or the definition changes. Or requests that another
    /// table is created which no client uses, or that such a table is emptied or dropped.
    pub fn change_copies(&mut self) {
        if self.tables.is_empty() {
            return;
        }
        let mut place = 0;
        if self.tables.len() > 1 {
            if self.random.chance(0.4) {
                return self.change_bystander();
            }
            place = self.random.below(self.tables.len() as u64) as usize;
        }
        let Some(configuration) = self.coordinator.configuration() else {
            return;
        };
        let Some(table) = configuration.table(self.tables[place].id) else {
            return;
        };
        let is_resized = table.layout.next_partitions().is_some();
        if is_resized && !self.random.chance(IMPATIENT) {
            return;
        }
        if self.random.chance(RENEWALS) {
            let request = renewal(table, &mut self.random);
            return self.ask(request);
        }
        if self.random.chance(ALTERATIONS) {
            let request = alteration(table, &mut self.random);
            return self.ask(request);
        }
        let adds = table.layout.numbers().count() < COPIES_MAX && self.random.chance(0.6);
        let resizes = self.random.chance(RESIZES);
        let request = match adds {
            _ if resizes => Some(resize(table, &mut self.random)),
            true => Some(add(table, &mut self.random)),
            false => drop(table, &mut self.random),
        };
        if let Some(request) = request {
            self.ask(request);
        }
    }

    /// Requests careless changes, sometimes, of tables that have changed in a new configuration.
    pub fn change_carelessly(&mut self, changed: &[Arc<PlacedTable>]) {
        for table in changed {
            if let Some(request) = careless(table)
                && self.random.chance(self.faults.careless)
            {
                self.ask(request);
            }
        }
    }

    /// Requests a table without rows, an empty one in its place, or its end.
    fn change_bystander(&mut self) {
        let name = format!("bystander_{}", self.bystanders / 3);
        let step = self.bystanders % 3;
        self.bystanders += 1;
        self.ask(match step {
            1 => CoordinatorRequest::Truncate {
                tables: vec![name],
                cascade: true,
            },
            2 => CoordinatorRequest::DropTable {
                name,
                if_exists: true,
            },
            _ => CoordinatorRequest::CreateTable {
                schema: Schema {
                    name,
                    ..self.plan.schema.clone()
                },
                if_not_exists: true,
                sequences: Vec::new(),
                owner: Default::default(),
            },
        });
    }

    /// Sends an operator's request to the coordinator.
    pub fn ask(&mut self, request: CoordinatorRequest) {
        self.send(
            OPERATOR,
            Node::Coordinator,
            PacketContent::Ask(0, request, 0),
        );
    }

    /// Handles the coordinator's answer to an operator.
    pub fn operator_answered(&mut self, reply: CoordinatorReply) {
        match reply {
            reply if self.tables.len() < self.plan.tables => self.created = Some(reply),
            CoordinatorReply::Done { .. } | CoordinatorReply::Refused { .. } => {}
            other => self.check(
                "coordinator",
                Err(format!("an operator was answered {other:?}")),
            ),
        }
    }

    /// Stops a server in order: the server flushes its log, sends `ask-stopped` as its last
    /// message, and starts again soon.
    pub fn stop(&mut self, place: usize) {
        let server = &mut self.servers[place];
        let (ServerPhase::Running(cores), Some(id)) = (&server.state, server.id) else {
            return;
        };
        let incarnation = cores[0].machine.identity().incarnation;
        let keeps = self.random.chance(0.5);
        for ((number, disk), core) in (0..).zip(&mut server.disks).zip(cores) {
            if keeps {
                let (tables, retain_from) = core.checkpoint();
                disk.checkpoint(tables, retain_from);
            }
            disk.flushed(disk.appended());
            if !disk.has_lost() {
                let core = CoreId {
                    server: id,
                    core: number,
                };
                self.ledger.durable(core, disk.appended());
            }
        }
        let life = server.life;
        let epoch = cores[0].machine.epoch();
        self.put_back(place, epoch);
        self.trace
            .note(self.now_us, || format!("machine {place} stops cleanly"));
        let down_us = self.random.exponential(STOPPED_US);
        self.crash(place, UnflushedTail::Kept, down_us);
        let request = CoordinatorRequest::Stopped {
            server: id,
            incarnation,
            logs: self.servers[place]
                .disks
                .iter()
                .map(SimulatedDisk::appended)
                .collect(),
        };
        let content = PacketContent::Ask(0, request, life);
        self.send(Node::Starting(place), Node::Coordinator, content);
    }

    /// Lets an operator put an older copy in the place of a server's folder, sometimes, while the
    /// others have all that they need to refill it. The data on its disks is the newest all the
    /// same: that must not matter.
    fn put_back(&mut self, place: usize, epoch: Epoch) {
        let others = self.servers.iter_mut().enumerate();
        let mut others = others.filter(|(other, _)| *other != place);
        let are_whole = others.all(|(_, server)| server.is_running() && server.is_whole());
        let server = &mut self.servers[place];
        let is_chosen = (server.disk ^ server.life).is_multiple_of(OLD_COPY_EVERY);
        if is_chosen && are_whole && self.plan.replace_after_us < u64::MAX {
            server.old = Some((epoch, self.now_us + OLD_COPY_US));
        }
    }

    /// Begins to restart all servers in order, one after the other, from the first on.
    pub fn begin_rolling(&mut self) {
        if self.rolling.is_none() {
            self.roll(0);
        }
    }

    /// Restarts a server. The next server is restarted when this one runs again.
    pub fn roll(&mut self, place: usize) {
        let goes_on = self.faults.rolling_every_us > 0 && place < self.servers.len();
        self.rolling = goes_on.then_some(place);
        if goes_on {
            self.stop(place);
        }
    }

    /// Schedules the restart of the next server, if this server was restarted as part of a rolling
    /// restart.
    pub fn roll_on(&mut self, place: usize) {
        if self.rolling == Some(place) {
            let delay_us = self.random.exponential(self.plan.lease_us / 4);
            self.after(delay_us, Event::Roll(place + 1));
        }
    }
}

/// Returns one copy more, of any kind that the table allows.
fn add(table: &PlacedTable, random: &mut Random) -> CoordinatorRequest {
    let mut schema = table.schema.clone();
    let is_free = |name: &String| {
        table
            .layout
            .replexes
            .iter()
            .all(|it| !it.name.starts_with(name))
    };
    let mut names = (0..).map(|number| format!("late_{number}"));
    let name = names.find(is_free).expect("there are names enough");
    if random.chance(0.2) {
        let mut index = thin_index(name, random);
        // A build finds rows that collide.
        if index.unique && random.chance(0.3) {
            (index.columns, index.included) = (ascending(&[A]), Vec::new());
        }
        schema.thin.push(index);
    } else if random.chance(0.65) {
        schema.indexes.push(late_index(name, random));
    } else {
        let cut = draw_cut(random, &schema.indexes, schema.partitions);
        schema.further.push(FurtherCopy { name, cut });
    }
    CoordinatorRequest::AddCopy { schema }
}

/// Returns an index whose keys no two groups share; a unique one may find rows that collide.
fn late_index(name: String, random: &mut Random) -> Index {
    let choices: [(&[usize], _); 7] = [
        (&[A], None),
        (&[GROUP, A], None),
        (&[A, N], None),
        (&[U], Some(Constraint::Unique)),
        (&[U], Some(Constraint::Unique)),
        (&[GROUP, U], Some(Constraint::Unique)),
        (&[A], Some(Constraint::Unique)),
    ];
    let (columns, constraint) = *random.pick(&choices);
    Index {
        name,
        columns: columns.to_vec(),
        constraint,
        partition_columns: None,
        by_range: constraint.is_none() && random.chance(0.4),
    }
}

/// Returns a change of a table's definition. Clients do not know the columns that it adds: they
/// write rows without them, and heads write rows with the values that the columns had when they
/// came.
fn alteration(table: &PlacedTable, random: &mut Random) -> CoordinatorRequest {
    let late = &table.schema.columns[COLUMNS..];
    let last = late.iter().rfind(|column| !column.is_dropped());
    let constraints = &table.schema.constraints;
    let check = CheckConstraint {
        name: "has_id".into(),
        condition: Expression::Unary(
            UnaryOperator::IsNotNull,
            Box::new(Expression::Column(ID as u16)),
        ),
        is_valid: true,
    };
    let alteration = match (random.below(5), last) {
        // Most numbers are refused, and few seeds promise less for long.
        _ if random.chance(0.1) => Alteration::SetFailures {
            failures: random.below(4) as u8,
        },
        (0, _) if constraints.checks.is_empty() => Alteration::AddCheck { check },
        (0, _) => Alteration::DropConstraint {
            constraint: check.name,
        },
        (1, Some(last)) => Alteration::SetDefault {
            column: last.name.clone(),
            default: Some(ColumnDefault::Constant(Value::Int64(-1))),
        },
        (2, Some(last)) => Alteration::RenameColumn {
            column: last.name.clone(),
            name: format!("{}x", last.name.trim_end_matches("xxx")),
        },
        (3, Some(last)) => Alteration::DropColumn {
            column: last.name.clone(),
        },
        (_, Some(last)) if late.len() == LATE_COLUMNS_MAX => Alteration::SetNullable {
            column: last.name.clone(),
            nullable: !last.nullable,
        },
        _ => Alteration::AddColumn {
            column: Column {
                name: format!("late_{}", late.len()),
                column_type: ColumnType::Int64,
                nullable: random.chance(0.5),
                default: None,
                missing: Some(Value::Int64(1000 + late.len() as i64)),
            },
        },
    };
    CoordinatorRequest::AlterTable {
        table: table.schema.name.clone(),
        alterations: vec![alteration],
    }
}

/// Returns a request to refill one partition of a copy, or a whole copy.
fn renewal(table: &PlacedTable, random: &mut Random) -> CoordinatorRequest {
    let numbers: Vec<usize> = table.layout.numbers().collect();
    let replex = *random.pick(&numbers);
    let mut cells: Vec<(u8, u32)> = cells_of(table, replex).collect();
    if random.chance(0.5) {
        cells = vec![*random.pick(&cells)];
    }
    CoordinatorRequest::Renew {
        table: table.schema.name.clone(),
        cells,
    }
}

/// Returns all partitions of a copy.
fn cells_of(table: &PlacedTable, replex: usize) -> impl Iterator<Item = (u8, u32)> {
    let count = u32::try_from(table.placement[replex].len()).expect("partitions are few");
    let replex = u8::try_from(replex).expect("a table has at most 63 replexes");
    (0..count).map(move |number| (replex, number))
}

/// Returns a request in the middle of a change of the number of partitions that can lose rows if it
/// is granted carelessly; none if nothing can be lost now. The copies that were there before are
/// refilled from one of the new copies, and then the new copies are given up.
fn careless(table: &PlacedTable) -> Option<CoordinatorRequest> {
    table.layout.next_partitions()?;
    let former: Vec<usize> = table.without_successors().layout.numbers().collect();
    if !former.iter().all(|replex| table.is_filled(*replex)) {
        return Some(CoordinatorRequest::SetPartitions {
            table: table.schema.name.clone(),
            partitions: table.schema.partitions,
        });
    }
    let mut successors = table.layout.numbers().filter(|it| !former.contains(it));
    let kept = successors.find(|replex| table.is_filled(*replex))?;
    let others = table.layout.numbers().filter(|replex| *replex != kept);
    let cells = others.flat_map(|replex| cells_of(table, replex));
    let serves = |(replex, number): &(u8, u32)| {
        let place = &table.placement[usize::from(*replex)][*number as usize];
        place.state == PartitionState::Serving
    };
    Some(CoordinatorRequest::Renew {
        table: table.schema.name.clone(),
        cells: cells.filter(serves).collect(),
    })
}

/// Returns another number of partitions, or, where one is on its way, seldom the present one.
fn resize(table: &PlacedTable, random: &mut Random) -> CoordinatorRequest {
    let gives_up = table.layout.next_partitions().is_some() && random.chance(0.3);
    CoordinatorRequest::SetPartitions {
        table: table.schema.name.clone(),
        partitions: match gives_up {
            true => table.schema.partitions,
            false => 1 + random.below(PARTITIONS_MAX) as u32,
        },
    }
}

/// Returns a request to drop one of the copies that can be dropped, or to replace it by another
/// one; none if there is no such copy.
fn drop(table: &PlacedTable, random: &mut Random) -> Option<CoordinatorRequest> {
    let Schema { name, .. } = &table.schema;
    let primary = table.layout.primary();
    let numbers = table.layout.numbers().filter(|it| *it != primary);
    let numbers: Vec<usize> = numbers.collect();
    if numbers.is_empty() {
        return None;
    }
    let replex = &table.layout.replexes[*random.pick(&numbers)].name;
    if random.chance(0.2) {
        let by = &table.layout.replexes[*random.pick(&numbers)].name;
        return Some(CoordinatorRequest::ReplaceCopy {
            table: name.clone(),
            name: replex.clone(),
            by: by.clone(),
        });
    }
    Some(CoordinatorRequest::DropCopy {
        table: name.clone(),
        name: table.schema.copy_of(replex).into(),
        if_exists: false,
    })
}
