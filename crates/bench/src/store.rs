//! Creates the measured table, and runs workers with single operations on it: lookups, inserts, and
//! updates of one hot row.
//!
//! The table is like YCSB's: a text key and ten text fields of equal size. It has three replexes,
//! by the key, by `field0` and by `field1`, and tolerates two failures. Row `n` is the same in
//! every run, so workers can compute the keys that they request.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use client::{Client, ConnectOptions, IfExists, SchemaBuilder, Table};
use placement::{ColumnType, Durability, Value, encode_key};
use protocol::configuration::ServerState;
use protocol::expression::{Assignment, Expression};
use protocol::operation::RequestResult;

use crate::distribution::BenchRandom;
use crate::measure::{MeasuredWorker, run};
use crate::processes::BenchCluster;

/// Fields of a row besides its key.
pub const FIELDS: usize = 10;
/// Writes in flight while a table is filled.
const LOAD_WINDOW: usize = 64;
/// The number of rows after which a load prints its progress.
const ROWS_PER_NOTE: u64 = 500_000;
/// The time that an operation may take on a busy machine before the run is given up.
const DEADLINE: Duration = Duration::from_secs(30);
/// The most checks of whether all servers are up, and the pause between two of them.
const UP_TRIES_MAX: u32 = 300;
const UP_PAUSE: Duration = Duration::from_millis(100);

/// The shape of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowShape {
    /// The number of rows that are loaded before a measurement.
    pub rows: u64,
    pub field_bytes: usize,
}

/// Returns the key of row `number`.
pub fn key(number: u64) -> String {
    format!("user{number:010}")
}

/// Returns row `number`: its key and its fields.
pub fn row(number: u64, field_bytes: usize) -> Vec<Value> {
    let mut random = BenchRandom::new(number.wrapping_mul(0x2545_f491_4f6c_dd1d));
    let mut values = vec![Value::Text(key(number))];
    values.extend((0..FIELDS).map(|_| Value::Text(random.text(field_bytes))));
    values
}

/// Returns an error of the client as an [`io::Error`], to be printed to the user.
pub fn failed(error: client::Error) -> io::Error {
    io::Error::other(error.to_string())
}

/// Connects `count` clients, which share no connections.
///
/// # Errors
/// The cluster cannot be reached.
pub async fn clients(cluster: &BenchCluster, count: usize) -> io::Result<Vec<Client>> {
    let mut clients = Vec::new();
    for _ in 0..count {
        let options = ConnectOptions::new([cluster.address()?]).deadline(DEADLINE);
        clients.push(Client::connect(options).await.map_err(failed)?);
    }
    Ok(clients)
}

/// Returns one handle of the table for each client.
///
/// # Errors
/// There is no such table.
pub async fn tables(clients: &[Client], name: &str) -> io::Result<Vec<Table>> {
    let mut tables = Vec::new();
    for client in clients {
        client.refresh().await.map_err(failed)?;
        tables.push(client.table(name).await.map_err(failed)?);
    }
    Ok(tables)
}

/// Creates the table, without rows.
///
/// # Errors
/// The coordinator refuses it.
pub async fn create(client: &Client, name: &str, durability: Durability) -> io::Result<Table> {
    let mut builder = SchemaBuilder::new(name).column("key", ColumnType::Text);
    for field in 0..FIELDS {
        builder = builder.column(format!("field{field}"), ColumnType::Text);
    }
    let schema = builder
        .primary_key(&["key"])
        .index("by_field0", &["field0"])
        .index("by_field1", &["field1"])
        .failures_tolerated(2)
        .durability(durability)
        .build()
        .map_err(failed)?;
    wait_until_up(client).await?;
    client
        .create_table(schema, IfExists::Fail)
        .await
        .map_err(failed)
}

/// Waits until every server of the cluster holds its lease: on a busy machine one may have lost it
/// since it reported that it was ready.
///
/// # Errors
/// The coordinator does not answer, or one stays down.
pub async fn wait_until_up(client: &Client) -> io::Result<()> {
    for _ in 0..UP_TRIES_MAX {
        let configuration = client.refresh().await.map_err(failed)?;
        let mut servers = configuration.servers.iter();
        if servers.all(|server| server.state == ServerState::Up) {
            return Ok(());
        }
        tokio::time::sleep(UP_PAUSE).await;
    }
    Err(io::Error::other("servers are down and do not come back"))
}

/// Inserts as many rows as the shape has, numbered from 0.
///
/// # Errors
/// A row cannot be inserted.
pub async fn load(table: &Table, shape: RowShape) -> io::Result<()> {
    let next = Rc::new(Cell::new(0));
    let inserts: Vec<InsertWorker> = (0..LOAD_WINDOW)
        .map(|_| InsertWorker {
            table: table.clone(),
            field_bytes: shape.field_bytes,
            next: next.clone(),
            end: shape.rows,
        })
        .collect();
    let sample = run(inserts, Duration::MAX / 4, &[]).await?;
    assert_eq!(sample.operations, shape.rows, "every insert was counted");
    Ok(())
}

/// Returns the replex whose entries are sorted by this column first.
pub fn replex_of(table: &Table, column: usize) -> u8 {
    let mut replexes = table.definition().layout.replexes.iter();
    let found = replexes.position(|replex| {
        let first = replex.sort_columns.first();
        first.is_some_and(|it| it.column == column)
    });
    u8::try_from(found.expect("the table was made with it")).expect("replexes are few")
}

/// A worker that looks up rows by one of the keys, each with equal probability.
#[derive(Debug)]
pub struct LookupWorker {
    table: Table,
    replex: u8,
    keys: Rc<Vec<Vec<u8>>>,
    random: BenchRandom,
}

impl LookupWorker {
    /// Returns a worker that looks up keys which [`encoded_keys`] has encoded.
    pub fn new(table: Table, replex: u8, keys: Rc<Vec<Vec<u8>>>, seed: u64) -> LookupWorker {
        LookupWorker {
            table,
            replex,
            keys,
            random: BenchRandom::new(seed),
        }
    }
}

/// Returns the keys of all rows in the replex that is sorted by a column.
pub fn encoded_keys(shape: RowShape, column: usize) -> Vec<Vec<u8>> {
    let keys = (0..shape.rows).map(|number| {
        let row = row(number, shape.field_bytes);
        encode_key([row[column].as_ref()])
    });
    keys.collect()
}

/// Returns the keys whose partition is on the same core as the first key's, so that one connection
/// serves all lookups.
pub fn on_one_core(table: &Table, replex: u8, keys: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let core = |key: &[u8]| {
        let number = partition_of(table, replex, key);
        table.definition().placement[usize::from(replex)][number as usize].core
    };
    let first = core(&keys[0]);
    let mine = keys.iter().filter(|key| core(key) == first);
    mine.cloned().collect()
}

/// Creates one of many small tables, which their numbers distinguish.
///
/// # Errors
/// The cluster refuses it.
pub async fn create_one_of_many(client: &Client, number: u32) -> io::Result<()> {
    let schema = SchemaBuilder::new(format!("one_of_many_{number}"))
        .column("key", ColumnType::Int64)
        .column("text", ColumnType::Text)
        .primary_key(&["key"])
        .index("by_text", &["text"])
        .failures_tolerated(1)
        .build()
        .map_err(failed)?;
    let created = client.create_table(schema, IfExists::Fail);
    created.await.map(|_| ()).map_err(failed)
}

/// Returns the partition of a replex that holds this encoded key.
pub fn partition_of(table: &Table, replex: u8, key: &[u8]) -> u32 {
    let layout = &table.definition().layout;
    let axes = layout.replexes[usize::from(replex)].axes.iter();
    axes.fold(0, |number, axis| {
        let slot = layout.slot_of_key(axis.key_space, key);
        number * axis.divisions + axis.coordinate(slot)
    })
}

impl MeasuredWorker for LookupWorker {
    async fn operate(&mut self) -> io::Result<u64> {
        let chosen = self.random.below(self.keys.len() as u64);
        let key = &self.keys[chosen as usize];
        let page = self.table.get_raw(self.replex, key, 2).await;
        let count = page.map_err(failed)?.count;
        if count == 1 {
            return Ok(1);
        }
        let what = format!("{count} rows were found where there is one");
        Err(io::Error::other(what))
    }
}

/// A worker that inserts rows by rising number. Several workers share the numbers.
#[derive(Debug)]
pub struct InsertWorker {
    pub table: Table,
    pub field_bytes: usize,
    /// The number of the next row to insert.
    pub next: Rc<Cell<u64>>,
    /// The number at which the workers stop.
    pub end: u64,
}

impl MeasuredWorker for InsertWorker {
    async fn operate(&mut self) -> io::Result<u64> {
        let number = self.next.get();
        if number >= self.end {
            return Ok(0);
        }
        self.next.set(number + 1);
        if number > 0 && number.is_multiple_of(ROWS_PER_NOTE) {
            note!("{number} rows loaded");
        }
        let row = row(number, self.field_bytes);
        let result = self.table.insert(&row).await;
        applied(result)?;
        Ok(1)
    }
}

/// A worker that updates one field of one row. No index has this field.
#[derive(Debug)]
pub struct HotWrite {
    pub table: Table,
    pub number: u64,
    pub field_bytes: usize,
    pub random: BenchRandom,
}

impl MeasuredWorker for HotWrite {
    async fn operate(&mut self) -> io::Result<u64> {
        let text = self.random.text(self.field_bytes);
        let pk = [Value::Text(key(self.number))];
        let result = self.table.update(&pk, vec![set(9, text)], None).await;
        applied(result)?;
        Ok(1)
    }
}

/// Returns an assignment that sets a field to a string.
pub fn set(field: usize, text: String) -> Assignment {
    Assignment {
        column: 1 + u16::try_from(field).expect("fields are few"),
        value: Expression::Literal(Value::Text(text)),
    }
}

/// Checks that a write was applied.
///
/// # Errors
/// The write failed, or its result is not `Applied`.
pub fn applied(result: Result<RequestResult, client::Error>) -> io::Result<()> {
    match result.map_err(failed)? {
        RequestResult::Applied { .. } => Ok(()),
        other => Err(io::Error::other(format!("a write ended as {other:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn rows_are_the_same_each_time_and_differ_in_every_field() {
        assert_eq!(row(7, 10), row(7, 10));
        for column in 0..=FIELDS {
            let values: BTreeSet<String> = (0..1000)
                .map(|number| row(number, 10)[column].to_string())
                .collect();
            assert_eq!(values.len(), 1000, "column {column}");
        }
    }

    #[test]
    fn a_row_has_the_size_that_is_named() {
        for (field_bytes, total) in [(10, 100), (100, 1000)] {
            let texts = row(1, field_bytes);
            let bytes: usize = texts[1..]
                .iter()
                .map(|text| text.to_string().trim_matches('\'').len())
                .sum();
            assert_eq!(bytes, total);
        }
    }
}
