//! Runs a `SELECT` whose rows are passed on while they are read, so that no result is held as a
//! whole.
//!
//! The reader is asked between two pages whether it has taken the rows so far. Results that must be
//! sorted first, aggregates, and statements in a transaction are held as in `run`. Rows that were
//! passed on cannot be taken back: a read that would have to start again fails then.

use std::future::Future;

use placement::Value;
use protocol::configuration::Configuration;

use super::read::{Flow, RowReader, StatementRead, gather_into, give_out, only, output};
use super::sequences::has_calls;
use super::{
    Attempt, OutputColumn, ReadContext, SNAPSHOT_ATTEMPTS_MAX, SqlSession, StatementOutcome,
    StoreStatistics, check_rights, now_us,
};
use crate::error::SqlError;
use crate::plan::{Context, OutputItem, ReadPlan, SelectPlan, StatementPlan, plan};
use crate::statement::Statement;
use crate::store::Store;

/// Takes the rows of a statement one by one.
pub trait RowSink: Send {
    /// Takes the columns, before the first row.
    ///
    /// # Errors
    /// The reader cannot take them. The statement ends with this error.
    fn columns(&mut self, columns: &[OutputColumn]) -> Result<(), SqlError>;

    /// Takes a row.
    ///
    /// # Errors
    /// The reader cannot take it. The statement ends with this error.
    fn row(&mut self, row: &[Value]) -> Result<(), SqlError>;

    /// Waits until the reader can take more rows.
    ///
    /// # Errors
    /// The reader takes no more. The statement ends with this error.
    fn ready(&mut self) -> impl Future<Output = Result<(), SqlError>> + Send;
}

/// The outcome of a statement whose rows were passed on.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamOutcome {
    /// The sink has all rows.
    Streamed,
    /// The statement is none whose rows can be passed on while they are read. The sink has nothing.
    Held(StatementOutcome),
}

/// A sink, and what it has got.
struct BegunSink<'a, K> {
    sink: &'a mut K,
    columns: Option<Vec<OutputColumn>>,
    has_rows: bool,
}

impl<K: RowSink> BegunSink<'_, K> {
    /// Passes the columns on, unless the sink has got them in an attempt before this one.
    fn begin(&mut self, columns: Vec<OutputColumn>) -> Result<(), SqlError> {
        match &self.columns {
            None => {
                self.sink.columns(&columns)?;
                self.columns = Some(columns);
                Ok(())
            }
            Some(known) if *known == columns => Ok(()),
            Some(_) => Err(has_changed()),
        }
    }

    fn row(&mut self, row: &[Value]) -> Result<(), SqlError> {
        self.has_rows = true;
        self.sink.row(row)
    }
}

impl<S: Store> SqlSession<S> {
    /// Runs one statement, and passes its rows on while they are read if that is possible.
    pub async fn run_into<K: RowSink>(
        &mut self,
        statement: &Statement,
        parameters: &[Value],
        sink: &mut K,
    ) -> Result<StreamOutcome, SqlError> {
        let is_read = matches!(statement, Statement::Select(_)) && !has_calls(statement);
        if !is_read || self.block.is_some() {
            let outcome = self.run(statement, parameters).await?;
            return Ok(StreamOutcome::Held(outcome));
        }
        let mut sink = BegunSink {
            sink,
            columns: None,
            has_rows: false,
        };
        let mut configuration = self.store.configuration();
        let mut attempts = 0;
        loop {
            attempts += 1;
            let read = self.read_into(statement, parameters, &configuration, &mut sink);
            let failure = match read.await {
                Ok(StreamOutcome::Held(_)) if sink.columns.is_some() => return Err(has_changed()),
                Ok(outcome) => return Ok(outcome),
                Err(Attempt::Failed(error)) => return Err(error),
                Err(failure) => failure,
            };
            if sink.has_rows {
                let message = match SqlError::from(failure) {
                    SqlError::Store { message, .. } => message,
                    error => error.to_string(),
                };
                return Err(SqlError::Serialization { message });
            }
            let newest = match (self.store.refresh().await, &failure) {
                (Ok(newest), _) => newest,
                // The privileges that are known hold.
                (Err(_), Attempt::Planned(error)) if error.is_denial() => {
                    return Err(failure.into());
                }
                (Err(error), _) => return Err(error.into()),
            };
            let may_repeat = match &failure {
                Attempt::SnapshotEnded(_) => attempts < SNAPSHOT_ATTEMPTS_MAX,
                _ => attempts == 1 && newest.epoch != configuration.epoch,
            };
            if !may_repeat {
                return Err(failure.into());
            }
            configuration = newest;
        }
    }

    async fn read_into<K: RowSink>(
        &self,
        statement: &Statement,
        parameters: &[Value],
        configuration: &Configuration,
        sink: &mut BegunSink<'_, K>,
    ) -> Result<StreamOutcome, Attempt> {
        check_rights(statement, configuration, self.settings.role)?;
        let statistics = StoreStatistics(&self.store);
        let context = Context {
            configuration,
            settings: self.settings,
            parameters,
            now_us: now_us(),
            statistics: &statistics,
            explains: false,
        };
        let reading = ReadContext {
            store: &self.store,
            configuration,
            settings: self.settings,
            notices: &self.notices,
            needs_one_state: false,
        };
        match plan(statement, &context).map_err(Attempt::Planned)? {
            StatementPlan::Select(mut plan) if plan.limit != Some(0) => {
                let sorted = plan.order.is_empty() || plan.ordered_by_index;
                match plan.read.take() {
                    Some(read) if sorted && reading.is_one_range(&read, &plan) => {
                        reading.stream(&read, &plan, sink).await?;
                        Ok(StreamOutcome::Streamed)
                    }
                    read => {
                        plan.read = read;
                        let rows = reading.select(*plan).await?;
                        Ok(StreamOutcome::Held(StatementOutcome::Rows(rows)))
                    }
                }
            }
            plan => reading.run(plan).await.map(StreamOutcome::Held),
        }
    }
}

impl<S: Store> ReadContext<'_, S> {
    /// Returns whether the rows of a read come from one range, and so in their order.
    fn is_one_range(&self, read: &ReadPlan, plan: &SelectPlan) -> bool {
        let table = self.table(read);
        let wanted = plan.limit.map(|limit| limit.saturating_add(plan.offset));
        self.gather_plans(read, table, wanted, false).len() == 1
    }

    /// Passes the rows of a read on.
    async fn stream<K: RowSink>(
        &self,
        read: &ReadPlan,
        plan: &SelectPlan,
        sink: &mut BegunSink<'_, K>,
    ) -> Result<(), Attempt> {
        let table = self.table(read);
        let bound = self.bound(read).await?;
        let wanted = plan.limit.map(|limit| limit.saturating_add(plan.offset));
        let plans = self.gather_plans(read, table, wanted, false);
        let columns = plan.items.iter().map(|item| OutputColumn {
            name: item.name.clone(),
            column_type: item.column_type,
        });
        sink.begin(columns.collect())?;
        let mut reader = StreamReader {
            sink,
            items: &plan.items,
            skip: plan.offset,
            left: plan.limit.unwrap_or(u64::MAX),
        };
        match self.begin(table, plans).await? {
            StatementRead::Moment(moment) => {
                for mut rows in moment {
                    give_out(table, &mut rows, |row| reader.row(row))?;
                }
            }
            StatementRead::Pages(plans, _snapshot) => {
                gather_into(self.store, table, only(plans), bound, &mut reader).await?;
            }
        }
        Ok(())
    }
}

/// Passes rows to a sink, within the limits of the statement.
struct StreamReader<'a, 's, K> {
    sink: &'a mut BegunSink<'s, K>,
    items: &'a [OutputItem],
    /// The rows to skip before the first one of the result.
    skip: u64,
    /// The rows that the result may still have; not 0 at the start.
    left: u64,
}

impl<K: RowSink> RowReader for StreamReader<'_, '_, K> {
    fn row(&mut self, row: Vec<Value>) -> Result<Flow, Attempt> {
        if self.skip > 0 {
            self.skip -= 1;
            return Ok(Flow::Continue(()));
        }
        self.sink.row(&output(self.items, &row)?)?;
        self.left -= 1;
        Ok(match self.left {
            0 => Flow::Break(()),
            _ => Flow::Continue(()),
        })
    }

    async fn ready(&mut self) -> Result<(), Attempt> {
        Ok(self.sink.sink.ready().await?)
    }
}

/// Returns the error of a statement whose columns were passed on and are others now.
fn has_changed() -> SqlError {
    SqlError::Serialization {
        message: "the table of the statement has changed".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::FLIGHTS;
    use crate::model::{Model, block_on};
    use crate::parse::parse;

    /// Keeps rows, and fails at the row with this number.
    #[derive(Default)]
    struct Rows {
        columns: usize,
        rows: Vec<Vec<Value>>,
        waits: usize,
        fails_at: Option<usize>,
    }

    impl RowSink for Rows {
        fn columns(&mut self, _: &[OutputColumn]) -> Result<(), SqlError> {
            self.columns += 1;
            Ok(())
        }

        fn row(&mut self, row: &[Value]) -> Result<(), SqlError> {
            if self.fails_at == Some(self.rows.len()) {
                return Err(SqlError::statement("the reader is gone"));
            }
            self.rows.push(row.to_vec());
            Ok(())
        }

        async fn ready(&mut self) -> Result<(), SqlError> {
            self.waits += 1;
            Ok(())
        }
    }

    fn filled() -> SqlSession<Model> {
        let mut session = Model::session(FLIGHTS);
        for first in (0..1000).step_by(100) {
            let rows = (first..first + 100).map(|id| format!("({id}, 'N{}', 'a', 'b')", id % 3));
            let rows = rows.collect::<Vec<_>>().join(", ");
            let text = format!("INSERT INTO flights (id, tailnum, origin, dest) VALUES {rows}");
            block_on(session.run_text(&text)).unwrap();
        }
        session
    }

    fn streamed(session: &mut SqlSession<Model>, text: &str, sink: &mut Rows) -> StreamOutcome {
        let statement = parse(text).unwrap().remove(0).statement;
        block_on(session.run_into(&statement, &[], sink)).unwrap()
    }

    #[test]
    fn passed_rows_are_those_of_the_result() {
        let mut session = filled();
        for text in [
            "SELECT id, tailnum || '!' FROM flights",
            "SELECT id FROM flights LIMIT 7 OFFSET 990",
            "SELECT id FROM flights WHERE tailnum = 'N1' AND id > 500",
            "SELECT id FROM flights WHERE tailnum = 'no'",
        ] {
            let mut sink = Rows::default();
            let outcome = streamed(&mut session, text, &mut sink);
            assert_eq!(
                (outcome, sink.columns),
                (StreamOutcome::Streamed, 1),
                "{text}"
            );
            let held = block_on(session.run_text(text)).unwrap().remove(0);
            let StatementOutcome::Rows(held) = held else {
                panic!("{text} has rows")
            };
            assert_eq!(sink.rows.len(), held.rows.len(), "{text}");
            if !text.contains("LIMIT") {
                let sorted = |mut rows: Vec<Vec<Value>>| {
                    rows.sort();
                    rows
                };
                assert_eq!(sorted(sink.rows), sorted(held.rows), "{text}");
            }
        }
    }

    #[test]
    fn results_that_are_sorted_or_computed_are_held() {
        let mut session = filled();
        for text in [
            "SELECT id FROM flights ORDER BY note, id",
            "SELECT count(*) FROM flights",
            "SELECT 1",
            "SELECT id FROM flights LIMIT 0",
            "SHOW scan",
        ] {
            let mut sink = Rows::default();
            let outcome = streamed(&mut session, text, &mut sink);
            assert!(matches!(outcome, StreamOutcome::Held(_)), "{text}");
            assert_eq!(sink.columns, 0);
        }
        block_on(session.run_text("BEGIN")).unwrap();
        let mut sink = Rows::default();
        let outcome = streamed(
            &mut session,
            "SELECT id FROM flights WHERE id = 1",
            &mut sink,
        );
        assert!(matches!(outcome, StreamOutcome::Held(_)));
    }

    #[test]
    fn a_read_starts_again_before_its_first_row_only() {
        let mut session = filled();
        session.store().moments_of(0);
        session.store().end_snapshots(1);
        let mut sink = Rows::default();
        streamed(&mut session, "SELECT id FROM flights", &mut sink);
        assert_eq!((sink.columns, sink.rows.len()), (1, 1000));
        assert!(sink.waits > 0);
        let statement = parse("SELECT id FROM flights").unwrap().remove(0).statement;
        let mut sink = Rows {
            fails_at: Some(3),
            ..Rows::default()
        };
        let failure = block_on(session.run_into(&statement, &[], &mut sink)).unwrap_err();
        assert!(failure.to_string().contains("the reader is gone"));
        assert_eq!(sink.rows.len(), 3);
    }
}
