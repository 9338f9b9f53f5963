//! The combined analysis of statements, as far as routing needs it.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use crate::freshness::{AccessSets, AffectingClass, TableOid};
use crate::session::{ClassPrecision, PreparedForm, SnapshotProof, TableOidMap};

/// The beginning of the name of every schema of temporary tables. It is also the alias of the
/// session's own.
pub const TEMPORARY_SCHEMA: &str = "pg_temp";
/// The reason why an understood write needs the primary.
pub const WRITES: &str = "it writes";

/// Returns whether a schema is one of temporary tables.
pub fn is_temporary_schema(name: &str) -> bool {
    name.starts_with(TEMPORARY_SCHEMA)
}

/// The combined analysis of some statements.
#[derive(Clone, Debug, Default)]
pub struct CombinedAnalysis {
    /// The read and write sets of the statements.
    pub sets: AccessSets,
    /// The rows and other objects that the statements lock.
    pub locked: AccessSets,
    /// The reason why the statements need the primary; none if they are reads that any server can
    /// answer.
    pub needs_primary: Option<&'static str>,
    /// Whether the transaction of the statements may end with one of them.
    pub may_end: bool,
    /// Schema changes that replicas run, in the order of the primary.
    pub schema: Vec<String>,
    /// Whether the statements may change the search path or the role of later statements.
    pub changes_settings: bool,
    /// Whether the statements read the time at which their transaction began.
    pub of_transaction_time: bool,
    /// Whether the statements begin with BEGIN, so that later statements run inside a transaction.
    pub begins: bool,
    /// The number of statements that begin or end a transaction or a savepoint.
    pub commands: usize,
    /// The reason why the proxy rejects the statements; none if it does not.
    pub refused: Option<&'static str>,
    /// The reason why the primary rejects the schema changes if one of their tables has rows; none
    /// if it does not.
    pub unless_rows: Option<&'static str>,
    /// The number of statements.
    pub count: usize,
    /// The oldest catalogue with which they were analysed, see `Analyser::generation`.
    pub generation: Option<u64>,
    /// The tables and views that the reads among the statements name.
    pub named: BTreeSet<TableOid>,
    /// The prepared form of the only statement, if its result is the same.
    pub prepared_form: Option<PreparedForm>,
}

impl CombinedAnalysis {
    /// Returns the reply that proves that the statements have taken their snapshots at a replica.
    pub fn proof(&self) -> SnapshotProof {
        match self.count {
            1 => SnapshotProof::First,
            _ => SnapshotProof::End,
        }
    }

    /// Returns the tables whose rows the answers of the statements may have.
    pub fn named(&self) -> NamedTables {
        NamedTables {
            tables: self.named.clone(),
            generation: self.generation,
        }
    }

    /// Returns the analysis of statements that are not understood, for this reason.
    pub fn anything(why: &'static str) -> CombinedAnalysis {
        CombinedAnalysis {
            sets: AccessSets::writes_anything(),
            needs_primary: Some(why),
            may_end: true,
            count: 1,
            ..CombinedAnalysis::default()
        }
    }

    /// Adds the analysis of later statements.
    pub fn merge(&mut self, other: CombinedAnalysis) {
        self.sets.absorb(other.sets);
        self.locked.absorb(other.locked);
        self.needs_primary = self.needs_primary.or(other.needs_primary);
        self.may_end |= other.may_end;
        self.begins |= self.count == 0 && other.begins;
        self.changes_settings |= other.changes_settings;
        self.of_transaction_time |= other.of_transaction_time;
        self.schema.extend(other.schema);
        self.refused = self.refused.or(other.refused);
        self.unless_rows = self.unless_rows.or(other.unless_rows);
        self.commands += other.commands;
        self.prepared_form = other.prepared_form.filter(|_| self.count == 0);
        self.count += other.count;
        self.named.extend(other.named);
        let generations = [self.generation, other.generation];
        self.generation = generations.into_iter().flatten().min();
    }

    /// Makes the analysis of their reads less precise.
    pub fn coarsen(&mut self, classes: ClassPrecision) {
        match classes {
            ClassPrecision::Rows => {}
            ClassPrecision::Columns => self.sets.coarsen(AffectingClass::Columns),
            ClassPrecision::Tables => self.sets.coarsen(AffectingClass::Table),
        }
    }

    /// Returns whether the statements only change the schema. `text` is their text, because objects
    /// in the schema of temporary tables belong to a session.
    pub fn is_schema_only(&self, text: &[u8]) -> bool {
        let temporary = TEMPORARY_SCHEMA.as_bytes();
        let is_temporary = |part: &[u8]| part.eq_ignore_ascii_case(temporary);
        !self.schema.is_empty()
            && self.schema.len() == self.count
            && !text.windows(temporary.len()).any(is_temporary)
    }
}

/// Tables and views that are named in the messages of a session.
#[derive(Clone, Debug, Default)]
pub struct NamedTables {
    /// The OIDs of the named tables on the primary.
    pub tables: BTreeSet<TableOid>,
    /// The number of the catalogue with which the statements were analysed.
    pub generation: Option<u64>,
}

impl NamedTables {
    /// Returns the OIDs on any server, if only one table is read.
    pub fn only(&self) -> Option<TableOidMap> {
        let first = self.tables.first().filter(|_| self.tables.len() == 1)?;
        Some(TableOidMap::One(first.0))
    }
}
