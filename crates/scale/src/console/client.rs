//! Asks a running proxy's console.

use tokio_postgres::SimpleQueryMessage;

use super::DATABASE;
use crate::address::Address;
use crate::replication::{Error, connect};

/// What the console answered: names of columns, and rows of texts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Names of the columns; none if there are no rows.
    pub columns: Vec<String>,
    /// A text for each column, if it has one.
    pub rows: Vec<Vec<Option<String>>>,
}

/// Sends one command to the console at an address, whose database does not matter.
pub async fn ask(address: &Address, command: &str) -> Result<Told, Error> {
    let address = Address {
        database: DATABASE.into(),
        ..address.clone()
    };
    let client = connect(&address, "replex scale admin").await?;
    let refused = |error: tokio_postgres::Error| match error.as_db_error() {
        Some(said) => {
            let hint = said.hint().unwrap_or_default();
            Error::Setup(format!("{}. {hint}", said.message()))
        }
        None => error.into(),
    };
    let mut told = Told::default();
    for message in client.simple_query(command).await.map_err(refused)? {
        match message {
            SimpleQueryMessage::RowDescription(columns) => {
                told.columns = columns.iter().map(|it| it.name().to_owned()).collect();
            }
            SimpleQueryMessage::Row(row) => {
                let texts = (0..row.len()).map(|at| row.get(at).map(str::to_owned));
                told.rows.push(texts.collect());
            }
            _ => {}
        }
    }
    Ok(told)
}
