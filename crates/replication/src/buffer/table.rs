//! Stores the pages of the buffer in a table of the store, one table for each primary. The key is
//! the proxy's epoch, the TSID at which a page ends, and the number of the row in the page.
//!
//! A page has several rows if it does not fit into one. Row 0 is written last, so a page that has
//! row 0 is complete.

use bytes::Bytes;
use client::{Client, ColumnType, ConnectOptions, IfExists, RequestResult, SchemaBuilder, Value};

use super::super::ReplicationError;
use super::super::pages::BufferPage;
use proxy_core::freshness::Tsid;

/// The most bytes in one row. A row of the store may have a mebibyte.
pub const PART_LENGTH_MAX: usize = 512 * 1024;
/// The number of partitions over which the rows are spread.
const PARTITIONS: u32 = 4;
/// The index that is another copy, where there is a second server for one.
const SECOND_COPY: &str = "by_tsid";

/// The columns in order: the epoch of the proxy that wrote a page, the position at which the page
/// ends, the number of this row in the page, the position after which the page begins, the number
/// of the page's rows, and the bytes of all of them.
const COLUMNS: [&str; 6] = ["epoch", "tsid", "part", "after", "parts", "length"];
/// The last column, with the bytes of this row.
const STATES: &str = "states";
const STATES_PLACE: usize = 6;

/// The table of the store with the pages of one primary.
#[derive(Clone)]
pub struct BufferTable(client::Table);

fn unreached(error: client::Error) -> ReplicationError {
    ReplicationError::Connection(format!("the transactions buffer: {error}"))
}

fn broken() -> ReplicationError {
    ReplicationError::Connection(super::record::broken().to_string())
}

fn number(value: u64) -> Value {
    // Places in a log are below 2^63, and so is all that is counted here.
    Value::Int64(i64::try_from(value).expect("it is small"))
}

impl BufferTable {
    /// Returns the table for the primary of this line (`lineage::line`). Creates it if it does not
    /// exist, with two copies if there are servers for them.
    pub async fn open(
        coordinators: &[String],
        line: &str,
    ) -> Result<BufferTable, ReplicationError> {
        let client = Client::connect(ConnectOptions::new(coordinators)).await;
        let client = client.map_err(unreached)?;
        let name = format!("hihooi_{}", line.replace('/', "_").to_ascii_lowercase());
        let columns = COLUMNS.iter();
        let schema = columns.fold(SchemaBuilder::new(name), |schema, name| {
            schema.column(*name, ColumnType::Int64)
        });
        let mut schema = schema
            .column(STATES, ColumnType::Bytes)
            .primary_key(&["epoch", "tsid", "part"])
            .partitions(PARTITIONS)
            .local_entries(false);
        let configuration = client.refresh().await.map_err(unreached)?;
        if configuration.servers.len() > 1 {
            schema = schema.index(SECOND_COPY, &["tsid"]).failures_tolerated(1);
        }
        let schema = schema.build().map_err(unreached)?;
        let table = client.create_table(schema, IfExists::Accept).await;
        Ok(BufferTable(table.map_err(unreached)?))
    }

    /// Returns all complete pages, and the rows of incomplete ones: by epoch, position and part.
    pub async fn pages(
        &self,
    ) -> Result<(Vec<BufferPage>, Vec<(u64, Tsid, u32)>), ReplicationError> {
        let numbers: Vec<u16> = (0..COLUMNS.len() as u16).collect();
        let mut rows = self
            .0
            .scan()
            .projection(numbers)
            .rows()
            .map_err(unreached)?;
        let (mut pages, mut parts) = (Vec::new(), Vec::new());
        while let Some(row) = rows.next().await.map_err(unreached)? {
            let values: Option<Vec<u64>> = row.values.iter().map(whole).collect();
            let Some([epoch, tsid, part, after, count, length]) = values.as_deref() else {
                return Err(broken());
            };
            let small = |number: u64| u32::try_from(number).map_err(|_| broken());
            match part {
                0 => pages.push(BufferPage {
                    epoch: *epoch,
                    after: Tsid(*after),
                    until: Tsid(*tsid),
                    parts: small(*count)?,
                    length: *length,
                }),
                _ => parts.push((*epoch, Tsid(*tsid), small(*part)?)),
            }
        }
        let has_page = |(epoch, tsid, _): &(u64, Tsid, u32)| {
            let mut pages = pages.iter();
            pages.any(|page: &BufferPage| page.epoch == *epoch && page.until == *tsid)
        };
        let torn: Vec<_> = parts.into_iter().filter(|part| !has_page(part)).collect();
        Ok((pages, torn))
    }

    /// Writes one row of a page. The first row, part 0, must be written last.
    pub async fn write(
        &self,
        page: &BufferPage,
        part: u32,
        states: Vec<u8>,
    ) -> Result<(), ReplicationError> {
        let row = [
            number(page.epoch),
            number(page.until.0),
            number(part.into()),
            number(page.after.0),
            number(page.parts.into()),
            number(page.length),
            Value::Bytes(states),
        ];
        loop {
            match self.0.insert(&row).await.map_err(unreached)? {
                RequestResult::Applied { .. } => return Ok(()),
                // A try before has left it, which may have had other bytes.
                RequestResult::Duplicate { .. } => {
                    self.remove_part(page.epoch, page.until, part).await?;
                }
                other => {
                    let text = self.0.explain(&other);
                    return Err(ReplicationError::Connection(format!(
                        "the transactions buffer: {text}"
                    )));
                }
            }
        }
    }

    /// Returns the bytes of one row of a page.
    pub async fn read(&self, page: &BufferPage, part: u32) -> Result<Bytes, ReplicationError> {
        let key = [
            number(page.epoch),
            number(page.until.0),
            number(part.into()),
        ];
        let row = self.0.get(&key).await.map_err(unreached)?;
        let gone = || {
            ReplicationError::Connection(
                "the transactions buffer has lost a page that it had".into(),
            )
        };
        match row.ok_or_else(gone)?.values.into_iter().nth(STATES_PLACE) {
            Some(Value::Bytes(states)) => Ok(states.into()),
            _ => Err(broken()),
        }
    }

    /// Removes a page.
    pub async fn remove(&self, page: &BufferPage) -> Result<(), ReplicationError> {
        for part in 0..page.parts {
            self.remove_part(page.epoch, page.until, part).await?;
        }
        Ok(())
    }

    /// Removes one row.
    pub async fn remove_part(
        &self,
        epoch: u64,
        tsid: Tsid,
        part: u32,
    ) -> Result<(), ReplicationError> {
        let key = [number(epoch), number(tsid.0), number(part.into())];
        // It may be gone already.
        let _ = self.0.delete(&key, None).await.map_err(unreached)?;
        Ok(())
    }
}

fn whole(value: &Value) -> Option<u64> {
    match value {
        Value::Int64(number) => u64::try_from(*number).ok(),
        _ => None,
    }
}
