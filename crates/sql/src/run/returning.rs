//! The rows that a change returns: `RETURNING`.
//!
//! The new row of an `INSERT` is known before it is sent. A row that is updated or removed is read
//! in the transaction that changes it, whose commit compares it.

use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use placement::{RowView, Value};
use protocol::configuration::PlacedTable;
use protocol::expression::evaluate;
use protocol::identity::TableId;
use protocol::operation::{Action, Mutation};

use super::sender::ROWS_IN_FLIGHT_MAX;
use super::{Attempt, OutputColumn, ReadContext, ResultRows, StatementOutcome};
use crate::error::SqlError;
use crate::plan::OutputItem;
use crate::store::Store;

/// The rows that a statement returns.
pub(super) struct Returned<'a> {
    items: &'a [OutputItem],
    table: TableId,
    /// Each row that the statement is about, or what is returned of it; none if it is not there.
    rows: Vec<Option<Vec<Value>>>,
    /// Whether `rows` has what is returned, because it is known before the rows are changed.
    is_known: bool,
    /// For each row the values of a further table that follow those of the row; empty if there is
    /// no further table.
    beside: Vec<Vec<Value>>,
}

impl<'a> Returned<'a> {
    pub fn new(items: &'a [OutputItem], table: TableId) -> Returned<'a> {
        Returned {
            items,
            table,
            rows: Vec::new(),
            is_known: false,
            beside: Vec::new(),
        }
    }

    /// Returns the rows of a statement with a further table. Each row that the statement is about
    /// is followed by the values of a row of that table.
    pub fn beside(
        items: &'a [OutputItem],
        table: TableId,
        beside: Vec<Vec<Value>>,
    ) -> Returned<'a> {
        Returned {
            beside,
            ..Returned::new(items, table)
        }
    }

    /// Computes what the insertion of new rows returns, unless it may update other rows.
    pub fn expect(&mut self, inserts: &[Mutation], table: &PlacedTable) -> Result<(), Attempt> {
        if self.items.is_empty() {
            return Ok(());
        }
        let new_row = |mutation: &Mutation| match &mutation.action {
            Action::Insert { row } | Action::InsertOrKeep { row } => {
                let row = RowView::parse(&table.schema.columns, row);
                Some(row.expect("the planner encoded it").to_values())
            }
            _ => None,
        };
        let rows: Option<Vec<Vec<Value>>> = inserts.iter().map(new_row).collect();
        let Some(rows) = rows else {
            return Ok(());
        };
        let computed = rows.iter().map(|row| self.computed(row).map(Some));
        self.rows = computed.collect::<Result<_, SqlError>>()?;
        self.is_known = true;
        Ok(())
    }

    /// Returns the pks of the rows that have to be read.
    pub fn pks(&self, mutations: &[Mutation]) -> Vec<Vec<u8>> {
        match self.items.is_empty() || self.is_known {
            true => Vec::new(),
            false => mutations.iter().map(|it| it.pk.to_vec()).collect(),
        }
    }

    /// Reads rows as the transaction sees them now. `wanted` says of each pk whether its row is
    /// needed.
    pub async fn read<S: Store>(
        &mut self,
        reading: &ReadContext<'_, S>,
        pks: &[Vec<u8>],
        wanted: &[bool],
    ) -> Result<(), Attempt> {
        if pks.is_empty() {
            return Ok(());
        }
        let mut rows: Vec<Option<Vec<Value>>> = vec![None; pks.len()];
        let pks = pks.iter().enumerate();
        let mut pks = pks.filter(|(number, _)| wanted[*number]);
        let mut sent = FuturesUnordered::new();
        loop {
            while sent.len() < ROWS_IN_FLIGHT_MAX {
                let Some((number, pk)) = pks.next() else {
                    break;
                };
                let read = reading.store.row_of_transaction(self.table, pk);
                sent.push(read.map(move |row| (number, row)));
            }
            let Some((number, row)) = sent.next().await else {
                break;
            };
            rows[number] = row?;
        }
        self.rows = rows;
        Ok(())
    }

    /// Returns the outcome of a statement with this tag, apart from the number of rows. `applied`
    /// says of each row whether it has changed.
    pub fn outcome(self, tag: &str, applied: &[bool]) -> Result<StatementOutcome, SqlError> {
        let done = applied.iter().filter(|it| **it).count();
        let tag = format!("{tag} {done}");
        if self.items.is_empty() {
            return Ok(StatementOutcome::Done(tag));
        }
        let columns = self.items.iter().map(|item| OutputColumn {
            name: item.name.clone(),
            column_type: item.column_type,
        });
        let columns = columns.collect();
        let rows = self.rows.iter().zip(applied).enumerate();
        let changed = rows.filter(|(_, (_, applied))| **applied);
        let rows = changed.filter_map(|(number, (row, _))| Some((number, row.as_ref()?)));
        let rows = rows.map(
            |(number, row)| match (self.is_known, self.beside.get(number)) {
                (true, _) => Ok(row.clone()),
                (false, None) => self.computed(row),
                (false, Some(beside)) => self.computed(&[row.as_slice(), beside].concat()),
            },
        );
        let rows = rows.collect::<Result<_, SqlError>>()?;
        Ok(StatementOutcome::Returned(
            ResultRows { columns, rows },
            tag,
        ))
    }

    fn computed(&self, row: &Vec<Value>) -> Result<Vec<Value>, SqlError> {
        let values = self.items.iter().map(|item| {
            evaluate(&item.expression, row, None).map_err(|error| SqlError::Expression {
                text: item.name.clone(),
                error,
            })
        });
        values.collect()
    }
}
