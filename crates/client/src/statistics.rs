//! Estimates about tables, by which a planner chooses between indexes. The client asks a few
//! partitions for them, and keeps the answers for a while.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use placement::ReplexKind;
use protocol::configuration::{Configuration, PlacedTable, routes};
use protocol::identity::{Epoch, PartitionId, TableId};
use protocol::message::{PartitionStatistics, StatisticsRead};
use session::statistics::TableStatistics;
use session::{SessionOperation, SessionOutcome};
use tokio::task::JoinSet;

use crate::client::Client;

/// How long the client waits for a partition. Without an answer of each partition that was asked,
/// an index has no estimates.
const PATIENCE: Duration = Duration::from_secs(1);
/// Partitions of each replex that are asked.
const SAMPLED: usize = 16;

impl Client {
    /// Returns the estimates about a table that the client has. If they are old, or there are none,
    /// the client asks for new ones in the background.
    #[doc(hidden)]
    pub fn known_statistics(&self, id: TableId) -> Option<Arc<TableStatistics>> {
        let configuration = self.configuration();
        let (statistics, is_due) = self.statistics().of(configuration.table(id)?);
        if is_due {
            let client = self.clone();
            let measuring = async move { client.measure(id).await };
            self.hub().runtime().spawn(measuring);
        }
        statistics
    }

    /// Asks partitions of a table for estimates, and keeps the answers. The earlier ones stay if
    /// the table does not exist, or all indexes have partitions that do not answer.
    #[doc(hidden)]
    pub async fn measure(&self, id: TableId) {
        let configuration = self.configuration();
        let Some(table) = configuration.table(id) else {
            return;
        };
        let mut asking = JoinSet::new();
        for replex in table
            .searchable()
            .filter(|replex| is_chosen(table, *replex))
        {
            let asked = readable_copy(&configuration, table, replex);
            let numbers = partitions(table, asked);
            let step = numbers.len().div_ceil(SAMPLED).max(1);
            for number in numbers.iter().step_by(step) {
                let part = of_partition(
                    self.clone(),
                    table.epoch,
                    table.partition(asked, *number),
                    (replex, numbers.len()),
                );
                asking.spawn_on(part, self.hub().runtime());
            }
        }
        let mut answers = Vec::new();
        let mut silent = BTreeSet::new();
        while let Some(answer) = asking.join_next().await {
            match answer {
                Ok((of, Some(statistics))) => answers.push((of, statistics)),
                Ok(((replex, _), None)) => {
                    silent.insert(replex);
                }
                // The runtime ends.
                Err(_) => return,
            }
        }
        answers.retain(|((replex, _), _)| !silent.contains(replex));
        if answers.is_empty() {
            return;
        }
        let mut found = TableStatistics::default();
        for ((replex, partitions), statistics) in answers {
            found.add(replex, partitions, statistics);
        }
        let known = self.statistics();
        known.keep(table, Arc::new(found), &configuration);
    }
}

/// Returns whether statements may choose a replex: while all servers are up, hybrids and replicas
/// answer none.
fn is_chosen(table: &PlacedTable, replex: usize) -> bool {
    matches!(
        table.layout.replexes[replex].kind,
        ReplexKind::Primary
            | ReplexKind::Index { .. }
            | ReplexKind::Thin { .. }
            | ReplexKind::Hyperspace
    )
}

/// Returns a replex with the entries of this one of which all partitions can be read: a copy of the
/// same thin index, if this one has lost some. Returns this one if there is no such copy.
fn readable_copy(configuration: &Configuration, table: &PlacedTable, replex: usize) -> usize {
    let is_whole = |replex: &usize| {
        let mut places = table.placement[*replex].iter();
        !places.any(|place| routes::is_down(configuration, *place))
    };
    let mut copies = core::iter::once(replex).chain(table.layout.other_thin(replex));
    copies.find(is_whole).unwrap_or(replex)
}

/// Returns the partitions of a replex that can have rows.
fn partitions(table: &PlacedTable, replex: usize) -> Vec<u32> {
    match &table.layout.replexes[replex].ranges {
        Some(ranges) => ranges.starts.iter().map(|start| start.partition).collect(),
        None => (0..table.layout.partition_count(replex)).collect(),
    }
}

/// The replex and its number of partitions, and the statistics of one of them; none if it did not
/// answer.
type OfPartition = ((usize, usize), Option<PartitionStatistics>);

async fn of_partition(
    client: Client,
    epoch: Epoch,
    partition: PartitionId,
    of: (usize, usize),
) -> OfPartition {
    let read = StatisticsRead { epoch, partition };
    let operation = SessionOperation::Statistics(read);
    let outcome = client.run(operation, "statistics", Some(PATIENCE)).await;
    match outcome {
        Ok(SessionOutcome::Statistics(statistics)) => (of, Some(statistics)),
        _ => (of, None),
    }
}
