//! Statements about the catalogue: the shared catalogue answers them, not the store.

use std::sync::Arc;

use bytes::BytesMut;
use pg_catalog::{
    CatalogueStatement, EncodedRow, Oid, ResultColumn, SchemaCatalogue, SentValue,
    SessionDescription,
};
use pg_wire::backend::{self, ColumnDescription, RowWriter};
use pg_wire::frontend::{BindRequest, WireFormat, format_of};
use pg_wire::report::Report;
use sql::{Store, now_us};
use tokio::io::AsyncWrite;

use super::portal::{PortalProgress, answer_bytes};
use super::run::interruptible;
use super::{AnswerFailure, ClientSession};
use crate::catalogue::CatalogueRequest;
use crate::errors::{QUERY_CANCELED, error};
use crate::output::ClientOutput;

impl<S: Store> ClientSession<S> {
    /// Returns the catalogue of the newest tables: another client may have created some.
    pub(super) async fn newest_catalogue(&self) -> Arc<SchemaCatalogue> {
        let store = self.sql.store();
        let newest = store.refresh().await;
        let configuration = newest.unwrap_or_else(|_| store.configuration());
        self.catalogue.of(&configuration)
    }

    /// Executes a statement about the catalogue, until it ends, is canceled, or takes too long.
    pub(super) async fn ask_catalogue(
        &mut self,
        statement: &CatalogueStatement,
        types: &[Oid],
        (parameters, binary): (Vec<SentValue>, Vec<bool>),
    ) -> Result<(Vec<ResultColumn>, Vec<EncodedRow>), Report> {
        let request = CatalogueRequest {
            statement: statement.clone(),
            types: types.to_vec(),
            parameters,
            binary,
            session: self.description(),
        };
        let limit = self.settings.statement_timeout();
        let shared = Arc::clone(&self.catalogue);
        let catalogue = self.newest_catalogue().await;
        let running = shared.execute(catalogue, request);
        match interruptible(running, &mut self.cancels, limit).await {
            Ok(ended) => ended,
            Err(interruption) => Err(error(QUERY_CANCELED, interruption.text())),
        }
    }

    fn description(&self) -> SessionDescription {
        SessionDescription {
            user: self.settings.current_user().to_owned(),
            session_user: self.settings.session_user().to_owned(),
            database: self.identity.database.clone(),
            process: self.identity.process,
            users: self.catalogue.users(),
            settings: self.settings.all(),
            now_us: now_us(),
            started_us: self.catalogue.started_us(),
        }
    }

    /// Runs a statement of a string: its values are texts.
    pub(super) async fn answer_of_string<W: AsyncWrite + Unpin + Send>(
        &mut self,
        statement: &CatalogueStatement,
        out: &mut ClientOutput<W>,
    ) -> Result<(), AnswerFailure> {
        let nothing = (Vec::new(), Vec::new());
        let (columns, rows) = self.ask_catalogue(statement, &[], nothing).await?;
        describe_answer(out, &columns, &[]);
        let count = rows.len();
        for row in rows {
            write_answer_row(&mut out.buffer, &row);
            out.drain_if_long().await?;
        }
        backend::command_complete(&mut out.buffer, &format!("SELECT {count}"));
        Ok(())
    }

    /// Returns the rows of a portal up to a limit, and keeps the others.
    pub(super) async fn return_answer<W: AsyncWrite + Unpin + Send>(
        &mut self,
        (portal, mut rows): (&str, std::vec::IntoIter<EncodedRow>),
        limit: Option<usize>,
        out: &mut ClientOutput<W>,
    ) -> Result<(), AnswerFailure> {
        let count = limit.map_or(rows.len(), |limit| limit.min(rows.len()));
        for row in rows.by_ref().take(count) {
            write_answer_row(&mut out.buffer, &row);
            out.drain_if_long().await?;
        }
        // As PostgreSQL, which does not look whether there is a further row.
        if limit != Some(count) {
            backend::command_complete(&mut out.buffer, &format!("SELECT {count}"));
            return Ok(());
        }
        self.check_held(answer_bytes(rows.as_slice()))?;
        if let Some(known) = self.portals.get_mut(portal) {
            known.progress = PortalProgress::SuspendedAnswer(rows);
        }
        backend::portal_suspended(&mut out.buffer);
        Ok(())
    }
}

/// Appends RowDescription.
pub(super) fn describe_answer(
    out: &mut ClientOutput<impl AsyncWrite + Unpin + Send>,
    columns: &[ResultColumn],
    formats: &[WireFormat],
) {
    let columns = columns
        .iter()
        .enumerate()
        .map(|(position, column)| ColumnDescription {
            name: &column.name,
            type_oid: column.type_oid,
            type_length: column.type_length,
            type_modifier: -1,
            format: format_of(formats, position),
        });
    backend::row_description(&mut out.buffer, columns);
}

/// Appends a row.
fn write_answer_row(out: &mut BytesMut, row: &EncodedRow) {
    let count = u16::try_from(row.len()).expect("columns are bounded when they are bound");
    let mut writer = RowWriter::new(out, count);
    for value in row {
        match value {
            None => writer.null(),
            Some(bytes) => writer.value(|out| out.extend_from_slice(bytes)),
        }
    }
    writer.end();
}

/// Returns the values of parameters as the client has sent them.
pub(super) fn catalogue_values(bind: &BindRequest<'_>) -> Vec<SentValue> {
    let values = bind.values.iter().enumerate();
    let values = values.map(|(position, value)| SentValue {
        bytes: value.map(<[u8]>::to_vec),
        is_binary: bind.format(position) == WireFormat::Binary,
    });
    values.collect()
}

/// Checks that a result has the columns that the client knows.
pub(super) fn check_same(found: &[ResultColumn], described: &[ResultColumn]) -> Result<(), Report> {
    match found == described {
        true => Ok(()),
        false => {
            let text = "cached plan must not change result type";
            Err(error("0A000", text).hint("Prepare the statement again."))
        }
    }
}
