//! Delivers missed commits to a replica from the transactions buffer, until the slot's reader takes
//! over.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::mpsc;

use super::super::extractor::QUEUE_LENGTH_MAX;
use super::super::pages::BufferPage;
use super::super::reader::{Follower, JoinAnswer, StreamedCommit, join};
use super::super::spill::SpillFile;
use super::super::tstate::{CommitEffect, TState};
use super::super::{ReplicationError, Shared};
use super::TransactionsBuffer;
use super::record::{self, ReadRecord};
use proxy_core::freshness::{ReplicaId, Tsid};

/// Sends a replica every commit after `applied` from the buffer, in order, until the reader takes
/// over. Returns only with an error.
pub(crate) async fn deliver(
    shared: &Shared,
    id: ReplicaId,
    mut applied: Tsid,
    commits: mpsc::Sender<StreamedCommit>,
) -> Result<Infallible, ReplicationError> {
    let follower = Follower::Replica(id);
    let mut insists = false;
    loop {
        if let Some(buffer) = shared.buffer.as_ref().filter(|_| !insists) {
            let given = give(buffer, &mut applied, &commits).await;
            // The slot may have it still.
            insists = given.is_err();
            // A follower of the reader must keep pace with it, or all others would wait.
            let _ = commits.reserve_many(QUEUE_LENGTH_MAX / 2).await;
        }
        let joined = join(&shared.joins, follower, applied, commits.clone(), insists);
        match joined.await? {
            JoinAnswer::Taken => break,
            JoinAnswer::BufferHasMore => {}
            JoinAnswer::Gone if insists => {
                return Err(ReplicationError::Connection(
                    "the commits that it has missed are in the transactions buffer, which cannot be read".into(),
                ));
            }
            JoinAnswer::Gone => {
                return Err(ReplicationError::Connection(
                    "the primary's slot has gone past this replica's position".into(),
                ));
            }
        }
    }
    // The reader alone holds the queue from now on, so that its end is seen.
    drop(commits);
    std::future::pending().await
}

/// Gives all that the buffer has after `applied`, and advances that.
async fn give(
    buffer: &TransactionsBuffer,
    applied: &mut Tsid,
    commits: &mpsc::Sender<StreamedCommit>,
) -> Result<(), ReplicationError> {
    let ended = || ReplicationError::Connection("a connection to it has ended".into());
    while let Some(page) = buffer.page_after(*applied) {
        let unreached =
            || ReplicationError::Connection("the transactions buffer was not reached yet".into());
        let table = buffer.state().table.clone().ok_or_else(unreached)?;
        let mut rest = match page.length {
            // It may make way for a longer one just now.
            0 => Bytes::new(),
            _ => table.read(&page, 0).await?,
        };
        while !rest.is_empty() {
            let tstate = match record::decode(&mut rest)? {
                ReadRecord::Whole(tstate) => tstate,
                ReadRecord::Continued {
                    tstate,
                    length,
                    failure,
                } => {
                    let spill = continued(&table, &page, length, failure).await?;
                    TState {
                        effect: CommitEffect::Long(spill),
                        ..tstate
                    }
                }
            };
            let tsid = tstate.tsid;
            if tsid > *applied {
                let commit = StreamedCommit::Transaction(Arc::new(tstate));
                commits.send(commit).await.map_err(|_| ended())?;
                *applied = tsid;
            }
        }
        let nothing = StreamedCommit::Nothing(page.until);
        commits.send(nothing).await.map_err(|_| ended())?;
        *applied = page.until;
    }
    Ok(())
}

/// Moves the changes of a long commit from the further rows of its page into a file.
async fn continued(
    table: &super::BufferTable,
    page: &BufferPage,
    length: u64,
    failure: Option<String>,
) -> Result<SpillFile, ReplicationError> {
    let mut spill = SpillFile::new()?;
    for part in 1..page.parts {
        let bytes: Bytes = table.read(page, part).await?;
        spill.append(bytes.into()).await?;
    }
    if spill.length() != length {
        return Err(record::broken().into());
    }
    spill.fail(failure);
    Ok(spill)
}
