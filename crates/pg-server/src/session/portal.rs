//! Portals: statements with the values of their parameters, which run once and return their rows in
//! one part or in several.

use std::sync::Arc;

use pg_catalog::{EncodedRow, SentValue};
use pg_wire::frontend::WireFormat;
use placement::Value;
use sql::OutputColumn;

use crate::statement::DescribedStatement;

/// A portal.
#[derive(Debug)]
pub struct Portal {
    /// The statement.
    pub statement: Arc<DescribedStatement>,
    /// The values of its parameters.
    pub parameters: Vec<Value>,
    /// The values of the parameters of a statement about the catalogue.
    pub catalogue_parameters: Vec<SentValue>,
    /// The formats of the columns of its result.
    pub formats: Vec<WireFormat>,
    /// How far it has run.
    pub progress: PortalProgress,
    /// Whether it outlives its transaction.
    pub is_held: bool,
    /// Whether the open transaction has declared it.
    pub is_of_transaction: bool,
}

/// How far a portal has run.
#[derive(Debug)]
pub enum PortalProgress {
    /// It has not begun.
    Ready,
    /// Some rows wait behind the limit of an Execute.
    Suspended(SuspendedRows),
    /// Some rows of the catalogue wait behind the limit of an Execute.
    SuspendedAnswer(std::vec::IntoIter<EncodedRow>),
    /// It has returned all of its rows, or has failed.
    Done,
}

/// Rows that wait behind the limit of an Execute.
#[derive(Debug)]
pub struct SuspendedRows {
    /// The columns.
    pub columns: Vec<OutputColumn>,
    /// The rows.
    pub rows: std::vec::IntoIter<Vec<Value>>,
    /// The bytes of all rows when they were suspended first.
    pub bytes: usize,
    /// The tag, which has the number of rows after it if it is a SELECT.
    pub word: String,
}

impl Portal {
    /// Returns the bytes that the portal holds, roughly.
    pub fn held_bytes(&self) -> usize {
        let rows = match &self.progress {
            PortalProgress::Suspended(rows) => rows.bytes,
            PortalProgress::SuspendedAnswer(rows) => answer_bytes(rows.as_slice()),
            PortalProgress::Ready | PortalProgress::Done => 0,
        };
        rows + row_bytes(&self.parameters) + values_bytes(&self.catalogue_parameters)
    }
}

/// Returns the bytes that values take in memory, roughly.
pub fn row_bytes(values: &[Value]) -> usize {
    let further = values.iter().map(|value| match value {
        Value::Text(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        _ => 0,
    });
    size_of_val(values) + further.sum::<usize>()
}

/// Returns the bytes that rows take in memory, roughly.
pub(super) fn answer_bytes(rows: &[EncodedRow]) -> usize {
    let values = rows.iter().flatten();
    values
        .map(|value| size_of::<Option<Vec<u8>>>() + value.as_ref().map_or(0, Vec::len))
        .sum()
}

/// Returns the bytes that values take in memory, roughly.
pub(super) fn values_bytes(values: &[SentValue]) -> usize {
    let sizes = values
        .iter()
        .map(|it| it.bytes.as_ref().map_or(0, Vec::len));
    size_of_val(values) + sizes.sum::<usize>()
}
