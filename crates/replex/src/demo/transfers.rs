//! The chapter in which flights move to another table, each in a transaction, while a server is
//! killed.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use client::{Client, IfExists, Retry, Table, TransactionResult};
use placement::Value;
use replex::cluster::Cluster;
use replex::failure::CommandFailure;
use tokio::task::JoinSet;

use super::store::Flights;
use crate::output::{ShortDuration, count};
use crate::story::Story;

/// The table to which flights move.
const ARCHIVE: &str = "archive";
/// Flights that move, and the tasks that move them.
const MOVED: usize = 600;
const MOVERS: usize = 8;
/// Moves that have ended when a snapshot is opened, and when the server is killed.
const SNAPSHOT_AT: usize = 100;
const KILL_AT: usize = 200;
/// Which server is killed: the one with the copy by tail number.
const VICTIM: usize = 1;
/// The index by which both tables are read.
const INDEX: &str = "by_tail";
/// Between two looks at how many have moved.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(1);

/// Moves the last flights to another table, and kills a server meanwhile. `rows` are all flights.
pub async fn transfers(
    story: &mut Story,
    cluster: &mut Cluster,
    flights: &Flights,
    rows: &[Vec<Value>],
) -> Result<(), CommandFailure> {
    story.chapter("Flights move to another table, each in a transaction, while a server is killed");
    let client = flights.client();
    let from = client.table(&flights.schema().name).await;
    let from = from.map_err(CommandFailure::at("find the table of flights"))?;
    let mut schema = flights.schema().clone();
    ARCHIVE.clone_into(&mut schema.name);
    let to = client.create_table(schema, IfExists::Fail).await;
    let to = to.map_err(CommandFailure::at("create the archive"))?;
    let moved = &rows[rows.len() - MOVED.min(rows.len())..];
    let ended = Arc::new(AtomicUsize::new(0));
    let started = Instant::now();
    let mut movers = JoinSet::new();
    for mover in 0..MOVERS {
        let own = moved.iter().skip(mover).step_by(MOVERS).cloned().collect();
        movers.spawn(move_all(from.clone(), to.clone(), own, Arc::clone(&ended)));
    }
    wait_for(&ended, SNAPSHOT_AT, &mut movers).await?;
    let between = whole(client, [&from, &to], rows).await?;
    wait_for(&ended, KILL_AT, &mut movers).await?;
    let pid = cluster.server(VICTIM).id();
    let killed = cluster.kill(VICTIM).await;
    killed.map_err(CommandFailure::at("kill a server"))?;
    let done = ended.load(Ordering::Relaxed);
    story.say(format!(
        "kill -9 {pid}   server {}, after {} of {} flights have moved",
        VICTIM + 1,
        count(done as u64),
        count(moved.len() as u64)
    ));
    let restarted = cluster.restart(VICTIM).await;
    restarted.map_err(CommandFailure::at("start the server again"))?;
    while let Some(mover) = movers.join_next().await {
        mover.map_err(CommandFailure::at("wait for the moves"))??;
    }
    let serving = cluster.wait_until_serving().await;
    serving.map_err(CommandFailure::at("wait for the servers"))?;
    story.say(format!(
        "DELETE from flights and INSERT into {ARCHIVE}: {} transactions in {}",
        count(moved.len() as u64),
        ShortDuration(started.elapsed())
    ));
    let after = whole(client, [&from, &to], rows).await?;
    story.claim(
        "The kill came between the moves, and every one of them has committed",
        done < moved.len() && after.is_some_and(|archived| archived == moved.len()),
    );
    story.claim(
        "Snapshots of both tables have each flight in just one of them, also between the moves",
        between.is_some_and(|archived| archived < moved.len()) && after.is_some(),
    );
    Ok(())
}

/// Waits until so many flights have moved, or all moves have ended.
async fn wait_for(
    ended: &AtomicUsize,
    moves: usize,
    movers: &mut JoinSet<Result<(), CommandFailure>>,
) -> Result<(), CommandFailure> {
    while ended.load(Ordering::Relaxed) < moves && !movers.is_empty() {
        tokio::time::sleep(LOOK_AGAIN_AFTER).await;
        if let Some(mover) = movers.try_join_next() {
            mover.map_err(CommandFailure::at("wait for the moves"))??;
        }
    }
    Ok(())
}

/// Moves flights, one after the other.
async fn move_all(
    from: Table,
    to: Table,
    rows: Vec<Vec<Value>>,
    ended: Arc<AtomicUsize>,
) -> Result<(), CommandFailure> {
    let what = || CommandFailure::at("move a flight");
    for row in rows {
        let id = &row[..1];
        loop {
            let mut transfer = from.client().transaction();
            transfer.delete(&from, id, None).map_err(what())?;
            transfer.insert(&to, &row).map_err(what())?;
            match transfer.commit().await {
                Ok(TransactionResult::Committed { .. }) => break,
                Ok(aborted) if aborted.is_conflict() => {}
                Ok(aborted) => {
                    let reason = from.client().explain(&aborted);
                    return Err(CommandFailure::Failed(format!(
                        "cannot move a flight: {reason}"
                    )));
                }
                Err(error) if error.retry() == Retry::Later => {}
                Err(error) => return Err(what()(error)),
            }
        }
        ended.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// Returns how many flights one moment's archive has; none if any flight was in no table, or in
/// both.
async fn whole(
    client: &Client,
    tables: [&Table; 2],
    rows: &[Vec<Value>],
) -> Result<Option<usize>, CommandFailure> {
    let what = || CommandFailure::at("read a snapshot of both tables");
    let snapshot = client.snapshot(&tables).await.map_err(what())?;
    let mut found = BTreeSet::new();
    let mut archived = 0;
    let mut is_whole = true;
    for table in tables {
        let range = table.range(INDEX, Bound::Unbounded, Bound::Unbounded);
        let read = range.map_err(what())?.at(&snapshot).await.map_err(what())?;
        archived = read.len();
        for row in read {
            is_whole &= found.insert(row.values[0].to_string());
        }
    }
    let expected: BTreeSet<String> = rows.iter().map(|row| row[0].to_string()).collect();
    Ok((is_whole && found == expected).then_some(archived))
}
