//! Reads the primary's catalogue for `pg-analysis`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, SimpleQueryRow};

use super::ReplicationError;
use super::query::{self, number, rows, value};
use super::snapshot::PgSnapshot;
use pg_analysis::Catalogue;
use pg_analysis::catalogue::{ColumnInfo, FIRST_USER_OID, Relation, RelationKind};
use proxy_core::freshness::{ColumnNumber, TableOid};

/// Tables, views and the like. A definition is there for views only. A user's function in a default
/// or a check counts as a trigger.
const RELATIONS: &str = "
SELECT c.oid, n.nspname, c.relname, c.relkind,
       CASE WHEN c.relkind = 'v' AND c.oid >= 16384 THEN pg_get_viewdef(c.oid) END,
       (c.relpersistence = 'p' AND c.relkind IN ('r', 'p') AND c.oid >= 16384
        AND (c.relkind = 'p' OR c.relreplident IN ('f', 'i') OR EXISTS (
             SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary))),
       c.relrowsecurity,
       (EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = c.oid AND NOT t.tgisinternal)
        OR (c.relkind <> 'v' AND EXISTS (SELECT FROM pg_rewrite w WHERE w.ev_class = c.oid))
        OR EXISTS (SELECT FROM pg_depend d
                    WHERE d.classid IN ('pg_attrdef'::regclass, 'pg_constraint'::regclass)
                      AND d.refclassid = 'pg_proc'::regclass AND d.refobjid >= 16384
                      AND d.objid IN (SELECT a.oid FROM pg_attrdef a WHERE a.adrelid = c.oid
                                      UNION ALL
                                      SELECT k.oid FROM pg_constraint k WHERE k.conrelid = c.oid))),
       (SELECT i.indkey::text FROM pg_index i
         WHERE i.indrelid = c.oid AND i.indisprimary AND c.relreplident = 'd')
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S') AND c.relpersistence <> 't'";

const COLUMNS: &str = "
SELECT a.attrelid, a.attnum, a.attname, a.atttypid,
       coalesce(l.collisdeterministic, true), a.attidentity = 'a', a.attgenerated <> ''
  FROM pg_attribute a LEFT JOIN pg_collation l ON l.oid = a.attcollation
 WHERE a.attrelid >= 16384 AND a.attnum > 0 AND NOT a.attisdropped
 ORDER BY a.attrelid, a.attnum";

/// Equalities that users have made, of the columns of replica identities; of anything else there is
/// PostgreSQL's own.
const KEY_OPERATORS: &str = "
SELECT i.indrelid, i.indkey[place], format('OPERATOR(%I.%s)', n.nspname, o.oprname)
  FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid CROSS JOIN generate_series(0, i.indnkeyatts - 1) place
  JOIN pg_opclass k ON k.oid = i.indclass[place]
  JOIN pg_amop p ON p.amopfamily = k.opcfamily AND p.amopstrategy = 3
   AND p.amoplefttype = k.opcintype AND p.amoprighttype = k.opcintype
  JOIN pg_operator o ON o.oid = p.amopopr JOIN pg_namespace n ON n.oid = o.oprnamespace
 WHERE i.indrelid >= 16384 AND o.oid >= 16384
   AND (i.indisreplident OR i.indisprimary AND c.relreplident = 'd')";

const INHERITANCE: &str = "SELECT inhparent, inhrelid FROM pg_inherits";

/// Unique indexes on plain columns, but for the primary key.
const UNIQUE_KEYS: &str = "
SELECT indrelid, indexrelid, indkey::text FROM pg_index
 WHERE indisunique AND NOT indisprimary AND indexprs IS NULL AND indrelid >= 16384";

/// Foreign keys that change their table when the other's key goes or changes.
const CASCADES: &str = "
SELECT confrelid, conrelid FROM pg_constraint
 WHERE contype = 'f' AND (confupdtype IN ('c', 'n', 'd') OR confdeltype IN ('c', 'n', 'd'))";

/// Some of PostgreSQL's own are declared immutable, but look up a number in the catalogue
/// (`pg_partition_root`, `satisfies_hash_partition`, `ts_token_type`), or know the node's log
/// (`pg_walfile_name`). So all functions with such numbers as arguments or results are left out,
/// except for aggregates, which compare them. Functions that depend on the Unicode version of a
/// node are left out, too.
const IMMUTABLE: &str = "
WITH of_nodes AS MATERIALIZED (
     SELECT array_agg(oid) AS types FROM pg_type
      WHERE typname ~ '^_?(reg.*|oid|oidvector|aclitem|anyenum|xid8?|cid|tid|pg_lsn|(pg|txid)_snapshot)$')
SELECT p.proname FROM pg_proc p, of_nodes
 WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.proname !~ 'unicode_version$'
 GROUP BY p.proname HAVING bool_and(p.provolatile = 'i' AND p.oid < 16384 AND (p.prokind = 'a'
    OR NOT (p.prorettype || p.proargtypes::oid[] || coalesce(p.proallargtypes, '{}')) && of_nodes.types))";

/// Others of PostgreSQL's own that change nothing.
const STEADY: &str = "
SELECT proname FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace
 GROUP BY proname HAVING bool_and(provolatile <> 'v' AND oid < 16384)";

const USER_FUNCTIONS: &str = "
SELECT DISTINCT proname FROM pg_proc
 WHERE oid >= 16384 OR pronamespace <> 'pg_catalog'::regnamespace";

const USER_OPERATORS: &str = "SELECT DISTINCT oprname FROM pg_operator WHERE oid >= 16384";

const USER_TYPES: &str = "
SELECT DISTINCT typname FROM pg_type WHERE oid >= 16384 AND typtype <> 'c' AND typelem = 0";

const DOMAINS_WITH_DEFAULT: &str = "
SELECT DISTINCT typname FROM pg_type WHERE typtype = 'd' AND typdefault IS NOT NULL";

const USER_CASTS: &str = "
SELECT count(*) FROM pg_cast
 WHERE oid >= 16384 AND castsource < 16384 AND casttarget < 16384";

/// How often it is read again that could not be read.
const TRIES_MAX: usize = 50;
/// Time between two of these tries.
const TRY_WAIT: Duration = Duration::from_millis(20);

/// A catalogue, and the snapshot in which it was read.
#[derive(Debug)]
pub struct CatalogueAt {
    /// The catalogue.
    pub catalogue: Catalogue,
    /// The snapshot. The catalogue includes the changes of every commit that it shows.
    pub snapshot: PgSnapshot,
}

/// Reads the catalogue, in one snapshot. Reads it again if views were dropped during the reading,
/// because PostgreSQL then no longer returns their definitions.
///
/// To return a definition, PostgreSQL locks the tables of the view. If a client has locked one of
/// them, the reading ends and begins again. Otherwise the client's `DROP … CASCADE` could meet a
/// deadlock.
pub async fn read(primary: &Client) -> Result<CatalogueAt, ReplicationError> {
    let mut tries = 0;
    loop {
        match read_once(primary).await {
            Err(error)
                if !primary.is_closed() && (tries < TRIES_MAX || waited_for_lock(&error)) =>
            {
                tries += 1;
                tokio::time::sleep(TRY_WAIT).await;
            }
            read => return read,
        }
    }
}

/// Returns whether the reading ended because a client holds a lock.
fn waited_for_lock(error: &ReplicationError) -> bool {
    let code = format!("({})", SqlState::LOCK_NOT_AVAILABLE.code());
    matches!(error, ReplicationError::Connection(text) if text.ends_with(&code))
}

async fn read_once(primary: &Client) -> Result<CatalogueAt, ReplicationError> {
    primary
        .batch_execute(
            "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL search_path = ''; \
             SET LOCAL lock_timeout = '200ms'",
        )
        .await?;
    let catalogue = read_in_snapshot(primary).await;
    primary.batch_execute("COMMIT").await?;
    catalogue
}

async fn read_in_snapshot(primary: &Client) -> Result<CatalogueAt, ReplicationError> {
    let snapshot = query::one(primary, "SELECT pg_current_snapshot()").await?;
    let mut relations = BTreeMap::new();
    for row in rows(primary, RELATIONS).await? {
        let (name, relation) = relation(&row)?;
        relations.insert(relation.table, (name, relation));
    }
    for row in rows(primary, COLUMNS).await? {
        if let Some((_, relation)) = relations.get_mut(&table(&row, 0)?) {
            relation.columns.push(column(&row)?);
            relation.has_generated |= flag(&row, 6)?;
        }
    }
    for row in rows(primary, KEY_OPERATORS).await? {
        let number = column_number(&value(&row, 1)?)?;
        if let Some((_, relation)) = relations.get_mut(&table(&row, 0)?)
            && let Some(column) = relation.columns.iter_mut().find(|it| it.number == number)
        {
            column.key_operator = Some(value(&row, 2)?);
        }
    }
    for row in rows(primary, UNIQUE_KEYS).await? {
        if let Some((_, relation)) = relations.get_mut(&table(&row, 0)?) {
            let index = table(&row, 1)?.0;
            relation
                .unique_keys
                .push((index, columns(&value(&row, 2)?)?));
        }
    }
    let children = reachable(&rows(primary, INHERITANCE).await?)?;
    let cascades = reachable(&rows(primary, CASCADES).await?)?;
    for (table, (_, relation)) in &mut relations {
        relation.children = children.get(table).cloned().unwrap_or_default();
        relation.cascades = cascades.get(table).cloned().unwrap_or_default();
    }
    let casts = rows(primary, USER_CASTS).await?;
    let cast_count = casts.first().map(|row| value(row, 0)).transpose()?;
    let catalogue = Catalogue {
        relations: relations.into_values().collect(),
        immutable_functions: names(primary, IMMUTABLE).await?,
        steady_functions: names(primary, STEADY).await?,
        user_functions: names(primary, USER_FUNCTIONS).await?,
        user_operators: names(primary, USER_OPERATORS).await?,
        user_types: names(primary, USER_TYPES).await?,
        domains_with_default: names(primary, DOMAINS_WITH_DEFAULT).await?,
        has_user_casts: cast_count.as_deref() != Some("0"),
    };
    Ok(CatalogueAt {
        catalogue,
        snapshot: snapshot.parse()?,
    })
}

fn relation(row: &SimpleQueryRow) -> Result<((String, String), Relation), ReplicationError> {
    let table = table(row, 0)?;
    let kind = match (value(row, 3)?.as_str(), row.get(4)) {
        ("v", Some(definition)) => RelationKind::View(definition.to_owned()),
        ("r" | "p", _) if table.0 >= FIRST_USER_OID => RelationKind::Table,
        _ => RelationKind::Other,
    };
    let key = row.get(8).map(columns).transpose()?;
    let relation = Relation {
        table,
        kind,
        columns: Vec::new(),
        key: key.unwrap_or_default(),
        unique_keys: Vec::new(),
        replicated: flag(row, 5)?,
        is_partitioned: value(row, 3)? == "p",
        row_security: flag(row, 6)?,
        has_triggers: flag(row, 7)?,
        has_generated: false,
        children: Vec::new(),
        cascades: Vec::new(),
    };
    Ok(((value(row, 1)?, value(row, 2)?), relation))
}

fn column(row: &SimpleQueryRow) -> Result<ColumnInfo, ReplicationError> {
    Ok(ColumnInfo {
        number: column_number(&value(row, 1)?)?,
        name: value(row, 2)?,
        type_oid: table(row, 3)?.0,
        deterministic: flag(row, 4)?,
        always_generated: flag(row, 5)?,
        key_operator: None,
    })
}

fn column_number(text: &str) -> Result<ColumnNumber, ReplicationError> {
    let out_of_range = |_| ReplicationError::Stream("a column has an impossible number".into());
    let number = u16::try_from(number(text)?).map_err(out_of_range)?;
    Ok(ColumnNumber(number))
}

/// Returns the columns of an `int2vector`'s text.
fn columns(text: &str) -> Result<Vec<ColumnNumber>, ReplicationError> {
    let numbers = text.split_ascii_whitespace().map(|word| word.parse());
    let numbers: Result<Vec<u16>, _> = numbers.collect();
    let problem = |_| ReplicationError::Stream("an index has an impossible column".into());
    Ok(numbers
        .map_err(problem)?
        .into_iter()
        .map(ColumnNumber)
        .collect())
}

/// Returns the nodes that each table reaches by these edges, at any depth, without itself.
fn reachable(
    edges: &[SimpleQueryRow],
) -> Result<BTreeMap<TableOid, Vec<TableOid>>, ReplicationError> {
    let mut next: BTreeMap<TableOid, BTreeSet<TableOid>> = BTreeMap::new();
    for edge in edges {
        let (from, to) = (table(edge, 0)?, table(edge, 1)?);
        next.entry(from).or_default().insert(to);
    }
    let reached = next.keys().map(|from| {
        let mut seen = BTreeSet::new();
        let mut work = vec![*from];
        while let Some(table) = work.pop() {
            let further = next.get(&table).into_iter().flatten();
            work.extend(further.filter(|table| seen.insert(**table)));
        }
        (*from, seen.into_iter().collect())
    });
    Ok(reached.collect())
}

async fn names(primary: &Client, sql: &str) -> Result<BTreeSet<String>, ReplicationError> {
    let rows = rows(primary, sql).await?;
    rows.iter().map(|row| value(row, 0)).collect()
}

fn flag(row: &SimpleQueryRow, index: usize) -> Result<bool, ReplicationError> {
    Ok(value(row, index)? == "t")
}

fn table(row: &SimpleQueryRow, index: usize) -> Result<TableOid, ReplicationError> {
    let oid = u32::try_from(number(&value(row, index)?)?);
    let problem = |_| ReplicationError::Stream("an object has an impossible number".into());
    oid.map(TableOid).map_err(problem)
}
