//! Caches the OIDs that tables have at replicas, as far as they were needed.
//!
//! A replica that is fresh enough for a read has its tables under the names of the catalogue with
//! which the read was analysed. So OIDs are valid for as long as that catalogue is the newest.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use pg_analysis::Analyser;
use proxy_core::freshness::{ReplicaId, TableOid};
use proxy_core::session::TableOidMap;
use proxy_core::touched::NamedTables;
use proxy_pool::Connection;

/// The known OIDs of tables at replicas, as of the newest catalogue.
#[derive(Debug, Default)]
pub struct TableNumbers {
    known: Mutex<KnownNumbers>,
}

#[derive(Debug, Default)]
struct KnownNumbers {
    generation: u64,
    there: BTreeMap<(ReplicaId, TableOid), u32>,
}

impl TableNumbers {
    /// Returns the OIDs of these tables at a replica and on the primary; none if one is unknown.
    pub fn of(&self, id: ReplicaId, named: &NamedTables) -> Option<Vec<(u32, u32)>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        named.generation.filter(|it| *it == known.generation)?;
        let pair = |table: &TableOid| Some((*known.there.get(&(id, *table))?, table.0));
        named.tables.iter().map(pair).collect()
    }

    fn learn(&self, id: ReplicaId, generation: u64, there: impl Iterator<Item = (TableOid, u32)>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.generation != generation {
            *known = KnownNumbers {
                generation,
                there: BTreeMap::new(),
            };
        }
        known
            .there
            .extend(there.map(|(table, number)| ((id, table), number)));
    }
}

impl TableNumbers {
    /// Returns the OIDs of these tables at a replica. If the cache lacks an OID, it asks the
    /// replica by `connection`, which must be between two batches.
    pub async fn find(
        &self,
        analyser: &Analyser,
        named: &NamedTables,
        id: ReplicaId,
        connection: &mut Connection,
    ) -> TableOidMap {
        if named.tables.is_empty() {
            return TableOidMap::Unknown;
        }
        if let Some(pairs) = self.of(id, named) {
            return TableOidMap::Pairs(pairs);
        }
        let catalogue = analyser.catalogue();
        let asked: Option<Vec<String>> = named
            .tables
            .iter()
            .map(|table| {
                let (schema, name) = catalogue.name_of(*table)?;
                let (schema, name) = (escaped(schema), escaped(name));
                Some(format!(
                    "(SELECT c.oid FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n
                      ON n.oid = c.relnamespace WHERE n.nspname = {schema} AND c.relname = {name})"
                ))
            })
            .collect();
        let (Some(asked), Some(generation)) = (asked, named.generation) else {
            return TableOidMap::Unknown;
        };
        // A connection that is lost is noticed by its next user.
        let found = connection
            .row(&format!("SELECT {}", asked.join(", ")))
            .await;
        let found: Option<Vec<u32>> = found
            .ok()
            .and_then(|values| values.iter().map(|value| value.parse().ok()).collect());
        let Some(found) = found.filter(|found| found.len() == named.tables.len()) else {
            return TableOidMap::Unknown;
        };
        let tables = named.tables.iter().copied();
        if analyser.generation() == generation {
            self.learn(id, generation, tables.clone().zip(found.iter().copied()));
        }
        TableOidMap::Pairs(found.into_iter().zip(tables.map(|table| table.0)).collect())
    }
}

/// Returns a text literal that is valid under either `standard_conforming_strings`.
fn escaped(text: &str) -> String {
    format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}
