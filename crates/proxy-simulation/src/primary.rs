//! A small database with snapshot isolation that simulates the primary. It has rows with locks, and
//! a log. Commits are in the log before any client sees them, and become visible in another order.

use std::collections::BTreeMap;

use proxy_core::freshness::mark::emitted;
use proxy_core::freshness::{
    AccessSets, AffectingClass, ColumnNumber, CountedItems, RowHash, TableAccess, TableOid,
    TableParts, Tsid,
};

/// The number of tables, and of the rows of each.
pub const TABLES: u32 = 2;
pub const ROWS: u64 = 4;
/// Columns of a row besides its key.
pub const COLUMNS: usize = 2;

/// The key of a row: its table and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub table: u32,
    pub row: u64,
}

/// A row's values.
pub(crate) type Image = [u64; COLUMNS];

/// All rows.
pub(crate) type Data = BTreeMap<Key, Image>;

/// The change of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    pub key: Key,
    pub old: Option<Image>,
    pub new: Option<Image>,
}

/// A statement that writes.
#[derive(Clone, Debug)]
pub(crate) enum Statement {
    /// `INSERT … ON CONFLICT DO UPDATE` of all columns.
    Put(Key, Image),
    /// `UPDATE … SET column = value WHERE key = …`.
    Set(Key, usize, u64),
    /// `DELETE … WHERE key = …`.
    Delete(Key),
    /// `UPDATE … SET b = value WHERE a % 2 = parity`.
    SetWhere(u32, u64, u64),
    /// Something that leaves no row images, such as DDL.
    Schema,
}

impl Statement {
    /// Returns the sets that the analysis would find for the statement.
    pub fn sets(&self) -> AccessSets {
        let column = |column: usize| CountedItems::one(ColumnNumber(column as u16 + 1));
        let rows = |key: &Key| CountedItems::one(RowHash(key.row));
        let mut sets = AccessSets::default();
        match self {
            Statement::Put(key, _) | Statement::Delete(key) => {
                sets.touch(
                    TableOid(key.table),
                    TableAccess::write_rows([RowHash(key.row)]),
                );
            }
            Statement::Set(key, number, _) => {
                let touch = TableAccess {
                    class: AffectingClass::Rows,
                    reads: Some(TableParts {
                        columns: CountedItems::default(),
                        rows: rows(key),
                    }),
                    writes: Some(TableParts {
                        columns: column(*number),
                        rows: rows(key),
                    }),
                };
                sets.touch(TableOid(key.table), touch);
            }
            Statement::SetWhere(table, ..) => {
                let parts = |number| TableParts {
                    columns: column(number),
                    rows: CountedItems::default(),
                };
                let touch = TableAccess {
                    class: AffectingClass::Columns,
                    reads: Some(parts(0)),
                    writes: Some(parts(1)),
                };
                sets.touch(TableOid(*table), touch);
            }
            Statement::Schema => sets = AccessSets::writes_anything(),
        }
        sets
    }

    /// Returns the rows that the statement changes in `data`, each with its new values; none for a
    /// deleted row.
    fn changes(&self, data: &Data) -> Vec<(Key, Option<Image>)> {
        let there = |key: &Key| data.contains_key(key);
        match self {
            Statement::Put(key, image) => vec![(*key, Some(*image))],
            Statement::Delete(key) if there(key) => vec![(*key, None)],
            Statement::Set(key, column, value) if there(key) => {
                let mut image = data[key];
                image[*column] = *value;
                vec![(*key, Some(image))]
            }
            Statement::SetWhere(table, parity, value) => data
                .iter()
                .filter(|(key, image)| key.table == *table && image[0] % 2 == *parity)
                .map(|(key, image)| (*key, Some([image[0], *value])))
                .collect(),
            _ => Vec::new(),
        }
    }
}

/// A commit in the log.
#[derive(Debug)]
pub(crate) struct Entry {
    /// The position after the commit's record.
    pub tsid: Tsid,
    pub changes: Vec<Change>,
    pub has_statements: bool,
    /// Prefix and bytes of a message in it.
    pub message: Option<(String, Vec<u8>)>,
    /// Whether the commit is visible on the primary.
    pub is_shown: bool,
    /// The number of commits that became visible before it; none while it is not visible.
    pub shown_at: Option<u64>,
    /// Whether the commit came through the proxy.
    pub is_ours: bool,
    /// The time at which the commit was first known: to its client, or to a reader that saw it.
    pub known_at: Option<u64>,
}

#[derive(Debug, Default)]
struct Transaction {
    changes: BTreeMap<Key, Change>,
    has_statements: bool,
    /// The index of the transaction's commit in the log.
    logged: Option<usize>,
}

/// The simulated primary. A commit is in its log before it is visible.
#[derive(Debug, Default)]
pub(crate) struct Primary {
    pub log: Vec<Entry>,
    /// The visible data.
    pub shown: Data,
    /// The state after a replay of the log up to each commit.
    pub states: BTreeMap<Tsid, Data>,
    locks: BTreeMap<Key, i32>,
    backends: BTreeMap<i32, Transaction>,
    last_backend: i32,
    position: u64,
    shown_count: u64,
}

impl Primary {
    /// Returns a primary whose log begins somewhere.
    pub fn new() -> Primary {
        let position = 100;
        Primary {
            states: [(Tsid(position), Data::new())].into(),
            position,
            ..Primary::default()
        }
    }

    /// Returns the position of the log's end.
    pub fn position(&self) -> Tsid {
        Tsid(self.position)
    }

    /// Starts a connection's process, and returns its number.
    pub fn open(&mut self) -> i32 {
        self.last_backend += 1;
        self.backends
            .insert(self.last_backend, Transaction::default());
        self.last_backend
    }

    /// Returns whether a connection's server process runs.
    pub fn is_alive(&self, backend: i32) -> bool {
        self.backends.contains_key(&backend)
    }

    /// Executes a statement. Returns false if a row that it changes is locked: the statement must
    /// wait.
    pub fn execute(&mut self, backend: i32, statement: &Statement) -> bool {
        let own = &self.backends[&backend];
        let mut data = self.shown.clone();
        for change in own.changes.values() {
            put(&mut data, change.key, change.new);
        }
        let changes = statement.changes(&data);
        let locked = |key: &Key| self.locks.get(key).is_some_and(|other| *other != backend);
        if changes.iter().any(|(key, _)| locked(key)) {
            return false;
        }
        let own = self.backends.get_mut(&backend).expect("it was just there");
        own.has_statements |= matches!(statement, Statement::Schema);
        for (key, new) in changes {
            self.locks.insert(key, backend);
            let old = self.shown.get(&key).copied();
            own.changes.insert(key, Change { key, old, new });
        }
        true
    }

    /// Writes the commit record of a connection's transaction into the log, and returns its index
    /// in the log; none if the transaction has written nothing.
    pub fn commit(&mut self, backend: i32) -> Option<usize> {
        let own = self.backends.get_mut(&backend).expect("it is alive");
        let changes: Vec<Change> = own.changes.values().copied().collect();
        if changes.is_empty() && !own.has_statements {
            *own = Transaction::default();
            return None;
        }
        let place = self.log.len();
        own.logged = Some(place);
        let has_statements = own.has_statements;
        self.append(changes, has_statements, None);
        Some(place)
    }

    /// Makes the commit of a connection's transaction visible.
    pub fn show(&mut self, backend: i32) {
        let own = self.backends.get_mut(&backend).expect("it is alive");
        let own = std::mem::take(own);
        let place = own.logged.expect("it is in the log");
        for change in own.changes.values() {
            put(&mut self.shown, change.key, change.new);
            self.locks.remove(&change.key);
        }
        self.show_at(place);
    }

    fn show_at(&mut self, place: usize) {
        self.log[place].is_shown = true;
        self.log[place].shown_at = Some(self.shown_count);
        self.shown_count += 1;
    }

    /// Returns whether a connection's commit is in the log, and not shown yet.
    pub fn is_logged(&self, backend: i32) -> bool {
        self.backends[&backend].logged.is_some()
    }

    /// Rolls back the transaction of a connection.
    pub fn roll_back(&mut self, backend: i32) {
        let own = self.backends.get_mut(&backend).expect("it is alive");
        let own = std::mem::take(own);
        assert!(own.logged.is_none(), "what is in the log stays");
        for key in own.changes.keys() {
            self.locks.remove(key);
        }
    }

    /// Ends a connection's process.
    pub fn close(&mut self, backend: i32) {
        self.roll_back(backend);
        self.backends.remove(&backend);
    }

    /// Runs a statement that writes a message into the log, in a separate transaction.
    pub fn emit(&mut self, sql: &str) {
        self.append(Vec::new(), false, Some(emitted(sql)));
        self.show_at(self.log.len() - 1);
    }

    /// Commits a statement of a client that goes around the proxy, unless a row of it is locked.
    pub fn bypass(&mut self, statement: &Statement) {
        let backend = self.open();
        if self.execute(backend, statement)
            && let Some(place) = self.commit(backend)
        {
            self.log[place].is_ours = false;
            self.show(backend);
        }
        self.close(backend);
    }

    /// Returns the commits that a read touches and that are not in the state at `prefix`.
    pub fn missing<'a>(
        &'a self,
        reads: &'a Reads,
        prefix: Tsid,
    ) -> impl Iterator<Item = &'a Entry> {
        let behind = self.log.iter().filter(move |entry| entry.tsid > prefix);
        behind.filter(|entry| reads.meet(entry))
    }

    /// Returns two commits that a read touches, of which the state at `prefix` has only the first,
    /// although the second was visible earlier. The primary never showed such a state (a long
    /// fork). The second commit is never one that went around the proxy. Returns none if there are
    /// no such commits.
    pub fn torn(&self, reads: &Reads, prefix: Tsid) -> Option<(Tsid, Tsid)> {
        let there = self
            .log
            .iter()
            .filter(|entry| entry.tsid <= prefix && reads.meet(entry));
        let last = there.max_by_key(|entry| entry.shown_at)?;
        let mut missing = self.missing(reads, prefix).filter(|entry| entry.is_ours);
        let before = |entry: &&Entry| entry.is_shown && entry.shown_at < last.shown_at;
        Some((last.tsid, missing.find(before)?.tsid))
    }

    fn append(
        &mut self,
        changes: Vec<Change>,
        has_statements: bool,
        message: Option<(String, Vec<u8>)>,
    ) {
        self.position += 3;
        let tsid = self.position();
        let (_, before) = self.states.last_key_value().expect("the first is there");
        let mut state = before.clone();
        for change in &changes {
            put(&mut state, change.key, change.new);
        }
        self.states.insert(tsid, state);
        self.log.push(Entry {
            tsid,
            changes,
            has_statements,
            message,
            is_shown: false,
            shown_at: None,
            is_ours: true,
            known_at: None,
        });
    }
}

/// Stores a row, or removes it if `image` is none.
pub fn put(data: &mut Data, key: Key, image: Option<Image>) {
    match image {
        Some(image) => data.insert(key, image),
        None => data.remove(&key),
    };
}

/// The rows that a query reads.
#[derive(Clone, Debug)]
pub(crate) enum Reads {
    Row(Key),
    Column(u32, usize),
    Table(u32),
    /// The rows are unknown.
    Anything,
}

impl Reads {
    /// Returns the sets that the analysis would find for the read.
    pub fn sets(&self) -> AccessSets {
        let mut sets = AccessSets::default();
        match self {
            Reads::Row(key) => {
                let touch = TableAccess {
                    class: AffectingClass::Rows,
                    reads: Some(TableParts {
                        columns: CountedItems::all(),
                        rows: CountedItems::one(RowHash(key.row)),
                    }),
                    writes: None,
                };
                sets.touch(TableOid(key.table), touch);
            }
            Reads::Column(table, column) => {
                let touch = TableAccess {
                    class: AffectingClass::Columns,
                    reads: Some(TableParts {
                        columns: CountedItems::one(ColumnNumber(*column as u16 + 1)),
                        rows: CountedItems::default(),
                    }),
                    writes: None,
                };
                sets.touch(TableOid(*table), touch);
            }
            Reads::Table(table) => sets.touch(TableOid(*table), TableAccess::read_table()),
            Reads::Anything => sets = AccessSets::reads_anything(),
        }
        sets
    }

    /// Returns whether the answer to this read depends on a commit.
    pub fn meet(&self, entry: &Entry) -> bool {
        entry.changes.iter().any(|change| match self {
            Reads::Row(key) => *key == change.key,
            Reads::Column(table, column) => {
                let value = |image: Option<Image>| image.map(|image| image[*column]);
                *table == change.key.table && value(change.old) != value(change.new)
            }
            Reads::Table(table) => *table == change.key.table,
            Reads::Anything => true,
        })
    }
}
