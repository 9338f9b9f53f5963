//! Runs statements over a store, one after the other, with the settings of a session.

mod change;
mod copies;
mod describe;
mod read;

use std::time::{SystemTime, UNIX_EPOCH};

use client::protocol::configuration::Configuration;
use placement::{ColumnType, Value};

use crate::error::{Error, Progress};
use crate::parse::{ParseError, parse};
use crate::plan::{Context, Plan, Settings, plan};
use crate::statement::{Set, Setting, Show, Statement};
use crate::store::{Store, StoreError};

pub(crate) use change::Sender;
pub use change::{CHANGE_ROWS_MAX, CONFLICT_RETRIES_MAX, ROWS_IN_FLIGHT_MAX};
pub use read::ROWS_HELD_MAX;
pub(crate) use read::{Flow, Reading, gather};

/// A user's conversation with the store.
#[derive(Debug)]
pub struct Session<S> {
    store: S,
    settings: Settings,
}

/// What a statement came to.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Rows.
    Rows(Rows),
    /// Several tables with a title each: `SHOW TABLE`.
    Description(Vec<(String, Rows)>),
    /// It was done; says so as psql does, as `INSERT 0 3`.
    Done(String),
}

/// A result.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows {
    /// What each row holds.
    pub columns: Vec<OutputColumn>,
    /// Each as long as `columns`.
    pub rows: Vec<Vec<Value>>,
}

/// A column of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputColumn {
    /// Its name; not always unique.
    pub name: String,
    /// The type of its values; none where it is always NULL.
    pub column_type: Option<ColumnType>,
}

impl<S: Store> Session<S> {
    /// A session with the settings that are the default.
    pub fn new(store: S) -> Session<S> {
        Session {
            store,
            settings: Settings::default(),
        }
    }

    /// What it runs over.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Its settings.
    pub fn settings(&self) -> Settings {
        self.settings
    }

    /// Runs all statements of a text, and stops at the first that fails. Nothing is run if the
    /// text does not parse.
    pub async fn run_text(&mut self, text: &str) -> Result<Vec<Outcome>, ParseError> {
        let mut outcomes = Vec::new();
        for parsed in parse(text)? {
            let outcome = self.run(&parsed.statement, &[]).await;
            outcomes.push(outcome.map_err(|error| ParseError {
                error,
                line: parsed.line,
            })?);
        }
        Ok(outcomes)
    }

    /// Runs one statement; `parameters` are the values of `$1`, `$2`, …
    pub async fn run(
        &mut self,
        statement: &Statement,
        parameters: &[Value],
    ) -> Result<Outcome, Error> {
        // A configuration that is behind may lack the table, or hold one that is gone: fetched
        // anew it tells the truth, so twice is enough.
        let known = self.store.configuration();
        let first = self.attempt(statement, parameters, &known).await;
        let failure = match first {
            Ok(outcome) => return Ok(outcome),
            Err(Attempt::Failed(error)) => return Err(error),
            Err(Attempt::Planned(error)) => error,
            Err(Attempt::Stale(error)) => error.into(),
        };
        let newest = self.store.refresh().await?;
        if newest.epoch == known.epoch {
            return Err(failure);
        }
        let second = self.attempt(statement, parameters, &newest).await;
        second.map_err(Error::from)
    }

    async fn attempt(
        &mut self,
        statement: &Statement,
        parameters: &[Value],
        configuration: &Configuration,
    ) -> Result<Outcome, Attempt> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let context = Context {
            configuration,
            settings: self.settings,
            parameters,
            now_us: now.map_or(0, |it| i64::try_from(it.as_micros()).unwrap_or(i64::MAX)),
        };
        let reading = Reading {
            store: &self.store,
            configuration,
            settings: self.settings,
        };
        Ok(match plan(statement, &context).map_err(Attempt::Planned)? {
            Plan::Select(select) => Outcome::Rows(reading.select(select).await?),
            Plan::Insert(insert) => change::insert(&reading, insert).await?,
            Plan::Change(plan) => change::change(&reading, plan).await?,
            Plan::Explain(lines) => Outcome::Rows(Rows {
                columns: vec![OutputColumn {
                    name: "QUERY PLAN".to_string(),
                    column_type: Some(ColumnType::Text),
                }],
                rows: lines.into_iter().map(|it| vec![Value::Text(it)]).collect(),
            }),
            Plan::Show(Show::Setting(setting)) => describe::setting(setting, self.settings),
            Plan::Show(show) => describe::show(&show, configuration),
            Plan::Already(what) => Outcome::Done(format!("NOTICE: {what}, nothing was done")),
            Plan::Set(Set { setting, on }) => {
                match setting {
                    Setting::Scan => self.settings.scan = on,
                    Setting::StaleReads => self.settings.stale_reads = on,
                }
                Outcome::Done("SET".to_string())
            }
            Plan::CreateTable {
                schema,
                if_not_exists,
            } => {
                let created = self.store.create_table(*schema, if_not_exists).await;
                created.map_err(Attempt::of_definition)?;
                Outcome::Done("CREATE TABLE".to_string())
            }
            Plan::AddIndex { wanted, name } => {
                let bar = copies::Bar::new(&name);
                let made = self.store.add_copy(*wanted, &|fill| bar.show(fill)).await;
                made.map_err(Attempt::of_definition)?;
                Outcome::Done("CREATE INDEX".to_string())
            }
            Plan::DropIndex {
                table,
                name,
                if_exists,
            } => {
                let dropped = self.store.drop_copy(&table, &name, if_exists).await;
                dropped.map_err(Attempt::of_definition)?;
                Outcome::Done("DROP INDEX".to_string())
            }
            Plan::DropTable { name, if_exists } => {
                let dropped = self.store.drop_table(&name, if_exists).await;
                dropped.map_err(Attempt::of_definition)?;
                Outcome::Done("DROP TABLE".to_string())
            }
        })
    }
}

/// Why one attempt at a statement ended.
pub(crate) enum Attempt {
    /// For good.
    Failed(Error),
    /// It makes no sense over this configuration.
    Planned(Error),
    /// The configuration it was planned over is not the cluster's, and nothing was changed.
    Stale(StoreError),
}

impl Attempt {
    fn of_definition(error: StoreError) -> Attempt {
        Attempt::Failed(error.into())
    }
}

impl From<Error> for Attempt {
    fn from(error: Error) -> Attempt {
        Attempt::Failed(error)
    }
}

impl From<StoreError> for Attempt {
    fn from(error: StoreError) -> Attempt {
        if error.stale && !error.unknown {
            Attempt::Stale(error)
        } else {
            Attempt::Failed(error.into())
        }
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Error {
        Error::Store {
            message: error.message,
            unknown: error.unknown,
            done: Progress::default(),
        }
    }
}

#[cfg(test)]
mod tests;
