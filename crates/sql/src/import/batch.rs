//! Sends the rows of several lines as one transaction.

use futures_util::stream::{FuturesUnordered, StreamExt};
use protocol::operation::Mutation;
use protocol::transaction::{ChangeOutcome, TransactionChange, TransactionResult};

use crate::error::SqlError;
use crate::run::Sender;
use crate::store::Store;

/// A transaction takes no further row once its rows have this many bytes. The limits of
/// transactions are far above.
pub(super) const BATCH_BYTES: usize = 512 << 10;
/// The number of rows that are under way at a time after their transaction has aborted.
const ROWS_IN_FLIGHT: usize = 128;

/// Lines, each with its number and the change that it asks for.
pub(super) type Batch = Vec<(u64, Mutation)>;

/// Sends a batch. Returns for each line whether it has changed a row, or why not.
pub(super) async fn send<S: Store>(
    sender: &Sender<'_, S>,
    batch: Batch,
) -> Vec<(u64, Result<bool, SqlError>)> {
    if batch.len() < 2 {
        return send_alone(sender, batch).await;
    }
    let changes = batch.iter().map(|(_, mutation)| TransactionChange {
        table: sender.table.id,
        mutation: mutation.clone(),
        must_apply: false,
    });
    let changes = changes.collect();
    let sent = sender.store.transact(changes, Vec::new(), Vec::new()).await;
    match sent {
        Ok(TransactionResult::Committed { outcomes, .. }) => {
            let applied = outcomes.iter().map(|it| *it == ChangeOutcome::Applied);
            let lines = batch.iter().map(|(line, _)| *line);
            lines.zip(applied.map(Ok)).collect()
        }
        Ok(TransactionResult::Aborted { .. }) => send_alone(sender, batch).await,
        Err(error) => {
            let lines = batch.iter().map(|(line, _)| *line);
            lines
                .map(|line| (line, Err(error.clone().into())))
                .collect()
        }
    }
}

/// Sends each line as an operation of its own.
async fn send_alone<S: Store>(
    sender: &Sender<'_, S>,
    batch: Batch,
) -> Vec<(u64, Result<bool, SqlError>)> {
    let mut left = batch.into_iter();
    let mut sent = FuturesUnordered::new();
    let mut answers = Vec::new();
    loop {
        while sent.len() < ROWS_IN_FLIGHT {
            let Some((line, mutation)) = left.next() else {
                break;
            };
            let write = sender.send(mutation);
            sent.push(async move { (line, write.await.map_err(SqlError::from)) });
        }
        match sent.next().await {
            Some(answer) => answers.push(answer),
            None => return answers,
        }
    }
}
