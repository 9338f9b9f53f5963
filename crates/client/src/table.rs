//! A table handle: its definition at the time of the lookup, its writes, and the methods that begin
//! reads.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use placement::{
    Column, KEY_BYTES_MAX, ReplexKind, Schema, SortColumn, TimeZone, Value, ascending,
    check_key_bytes, columns_of, encode_key, encode_row,
};
use protocol::codec::Bytes;
use protocol::configuration::roles::RoleId;
use protocol::configuration::routes;
use protocol::configuration::{self, Configuration};
use protocol::expression::{Assignment, Expression, generated_values};
use protocol::identity::{Epoch, PartitionId, TableId};
use protocol::message::CoordinatorRequest;
use protocol::operation::{Action, Mutation, RequestResult};
use session::gather::GatherPlan;
use session::{SessionOperation, SessionOutcome};
use tokio::sync::mpsc;

use crate::client::{Client, IfExists, other_outcome};
use crate::defaults;
use crate::error::Error;
use crate::hub::Waiter;

/// Selects an index of a table, by its name or by its position among the schema's indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexSelector<'a> {
    /// The primary key.
    PrimaryKey,
    /// The index or thin index with this name. The table's name selects the primary key.
    Name(&'a str),
    /// The index at this position in the schema.
    Position(usize),
}

impl<'a> From<&'a str> for IndexSelector<'a> {
    fn from(name: &'a str) -> IndexSelector<'a> {
        IndexSelector::Name(name)
    }
}

impl<'a> From<&'a String> for IndexSelector<'a> {
    fn from(name: &'a String) -> IndexSelector<'a> {
        IndexSelector::Name(name)
    }
}

impl From<usize> for IndexSelector<'_> {
    fn from(position: usize) -> Self {
        IndexSelector::Position(position)
    }
}

/// A table of a cluster. Cloning it is cheap. Every request looks up the current place of its
/// partitions, and a read follows a change of their number. Columns and indexes are those at the
/// time when the table was looked up.
#[derive(Clone, Debug)]
pub struct Table {
    client: Client,
    configuration: Arc<Configuration>,
    placed: Arc<configuration::PlacedTable>,
}

/// An index, or the primary key, with its replex.
pub(crate) struct PlacedIndex<'a> {
    /// The name of the index; none for the primary key.
    pub name: Option<&'a str>,
    pub replex: u8,
    /// The columns of the index's key.
    pub columns: Cow<'a, [SortColumn]>,
    /// The number of leading columns that determine the partition. If ranges divide it, these are
    /// all columns of the key, whose rows are mostly in one range.
    pub partition_columns: usize,
    /// Whether ranges of its order divide it.
    pub is_ranged: bool,
    /// Whether it is a thin index, of which a read must show one moment of entries and rows.
    pub is_thin: bool,
}

impl Client {
    /// Creates a table. Returns once every server that holds a part of the table is ready.
    ///
    /// # Errors
    /// - [`Error::Schema`]: the schema is invalid.
    /// - [`Error::Refused`]: the coordinator refuses, for example because the table exists
    ///   ([`IfExists::Fail`]) or there are too few failure domains.
    /// - [`Error::NoCoordinator`]: no coordinator is reachable, and nothing was done.
    /// - [`Error::Unknown`]: the connection broke, or the coordinator did not answer in time. The
    ///   table may exist.
    pub async fn create_table(&self, schema: Schema, exists: IfExists) -> Result<Table, Error> {
        let owner = RoleId::BOOTSTRAP;
        self.create_with_sequences(schema, Vec::new(), owner, exists)
            .await
    }

    /// Creates a table, and the sequences of its columns with it
    /// ([`Sequence::into_schema`](placement::Sequence::into_schema)). They belong to the role
    /// `owner`. If the table exists, no sequence is created.
    ///
    /// # Errors
    /// As of [`Client::create_table`].
    pub async fn create_with_sequences(
        &self,
        schema: Schema,
        sequences: Vec<Schema>,
        owner: RoleId,
        exists: IfExists,
    ) -> Result<Table, Error> {
        for schema in sequences.iter().chain([&schema]) {
            schema.validate()?;
        }
        let what = format!("the creation of table {}", schema.name);
        let name = schema.name.clone();
        let request = CoordinatorRequest::CreateTable {
            schema,
            if_not_exists: exists == IfExists::Accept,
            sequences,
            owner,
        };
        let epoch = self.accepted(request, &what).await?;
        let table = async {
            self.catch_up(epoch).await?;
            self.table(&name).await
        };
        table.await.map_err(|error| error.after_acceptance(&what))
    }

    /// Returns a table by name. Asks the coordinator if the client does not know it.
    ///
    /// # Errors
    /// [`Error::NoTable`] names the tables that there are.
    pub async fn table(&self, name: &str) -> Result<Table, Error> {
        if let Some(table) = Table::find(self, name) {
            return Ok(table);
        }
        let configuration = self.refresh().await?;
        Table::find(self, name).ok_or_else(|| Error::NoTable {
            name: name.to_owned(),
            tables: configuration
                .tables
                .iter()
                .map(|table| table.schema.name.clone())
                .collect(),
        })
    }
}

impl Table {
    pub(crate) fn find(client: &Client, name: &str) -> Option<Table> {
        let configuration = client.configuration();
        let placed = Arc::clone(configuration.tables.named(name)?);
        Some(Table {
            client: client.clone(),
            configuration,
            placed,
        })
    }

    pub(crate) fn of_id(client: &Client, id: TableId) -> Option<Table> {
        let configuration = client.configuration();
        let name = configuration.table(id)?.schema.name.clone();
        Table::find(client, &name)
    }

    /// Returns the table as the client knows it now; none if it was dropped.
    pub(crate) fn newest(&self) -> Option<Table> {
        let configuration = self.client.configuration();
        let placed = Arc::clone(configuration.tables.get(self.id())?);
        Some(Table {
            client: self.client.clone(),
            configuration,
            placed,
        })
    }

    /// Returns the client of the table.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the schema: columns, indexes and settings.
    pub fn schema(&self) -> &Schema {
        &self.definition().schema
    }

    /// Returns the table's entry of the configuration, with layout and placement, as it was at the
    /// lookup.
    pub fn definition(&self) -> &configuration::PlacedTable {
        &self.placed
    }

    /// Returns the epoch of the configuration from which this handle was made.
    pub(crate) fn epoch(&self) -> Epoch {
        self.configuration.epoch
    }

    /// Returns the table's number. Numbers are never reused.
    pub fn id(&self) -> TableId {
        self.definition().id
    }

    /// Returns the position of a column.
    ///
    /// # Errors
    /// [`Error::UnknownColumn`] names the columns that there are.
    pub fn column(&self, name: &str) -> Result<u16, Error> {
        let position = self.schema().column_index(name);
        let position = position.ok_or_else(|| self.unknown_column(name))?;
        Ok(u16::try_from(position).expect("a table has at most 1,600 columns"))
    }

    /// Returns a row with one value per column. Columns that are not in `named` get their default,
    /// but NULL if it comes from a sequence: name them, with [`Client::next_values`]. Generated
    /// columns get NULL, because their values are computed when the row is written.
    ///
    /// # Errors
    /// [`Error::UnknownColumn`].
    pub fn row(&self, named: &[(&str, Value)]) -> Result<Vec<Value>, Error> {
        let now_us = defaults::now_us();
        let columns = self.schema().columns.iter();
        let mut values: Vec<Value> = columns
            .map(|column| defaults::default_value(column, now_us, &TimeZone::UTC))
            .collect();
        for (name, value) in named {
            values[usize::from(self.column(name)?)] = value.clone();
        }
        Ok(values)
    }

    /// Writes a new row. The result is `Applied`, or `Duplicate` if a row with the primary key or
    /// with a unique key exists already. The values of generated columns are computed, whatever
    /// `values` has for them.
    ///
    /// # Errors
    /// [`Error::Row`] and [`Error::Key`] for invalid values, before anything is sent; those of
    /// [`Table::execute`].
    pub async fn insert(&self, values: &[Value]) -> Result<RequestResult, Error> {
        self.execute(self.insertion(values)?).await
    }

    /// Returns the mutation that [`Table::insert`] executes.
    ///
    /// # Errors
    /// [`Error::Row`] and [`Error::Key`] for invalid values.
    pub fn insertion(&self, values: &[Value]) -> Result<Mutation, Error> {
        let row = self.encoded(values)?;
        Ok(Mutation {
            pk: self.pk_of_row(values)?,
            action: Action::Insert { row },
        })
    }

    /// Writes a new row. If a row with this primary key exists, it stays unchanged, and the result
    /// is `Kept`.
    ///
    /// # Errors
    /// As [`Table::insert`].
    pub async fn insert_or_keep(&self, values: &[Value]) -> Result<RequestResult, Error> {
        self.execute(self.keeping_insertion(values)?).await
    }

    /// Returns the mutation that [`Table::insert_or_keep`] executes.
    pub(crate) fn keeping_insertion(&self, values: &[Value]) -> Result<Mutation, Error> {
        let row = self.encoded(values)?;
        let pk = self.pk_of_row(values)?;
        let action = Action::InsertOrKeep { row };
        Ok(Mutation { pk, action })
    }

    /// Writes a new row, or changes the row with the same primary key. In the assignments
    /// `Excluded` is the new row.
    ///
    /// # Errors
    /// As [`Table::insert`].
    pub async fn upsert(
        &self,
        values: &[Value],
        assignments: Vec<Assignment>,
        condition: Option<Expression>,
    ) -> Result<RequestResult, Error> {
        let row = self.encoded(values)?;
        let pk = self.pk_of_row(values)?;
        let action = Action::Upsert {
            row,
            assignments,
            condition,
        };
        self.execute(Mutation { pk, action }).await
    }

    /// Changes the row with this primary key if the condition holds. The head checks the condition
    /// under the row's lock.
    ///
    /// # Errors
    /// As [`Table::execute`], and [`Error::WrongType`] for values that are no pk.
    pub async fn update(
        &self,
        pk: &[Value],
        assignments: Vec<Assignment>,
        condition: Option<Expression>,
    ) -> Result<RequestResult, Error> {
        let pk = self.pk(pk)?;
        let action = Action::Update {
            assignments,
            condition,
        };
        self.execute(Mutation { pk, action }).await
    }

    /// Removes the row with this primary key if the condition holds. The head checks the condition
    /// under the row's lock.
    ///
    /// # Errors
    /// As [`Table::update`].
    pub async fn delete(
        &self,
        pk: &[Value],
        condition: Option<Expression>,
    ) -> Result<RequestResult, Error> {
        let pk = self.pk(pk)?;
        let action = Action::Delete { condition };
        self.execute(Mutation { pk, action }).await
    }

    /// Runs a mutation exactly once and returns its result. If the mutation ends with `Conflict`
    /// because it waited too long, and so changed nothing, it is repeated until the deadline.
    ///
    /// # Errors
    /// [`Error::Unknown`] if it was sent and no result came, [`Error::Deadline`] if it certainly
    /// did not happen, [`Error::DiskFull`], [`Error::TableGone`], [`Error::Invalid`].
    pub async fn execute(&self, mutation: Mutation) -> Result<RequestResult, Error> {
        self.execute_within(mutation, None).await
    }

    /// Works like [`Table::execute`], with its own deadline.
    ///
    /// # Errors
    /// The same as for [`Table::execute`].
    pub async fn execute_within(
        &self,
        mutation: Mutation,
        patience: Option<Duration>,
    ) -> Result<RequestResult, Error> {
        let hub = self.client.hub();
        let deadline_us = hub.deadline_us(patience.unwrap_or(hub.options().deadline));
        self.execute_planned(mutation, self.epoch(), deadline_us)
            .await
    }

    /// Works like [`Table::execute`], for a mutation that was made by the configuration of this
    /// epoch.
    ///
    /// # Errors
    /// The same as for [`Table::execute`], and [`Error::TableChanged`] if the table has had other
    /// columns in that configuration.
    #[doc(hidden)]
    pub async fn execute_made_in(
        &self,
        planned: Epoch,
        mutation: Mutation,
    ) -> Result<RequestResult, Error> {
        let hub = self.client.hub();
        let deadline_us = hub.deadline_us(hub.options().deadline);
        self.execute_planned(mutation, planned, deadline_us).await
    }

    async fn execute_planned(
        &self,
        mutation: Mutation,
        planned: Epoch,
        deadline_us: u64,
    ) -> Result<RequestResult, Error> {
        let hub = self.client.hub();
        loop {
            let operation = SessionOperation::Execute {
                table: self.id(),
                mutations: vec![mutation.clone()],
                planned,
            };
            let outcome = hub.run(operation, deadline_us).await?;
            match self.result(outcome)? {
                // The server has waited already, so this is not a busy loop.
                RequestResult::Conflict if hub.now_us() < deadline_us => {}
                result => return Ok(result),
            }
        }
    }

    /// Runs many mutations, `window` at a time. Returns their results in the order of the
    /// mutations. A mutation that ends with `Conflict` is not repeated.
    ///
    /// # Panics
    /// If the window is 0.
    pub async fn execute_all(
        &self,
        mutations: Vec<Mutation>,
        window: usize,
    ) -> Vec<Result<RequestResult, Error>> {
        assert!(window > 0, "a window lets something through");
        let hub = self.client.hub();
        let (sender, mut receiver) = mpsc::unbounded_channel();
        let mut results = vec![Err(Error::Closed); mutations.len()];
        let mut waiting = mutations.into_iter().enumerate();
        let mut submitted = std::collections::HashMap::new();
        loop {
            while submitted.len() < window
                && let Some((number, mutation)) = waiting.next()
            {
                let operation = SessionOperation::Execute {
                    table: self.id(),
                    mutations: vec![mutation],
                    planned: self.epoch(),
                };
                let deadline_us = hub.deadline_us(hub.options().deadline);
                let waiter = Waiter::Many(number, sender.clone());
                submitted.insert(number, hub.submit(operation, deadline_us, waiter));
            }
            if submitted.is_empty() {
                return results;
            }
            let came = receiver.recv().await;
            let (number, outcome) = came.expect("this holds a sender itself");
            if let Some(mut submitted) = submitted.remove(&number) {
                submitted.ended = true;
            }
            results[number] = self.result(outcome);
        }
    }

    /// Returns the encoding of a primary key.
    ///
    /// # Errors
    /// [`Error::IncompleteKey`] for too many or too few values, [`Error::WrongType`],
    /// [`Error::Key`].
    pub fn pk(&self, values: &[Value]) -> Result<Bytes, Error> {
        let index = self.index(IndexSelector::PrimaryKey)?;
        self.check_key(&index, values, index.columns.len())?;
        let key = encode_key(values.iter().map(Value::as_ref));
        check_key_bytes(&key)?;
        Ok(Bytes(key))
    }

    /// Describes the result of a request for people. For a duplicate it names the index and the
    /// key.
    pub fn explain(&self, result: &RequestResult) -> String {
        let table = &self.schema().name;
        let index = |replex: u8| {
            let replexes = &self.definition().layout.replexes;
            match replexes.get(usize::from(replex)) {
                Some(it) if it.kind == ReplexKind::Primary => "the primary key".to_owned(),
                Some(it) => format!("index {}", it.name),
                None => format!("copy {replex}"),
            }
        };
        match result {
            RequestResult::Applied { version } => format!("done: version {}", version.0),
            RequestResult::Kept => "the row exists and was left as it was".to_owned(),
            RequestResult::NotFound => format!("table {table} has no row with this primary key"),
            RequestResult::ConditionFailed => "the condition did not hold".to_owned(),
            RequestResult::Duplicate { replex, key } => format!(
                "a row with {} exists already in {} of table {table}",
                self.describe_key(*replex, key),
                index(*replex)
            ),
            RequestResult::NotDense { replex, expected } => format!(
                "{} of table {table} counts without gaps: the next value is {expected}",
                index(*replex)
            ),
            RequestResult::Invalid { message } => message.clone(),
            RequestResult::CheckFailed { constraint } => {
                placement::check_violation_text(table, constraint)
            }
            RequestResult::Transaction(result) => self.client.explain(result),
            RequestResult::Conflict => {
                "it waited too long behind other operations on the same key, and nothing was \
                 changed: try again"
                    .to_owned()
            }
        }
    }

    /// Returns `(column, column) = (value, value)` for a key of a replex.
    fn describe_key(&self, replex: u8, key: &[u8]) -> String {
        let schema = self.schema();
        let Some(replex) = self.definition().layout.replexes.get(usize::from(replex)) else {
            return "this key".to_owned();
        };
        let columns = &columns_of(&replex.sort_columns);
        let types: Vec<_> = columns
            .iter()
            .map(|column| schema.columns[*column].column_type)
            .collect();
        match placement::decode_key(key, &types) {
            Ok(values) => {
                let values: Vec<String> = values.iter().map(ToString::to_string).collect();
                let names = self.column_names(columns);
                format!("({names}) = ({})", values.join(", "))
            }
            Err(_) => "this key".to_owned(),
        }
    }

    fn result(&self, outcome: SessionOutcome) -> Result<RequestResult, Error> {
        if let SessionOutcome::Executed(result) = outcome {
            return Ok(result.of_one_change());
        }
        let what = format!("a write to table {}", self.schema().name);
        match self.client.judge(outcome, &what) {
            Err(Error::TableGone { .. }) => Err(Error::TableGone {
                table: self.schema().name.clone(),
            }),
            Err(error) => Err(error),
            Ok(other) => Err(other_outcome(&other)),
        }
    }

    /// Returns the encoding of a row, with the values of its generated columns.
    fn encoded(&self, values: &[Value]) -> Result<Bytes, Error> {
        let schema = self.schema();
        let has_generated = schema.generated_columns().next().is_some();
        if !has_generated || values.len() != schema.columns.len() {
            return Ok(Bytes(encode_row(&schema.columns, values)?));
        }
        let mut values = values.to_vec();
        let generated = generated_values(schema, &values).map_err(|error| Error::Invalid {
            message: format!("in the generated columns of table {}: {error}", schema.name),
        })?;
        for (position, value) in generated {
            values[position] = value;
        }
        Ok(Bytes(encode_row(&schema.columns, &values)?))
    }

    fn pk_of_row(&self, values: &[Value]) -> Result<Bytes, Error> {
        let columns = self.schema().primary_key.iter();
        let key = encode_key(columns.map(|column| values[*column].as_ref()));
        check_key_bytes(&key)?;
        assert!(key.len() <= KEY_BYTES_MAX, "it was checked");
        Ok(Bytes(key))
    }

    /// Returns an index with its replex and columns.
    pub(crate) fn index(&self, by: IndexSelector<'_>) -> Result<PlacedIndex<'_>, Error> {
        let schema = self.schema();
        let index = match by {
            IndexSelector::PrimaryKey => Some(None),
            IndexSelector::Position(position) => {
                (position < schema.indexes.len()).then_some(Some(position))
            }
            IndexSelector::Name(name) if name == schema.name => Some(None),
            IndexSelector::Name(name) => {
                let mut indexes = schema.indexes.iter();
                let Some(index) = indexes.position(|index| index.name == name) else {
                    return self.thin_index(name).ok_or_else(|| self.unknown_index(by));
                };
                Some(Some(index))
            }
        };
        let replex = index.and_then(|index| routes::replex_of_index(self.definition(), index));
        let found = index.zip(replex).map(|(index, replex)| PlacedIndex {
            name: index.map(|position| &schema.indexes[position].name[..]),
            replex,
            columns: Cow::Owned(ascending(match index {
                None => &schema.primary_key,
                Some(position) => &schema.indexes[position].columns,
            })),
            partition_columns: schema.partition_columns(index).len(),
            is_ranged: index.is_some_and(|index| schema.indexes[index].by_range),
            is_thin: false,
        });
        found.ok_or_else(|| self.unknown_index(by))
    }

    /// Returns the thin index with this name; none if there is none.
    fn thin_index(&self, name: &str) -> Option<PlacedIndex<'_>> {
        let definition = self.definition();
        let mut numbers = definition.layout.thin_numbers();
        let replexes = &definition.layout.replexes;
        let number = numbers.find(|number| replexes[*number].name == name)?;
        let replex = &replexes[number];
        Some(PlacedIndex {
            name: Some(&replex.name),
            replex: u8::try_from(number).expect("a table has few replexes"),
            columns: Cow::Borrowed(&replex.sort_columns),
            partition_columns: replex.sort_columns.len(),
            is_ranged: replex.ranges.is_some(),
            is_thin: true,
        })
    }

    fn unknown_index(&self, by: IndexSelector<'_>) -> Error {
        let schema = self.schema();
        let key = |name: &str, columns| format!("{name} ({})", self.column_names(columns));
        let mut names = vec![key("the primary key", &schema.primary_key)];
        let indexes = schema.indexes.iter();
        names.extend(indexes.map(|index| key(&index.name, &index.columns)));
        let thin = schema.thin.iter();
        names.extend(thin.map(|index| {
            let columns = index.columns.iter().map(|it| schema.sorted_name(it));
            format!(
                "{} ({})",
                index.name,
                columns.collect::<Vec<_>>().join(", ")
            )
        }));
        let asked = match by {
            IndexSelector::Name(name) => name.to_owned(),
            IndexSelector::Position(position) => format!("number {position}"),
            IndexSelector::PrimaryKey => "of the primary key".to_owned(),
        };
        Error::UnknownIndex {
            table: schema.name.clone(),
            index: asked,
            indexes: names,
        }
    }

    /// Checks that the values fit the first columns of a key, at least `least` of them.
    pub(crate) fn check_key(
        &self,
        index: &PlacedIndex<'_>,
        key: &[Value],
        needed: usize,
    ) -> Result<(), Error> {
        if !(needed..=index.columns.len()).contains(&key.len()) {
            return Err(Error::IncompleteKey {
                table: self.schema().name.clone(),
                columns: self.names_of(&columns_of(&index.columns)),
                needed,
                given: key.len(),
            });
        }
        let mut values = index.columns.iter().zip(key);
        values.try_for_each(|(sorted, value)| self.check_type(sorted.column, value))
    }

    pub(crate) fn check_type(&self, column: usize, value: &Value) -> Result<(), Error> {
        let column = &self.schema().columns[column];
        match value.column_type() {
            Some(found) if !column.column_type.shares_keys(found) => Err(Error::WrongType {
                column: column.name.clone(),
                expected: column.column_type,
                found,
            }),
            _ => Ok(()),
        }
    }

    pub(crate) fn check_plan(&self, plan: &GatherPlan) -> Result<(), Error> {
        let columns = self.schema().columns.len();
        let projection = plan.projection.iter().flatten();
        if let Some(column) = projection
            .map(|it| usize::from(*it))
            .find(|it| *it >= columns)
        {
            return Err(self.unknown_column(&format!("number {column}")));
        }
        let replexes = self.definition().layout.replexes.len();
        let wrong = |it: &&PartitionId| {
            it.table != self.id()
                || usize::from(it.replex) >= replexes
                || it.replex != plan.partitions[0].replex
        };
        match plan.partitions.iter().find(wrong) {
            None => Ok(()),
            Some(partition) => Err(Error::Invalid {
                message: format!("{partition} is none of table {}", self.schema().name),
            }),
        }
    }

    pub(crate) fn projected(&self, projection: Option<&[u16]>) -> Vec<Column> {
        let columns = &self.schema().columns;
        match projection {
            None => columns.clone(),
            Some(projection) => projection
                .iter()
                .map(|column| columns[usize::from(*column)].clone())
                .collect(),
        }
    }

    fn column_names(&self, columns: &[usize]) -> String {
        self.names_of(columns).join(", ")
    }

    fn names_of(&self, columns: &[usize]) -> Vec<String> {
        let all = &self.schema().columns;
        columns.iter().map(|it| all[*it].name.clone()).collect()
    }

    fn unknown_column(&self, column: &str) -> Error {
        let columns = self.schema().visible_columns();
        Error::UnknownColumn {
            table: self.schema().name.clone(),
            column: column.to_owned(),
            columns: columns.map(|(_, column)| column.name.clone()).collect(),
        }
    }
}
