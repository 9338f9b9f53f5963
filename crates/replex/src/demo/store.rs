//! The demo's table through the client, as any program would use it.

use std::time::Duration;

use client::protocol::expression::{Assignment, Expression};
use client::protocol::operation::RequestResult;
use client::{Client, ConnectOptions, IfExists, Table};
use placement::{Layout, Schema, TableReport, Value};
use replex::failure::Failure;

use crate::flights;

/// The name under which rows are looked up by the primary key.
pub const PRIMARY: &str = "flights";
/// A server that is killed is back long before this.
const DEADLINE: Duration = Duration::from_secs(60);
/// Tail numbers that no plane has, to find one that belongs to another partition.
const TAILS_TRIED: usize = 1_000;

/// The table of flights.
#[derive(Clone)]
pub struct Flights {
    table: Table,
}

impl Flights {
    /// Connects and creates the table.
    pub async fn create(coordinator: &str) -> Result<Flights, Failure> {
        let options = ConnectOptions::new([coordinator]).deadline(DEADLINE);
        let client = Client::connect(options).await;
        let client = client.map_err(Failure::at("connect to the cluster"))?;
        let schema = flights::schema()?;
        let created = client.create_table(schema, IfExists::Fail).await;
        created.map_err(Failure::at("create the table of flights"))?;
        let table = client.table(flights::TABLE).await;
        let table = table.map_err(Failure::at("find the table of flights"))?;
        Ok(Flights { table })
    }

    /// Columns and keys.
    pub fn schema(&self) -> &Schema {
        self.table.schema()
    }

    /// Copies, and the failures that they survive.
    pub fn report(&self) -> TableReport {
        let configuration = self.table.client().configuration();
        configuration.report(self.table.definition())
    }

    /// Inserts a row; gives it back once it is acknowledged.
    pub async fn insert(&self, row: Vec<Value>) -> Result<Vec<Value>, Failure> {
        let result = self.table.insert(&row).await;
        match result.map_err(Failure::at("insert a flight"))? {
            RequestResult::Applied { .. } => Ok(row),
            other => Err(self.refused("insert a flight", &other)),
        }
    }

    /// Rows with this key of an index, all columns.
    pub async fn lookup(&self, index: &str, key: &[Value]) -> Result<Vec<Vec<Value>>, Failure> {
        let what = || Failure::at(format!("look flights up by {index}"));
        let lookup = self.table.lookup(index, key).map_err(what())?;
        let rows = lookup.await.map_err(what())?;
        Ok(rows.into_iter().map(|row| row.values).collect())
    }

    /// Changes a flight's tail number.
    pub async fn set_tail(&self, id: &Value, tail: &Value) -> Result<(), Failure> {
        let what = "change a tail number";
        let column = self.table.column("tailnum").map_err(Failure::at(what))?;
        let assignments = vec![Assignment {
            column,
            value: Expression::Literal(tail.clone()),
        }];
        let result = self
            .table
            .update(std::slice::from_ref(id), assignments, None);
        match result.await.map_err(Failure::at(what))? {
            RequestResult::Applied { .. } => Ok(()),
            other => Err(self.refused(what, &other)),
        }
    }

    /// The partition of the copy by tail number that holds a tail number.
    pub fn tail_partition(&self, tail: &Value) -> u32 {
        let layout: &Layout = &self.table.definition().layout;
        let replexes = &layout.replexes;
        let by_tail = replexes.iter().position(|replex| replex.name == "by_tail");
        let by_tail = by_tail.expect("the demo's own table has its own indexes");
        layout.partition_of_values(by_tail, |_| tail.as_ref())
    }

    /// A tail number that no plane has and that belongs to another partition than this one.
    pub fn tail_elsewhere(&self, tail: &Value) -> Value {
        let here = self.tail_partition(tail);
        let candidates = (1..TAILS_TRIED).map(|number| Value::Text(format!("N{number}RPLX")));
        let mut elsewhere = candidates.filter(|it| self.tail_partition(it) != here);
        elsewhere
            .next()
            .expect("a hash spreads over twelve partitions")
    }

    fn refused(&self, what: &str, result: &RequestResult) -> Failure {
        Failure::Failed(format!("cannot {what}: {}", self.table.explain(result)))
    }
}
