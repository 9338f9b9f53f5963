//! Transactions of a client: changes of several rows, of any tables, that take effect together or
//! not at all.
//!
//! The client collects the changes and sends them with the commit. So a transaction holds no locks
//! while the caller thinks. At the commit each row that it has read is compared with the row that
//! is there. If the row has changed, the transaction aborts. Changes that name no value that was
//! read, such as `n = n + 1`, are evaluated at the commit, and do not abort for other transactions.

use std::collections::BTreeMap;

use placement::{Schema, Value, check_violation_text};
use protocol::codec::Bytes;
use protocol::configuration::Configuration;
use protocol::expression::{Assignment, Expression};
use protocol::identity::{Epoch, TableId, Version};
use protocol::operation::{Action, Mutation, RequestResult};
use protocol::transaction::{
    AbortReason, RangeCheck, ReferenceFault, ReferenceViolation, RowCheck, TransactionChange,
    TransactionResult, check_size,
};
use session::{ANY_EPOCH, SessionOperation, SessionOutcome};

use crate::client::{Client, other_outcome};
use crate::error::Error;
use crate::rows::Row;
use crate::table::{IndexSelector, Table};

/// A transaction in the making. Nothing of it happens before [`Transaction::commit`], and dropping
/// it needs no rollback.
///
/// ```no_run
/// # use client::{Client, Table, TransactionResult, Value};
/// # async fn example(client: &Client, accounts: &Table) -> Result<(), client::Error> {
/// // Moves 10 from one account to another, if the first one has enough.
/// let mut transfer = client.transaction();
/// let Some(from) = transfer.get(accounts, &[Value::Int64(1)]).await? else {
///     return Ok(());
/// };
/// let Value::Int64(balance) = from.values[1] else { return Ok(()) };
/// transfer.set(accounts, &[Value::Int64(1)], "balance", Value::Int64(balance - 10))?;
/// transfer.add(accounts, &[Value::Int64(2)], "balance", 10)?;
/// match transfer.commit().await? {
///     TransactionResult::Committed { .. } => println!("moved"),
///     aborted => println!("begin again: {}", client.explain(&aborted)),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Transaction {
    client: Client,
    changes: Vec<TransactionChange>,
    /// The versions of the rows that it has read, by table and pk; none for a row that did not
    /// exist.
    read: BTreeMap<(TableId, Vec<u8>), Option<Version>>,
    /// The epoch of the oldest configuration by which changes were made.
    planned: Epoch,
}

/// A point in a transaction to which it can return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Savepoint {
    changes: usize,
}

impl Client {
    /// Begins a transaction.
    pub fn transaction(&self) -> Transaction {
        Transaction {
            client: self.clone(),
            changes: Vec::new(),
            read: BTreeMap::new(),
            planned: ANY_EPOCH,
        }
    }

    /// Runs changes together, exactly once, if all rows are as the checks say. They were made by
    /// configurations of the epoch `planned` or later ones.
    ///
    /// # Errors
    /// As [`Transaction::commit`].
    #[doc(hidden)]
    pub async fn transact(
        &self,
        planned: Epoch,
        changes: Vec<TransactionChange>,
        checks: Vec<RowCheck>,
        ranges: Vec<RangeCheck>,
    ) -> Result<TransactionResult, Error> {
        let operation = SessionOperation::Transact {
            changes,
            checks,
            ranges,
            planned,
        };
        match self.run(operation, "a transaction", None).await? {
            SessionOutcome::Executed(RequestResult::Transaction(result)) => Ok(result),
            other => Err(other_outcome(&other)),
        }
    }

    /// Describes the result of a transaction for people. For a duplicate it names the index and the
    /// key.
    pub fn explain(&self, result: &TransactionResult) -> String {
        let (table, reason) = match result {
            TransactionResult::Committed { version, .. } => {
                return format!("done: version {}", version.0);
            }
            TransactionResult::Aborted { table, reason } => (*table, reason),
        };
        let table = Table::of_id(self, table);
        let name = table
            .as_ref()
            .map_or("a dropped table", |it| &it.schema().name);
        match reason {
            AbortReason::Duplicate { .. } | AbortReason::NotDense { .. } => {
                let result = RequestResult::of_abort(reason);
                match table.as_ref().zip(result) {
                    Some((table, result)) => table.explain(&result),
                    None => "a table of the transaction was dropped".to_owned(),
                }
            }
            AbortReason::Invalid { message } => message.clone(),
            AbortReason::CheckFailed { constraint } => check_violation_text(name, constraint),
            AbortReason::ReferenceViolated(violation) => self.explain_violation(violation),
            AbortReason::NotApplied { change, .. } => format!(
                "change number {change} of the transaction, in table {name}, found nothing to change"
            ),
            AbortReason::Changed { .. } => format!(
                "a row of table {name} has changed since the transaction has read it: begin again"
            ),
            AbortReason::Conflict => format!(
                "another operation was in the way in table {name}, and nothing was changed: try \
                 again"
            ),
        }
    }
}

impl Client {
    /// Describes the violation of a foreign key for people, as PostgreSQL does.
    fn explain_violation(&self, violation: &ReferenceViolation) -> String {
        let configuration = self.configuration();
        violation_text(&configuration, violation).join(": ")
    }
}

/// Returns what PostgreSQL reports of the violation of a foreign key, and the detail.
#[doc(hidden)]
pub fn violation_text(
    configuration: &Configuration,
    violation: &ReferenceViolation,
) -> [String; 2] {
    let name = &violation.constraint;
    let child = configuration.table(violation.child);
    let key = child.and_then(|child| {
        let mut keys = child.schema.constraints.foreign_keys.iter();
        keys.find(|key| key.name == *name)
    });
    let parent = key.and_then(|key| configuration.table_named(&key.parent));
    let (Some(child), Some(key), Some(parent)) = (child, key, parent) else {
        let text = format!("the foreign key constraint \"{name}\" was violated");
        return [text, "its table was dropped meanwhile".into()];
    };
    let (child, parent) = (&child.schema, &parent.schema);
    let values = parent
        .decode_primary_key(&violation.key)
        .unwrap_or_default();
    let values: Vec<String> = values.iter().map(ToString::to_string).collect();
    let values = values.join(", ");
    let names = |schema: &Schema, columns: &[usize]| {
        let columns = columns.iter().map(|it| schema.columns[*it].name.clone());
        columns.collect::<Vec<_>>().join(", ")
    };
    let (child_name, parent_name) = (&child.name, &parent.name);
    match violation.fault {
        ReferenceFault::NoParent => [
            format!(
                "insert or update on table \"{child_name}\" violates foreign key constraint \"{name}\""
            ),
            format!(
                "Key ({})=({values}) is not present in table \"{parent_name}\".",
                names(child, &key.columns)
            ),
        ],
        ReferenceFault::HasChildren => [
            format!(
                "update or delete on table \"{parent_name}\" violates foreign key constraint \
                 \"{name}\" on table \"{child_name}\""
            ),
            format!(
                "Key ({})=({values}) is still referenced from table \"{child_name}\".",
                names(parent, &parent.primary_key)
            ),
        ],
    }
}

impl Transaction {
    /// Adds the insert of a row. If a row with this primary key exists, the transaction aborts.
    ///
    /// # Errors
    /// The values fit no row of the table.
    pub fn insert(&mut self, table: &Table, values: &[Value]) -> Result<(), Error> {
        let mutation = table.insertion(values)?;
        self.change(table, mutation, true);
        Ok(())
    }

    /// Adds an insert that leaves a row as it is if it exists.
    ///
    /// # Errors
    /// The values fit no row of the table.
    pub fn insert_or_keep(&mut self, table: &Table, values: &[Value]) -> Result<(), Error> {
        let mutation = table.keeping_insertion(values)?;
        self.change(table, mutation, false);
        Ok(())
    }

    /// Adds the update of a row, if the condition holds. If there is no such row, or the condition
    /// does not hold, the transaction aborts.
    ///
    /// # Errors
    /// The values are no primary key.
    pub fn update(
        &mut self,
        table: &Table,
        pk: &[Value],
        assignments: Vec<Assignment>,
        condition: Option<Expression>,
    ) -> Result<(), Error> {
        let pk = table.pk(pk)?;
        let action = Action::Update {
            assignments,
            condition,
        };
        self.change(table, Mutation { pk, action }, true);
        Ok(())
    }

    /// Adds an update that sets one column.
    ///
    /// # Errors
    /// The values are no primary key, or there is no such column.
    pub fn set(
        &mut self,
        table: &Table,
        pk: &[Value],
        column: &str,
        value: Value,
    ) -> Result<(), Error> {
        let column = table.column(column)?;
        let value = Expression::Literal(value);
        self.update(table, pk, vec![Assignment { column, value }], None)
    }

    /// Adds an update that adds a number to one column. It is evaluated at the commit.
    ///
    /// # Errors
    /// The values are no primary key, or there is no such column.
    pub fn add(
        &mut self,
        table: &Table,
        pk: &[Value],
        column: &str,
        number: i64,
    ) -> Result<(), Error> {
        let column = table.column(column)?;
        let value = Expression::Binary(
            protocol::expression::BinaryOperator::Add,
            Box::new(Expression::Column(column)),
            Box::new(Expression::Literal(Value::Int64(number))),
        );
        self.update(table, pk, vec![Assignment { column, value }], None)
    }

    /// Adds the removal of a row. If there is none, or the condition does not hold, the transaction
    /// aborts.
    ///
    /// # Errors
    /// The values are no primary key.
    pub fn delete(
        &mut self,
        table: &Table,
        pk: &[Value],
        condition: Option<Expression>,
    ) -> Result<(), Error> {
        let pk = table.pk(pk)?;
        let action = Action::Delete { condition };
        self.change(table, Mutation { pk, action }, true);
        Ok(())
    }

    /// Adds a change. With `must_apply` the transaction aborts if the change changes nothing.
    pub fn change(&mut self, table: &Table, mutation: Mutation, must_apply: bool) {
        self.planned = self.planned.min(table.epoch());
        self.changes.push(TransactionChange {
            table: table.id(),
            mutation,
            must_apply,
        });
    }

    /// Reads a row by its primary key. The commit aborts if the row has changed by then. The row is
    /// as it is in the table, without the changes of this transaction.
    ///
    /// # Errors
    /// As a lookup; and [`Error::Invalid`] if the transaction changes the row already, or has read
    /// it in another version, so that it could not commit.
    pub async fn get(&mut self, table: &Table, pk: &[Value]) -> Result<Option<Row>, Error> {
        let key = table.pk(pk)?;
        let is_changed =
            |change: &TransactionChange| change.table == table.id() && change.mutation.pk == key;
        if self.changes.iter().any(is_changed) {
            let message = "a transaction reads a row before it changes it".into();
            return Err(Error::Invalid { message });
        }
        let mut rows = table.lookup(IndexSelector::PrimaryKey, pk)?.await?;
        let row = rows.pop();
        let version = row.as_ref().map(|row| row.version);
        let known = self.read.entry((table.id(), key.0)).or_insert(version);
        if *known != version {
            let message = "a row that the transaction has read has changed: begin again".into();
            return Err(Error::Invalid { message });
        }
        Ok(row)
    }

    /// Returns the present point of the transaction.
    pub fn savepoint(&self) -> Savepoint {
        Savepoint {
            changes: self.changes.len(),
        }
    }

    /// Forgets all changes since a point. Rows that were read since are still compared at the
    /// commit.
    pub fn roll_back_to(&mut self, savepoint: Savepoint) {
        self.changes.truncate(savepoint.changes);
    }

    /// Runs the transaction exactly once, and returns its result. A transaction that was in the way
    /// of others was repeated by the server before it is reported as a conflict.
    ///
    /// # Errors
    /// [`Error::Unknown`] if it was sent and no result came, [`Error::Deadline`] if it certainly
    /// did not happen, [`Error::DiskFull`], [`Error::TableGone`], [`Error::Invalid`].
    pub async fn commit(self) -> Result<TransactionResult, Error> {
        if self.changes.is_empty() {
            if self.read.is_empty() {
                return Ok(TransactionResult::Committed {
                    version: Version(0),
                    outcomes: Vec::new(),
                });
            }
            let message = "a transaction that changes nothing has nothing to commit: read a \
                           snapshot to see rows of one moment"
                .into();
            return Err(Error::Invalid { message });
        }
        let read = self.read.into_iter();
        let checks = read.map(|((table, pk), version)| RowCheck {
            table,
            pk: Bytes(pk),
            version,
        });
        let checks: Vec<RowCheck> = checks.collect();
        check_size(&self.changes, &checks, &[]).map_err(|message| Error::Invalid { message })?;
        let ranges = Vec::new();
        let planned = self.planned;
        self.client
            .transact(planned, self.changes, checks, ranges)
            .await
    }
}
