//! Draws values from sequences.
//!
//! The row of a sequence has its last value. A client draws a block of values with one conditional
//! update of this row, and hands them out without a request. A block that no client uses up is
//! lost, so that no value is handed out twice whatever fails.
//!
//! Values of a block are handed out for [`LEASE`] after the row was read, and longer only if
//! another read finds that the sequence was not reset in between. A reset waits for this time
//! before it returns. So no client hands out a value of an earlier block after that.

use std::fmt;

use placement::{Sequence, SequenceLimit, SequenceState, Value};
use protocol::expression::{Assignment, BinaryOperator, Expression};
use protocol::identity::TableId;
use protocol::operation::RequestResult;
use tokio::time::{Instant, sleep};

use crate::client::Client;
use crate::error::Error;
use crate::sequence_blocks::{Held, LEASE};
use crate::table::{IndexSelector, Table};

/// The most values of one call.
const VALUES_MAX: u64 = 1 << 20;

/// The reason why no values could be drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SequenceError {
    /// The sequence has no further value.
    Limit(SequenceLimit),
    /// A request failed. Values may be lost, and are never handed out.
    Failed(Error),
}

impl From<Error> for SequenceError {
    fn from(error: Error) -> SequenceError {
        SequenceError::Failed(error)
    }
}

impl fmt::Display for SequenceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SequenceError::Limit(limit) => f.write_str(&limit.text("")),
            SequenceError::Failed(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SequenceError {}

impl Client {
    /// Draws the next `count` values of a sequence. They are in the order of the sequence, and no
    /// call of any client returns one of them again, unless the sequence cycles or is reset.
    ///
    /// # Errors
    /// - [`SequenceError::Limit`]: the sequence has too few values left. Those are lost.
    /// - [`SequenceError::Failed`]: as for [`Table::execute`], and [`Error::Invalid`] if the table
    ///   is no sequence or the count is above 1,048,576.
    pub async fn next_values(
        &self,
        sequence: TableId,
        count: usize,
    ) -> Result<Vec<i64>, SequenceError> {
        let wanted = count as u64;
        if wanted > VALUES_MAX {
            let message = format!("a call draws at most {VALUES_MAX} values of a sequence");
            return Err(Error::Invalid { message }.into());
        }
        let (table, rules) = self.sequence(sequence)?;
        let block = self.sequences().block(sequence);
        let mut block = block.lock().await;
        let mut values = Vec::with_capacity(count);
        let mut known = None;
        loop {
            if let Some(held) = &mut block.held
                && held.read_at.elapsed() >= LEASE
            {
                let read_at = Instant::now();
                let state = read_state(&table, &rules).await?;
                known = Some(state);
                held.read_at = read_at;
                if state.resets != held.resets {
                    block.held = None;
                }
            }
            if let Some(held) = &mut block.held {
                values.extend(held.block.take(wanted - values.len() as u64));
                if held.block.count == 0 {
                    block.held = None;
                }
            }
            let missing = wanted - values.len() as u64;
            if missing == 0 {
                return Ok(values);
            }
            let state = match known.take() {
                Some(state) => state,
                None => read_state(&table, &rules).await?,
            };
            let length = block.length(&rules, missing);
            let advanced = rules.advance(state, length);
            let (drawn, after) = advanced.map_err(SequenceError::Limit)?;
            // The update compares the number of resets, too.
            let read_at = Instant::now();
            if !replace(&table, state, after).await? {
                continue;
            }
            block.last = Some((drawn.count, Instant::now()));
            block.held = Some(Held {
                block: drawn,
                resets: state.resets,
                read_at,
            });
        }
    }

    /// Sets the state of a sequence. Returns once no client hands out values that were drawn
    /// before, except those of statements that run already.
    ///
    /// # Errors
    /// As for [`Table::execute`], and [`Error::Invalid`] if the table is no sequence or the value
    /// is outside of its bounds.
    pub async fn reset_sequence(
        &self,
        sequence: TableId,
        last_value: i64,
        is_called: bool,
    ) -> Result<(), Error> {
        let (table, rules) = self.sequence(sequence)?;
        if !(rules.min..=rules.max).contains(&last_value) {
            let message = format!(
                "value {last_value} is out of bounds for sequence {}",
                table.schema().name
            );
            return Err(Error::Invalid { message });
        }
        let block = self.sequences().block(sequence);
        let mut block = block.lock().await;
        block.held = None;
        let number = Expression::Column(SequenceState::RESETS);
        let one = Expression::Literal(Value::Int64(1));
        let set = |column, value| Assignment { column, value };
        let assignments = vec![
            set(
                SequenceState::LAST_VALUE,
                Expression::Literal(Value::Int64(last_value)),
            ),
            set(
                SequenceState::IS_CALLED,
                Expression::Literal(Value::Bool(is_called)),
            ),
            set(
                SequenceState::RESETS,
                Expression::Binary(BinaryOperator::Add, Box::new(number), Box::new(one)),
            ),
        ];
        // The row exists afterwards.
        read_state(&table, &rules).await?;
        let pk = SequenceState::primary_key();
        match table.update(&pk, assignments, None).await? {
            RequestResult::Applied { .. } => {}
            other => return Err(unexpected(&table, &other)),
        }
        sleep(LEASE).await;
        Ok(())
    }

    /// Returns the table and the rules of a sequence.
    fn sequence(&self, sequence: TableId) -> Result<(Table, Sequence), Error> {
        let Some(table) = Table::of_id(self, sequence) else {
            self.sequences().forget(sequence);
            return Err(Error::TableGone {
                table: sequence.0.to_string(),
            });
        };
        let Some(rules) = table.schema().sequence.clone() else {
            let message = format!("table {} is no sequence", table.schema().name);
            return Err(Error::Invalid { message });
        };
        Ok((table, rules))
    }
}

/// Reads the row of a sequence. Inserts it if no client has done that.
async fn read_state(table: &Table, rules: &Sequence) -> Result<SequenceState, Error> {
    let pk = SequenceState::primary_key();
    loop {
        let rows = table.lookup(IndexSelector::PrimaryKey, &pk)?.await?;
        if let Some(row) = rows.first() {
            let state = SequenceState::of_row(&row.values);
            return Ok(state.expect("Schema::validate has checked the columns"));
        }
        match table.insert_or_keep(&rules.initial().to_row()).await {
            Ok(RequestResult::Applied { .. } | RequestResult::Kept) => {}
            Err(Error::Unknown { .. }) => {}
            Ok(other) => return Err(unexpected(table, &other)),
            Err(error) => return Err(error),
        }
    }
}

/// Replaces the state of a sequence. Returns whether it was the given one before.
async fn replace(
    table: &Table,
    before: SequenceState,
    after: SequenceState,
) -> Result<bool, Error> {
    let equals = |column, value| {
        let column = Box::new(Expression::Column(column));
        Expression::Binary(BinaryOperator::Equal, column, Box::new(value))
    };
    let number = |value| Expression::Literal(Value::Int64(value));
    let called = |value| Expression::Literal(Value::Bool(value));
    let condition = Expression::all(vec![
        equals(SequenceState::LAST_VALUE, number(before.last_value)),
        equals(SequenceState::IS_CALLED, called(before.is_called)),
        equals(SequenceState::RESETS, number(before.resets)),
    ]);
    let assignments = vec![
        Assignment {
            column: SequenceState::LAST_VALUE,
            value: number(after.last_value),
        },
        Assignment {
            column: SequenceState::IS_CALLED,
            value: called(after.is_called),
        },
    ];
    let pk = SequenceState::primary_key();
    match table.update(&pk, assignments, condition).await {
        Ok(RequestResult::Applied { .. }) => Ok(true),
        // A block that was drawn without an answer is lost.
        Ok(RequestResult::ConditionFailed) | Err(Error::Unknown { .. }) => Ok(false),
        Ok(other) => Err(unexpected(table, &other)),
        Err(error) => Err(error),
    }
}

fn unexpected(table: &Table, result: &RequestResult) -> Error {
    Error::Invalid {
        message: format!(
            "the row of sequence {} did not change: {}",
            table.schema().name,
            table.explain(result)
        ),
    }
}
