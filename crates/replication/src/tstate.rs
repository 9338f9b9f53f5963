//! Assembles transaction states from the slot's messages. A transaction state is the effects of one
//! commit of the primary.
//!
//! Invariant: a state's sets hold every row that it writes, so that two states whose sets are
//! independent touch no common row.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use bytes::Bytes;

use super::ReplicationError;
use super::apply::ApplyPart;
use super::change::{CommitChange, TableShape};
use super::pgoutput::{self, OldTuple, PgoutputMessage, Tuple};
use super::schema_changes::{self, ReplayableChange, SchemaChanges, SchemaNote};
use super::spill::{self, SpillFile};
use pg_analysis::{Analyser, Catalogue};
use proxy_core::freshness::mark::{self, Mark};
use proxy_core::freshness::{AccessSets, RowHash, TableAccess, TableOid, Tsid};

/// The most rows of one table that a state names one by one. With more, the state touches the whole
/// table.
const ROWS_MAX: usize = 4096;

/// The most bytes of a transaction in memory. The changes of a longer transaction are kept in a
/// file. In addition, the memory has the commits that may wait for a replica.
const LENGTH_MAX: usize = 256 * 1024;

/// The schema of the proxies' own objects, which differ from node to node.
const OWN_SCHEMA: &str = "hihooi";

/// The effects of one commit: a transaction state.
#[derive(Debug)]
pub struct TState {
    /// The TSID of the commit.
    pub tsid: Tsid,
    /// The lower half of the transaction's number on the primary.
    pub xid: u32,
    /// The commit's mark; none if the commit bypassed the proxy.
    pub mark: Option<Mark>,
    /// The commit's changes, in the order of the primary's log.
    pub effect: CommitEffect,
    /// The commit's writes; everything, if it has statements.
    pub sets: AccessSets,
    /// Whether the commit has statements, such as DDL.
    pub has_statements: bool,
    /// The approximate memory of this value in bytes.
    pub length: usize,
}

/// The changes of a commit.
#[derive(Debug)]
pub enum CommitEffect {
    /// Changes in memory.
    Short(Vec<CommitChange>),
    /// More changes than fit in memory.
    Long(SpillFile),
    /// Changes from the transactions buffer.
    Recorded(RecordedChanges),
}

/// Changes in the encoding of `spill`.
#[derive(Debug)]
pub struct RecordedChanges {
    /// The bytes of the changes.
    pub parts: Bytes,
    /// The reason why no replica can execute them; none if they can.
    pub failure: Option<String>,
}

impl RecordedChanges {
    /// Returns the statements of these commits.
    pub fn parts(&self) -> Result<Vec<ApplyPart>, ReplicationError> {
        match &self.failure {
            Some(failure) => Err(ReplicationError::Stream(failure.clone())),
            None => Ok(spill::decode_all(&self.parts)?),
        }
    }
}

impl TState {
    /// Returns the writes of a commit: the rows of each table, or the whole table. If the commit
    /// has statements, it writes everything.
    pub fn sets_of(
        writes: impl IntoIterator<Item = (TableOid, Option<BTreeSet<RowHash>>)>,
        has_statements: bool,
    ) -> AccessSets {
        let mut sets = AccessSets::default();
        for (table, rows) in writes {
            let touch = match rows {
                Some(rows) => TableAccess::write_rows(rows),
                None => TableAccess::write_table(),
            };
            sets.touch(table, touch);
        }
        if has_statements {
            sets.merge(&AccessSets::writes_anything());
        }
        sets
    }
}

impl CommitEffect {
    /// Returns whether the commit has no effect.
    pub fn is_empty(&self) -> bool {
        match self {
            CommitEffect::Short(changes) => changes.is_empty(),
            CommitEffect::Long(_) => false,
            CommitEffect::Recorded(it) => it.parts.is_empty() && it.failure.is_none(),
        }
    }
}

/// Assembles transaction states from the stream's messages.
#[derive(Default)]
pub struct TStateAssembler {
    shapes: BTreeMap<u32, Arc<TableShape>>,
    /// Tables of the schema in which proxies keep their own, which are not replicated.
    own: BTreeSet<u32>,
    /// The table in which changes of the schema are recorded.
    notes: Option<(u32, Vec<String>)>,
    schema_changes: SchemaChanges,
    /// Whether a table's description differs from the catalogue.
    pub catalogue_is_old: bool,
    xid: u32,
    mark: Option<Mark>,
    changes: Vec<CommitChange>,
    /// Bytes of messages that the changes were made of, and of which they hold most.
    length: usize,
    /// Earlier changes of the transaction, if they exceed the limit of memory.
    spill: Option<SpillFile>,
    has_statements: bool,
    writes: BTreeMap<TableOid, Option<BTreeSet<RowHash>>>,
}

impl TStateAssembler {
    /// Begins a transaction state.
    pub fn begin(&mut self, xid: u32) {
        assert!(self.changes.is_empty(), "the last one was committed");
        self.xid = xid;
    }

    /// Handles a row message of the transaction.
    pub fn data(&mut self, data: Bytes, analyser: &Analyser) -> Result<(), ReplicationError> {
        self.length += data.len();
        let malformed =
            |_| ReplicationError::Stream("the primary sent an invalid pgoutput message".into());
        match pgoutput::decode(data).map_err(malformed)? {
            PgoutputMessage::Relation(relation) => self.relation(relation, &analyser.catalogue()),
            PgoutputMessage::Insert { relation, new } if self.notes_are_in(relation) => {
                self.noted(&new, analyser);
            }
            PgoutputMessage::Insert { relation, .. }
            | PgoutputMessage::Update { relation, .. }
            | PgoutputMessage::Delete { relation, .. }
                if self.own.contains(&relation) => {}
            PgoutputMessage::Insert { relation, new } => {
                self.run_held();
                let table = self.shape(relation)?;
                self.write(&table, [&new]);
                self.changes.push(CommitChange::Insert { table, new });
            }
            PgoutputMessage::Update { relation, old, new } => {
                self.run_held();
                let table = self.shape(relation)?;
                let before = old
                    .as_ref()
                    .map(|(OldTuple::Key(tuple) | OldTuple::Row(tuple))| tuple);
                self.write(&table, before.into_iter().chain([&new]));
                self.changes.push(CommitChange::Update { table, old, new });
            }
            PgoutputMessage::Delete { relation, old } => {
                self.run_held();
                let table = self.shape(relation)?;
                let (OldTuple::Key(tuple) | OldTuple::Row(tuple)) = &old;
                self.write(&table, [tuple]);
                self.changes.push(CommitChange::Delete { table, old });
            }
            PgoutputMessage::Truncate {
                relations,
                restart_identity,
            } => {
                let others = relations.into_iter().filter(|it| !self.own.contains(it));
                let tables = others.map(|relation| self.shape(relation));
                let tables: Vec<_> = tables.collect::<Result<_, _>>()?;
                if tables.is_empty() {
                    return Ok(());
                }
                self.run_held();
                for table in &tables {
                    self.writes.insert(table.table, None);
                }
                self.changes.push(CommitChange::Truncate {
                    tables,
                    restart_identity,
                });
            }
            PgoutputMessage::Other => {}
        }
        Ok(())
    }

    /// Handles a message of `pg_logical_emit_message` in the transaction.
    pub fn message(&mut self, prefix: &str, content: &[u8], key: &mark::MarkKey) {
        match mark::MarkMessage::decode(prefix, content, key) {
            Some(mark::MarkMessage::Mark(mark)) => self.mark = Some(mark),
            Some(mark::MarkMessage::Statement(statement)) => {
                let found = self.schema_changes.announced(statement);
                self.found(found);
            }
            None => {}
        }
    }

    fn notes_are_in(&self, relation: u32) -> bool {
        self.notes
            .as_ref()
            .is_some_and(|(notes, _)| *notes == relation)
    }

    fn noted(&mut self, row: &Tuple, analyser: &Analyser) {
        let columns = self.notes.iter().flat_map(|(_, columns)| columns);
        if let Some(note) = SchemaNote::of(columns.map(String::as_str), row) {
            let found = self.schema_changes.noted(&note, analyser);
            self.found(found);
        }
    }

    /// Adds the announced statements that were held back, before a change of rows.
    fn run_held(&mut self) {
        let held = self.schema_changes.take_held();
        self.found(held);
    }

    fn found(&mut self, found: impl IntoIterator<Item = ReplayableChange>) {
        for found in found {
            self.has_statements = true;
            self.changes.push(match found {
                ReplayableChange::Statement(statement, settings) => {
                    self.length += statement.text.len();
                    CommitChange::Statement(statement, settings)
                }
                ReplayableChange::Lost(why) => CommitChange::Lost(why),
            });
        }
    }

    /// Moves the transaction's changes into a file, if they are too large for memory.
    pub async fn bound(&mut self) -> io::Result<()> {
        match self.length > LENGTH_MAX {
            true => self.spill().await,
            false => Ok(()),
        }
    }

    async fn spill(&mut self) -> io::Result<()> {
        let spill = match &mut self.spill {
            Some(spill) => spill,
            none => none.insert(SpillFile::new()?),
        };
        spill.add(&self.changes).await?;
        self.changes.clear();
        self.length = 0;
        Ok(())
    }

    /// Ends the state with the commit, whose record ends at `end`.
    pub async fn commit(&mut self, end: Tsid) -> io::Result<TState> {
        let rest = std::mem::take(&mut self.schema_changes).end();
        self.found(rest);
        if self.spill.is_some() {
            self.spill().await?;
        }
        let length = std::mem::take(&mut self.length);
        let has_statements = std::mem::take(&mut self.has_statements);
        let sets = TState::sets_of(std::mem::take(&mut self.writes), has_statements);
        Ok(TState {
            tsid: end,
            xid: self.xid,
            mark: self.mark.take(),
            effect: match self.spill.take() {
                Some(spill) => CommitEffect::Long(spill),
                None => CommitEffect::Short(std::mem::take(&mut self.changes)),
            },
            sets,
            has_statements,
            length,
        })
    }

    fn relation(&mut self, relation: pgoutput::RelationMessage, catalogue: &Catalogue) {
        if relation.schema == OWN_SCHEMA {
            self.own.insert(relation.oid);
            if relation.name == schema_changes::TABLE {
                let columns = relation.columns.into_iter().map(|column| column.name);
                self.notes = Some((relation.oid, columns.collect()));
            }
            return;
        }
        let known = catalogue.numbered(TableOid(relation.oid));
        let agrees = known.is_some_and(|known| {
            let mut columns = relation.columns.iter();
            columns.all(|column| known.column(&column.name).is_some())
        });
        self.catalogue_is_old |= !agrees;
        let oid = relation.oid;
        self.shapes
            .insert(oid, Arc::new(TableShape::new(relation, known)));
    }

    fn shape(&self, relation: u32) -> Result<Arc<TableShape>, ReplicationError> {
        let shape = self.shapes.get(&relation).cloned();
        shape.ok_or_else(|| {
            ReplicationError::Stream("a row came before its table was described".into())
        })
    }

    fn write<'t>(&mut self, table: &TableShape, tuples: impl IntoIterator<Item = &'t Tuple>) {
        let entry = self.writes.entry(table.table);
        let entry = entry.or_insert_with(|| Some(BTreeSet::new()));
        if !table.has_key {
            *entry = None;
        }
        if let Some(rows) = entry {
            rows.extend(tuples.into_iter().flat_map(|tuple| table.rows_of(tuple)));
            if rows.len() > ROWS_MAX {
                *entry = None;
            }
        }
    }
}

/// Returns a change for tests.
#[cfg(test)]
pub fn statement(text: &str) -> CommitChange {
    let statement = mark::AnnouncedStatement {
        search_path: "public".into(),
        role: String::new(),
        text: text.into(),
    };
    CommitChange::Statement(statement, Vec::new())
}
