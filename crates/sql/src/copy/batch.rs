//! Collects the rows of a `COPY` until they are as many as a transaction takes.

use protocol::codec::Wire;
use protocol::operation::Mutation;
use protocol::transaction::{CHANGE_BYTES_MAX, CHANGES_MAX, TransactionChange};

use super::CopyTarget;
use crate::statement::{NewRows, Statement};

/// Rows that were read and not sent.
#[derive(Debug)]
pub struct CopyBatch {
    rows: NewRows,
    rows_max: usize,
    bytes: usize,
    /// For the size of a change.
    buffer: Vec<u8>,
}

impl CopyBatch {
    /// Returns an empty batch for the rows of a table. In a transaction of the session each batch
    /// is a part of it.
    pub fn new(target: &CopyTarget, in_transaction: bool) -> CopyBatch {
        let (table, name) = target.table();
        CopyBatch {
            rows: NewRows {
                table,
                planned: target.epoch(),
                name: name.to_owned(),
                rows: Vec::new(),
            },
            rows_max: match target.is_row_by_row() && !in_transaction {
                true => 1,
                false => CHANGES_MAX,
            },
            bytes: 0,
            buffer: Vec::new(),
        }
    }

    /// Adds a row. If a transaction takes no further one, returns the statement that inserts the
    /// rows before it; the batch has only the new row then.
    pub fn add(&mut self, mutation: Mutation) -> Option<Statement> {
        let change = TransactionChange {
            table: self.rows.table,
            mutation,
            must_apply: false,
        };
        self.buffer.clear();
        change.encode(&mut self.buffer);
        let bytes = self.buffer.len();
        let is_full =
            self.rows.rows.len() >= self.rows_max || self.bytes + bytes > CHANGE_BYTES_MAX;
        let full = if is_full { self.take() } else { None };
        self.bytes += bytes;
        self.rows.rows.push(change.mutation);
        full
    }

    /// Returns the statement that inserts the rows; none if there are no rows. The batch is empty
    /// then.
    pub fn take(&mut self) -> Option<Statement> {
        if self.rows.rows.is_empty() {
            return None;
        }
        self.bytes = 0;
        let rows = std::mem::take(&mut self.rows.rows);
        Some(Statement::InsertRows(NewRows {
            rows,
            ..self.rows.clone()
        }))
    }
}
