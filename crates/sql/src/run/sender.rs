//! Sends single mutations of one table, and returns the outcome of each.

use placement::{ColumnType, ForeignKey, ReplexKind, SortColumn, columns_of, decode_sorted};
use protocol::codec::Bytes;
use protocol::configuration::PlacedTable;
use protocol::identity::Epoch;
use protocol::operation::{Mutation, RequestResult};
use protocol::transaction::{AbortReason, ReferenceFault, ReferenceViolation, TransactionResult};

use super::Attempt;
use crate::error::{ForeignKeyViolation, SqlError, StatementProgress};
use crate::plan::text;
use crate::store::{Store, StoreError};

/// The most attempts at a mutation that ends with `Conflict`, because other operations held its row
/// for too long (R8). Within each attempt the client repeats it until its deadline
/// (`client::Table::execute`).
pub const CONFLICT_ATTEMPTS_MAX: usize = 3;

/// The most rows of one statement that are in flight at the same time.
pub const ROWS_IN_FLIGHT_MAX: usize = 256;

/// Sends single mutations of one table.
#[derive(Debug)]
pub(crate) struct Sender<'a, S> {
    /// The store.
    pub store: &'a S,
    /// The table.
    pub table: &'a PlacedTable,
    /// The epoch of the configuration by which the mutations were made.
    pub planned: Epoch,
}

impl<S: Store> Sender<'_, S> {
    /// Sends one mutation. Returns whether a row changed.
    pub async fn send(&self, mutation: Mutation) -> Result<bool, Attempt> {
        let result = self.result(mutation).await?;
        self.changed(result)
    }

    /// Returns the result of a mutation. If it ends with `Conflict`, sends it again, up to
    /// [`CONFLICT_ATTEMPTS_MAX`] times in all.
    pub(super) async fn result(&self, mutation: Mutation) -> Result<RequestResult, Attempt> {
        for _ in 1..CONFLICT_ATTEMPTS_MAX {
            let sent = self.execute(mutation.clone()).await?;
            match sent {
                RequestResult::Conflict => {}
                result => return Ok(result),
            }
        }
        Ok(self.execute(mutation).await?)
    }

    async fn execute(&self, mutation: Mutation) -> Result<RequestResult, StoreError> {
        let (planned, table) = (self.planned, self.table.id);
        self.store.execute(planned, table, mutation).await
    }

    /// Returns whether the row changed. Returns false if the row is kept, is missing, or does not
    /// satisfy the condition. Fails if the store refused the change.
    pub(super) fn changed(&self, result: RequestResult) -> Result<bool, Attempt> {
        let table = self.table.schema.name.clone();
        let done = StatementProgress::default();
        Err(Attempt::Failed(match result {
            RequestResult::Applied { .. } => return Ok(true),
            RequestResult::Kept | RequestResult::NotFound | RequestResult::ConditionFailed => {
                return Ok(false);
            }
            RequestResult::Conflict => SqlError::Conflict { table, done },
            RequestResult::Duplicate { replex, key } => SqlError::Duplicate {
                table,
                key: describe_key(self.table, usize::from(replex), &key),
                done,
            },
            RequestResult::NotDense { replex, expected } => SqlError::NotDense {
                table,
                index: replex_name(self.table, usize::from(replex)),
                expected,
                done,
            },
            RequestResult::Invalid { message } => SqlError::Invalid {
                table,
                message,
                done,
            },
            RequestResult::CheckFailed { constraint } => SqlError::CheckFailed {
                table,
                constraint,
                done,
            },
            RequestResult::Transaction(TransactionResult::Aborted {
                reason: AbortReason::ReferenceViolated(violation),
                ..
            }) => {
                let configuration = self.store.configuration();
                let [message, detail] = client::violation_text(&configuration, &violation);
                let child = configuration.table(violation.child);
                let violation = ForeignKeyViolation {
                    table: child.map_or(String::new(), |child| child.schema.name.clone()),
                    constraint: violation.constraint,
                    message,
                    detail,
                };
                SqlError::ForeignKey {
                    violation: Box::new(violation),
                    done,
                }
            }
            RequestResult::Transaction(_) => SqlError::Invalid {
                table,
                message: "a server took the change for a transaction; report this fault".into(),
                done,
            },
        }))
    }
}

/// Returns a primary key for people.
pub(crate) fn describe_pk(table: &PlacedTable, pk: &[u8]) -> String {
    describe_key(table, table.layout.primary(), pk)
}

fn replex_name(table: &PlacedTable, replex: usize) -> String {
    let replex = table.layout.replexes.get(replex);
    replex.map_or_else(|| "unknown".to_string(), |it| it.name.clone())
}

/// Returns a key for people, as `index by_email (email) = ('a@b')`; the bytes if they are no such
/// key.
fn describe_key(table: &PlacedTable, replex: usize, key: &[u8]) -> String {
    let name = match table.layout.replexes.get(replex).map(|it| it.kind) {
        Some(ReplexKind::Primary) => "primary key".to_string(),
        _ => format!("index {}", replex_name(table, replex)),
    };
    let replex = table.layout.replexes.get(replex);
    let order: &[SortColumn] = replex.map_or(&[], |it| &it.sort_columns);
    let columns = columns_of(order);
    let types: Vec<ColumnType> = columns
        .iter()
        .map(|column| table.schema.columns[*column].column_type)
        .collect();
    match decode_sorted(order, &types, key) {
        Ok(values) => text::key(&name, &table.schema, &columns, &values),
        Err(_) => name,
    }
}

/// Returns the error for a foreign key that rows violate. `pk` is the parent's.
pub(super) fn reference_violated<S: Store>(
    store: &S,
    (child, key): (&PlacedTable, &ForeignKey),
    pk: Vec<u8>,
    fault: ReferenceFault,
) -> Attempt {
    let violation = ReferenceViolation {
        child: child.id,
        constraint: key.name.clone(),
        key: Bytes(pk),
        fault,
    };
    let aborted = TransactionResult::Aborted {
        table: child.id,
        reason: AbortReason::ReferenceViolated(violation),
    };
    let sender = Sender {
        store,
        table: child,
        planned: child.epoch,
    };
    let refused = sender.changed(RequestResult::Transaction(aborted));
    refused.expect_err("a violation is an error")
}
