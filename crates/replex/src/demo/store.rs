//! Accesses the demo's tables through the client, as any program would.

use std::ops::Bound;
use std::time::Duration;

use client::{Client, ConnectOptions, IfExists, IndexRange, Table};
use placement::{CoverCosts, Layout, Schema, TableReport, Value, cover};
use protocol::configuration::ServerState;
use protocol::expression::{Assignment, Expression};
use protocol::identity::{CoreId, ServerId};
use protocol::operation::RequestResult;
use replex::failure::CommandFailure;

use crate::flights;

/// The name under which rows are looked up by the primary key.
pub const PRIMARY: &str = "flights";
/// A server that is killed is back long before this.
const DEADLINE: Duration = Duration::from_secs(60);
/// Unused tail numbers that are tried, to find a number in another partition.
const TAILS_TRIED: usize = 1_000;

/// A table of flights.
#[derive(Clone)]
pub struct Flights {
    table: Table,
}

impl Flights {
    /// Connects and creates the table of the statement.
    pub async fn create(coordinator: &str, create_table: &str) -> Result<Flights, CommandFailure> {
        let options = ConnectOptions::new([coordinator]).deadline(DEADLINE);
        let client = Client::connect(options).await;
        let client = client.map_err(CommandFailure::at("connect to the cluster"))?;
        let schema = flights::schema(create_table)?;
        let created = client.create_table(schema, IfExists::Fail).await;
        let table = created.map_err(CommandFailure::at("create the table of flights"))?;
        Ok(Flights { table })
    }

    /// Returns columns and keys.
    pub fn schema(&self) -> &Schema {
        self.table.schema()
    }

    /// Returns copies, and the failures that they survive.
    pub fn report(&self) -> TableReport {
        let configuration = self.table.client().configuration();
        let newest = configuration.table_named(&self.schema().name);
        configuration.report(newest.unwrap_or(self.table.definition()))
    }

    /// Inserts a row; gives it back once it is acknowledged.
    pub async fn insert(&self, row: Vec<Value>) -> Result<Vec<Value>, CommandFailure> {
        let result = self.table.insert(&row).await;
        match result.map_err(CommandFailure::at("insert a flight"))? {
            RequestResult::Applied { .. } => Ok(row),
            other => Err(self.refused("insert a flight", &other)),
        }
    }

    /// Returns rows with this key of an index, all columns.
    pub async fn lookup(
        &self,
        index: &str,
        key: &[Value],
    ) -> Result<Vec<Vec<Value>>, CommandFailure> {
        let what = || CommandFailure::at(format!("look flights up by {index}"));
        let lookup = self.table.lookup(index, key).map_err(what())?;
        let rows = lookup.await.map_err(what())?;
        Ok(rows.into_iter().map(|row| row.values).collect())
    }

    /// Returns the client.
    pub fn client(&self) -> &Client {
        self.table.client()
    }

    /// Returns a read of the flights between two keys of an index that can be newer than the table.
    pub async fn range(
        &self,
        index: &str,
        lower: Bound<&[Value]>,
        upper: Bound<&[Value]>,
    ) -> Result<IndexRange, CommandFailure> {
        let what = || CommandFailure::at(format!("read flights by {index}"));
        let table = self.client().table(&self.schema().name).await;
        let table = table.map_err(what())?;
        table.range(index, lower, upper).map_err(what())
    }

    /// Changes a flight's tail number.
    pub async fn set_tail(&self, id: &Value, tail: &Value) -> Result<(), CommandFailure> {
        let what = "change a tail number";
        let column = self
            .table
            .column("tailnum")
            .map_err(CommandFailure::at(what))?;
        let assignments = vec![Assignment {
            column,
            value: Expression::Literal(tail.clone()),
        }];
        let result = self
            .table
            .update(std::slice::from_ref(id), assignments, None);
        match result.await.map_err(CommandFailure::at(what))? {
            RequestResult::Applied { .. } => Ok(()),
            other => Err(self.refused(what, &other)),
        }
    }

    /// Returns the partition of the copy by tail number that holds a tail number.
    pub fn tail_partition(&self, tail: &Value) -> u32 {
        self.layout()
            .partition_of_values(self.by_tail(), |_| tail.as_ref())
    }

    /// Returns the server that held the partition of a tail number when the table was created.
    pub fn tail_server(&self, tail: &Value) -> ServerId {
        let placement = &self.table.definition().placement[self.by_tail()];
        placement[self.tail_partition(tail) as usize].core.server
    }

    /// Returns how many partitions a lookup by this tail number visits without that server, by the
    /// grid.
    pub fn predicted(&self, tail: &Value, lost: ServerId) -> Option<u32> {
        let placement = &self.table.definition().placement;
        let lives = |replex: usize, partition: u32| {
            placement[replex][partition as usize].core.server != lost
        };
        let partition = (self.by_tail(), self.tail_partition(tail));
        let found = cover(self.layout(), partition, &lives, &CoverCosts::LOOKUP);
        found.map(|cover| cover.amplification())
    }

    /// Asks for the newest configuration.
    pub async fn refresh(&self) -> Result<(), CommandFailure> {
        let what = "ask the coordinator for the configuration";
        let answer = self.table.client().refresh().await;
        answer.map(drop).map_err(CommandFailure::at(what))
    }

    /// Gives a server's partitions to others, as `replex admin server remove` does.
    pub async fn remove_server(&self, server: ServerId) -> Result<(), CommandFailure> {
        let done = self.table.client().remove_server(server).await;
        done.map_err(CommandFailure::at("remove a server"))
    }

    /// Returns the sum of a counter over all servers that are up.
    pub async fn counter(&self, name: &str) -> Result<u64, CommandFailure> {
        let client = self.table.client();
        let configuration = client.configuration();
        let servers = configuration.servers.iter();
        let mut sum = 0;
        for server in servers.filter(|server| server.state == ServerState::Up) {
            let (server, core) = (server.id, 0);
            let counters = client.status(CoreId { server, core }).await;
            let counters = counters.map_err(CommandFailure::at("ask a server for its counters"))?;
            let found = counters.iter().find(|(known, _)| known == name);
            sum += found.map_or(0, |(_, value)| *value);
        }
        Ok(sum)
    }

    fn layout(&self) -> &Layout {
        &self.table.definition().layout
    }

    fn by_tail(&self) -> usize {
        let mut replexes = self.layout().replexes.iter();
        let by_tail = replexes.position(|replex| replex.name == "by_tail");
        by_tail.expect("the demo's own tables have its own indexes")
    }

    /// Returns a tail number that no plane has and that belongs to another partition than this one.
    pub fn tail_elsewhere(&self, tail: &Value) -> Value {
        let here = self.tail_partition(tail);
        let candidates = (1..TAILS_TRIED).map(|number| Value::Text(format!("N{number}RPLX")));
        let mut elsewhere = candidates.filter(|it| self.tail_partition(it) != here);
        elsewhere
            .next()
            .expect("a hash spreads over twelve partitions")
    }

    fn refused(&self, what: &str, result: &RequestResult) -> CommandFailure {
        CommandFailure::Failed(format!("cannot {what}: {}", self.table.explain(result)))
    }
}
