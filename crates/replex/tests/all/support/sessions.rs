//! Several SQL sessions at once on one cluster, of which a server is killed and comes back
//! meanwhile.

use client::{Client, ConnectOptions};
use placement::Value;
use replex::cluster::Cluster;
use sql::{SqlError, SqlSession, StatementOutcome};
use tokio::task::JoinSet;

use super::noise::Noise;

const SERVERS: usize = 4;

/// Sessions that have ended.
pub struct EndedSessions<T> {
    pub cluster: Cluster,
    /// A session of its own.
    pub observer: SqlSession<Client>,
    /// The results of the sessions.
    pub results: Vec<T>,
}

/// Runs sessions while a server is killed and started again. Each has its number and its own random
/// numbers. The seed is that of the variable of the environment, if it is set.
pub async fn beside_a_kill<T, F>(
    (variable, seed): (&str, u64),
    setup: &str,
    sessions: u64,
    session: impl Fn(Client, u64, Noise) -> F,
) -> EndedSessions<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let seed = super::setting(variable, seed);
    println!("{variable}={seed}");
    let mut noise = Noise::new(seed);
    let mut cluster = super::cluster(SERVERS).await;
    let client = Client::connect(ConnectOptions::new([cluster.coordinator_address()]));
    let client = client.await.unwrap();
    let mut observer = SqlSession::new(client.clone());
    observer.run_text(setup).await.unwrap();
    let mut running = JoinSet::new();
    for number in 0..sessions {
        let noise = Noise::new(noise.next());
        running.spawn(session(client.clone(), number, noise));
    }
    let killed = noise.below(SERVERS as u64) as usize;
    cluster.kill(killed).await.unwrap();
    cluster.restart(killed).await.unwrap();
    let mut results = Vec::new();
    while let Some(ended) = running.join_next().await {
        results.push(ended.unwrap());
    }
    cluster.wait_until_serving().await.unwrap();
    EndedSessions {
        cluster,
        observer,
        results,
    }
}

/// Runs statements. Returns the numbers of the rows of the last one.
pub async fn numbers(
    session: &mut SqlSession<Client>,
    text: &str,
) -> Result<Vec<Vec<i64>>, SqlError> {
    let outcomes = session.run_text(text).await.map_err(|it| it.error)?;
    let Some(StatementOutcome::Rows(rows)) = outcomes.into_iter().next_back() else {
        return Ok(Vec::new());
    };
    let number = |value: &Value| match value {
        Value::Int64(number) => *number,
        other => panic!("{other:?} is no number"),
    };
    let rows = rows.rows.iter();
    Ok(rows.map(|row| row.iter().map(number).collect()).collect())
}
