//! The combined analysis of statements, as far as it decides where they run.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use crate::freshness::{AccessSets, AffectingClass, TableOid};
use crate::session::{ClassPrecision, PreparedForm, SnapshotProof, TableOidMap};

/// How the name of every schema of temporary tables begins, and the alias of the session's own.
pub const TEMPORARY_SCHEMA: &str = "pg_temp";
/// Why a write needs the primary, as far as it is understood.
pub const WRITES: &str = "it writes";

/// Returns whether this is the name of a schema of temporary tables.
pub fn is_temporary_schema(name: &str) -> bool {
    name.starts_with(TEMPORARY_SCHEMA)
}

/// The combined analysis of some statements.
#[derive(Clone, Debug, Default)]
pub struct CombinedAnalysis {
    /// All that they touch.
    pub sets: AccessSets,
    /// The rows that they lock, among other things.
    pub locked: AccessSets,
    /// The reason why they need the primary, if some part is not a read that any node can answer.
    pub needs_primary: Option<&'static str>,
    /// Whether their transaction may end with them, or with one of them.
    pub may_end: bool,
    /// Texts that replicas run, too, in order.
    pub schema: Vec<String>,
    /// Whether they may change the schemas in which names are looked up, or the role of later
    /// statements.
    pub changes_settings: bool,
    /// Whether they ask for the time at which their transaction began.
    pub of_transaction_time: bool,
    /// Whether they begin with BEGIN. Later statements then run inside a transaction.
    pub begins: bool,
    /// How many of them begin or end a transaction or a part of one.
    pub commands: usize,
    /// Why they must not run.
    pub refused: Option<&'static str>,
    /// How many statements there are.
    pub count: usize,
    /// The oldest catalogue by which this is known, see `Analyser::generation`.
    pub generation: Option<u64>,
    /// The tables and views that reads among them name.
    pub named: BTreeSet<TableOid>,
    /// The only statement as a prepared statement, if that has the same result.
    pub prepared_form: Option<PreparedForm>,
}

impl CombinedAnalysis {
    /// Returns the reply that proves that they have taken their snapshots at a replica.
    pub fn proof(&self) -> SnapshotProof {
        match self.count {
            1 => SnapshotProof::First,
            _ => SnapshotProof::End,
        }
    }

    /// Returns the tables whose rows their answers may contain.
    pub fn named(&self) -> NamedTables {
        NamedTables {
            tables: self.named.clone(),
            generation: self.generation,
        }
    }

    /// Returns statements that are not understood, for this reason.
    pub fn anything(why: &'static str) -> CombinedAnalysis {
        CombinedAnalysis {
            sets: AccessSets::writes_anything(),
            needs_primary: Some(why),
            may_end: true,
            count: 1,
            ..CombinedAnalysis::default()
        }
    }

    /// Adds the analysis of the statements that follow.
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
        self.commands += other.commands;
        self.prepared_form = other.prepared_form.filter(|_| self.count == 0);
        self.count += other.count;
        self.named.extend(other.named);
        let generations = [self.generation, other.generation];
        self.generation = generations.into_iter().flatten().min();
    }

    /// Coarsens their reads to these classes.
    pub fn coarsen(&mut self, classes: ClassPrecision) {
        match classes {
            ClassPrecision::Rows => {}
            ClassPrecision::Columns => self.sets.coarsen(AffectingClass::Columns),
            ClassPrecision::Tables => self.sets.coarsen(AffectingClass::Table),
        }
    }

    /// Returns whether the statements change the schema and do nothing else. `text` is their text:
    /// objects that it makes in the schema of temporary tables belong to its session.
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
    /// By their numbers on the primary.
    pub tables: BTreeSet<TableOid>,
    /// The catalogue by which they are known.
    pub generation: Option<u64>,
}

impl NamedTables {
    /// Returns the known numbers on any server, if only one table is read.
    pub fn only(&self) -> Option<TableOidMap> {
        let first = self.tables.first().filter(|_| self.tables.len() == 1)?;
        Some(TableOidMap::One(first.0))
    }
}
