//! Determines the tables, columns and rows that a statement touches, and how the proxy executes the
//! statement.
//!
//! PostgreSQL's own grammar parses the SQL, and a [`Catalogue`] of the primary resolves its names.
//! The crate does no I/O.
//!
//! Invariant: the sets of a statement hold everything that it may touch. An unknown statement
//! touches anything, on the primary (R33).

pub mod catalogue;
pub mod client_view;
pub mod effect;
pub mod replicas;
pub mod temporary;

mod constants;
mod facts;
mod fills;
mod functions;
mod keys;
mod reads;
mod select;
mod select_into;
#[cfg(test)]
mod tests;
mod touches;
mod utility;
mod writes;

use std::collections::{BTreeMap, HashMap};
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use pg_raw_parse::Node;

pub use catalogue::Catalogue;
pub use constants::{Constant, TextTemplate};
pub use keys::{BoundParameter, INT4};
pub use reads::is_of_node;
pub use utility::{TEMPORARY_TABLE, fires_triggers, is_of_roles_alone};

use keys::KeyValue;
use proxy_core::freshness::{
    AccessSets, AffectingClass, CountedItems, RowHash, TableAccess, TableOid,
};
use proxy_core::session::PreparedStatement;

/// The most analysed texts in the cache. When it is full, all of them are dropped.
const CACHE_COUNT_MAX: usize = 10_000;
/// The length of the longest text that is cached, in bytes. Longer texts are analysed each time.
const CACHED_TEXT_LENGTH_MAX: usize = 16 * 1024;
/// The length of the longest text that is parsed, in bytes. A longer text may touch anything.
const TEXT_LENGTH_MAX: usize = 8 * 1024 * 1024;
/// The length of the longest name in the catalogue, in bytes.
const NAME_LENGTH_MAX: usize = 63;

/// How the proxy executes a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatementAction {
    /// A read that may run on any node that has the commits that its sets need.
    Read,
    /// It runs on the primary and writes no table.
    Primary(&'static str),
    /// It runs on the primary and may write its sets: its transaction gets a mark.
    Write,
    /// It runs on the primary and may write anything, for this reason (R33).
    Unproven(&'static str),
    /// It runs on the primary after its transaction has this text as a
    /// [`proxy_core::freshness::mark::AnnouncedStatement`]. Replicas run that text.
    Schema(String),
    /// It runs on the primary in transactions of its own, for this reason; replicas run this text
    /// once the primary's triggers have noted it.
    Alone(String, &'static str),
    /// It begins or ends a transaction or a part of one.
    Transaction(TransactionCommand),
    /// It changes or shows the session's settings.
    Session,
    /// It makes state in its connection to the primary, to which the session is bound from then on.
    Pin(&'static str),
    /// It cannot be replicated. The client gets an error with this text, which names the remedy.
    Refused(&'static str),
    /// It changes the schema by this text, and may give existing rows of its table other values at
    /// replicas. If the table has rows, the primary refuses it with the second text.
    MayFill(String, &'static str),
    /// It changes the schema by this text, and may give replicas other rows than the primary: the
    /// client gets an error with the second text. Where the primary's triggers have found that it
    /// gives the same, replicas run the first.
    MayDiffer(String, &'static str),
}

impl StatementAction {
    /// Returns whether the statement may write tables or their rows.
    fn may_write(&self) -> bool {
        matches!(self, StatementAction::Write | StatementAction::Unproven(_))
    }
}

/// The effect of a transaction statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionCommand {
    /// `BEGIN`, `START TRANSACTION`.
    Begin,
    /// `COMMIT`, `END`.
    Commit,
    /// `ROLLBACK`, `ABORT`.
    Rollback,
    /// `SAVEPOINT`, `RELEASE`, `ROLLBACK TO`.
    Savepoint,
    /// `PREPARE TRANSACTION` and the statements that end it.
    TwoPhase,
}

/// One statement, analysed.
#[derive(Clone, Debug, PartialEq)]
pub struct AnalysedStatement {
    /// How the proxy executes the statement.
    pub action: StatementAction,
    tables: Vec<TableUse>,
    /// The relations that its text names, with views as such.
    named: Vec<TableOid>,
    reads_anything: bool,
    writes_anything: bool,
    /// Whether the statement reads the time at which its transaction began.
    pub of_transaction_time: bool,
    /// Whether the statement locks the rows that it reads, until its transaction ends.
    pub locks: bool,
}

/// The use of one table by a statement: by rows, if parameters can be evaluated.
#[derive(Clone, Debug)]
struct TableUse {
    table: TableOid,
    otherwise: TableAccess,
    rows: Vec<Vec<KeyValue>>,
}

impl PartialEq for TableUse {
    fn eq(&self, other: &TableUse) -> bool {
        self.table == other.table && self.rows == other.rows
    }
}

impl AnalysedStatement {
    fn touching(action: StatementAction, tables: Vec<TableUse>) -> AnalysedStatement {
        AnalysedStatement {
            action,
            tables,
            named: Vec::new(),
            reads_anything: false,
            writes_anything: false,
            of_transaction_time: false,
            locks: false,
        }
    }

    /// Makes the analysis of a statement that touches no table.
    fn without_tables(action: StatementAction) -> AnalysedStatement {
        AnalysedStatement::touching(action, Vec::new())
    }

    /// Makes the analysis of a statement that runs on the primary, and may read any table there.
    fn reads_anything(action: StatementAction) -> AnalysedStatement {
        AnalysedStatement {
            reads_anything: true,
            ..AnalysedStatement::without_tables(action)
        }
    }

    /// Returns the analysis of an unknown statement (R33).
    fn unproven(why: &'static str) -> AnalysedStatement {
        AnalysedStatement::writes_anything(StatementAction::Unproven(why))
    }

    /// Makes the analysis of a statement that may read and write any table.
    fn writes_anything(action: StatementAction) -> AnalysedStatement {
        AnalysedStatement {
            writes_anything: true,
            ..AnalysedStatement::reads_anything(action)
        }
    }

    /// Returns whether the statement's sets and its action describe it completely, for any
    /// constants.
    fn is_plain(&self) -> bool {
        let is_plain = match self.action {
            StatementAction::Read | StatementAction::Write => true,
            StatementAction::Primary(why) => why != functions::BY_NUMBER,
            _ => false,
        };
        is_plain && !self.writes_anything
    }

    /// Returns the tables and views that a read names. The columns of its answer may belong to
    /// them.
    pub fn named(&self) -> &[TableOid] {
        &self.named
    }

    /// Returns whether the statement's read and write sets are smaller if its parameters are known.
    pub fn is_by_parameters(&self) -> bool {
        let rows = self.tables.iter().flat_map(|table| &table.rows);
        let mut values = rows.flatten();
        values.any(|value| matches!(value, KeyValue::Parameter { .. }))
    }

    /// Returns the number of parameters if the statement reads one row of one table by a key of
    /// whole numbers and each parameter is the value of one key column; none otherwise.
    pub fn key_parameters(&self) -> Option<usize> {
        let [only] = &self.tables[..] else {
            return None;
        };
        let [key] = &only.rows[..] else {
            return None;
        };
        let is_number = |value: &KeyValue| match value {
            KeyValue::Parameter {
                type_oid,
                only_here,
                ..
            } => *only_here && keys::is_integer(*type_oid),
            KeyValue::Known(_) => false,
        };
        let reads =
            self.action == StatementAction::Read && !self.reads_anything && !self.writes_anything;
        (reads && key.iter().all(is_number)).then_some(key.len())
    }

    /// Returns the read and write sets of the statement with these parameters.
    pub fn sets(&self, parameters: &[BoundParameter<'_>]) -> AccessSets {
        let mut sets = match (self.writes_anything, self.reads_anything) {
            (true, _) => AccessSets::writes_anything(),
            (false, true) => AccessSets::reads_anything(),
            (false, false) => AccessSets::default(),
        };
        for table in &self.tables {
            sets.touch(table.table, table.touch(parameters));
        }
        sets
    }
}

impl TableUse {
    fn new(table: TableOid, otherwise: TableAccess) -> TableUse {
        TableUse {
            table,
            otherwise,
            rows: Vec::new(),
        }
    }

    fn touch(&self, parameters: &[BoundParameter<'_>]) -> TableAccess {
        let mut touch = self.otherwise.clone();
        let rows = self.rows.iter().map(|row| keys::row(row, parameters));
        let rows: Option<CountedItems<RowHash>> = rows.collect();
        let Some(rows) = rows.filter(|rows| !rows.is_empty()) else {
            return touch;
        };
        touch.class = AffectingClass::Rows;
        match (&mut touch.reads, &mut touch.writes) {
            (Some(parts), None) | (None, Some(parts)) => parts.rows = rows,
            (Some(reads), Some(writes)) => {
                reads.rows = rows.clone();
                writes.rows = rows;
            }
            (None, None) => {}
        }
        touch
    }
}

/// The analysed statements of one query string, in order. A string that does not parse counts as
/// one statement that touches anything: it runs on the primary.
#[derive(Debug)]
pub struct TextAnalysis {
    statements: Vec<AnalysedStatement>,
    /// The prepared form of the string's only statement, once a caller has requested it.
    pub prepared: OnceLock<Arc<PreparedStatement>>,
}

impl Deref for TextAnalysis {
    type Target = [AnalysedStatement];

    fn deref(&self) -> &[AnalysedStatement] {
        &self.statements
    }
}

/// Analyses query strings and caches the results.
#[derive(Debug)]
pub struct Analyser {
    catalogue: RwLock<Arc<Catalogue>>,
    /// How often it was replaced.
    generation: AtomicU64,
    cache: Mutex<Cache>,
}

#[derive(Debug, Default)]
struct Cache {
    /// By the schemas in which names are looked up, and by text.
    analyses: BTreeMap<Vec<String>, HashMap<String, Arc<TextAnalysis>>>,
    /// How many there are.
    count: usize,
}

impl Analyser {
    /// Returns an analyser of statements for a database with this catalogue.
    pub fn new(catalogue: Catalogue) -> Analyser {
        Analyser {
            catalogue: RwLock::new(Arc::new(catalogue)),
            generation: AtomicU64::new(0),
            cache: Mutex::default(),
        }
    }

    /// Replaces the catalogue of the database and drops all earlier analyses.
    pub fn replace(&self, catalogue: Catalogue) {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let mut here = self
            .catalogue
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        *here = Arc::new(catalogue);
        *cache = Cache::default();
        // Only now: later analyses use the new catalogue.
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Rises with each change of the catalogue. An analysis made after this call uses the catalogue
    /// of that generation, or a newer one.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Returns the present catalogue.
    pub fn catalogue(&self) -> Arc<Catalogue> {
        let catalogue = self.catalogue.read();
        Arc::clone(&catalogue.unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the analysed statements of a query string with constants, and its template.
    /// Parameters stand for the constants, so that strings that differ only in constants are
    /// analysed once.
    pub fn analyse_with_constants<'t>(
        &self,
        text: &'t str,
        search_path: &[String],
    ) -> (Arc<TextAnalysis>, Option<TextTemplate<'t>>) {
        if text.len() <= CACHED_TEXT_LENGTH_MAX
            && let Some(template) = constants::template(text)
        {
            let analysis = self.analyse(&template.text, search_path);
            if analysis.iter().all(AnalysedStatement::is_plain) {
                return (analysis, Some(template));
            }
        }
        (self.analyse(text, search_path), None)
    }

    /// Returns the analysed statements of a query string, with names looked up in the schemas of
    /// `search_path`. Call this again for every execution, because the result changes with the
    /// catalogue.
    pub fn analyse(&self, text: &str, search_path: &[String]) -> Arc<TextAnalysis> {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let known = cache.analyses.get(search_path);
        if let Some(analysis) = known.and_then(|known| known.get(text)) {
            return Arc::clone(analysis);
        }
        // Under the cache's lock, so that nothing from an old catalogue is put in after `replace`.
        let catalogue = self.catalogue();
        let analysis = Arc::new(TextAnalysis {
            statements: analyse(&catalogue, text, search_path),
            prepared: OnceLock::new(),
        });
        if text.len() <= CACHED_TEXT_LENGTH_MAX {
            if cache.count >= CACHE_COUNT_MAX {
                *cache = Cache::default();
            }
            cache.count += 1;
            let known = cache.analyses.entry(search_path.to_vec()).or_default();
            known.insert(text.to_owned(), Arc::clone(&analysis));
        }
        analysis
    }
}

/// Returns the schemas that a `search_path` setting names, in order, as PostgreSQL reads it.
pub fn search_path(setting: &str, user: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut rest = setting.trim_ascii();
    while !rest.is_empty() {
        let name = match rest.strip_prefix('"') {
            Some(quoted) => {
                // Two quotes stand for one.
                let mut end = 0;
                loop {
                    match quoted[end..].find('"') {
                        Some(at) if quoted[end + at + 1..].starts_with('"') => end += at + 2,
                        Some(at) => break end += at,
                        None => break end = quoted.len(),
                    }
                }
                rest = quoted.get(end + 1..).unwrap_or_default();
                quoted[..end].replace("\"\"", "\"")
            }
            None => {
                let is_end = |sign: char| sign == ',' || sign.is_ascii_whitespace();
                let (name, after) = rest.split_at(rest.find(is_end).unwrap_or(rest.len()));
                rest = after;
                name.to_ascii_lowercase()
            }
        };
        names.push(match &*name {
            "$user" => user.to_owned(),
            _ => cut_off(name),
        });
        let after = rest.trim_ascii_start();
        rest = after
            .strip_prefix(',')
            .unwrap_or_default()
            .trim_ascii_start();
    }
    names
}

/// Returns a name as PostgreSQL keeps it, cut off at the limit.
fn cut_off(mut name: String) -> String {
    while name.len() > NAME_LENGTH_MAX {
        name.pop();
    }
    name
}

fn analyse(catalogue: &Catalogue, text: &str, search_path: &[String]) -> Vec<AnalysedStatement> {
    let not_understood = || vec![AnalysedStatement::unproven("it is not understood")];
    if text.len() > TEXT_LENGTH_MAX {
        return not_understood();
    }
    let Ok(tree) = pg_raw_parse::parse(text) else {
        return not_understood();
    };
    let names = NameScope {
        catalogue,
        search_path,
    };
    // Temporary tables that the text makes.
    let mut own = Vec::new();
    let statements = tree.iter().map(|raw| {
        let start = usize::try_from(raw.stmt_location).unwrap_or(0);
        let length = usize::try_from(raw.stmt_len).unwrap_or(0);
        let text = text.get(start..).unwrap_or(text);
        let text = text.get(..length).filter(|_| length > 0).unwrap_or(text);
        let mut statement = statement(&names, raw.stmt(), text.trim());
        if let StatementAction::Schema(text) = &statement.action
            && !own.is_empty()
            && temporary::uses(text, &own) == temporary::TemporaryTableUse::Some
        {
            statement.action = StatementAction::Refused(temporary::REFUSED);
        }
        own.extend(temporary::made_by(raw.stmt()));
        statement
    });
    statements.collect()
}

/// The catalogue and the schemas in which the names of a text are looked up.
struct NameScope<'a> {
    catalogue: &'a Catalogue,
    search_path: &'a [String],
}

impl<'a> NameScope<'a> {
    fn resolve(&self, name: &facts::QualifiedName) -> Option<&'a catalogue::Relation> {
        let schema = name.schema.as_deref();
        self.catalogue.resolve(schema, &name.name, self.search_path)
    }
}

fn statement(names: &NameScope<'_>, node: Node<'_>, text: &str) -> AnalysedStatement {
    match node {
        Node::SelectStmt(select) => reads::analyse(names, select, text),
        Node::InsertStmt(_) | Node::UpdateStmt(_) | Node::DeleteStmt(_) => {
            writes::analyse(names, node)
        }
        _ => utility::analyse(names, node, text),
    }
}
