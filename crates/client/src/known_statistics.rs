//! The estimates about tables that a client has.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use protocol::configuration::{Configuration, PlacedTable};
use protocol::identity::TableId;
use session::statistics::TableStatistics;

/// After this time the client asks again when estimates are wanted.
const FRESH: Duration = Duration::from_secs(30);
/// Estimates that are older than this are not used.
const AGE_MAX: Duration = Duration::from_secs(600);

/// The estimates by table.
#[derive(Debug, Default)]
pub(crate) struct KnownStatistics(Mutex<HashMap<TableId, Known>>);

#[derive(Debug)]
struct Known {
    /// None while the first answers are awaited, and if there were none.
    statistics: Option<Arc<TableStatistics>>,
    /// The names of the replexes, by which their numbers have the same meaning.
    replexes: Vec<String>,
    asked: Instant,
    answered: Instant,
}

impl KnownStatistics {
    /// Returns the estimates about a table, and whether the caller must ask for new ones.
    pub fn of(&self, table: &PlacedTable) -> (Option<Arc<TableStatistics>>, bool) {
        let mut tables = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let names = table.layout.replexes.iter().map(|replex| &replex.name);
        let known = tables.get_mut(&table.id);
        if let Some(known) = known.filter(|it| it.replexes.iter().eq(names)) {
            let is_due = known.asked.elapsed() >= FRESH;
            if is_due {
                known.asked = Instant::now();
            }
            let statistics = known.statistics.clone();
            let is_usable = known.answered.elapsed() < AGE_MAX;
            return (statistics.filter(|_| is_usable), is_due);
        }
        tables.insert(table.id, Known::of(table, None));
        (None, true)
    }

    /// Keeps estimates about a table in place of earlier ones. Those about tables that do not exist
    /// any more are dropped.
    pub fn keep(
        &self,
        table: &PlacedTable,
        statistics: Arc<TableStatistics>,
        configuration: &Configuration,
    ) {
        let mut tables = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tables.retain(|id, _| configuration.table(*id).is_some());
        tables.insert(table.id, Known::of(table, Some(statistics)));
    }
}

impl Known {
    fn of(table: &PlacedTable, statistics: Option<Arc<TableStatistics>>) -> Known {
        let replexes = table.layout.replexes.iter();
        Known {
            statistics,
            replexes: replexes.map(|replex| replex.name.clone()).collect(),
            asked: Instant::now(),
            answered: Instant::now(),
        }
    }
}
