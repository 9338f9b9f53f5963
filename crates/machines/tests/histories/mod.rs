//! Random histories with partitions that are being filled, against a model.
//!
//! Rows are few and servers are lost often, so that what is filled is written to meanwhile. Clients
//! send the same request again until they have an answer: so the model knows every row, and notices
//! a request that took effect twice. At the end all replexes hold what the model holds. Messages
//! are lost, doubled and reordered; servers crash and come back with what they had flushed.

mod copies;
mod pages;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use machines::core::CoreLimits;
use placement::tables::Tables;
use placement::{
    Column, ColumnType, Constraint, Cut, Dimension, Durability, FurtherCopy, Index, RowView,
    Schema, Share, TableConstraints, ThinIndex, Value, encode_key, encode_row,
};
use protocol::codec::Bytes;
use protocol::configuration::{MoveProgress, PartitionState};
use protocol::expression::{Assignment, BinaryOperator, Expression};
use protocol::identity::{PartitionId, RequestId, ServerId, SessionId, TableId};
use protocol::message::{Execute, Read, Refusal, Reply, Request};
use protocol::operation::{Action, Mutation, RequestResult};

use crate::cluster::Cluster;

const SERVERS: u32 = 9;
const ROWS: i64 = 12;
const TAILS: u64 = 16;
/// The columns of the table after `id`.
const TAIL: usize = 1;
const NUMBER: usize = 2;
/// The hyperspace from which a thin index is filled.
const SPACE: &str = "space";
/// The client's name.
const CLIENT: u64 = 1;
const READER: u64 = 2;

/// A row's tail and number.
type Row = (String, i64);

/// A row's tail and number, as far as a replex has them.
type StoredRow = (Option<String>, Option<i64>);

/// Chance from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % bound
    }

    fn one_in(&mut self, bound: u64) -> bool {
        self.below(bound) == 0
    }
}

/// The change that a request makes to its row.
#[derive(Clone, Debug)]
enum Change {
    Insert(String, i64),
    Retail(String),
    Add,
    Delete,
}

struct History {
    random: Random,
    cluster: Cluster,
    model: BTreeMap<i64, Row>,
    /// Requests without an answer, by row: number and change.
    open: BTreeMap<i64, (u64, Change)>,
    requests: u64,
    /// Requests whose results chains have.
    answered: BTreeMap<u64, (i64, Change, RequestResult)>,
    /// Requests that the end of an epoch may have refused: heads alone know that.
    resolved: BTreeSet<u64>,
    /// A server that has crashed and will come back.
    offline: Option<u32>,
    late: copies::Late,
}

/// Success, or the fault that was found, for a person.
type Finding = Result<(), String>;

fn schema(random: &mut Random) -> Schema {
    let column = |name: &str, column_type| Column {
        name: name.into(),
        column_type,
        nullable: false,
        default: None,
        missing: None,
    };
    let index = |name: &str, column, constraint| Index {
        name: name.into(),
        columns: vec![column],
        constraint,
        partition_columns: None,
        by_range: false,
    };
    let constraint = [None, Some(Constraint::Dense)][random.below(2) as usize];
    let mut schema = Schema {
        name: "t".into(),
        columns: vec![
            column("id", ColumnType::Int64),
            column("tail", ColumnType::Text),
            column("number", ColumnType::Int64),
        ],
        primary_key: vec![0],
        indexes: vec![
            index("by_tail", 1, Some(Constraint::Unique)),
            index("by_number", 2, constraint),
        ],
        further: Vec::new(),
        thin: Vec::new(),
        partitions: [1, 2, 4][random.below(3) as usize],
        failures_tolerated: 2,
        failures_wanted: 0,
        local_entries: !random.one_in(4),
        durability: [Durability::Sync, Durability::Replicated][random.below(2) as usize],
        primary_partition_columns: None,
        sequence: None,
        constraints: TableConstraints::default(),
    };
    if random.one_in(3) {
        let of = [None, Some(0)][random.below(2) as usize];
        schema.further.push(FurtherCopy {
            name: "copy".into(),
            cut: Cut::Replica { of },
        });
    }
    if schema.partitions == 4 && random.one_in(2) {
        let share = |index| Share {
            index,
            divisions: 2,
        };
        schema.further.push(FurtherCopy {
            name: "hybrid".into(),
            cut: Cut::Hybrid {
                shares: vec![share(None), share(Some(0))],
            },
        });
    }
    if schema.partitions == 4 && random.one_in(2) {
        let column = [TAIL, NUMBER][random.below(2) as usize];
        let unique = column == TAIL && random.one_in(3);
        push_thin(&mut schema, column, unique);
    }
    schema
}

/// Adds a thin index over a column, and a hyperspace that covers its partitions: a row changes its
/// place there though its entry stays the same. No index has just the column of the thin one, for
/// it would be the cover.
fn push_thin(schema: &mut Schema, column: usize, unique: bool) {
    let other = if column == TAIL { NUMBER } else { TAIL };
    let dimension = |column, divisions| Dimension { column, divisions };
    schema.further.push(FurtherCopy {
        name: SPACE.into(),
        cut: Cut::Hyperspace {
            dimensions: vec![dimension(column, schema.partitions), dimension(other, 2)],
        },
    });
    let index = &mut schema.indexes[column - 1];
    index.columns = vec![column, other];
    index.constraint = None;
    schema.thin.push(ThinIndex {
        name: "thin".into(),
        columns: placement::ascending(&[column]),
        included: Vec::new(),
        by_range: false,
        unique,
        copies: 1,
    });
}

impl History {
    fn new(seed: u64) -> History {
        let mut random = Random(seed);
        let schema = schema(&mut random);
        let limits = CoreLimits {
            fill_page_keys_max: 1 + random.below(4) as usize,
            entry_page_max: 1 + random.below(4) as usize,
            page_keys_max: 1 + random.below(6) as usize,
            fetched_rows_max: 1 + random.below(3) as usize,
            ..CoreLimits::default()
        };
        History::of(random, schema, limits)
    }

    fn of(random: Random, schema: Schema, limits: CoreLimits) -> History {
        let cluster = Cluster::new(schema, SERVERS, limits).expect("a cluster");
        History {
            random,
            cluster,
            model: BTreeMap::new(),
            open: BTreeMap::new(),
            requests: 0,
            answered: BTreeMap::new(),
            resolved: BTreeSet::new(),
            offline: None,
            late: copies::Late::default(),
        }
    }

    fn run(&mut self) -> Finding {
        for _ in 0..40 {
            self.write()?;
            self.settle_down()?;
        }
        for round in 0..4 {
            match self.random.below(2) {
                0 => self.lose_server()?,
                _ => self.change_copies()?,
            }
            for _ in 0..300 {
                self.step()?;
            }
            // Two of three copies may be lost at a time, and then be filled at a time.
            if round % 2 == 0 && self.random.one_in(2) {
                continue;
            }
            self.settle_down()?;
            self.fill_all()?;
            self.cluster.make_entries()?;
            self.check()?;
        }
        Ok(())
    }

    fn step(&mut self) -> Finding {
        match self.random.below(40) {
            0..5 => self.write()?,
            5 => self.ask_again()?,
            6 => {
                let ms = 20 + self.random.below(200);
                self.cluster.pass(ms)?;
            }
            7 if self.random.one_in(4) => self.crash_or_rejoin()?,
            8 if self.random.one_in(4) => drop(self.cluster.serve()?),
            9 => self.read()?,
            10 => self.repeat()?,
            11 if self.random.one_in(8) => self.begin_move()?,
            12 if self.random.one_in(8) => self.hand_over()?,
            _ => self.deliver()?,
        }
        self.take_replies()
    }

    fn deliver(&mut self) -> Finding {
        let count = self.cluster.network.len() as u64;
        if count == 0 {
            return Ok(());
        }
        let index = self.random.below(count.min(6)) as usize;
        match self.random.below(20) {
            0 => drop(self.cluster.network.remove(index)),
            1 => self.cluster.duplicate(index),
            _ => self.cluster.deliver(index)?,
        }
        Ok(())
    }

    fn crash_or_rejoin(&mut self) -> Finding {
        if let Some(id) = self.offline.take() {
            return self.cluster.rejoin(id);
        }
        let id = 1 + self.random.below(u64::from(SERVERS)) as u32;
        if self.cluster.nodes[&id].machine.is_some() {
            if self.random.one_in(2) {
                self.cluster.checkpoint(id)?;
            }
            let keeps_all = self.random.one_in(2);
            self.cluster.crash(id, keeps_all)?;
            self.offline = Some(id);
        }
        Ok(())
    }

    /// A server is gone for good, and a spare one holds what it held. It comes back with nothing,
    /// as the next spare.
    fn lose_server(&mut self) -> Finding {
        let rests = self.random.one_in(2);
        if rests {
            self.settle_down()?;
        } else {
            self.come_back()?;
        }
        let spares = self.cluster.spares();
        let held: Vec<u32> = (1..=SERVERS).filter(|id| !spares.contains(id)).collect();
        let lost = held[self.random.below(held.len() as u64) as usize];
        let by = spares[0];
        let mut places = Vec::new();
        let replexes = self.cluster.configuration.tables[0].placement.iter();
        for (replex, numbers) in replexes.enumerate() {
            let here = numbers.iter().enumerate();
            let here = here.filter(|(_, place)| place.core.server.0 == lost);
            places.extend(here.map(|(number, _)| (replex, number)));
        }
        self.cluster.crash(lost, true)?;
        if !rests {
            self.end_epoch(vec![lost])?;
        }
        self.cluster.replace(&places, by)?;
        self.cluster.wipe(lost);
        self.offline = Some(lost);
        Ok(())
    }

    /// A partition moves to a server that holds nothing, or nothing but partitions that moved
    /// there.
    fn begin_move(&mut self) -> Finding {
        let places: Vec<_> = self.cluster.configuration.places().collect();
        let moving = places.iter().find_map(|(id, place)| {
            let next = place.moving?.tenure().core.server.0;
            Some((usize::from(id.replex), next))
        });
        let spares = self.cluster.spares();
        let to = match moving {
            Some((_, next)) => next,
            // One has to stay for the next server that is lost.
            None if spares.len() > 1 => spares[spares.len() - 1],
            None => return Ok(()),
        };
        let stays = places.iter().filter(|(id, place)| {
            let of_replex = moving.is_none_or(|(replex, _)| replex == usize::from(id.replex));
            of_replex
                && place.moving.is_none()
                && place.state == PartitionState::Serving
                && place.core.server.0 != to
        });
        let stays: Vec<_> = stays.collect();
        if stays.is_empty() || self.offline.is_some() {
            return Ok(());
        }
        let (id, _) = stays[self.random.below(stays.len() as u64) as usize];
        let cell = (usize::from(id.replex), id.number as usize);
        self.cluster.begin_move(&[cell], to)
    }

    /// Returns whether some partition moves so.
    fn moves(&self, so: impl Fn(MoveProgress) -> bool) -> bool {
        let mut places = self.cluster.configuration.places();
        places.any(|(_, place)| place.moving.is_some_and(&so))
    }

    /// Hands moving partitions over to the next holder, if that lacks no more than the last
    /// changes.
    fn hand_over(&mut self) -> Finding {
        let moves = self.moves(|moving| matches!(moving, MoveProgress::To(_)));
        if self.offline.is_some() || !moves || !self.cluster.is_level() {
            return Ok(());
        }
        self.end_epoch(vec![])?;
        self.cluster.hand_over()
    }

    /// Reads some partition.
    fn read(&mut self) -> Finding {
        let places = &self.cluster.configuration.tables[0].placement;
        let numbers: Vec<usize> = self.cluster.layout().numbers().collect();
        let replex = numbers[self.random.below(numbers.len() as u64) as usize];
        let number = self.random.below(places[replex].len() as u64) as usize;
        let server = places[replex][number].core.server.0;
        let request = Request::Read(Read {
            limit: 100,
            ..Read::of(
                self.cluster.configuration.tables[0].epoch,
                PartitionId {
                    table: TableId(1),
                    replex: replex as u8,
                    number: number as u32,
                },
            )
        });
        if places[replex][number].state == PartitionState::Rebuilding {
            self.cluster.ask(server, READER, 0, request)?;
        }
        Ok(())
    }

    /// Everybody runs and has caught up, and then something is under way.
    fn come_back(&mut self) -> Finding {
        if let Some(id) = self.offline.take() {
            self.cluster.rejoin(id)?;
        }
        self.cluster.run()?;
        for _ in 0..8 {
            self.write()?;
        }
        for _ in 0..self.random.below(20) {
            self.deliver()?;
        }
        self.take_replies()
    }

    /// The epochs before are ended without some servers.
    fn end_epoch(&mut self, without: Vec<u32>) -> Finding {
        let open = self.open.values();
        self.resolved.extend(open.map(|(number, _)| *number));
        self.cluster.seal(without, None)?;
        for _ in 0..20 {
            self.cluster.run()?;
            self.cluster.pass(150)?;
            if self.cluster.is_resolved() {
                return self.take_replies();
            }
        }
        Err("an epoch does not end".into())
    }

    /// Begins a request on a row that has none under way.
    fn write(&mut self) -> Finding {
        let id = self.random.below(ROWS as u64) as i64;
        if self.open.contains_key(&id) {
            return Ok(());
        }
        let tail = format!("T{}", self.random.below(TAILS));
        let change = match self.random.below(6) {
            0 | 1 => Change::Insert(tail, self.first_number()),
            2 => Change::Retail(tail),
            3 | 4 if !self.is_dense() => Change::Add,
            _ => Change::Delete,
        };
        self.begin(id, change)
    }

    fn begin(&mut self, id: i64, change: Change) -> Finding {
        self.requests += 1;
        self.open.insert(id, (self.requests, change));
        self.send(id)
    }

    fn is_dense(&self) -> bool {
        self.cluster.schema().indexes[1].constraint.is_some()
    }

    /// Returns a number that a dense index may take next, or not.
    fn first_number(&mut self) -> i64 {
        if self.is_dense() {
            self.model.len() as i64 + self.random.below(2) as i64
        } else {
            0
        }
    }

    fn ask_again(&mut self) -> Finding {
        for id in self.open.keys().copied().collect::<Vec<_>>() {
            self.send(id)?;
        }
        Ok(())
    }

    fn send(&mut self, id: i64) -> Finding {
        let (number, change) = self.open[&id].clone();
        self.request(id, number, &change)
    }

    /// Asks once more for something that was answered long ago.
    fn repeat(&mut self) -> Finding {
        let number = 1 + self.random.below(self.requests);
        match self.answered.get(&number).cloned() {
            Some((id, change, _)) => self.request(id, number, &change),
            None => Ok(()),
        }
    }

    fn request(&mut self, id: i64, number: u64, change: &Change) -> Finding {
        let key = Value::Int64(id);
        let cell = self
            .cluster
            .layout()
            .partition_of_values(0, |_| key.as_ref());
        let place = self.cluster.configuration.tables[0].placement[0][cell as usize];
        let pk = Bytes(encode_key([key.as_ref()]));
        let action = action(self.cluster.schema(), id, change);
        let request = Request::Execute(Execute {
            request: RequestId {
                session: SessionId(1),
                number,
            },
            acknowledged_below: 1,
            epoch: self.cluster.configuration.tables[0].epoch,
            table: TableId(1),
            partition: PartitionId {
                table: TableId(1),
                replex: 0,
                number: cell,
            },
            mutations: vec![Mutation { pk, action }],
        });
        self.cluster
            .ask(place.core.server.0, CLIENT, number, request)
    }

    /// Takes the replies, and checks that they are so in the model.
    fn take_replies(&mut self) -> Finding {
        self.cluster.events.clear();
        for (client, number, reply) in std::mem::take(&mut self.cluster.replies) {
            if client == READER && matches!(reply, Reply::Rows(_)) {
                return Err("a place that is rebuilding returned rows".into());
            }
            if let (Some((_, _, first)), Reply::Executed(result)) =
                (self.answered.get(&number), &reply)
                && first != result
            {
                return Err(format!(
                    "request {number} had {first:?}, and now {result:?}"
                ));
            }
            let open = self.open.iter().find(|(_, (asked, _))| *asked == number);
            let Some((&id, (_, change))) = open else {
                continue;
            };
            let result = match reply {
                Reply::Executed(result) => result,
                Reply::Refused(Refusal::Invalid { message }) => return Err(message),
                _ => continue,
            };
            let change = change.clone();
            self.open.remove(&id);
            let is_resolved = self.resolved.contains(&number) && !took_effect(&result);
            if is_of_chain(&result) && !is_resolved {
                self.answered
                    .insert(number, (id, change.clone(), result.clone()));
            }
            self.apply(id, change, &result).map_err(|what| {
                format!("request {number} on {id} ended with {result:?}: {what}")
            })?;
        }
        Ok(())
    }

    fn apply(&mut self, id: i64, change: Change, result: &RequestResult) -> Finding {
        let row = self.model.get(&id).cloned();
        match (result, row, change) {
            (RequestResult::Conflict, _, _) => {}
            (RequestResult::Applied { .. }, None, Change::Insert(tail, number)) => {
                self.model.insert(id, (tail, number));
            }
            (RequestResult::Applied { .. }, Some((_, number)), Change::Retail(tail)) => {
                self.model.insert(id, (tail, number));
            }
            (RequestResult::Applied { .. }, Some((tail, number)), Change::Add) => {
                self.model.insert(id, (tail, number + 1));
            }
            (RequestResult::Applied { .. }, Some(_), Change::Delete) => {
                self.model.remove(&id);
            }
            (RequestResult::NotFound, None, Change::Retail(_) | Change::Add | Change::Delete)
            | (RequestResult::Duplicate { replex: 0, .. }, Some(_), Change::Insert(..))
            | (RequestResult::Duplicate { replex: 1, .. }, None, Change::Insert(..))
            | (RequestResult::Duplicate { replex: 1, .. }, Some(_), Change::Retail(_))
            | (RequestResult::NotDense { .. }, None, Change::Insert(..))
            | (RequestResult::NotDense { .. }, Some(_), Change::Delete) => {}
            (RequestResult::Duplicate { replex, .. }, _, _)
                if Some(*replex) == self.late.number => {}
            (RequestResult::Duplicate { replex, .. }, None, Change::Insert(..))
            | (RequestResult::Duplicate { replex, .. }, Some(_), Change::Retail(_))
                if self.cluster.layout().is_thin(usize::from(*replex)) => {}
            (_, row, change) => return Err(format!("{change:?} of {row:?}")),
        }
        Ok(())
    }

    /// Everybody is back, and everything that was begun has ended.
    fn settle_down(&mut self) -> Finding {
        if let Some(id) = self.offline.take() {
            self.cluster.rejoin(id)?;
        }
        for _ in 0..100 {
            self.cluster.run()?;
            self.take_replies()?;
            if self.open.is_empty() {
                self.cluster.rest()?;
                return self.take_replies();
            }
            self.cluster.pass(150)?;
            // A lost partition may be filled only from a partition that was just handed over.
            if self.moves(|moving| matches!(moving, MoveProgress::From(_))) {
                self.cluster.serve()?;
            }
            self.ask_again()?;
        }
        let places = self.cluster.configuration.places();
        let open: Vec<_> = places
            .filter(|(_, it)| it.state == PartitionState::Rebuilding || it.moving.is_some())
            .collect();
        Err(format!("no answer to {:?}, with {open:?}", self.open))
    }

    fn fill_all(&mut self) -> Finding {
        for _ in 0..100 {
            let places = self.cluster.configuration.tables[0].placement.iter();
            let mut places = places.flatten();
            if places.all(|it| it.state == PartitionState::Serving && it.moving.is_none()) {
                return self.settle_down();
            }
            self.cluster.pass(150)?;
            self.cluster.run()?;
            self.give_up()?;
            self.cluster.serve()?;
            self.hand_over()?;
        }
        Err("a place is rebuilding for ever".into())
    }

    /// No server has rows of partitions that it does not hold.
    fn check_left_behind(&self) -> Finding {
        for id in 1..=SERVERS {
            let server = ServerId(id);
            let places = self.cluster.configuration.places();
            let own = places.filter(|(_, place)| place.core.server == server);
            let own: Vec<u64> = own.map(|(id, _)| id.rows_table()).collect();
            let table = self.cluster.tables(id).table_from(0);
            let mut table = table.expect("memory is read");
            while let Some(number) = table {
                // Local entries and their marks are beside the rows.
                let rows = number & !(0xff << 16);
                if !own.contains(&rows) && number != u64::MAX {
                    return Err(format!("server {id} has kept table {number:x}"));
                }
                let next = number.checked_add(1);
                let found = next.map(|next| self.cluster.tables(id).table_from(next));
                table = found.and_then(|found| found.expect("memory is read"));
            }
        }
        Ok(())
    }

    /// All replexes hold what the model holds.
    fn check(&self) -> Finding {
        self.check_left_behind()?;
        let table = &self.cluster.configuration.tables[0];
        let mut numbers: Vec<i64> = self.model.values().map(|(_, number)| *number).collect();
        numbers.sort_unstable();
        if self.is_dense() && !numbers.iter().copied().eq(1..=numbers.len() as i64) {
            return Err(format!("{numbers:?} is not dense"));
        }
        self.check_late()?;
        for replex in table.layout.numbers() {
            let places = &table.placement[replex];
            let in_entries = table.layout.entry_columns(&table.schema, replex);
            let has = |column: usize| in_entries.as_ref().is_none_or(|it| it.contains(&column));
            let model = self.model.iter().map(|(id, (tail, number))| {
                let tail = has(TAIL).then(|| tail.clone());
                let number = has(NUMBER).then_some(*number);
                (*id, (tail, number))
            });
            let model: BTreeMap<i64, StoredRow> = model.collect();
            let mut columns = table.schema.columns.clone();
            let in_order = columns.iter_mut().enumerate();
            in_order.for_each(|(column, it)| it.nullable = !has(column));
            let mut rows = BTreeMap::new();
            let mut findings = Vec::new();
            for (number, place) in places.iter().enumerate() {
                let id = PartitionId {
                    table: table.id,
                    replex: replex as u8,
                    number: number as u32,
                };
                let tables = self.cluster.tables(place.core.server.0);
                let mut visit = |_: &[u8], value: &[u8]| {
                    let (id, row) = stored(&columns, &value[8..]);
                    if let Some(other) = rows.insert(id, row) {
                        findings.push(format!("row {id} is there twice, also as {other:?}"));
                    }
                    ControlFlow::Continue(())
                };
                tables
                    .scan(id.rows_table(), b"", None, &mut visit)
                    .expect("memory is read");
            }
            if rows != model || !findings.is_empty() {
                return Err(format!(
                    "replex {replex}: {findings:?} {rows:?}, not {model:?}"
                ));
            }
        }
        self.cluster.check_entries()
    }
}

/// Returns the id, the tail and the number of a row, or of an entry, which lacks some of them.
fn stored(columns: &[Column], bytes: &[u8]) -> (i64, StoredRow) {
    let row = RowView::parse(columns, bytes).expect("rows decode");
    let [Value::Int64(id), tail, number] = &row.to_values()[..] else {
        panic!("rows are of the schema");
    };
    let tail = match tail {
        Value::Text(tail) => Some(tail.clone()),
        _ => None,
    };
    let number = match number {
        Value::Int64(number) => Some(*number),
        _ => None,
    };
    (*id, (tail, number))
}

/// Returns whether all members of a chain keep the result: others end at the head, have no effect,
/// and may be answered differently by the next head.
fn is_of_chain(result: &RequestResult) -> bool {
    match result {
        RequestResult::NotDense { .. } => true,
        RequestResult::Duplicate { replex, .. } => *replex > 0,
        _ => took_effect(result),
    }
}

fn took_effect(result: &RequestResult) -> bool {
    matches!(result, RequestResult::Applied { .. })
}

fn action(schema: &Schema, id: i64, change: &Change) -> Action {
    let assign = |column, value| Action::Update {
        assignments: vec![Assignment { column, value }],
        condition: None,
    };
    match change {
        Change::Insert(tail, number) => {
            let number = Value::Int64(*number);
            let row = [Value::Int64(id), Value::Text(tail.clone()), number];
            let row = encode_row(&schema.columns, &row).expect("rows are of the schema");
            Action::Insert { row: Bytes(row) }
        }
        Change::Retail(tail) => assign(1, Expression::Literal(Value::Text(tail.clone()))),
        Change::Add => {
            let one = Box::new(Expression::Literal(Value::Int64(1)));
            let number = Box::new(Expression::Column(2));
            assign(2, Expression::Binary(BinaryOperator::Add, number, one))
        }
        Change::Delete => Action::Delete { condition: None },
    }
}

/// Returns the finding of one seed. A machine that stops with a panic shows something too.
fn history(seed: u64) -> Finding {
    let ended = std::panic::catch_unwind(|| History::new(seed).run());
    let finding = ended.unwrap_or_else(|_| Err("a machine stopped".into()));
    finding.map_err(|what| format!("seed {seed}: {what}"))
}

#[cfg(not(feature = "planted"))]
#[test]
fn filled_replexes_hold_what_was_written() {
    let number = |name, default| std::env::var(name).map_or(default, |it| it.parse().unwrap());
    let from = number("REPLEX_HISTORIES_FROM", 0);
    for seed in from..from + number("REPLEX_HISTORIES", 300) {
        history(seed).unwrap();
    }
}

#[cfg(feature = "planted")]
#[test]
fn every_planted_bug_of_fills_is_found() {
    use protocol::planted::{Bug, select};
    let bugs = [
        Bug::CompletionsNotCopied,
        Bug::ReadWhileRebuilding,
        Bug::VoteWithoutFetch,
        Bug::LowerVersionWins,
        Bug::ServesBeforeFilled,
        Bug::DepartureForgotten,
        Bug::CopiedWithoutEntries,
        Bug::CollisionIgnored,
        Bug::OldRowCollides,
        Bug::StaleRowsKept,
        Bug::ComparisonSkipped,
        Bug::ChangesNotListed,
        Bug::PartialTaken,
        Bug::GiverForgets,
    ];
    for bug in bugs {
        let found = (0..300).find(|seed| {
            select(Some(bug));
            let finding = history(*seed);
            select(None);
            finding.is_err() && history(*seed).is_ok()
        });
        println!("{}: seed {found:?}", bug.name());
        assert!(found.is_some(), "no history finds {}", bug.name());
    }
    for column in [TAIL, NUMBER] {
        for unique in [false, true] {
            let filled = || pages::row_passes_the_pages(column, unique);
            select(Some(Bug::UnchangedEntryLeftOut));
            let finding = filled();
            select(None);
            assert!(finding.is_err() && filled().is_ok(), "{finding:?}");
        }
    }
}
