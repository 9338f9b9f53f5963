//! The catalogue of the store's tables, for statements about `pg_catalog` and
//! `information_schema`.
//!
//! It is made of a configuration when a statement first asks for it, and kept until the
//! configuration changes. All sessions share it; a session that never asks costs nothing. Numbers
//! of objects are made of the tables' numbers and the objects' names, so that they are equal on
//! each server and stay the same when a server restarts.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pg_auth::admission::ClientAdmission;
use pg_catalog::{
    CatalogueError, CatalogueExecution, CatalogueStatement, CheckDescription, CommentDescription,
    DescribedColumn, EncodedRow, ForeignKeyDescription, GrantDescription, IndexDescription,
    IndexKey, ObjectRights, Oid, PreparedTypes, ResultColumn, RoleDescription, SchemaCatalogue,
    SchemaDescription, SentValue, SequenceDescription, SessionDescription, TableDescription,
};
use pg_wire::report::Report;
use placement::{
    Column, ColumnDefault, CommentedObject, Constraint, Deferral, ForeignKey, HIDDEN_KEY,
    IdentityKind, ReferentialAction, Schema, TableComments,
};
use protocol::configuration::roles::{GrantObject, Grantee, Role};
use protocol::configuration::{Configuration, PlacedTable, Roles};
use tokio::sync::{Semaphore, watch};

use crate::definitions;
use crate::errors::{self, error};
use crate::types;

/// The first number that is free for objects of users, as in PostgreSQL.
const FIRST_OID: Oid = 16_384;
/// Numbers of objects of tables begin here. Numbers of tables are smaller.
const OBJECTS: Oid = 1 << 30;
/// The most statements about the catalogue that run at a time.
const STATEMENTS_AT_A_TIME: usize = 4;
/// The end of the name of an index that PostgreSQL makes for a UNIQUE constraint.
const UNIQUE_SUFFIX: &str = "_key";

/// The catalogue that the sessions of a server share.
#[derive(Debug)]
pub struct SharedCatalogue {
    /// The catalogue of the last configuration for which a statement has asked, with the cluster
    /// and the epoch.
    made: Mutex<Option<(u64, u64, Arc<SchemaCatalogue>)>>,
    admission: watch::Receiver<Arc<ClientAdmission>>,
    permits: Semaphore,
    started_us: i64,
}

/// A statement with its values.
#[derive(Debug)]
pub struct CatalogueRequest {
    /// The statement.
    pub statement: CatalogueStatement,
    /// Its types.
    pub types: Vec<Oid>,
    /// The values of its parameters.
    pub parameters: Vec<SentValue>,
    /// Which columns are returned in binary.
    pub binary: Vec<bool>,
    /// The session.
    pub session: SessionDescription,
}

/// Cancels a statement when the session stops waiting for it.
struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl SharedCatalogue {
    /// Returns a catalogue of which nothing is made yet.
    pub fn new(admission: watch::Receiver<Arc<ClientAdmission>>, now_us: i64) -> SharedCatalogue {
        SharedCatalogue {
            made: Mutex::default(),
            admission,
            permits: Semaphore::new(STATEMENTS_AT_A_TIME),
            started_us: now_us,
        }
    }

    /// Returns the names of the users that may log in, as far as the server has a list.
    pub fn users(&self) -> Vec<String> {
        let admission = self.admission.borrow();
        admission.users().names().map(str::to_owned).collect()
    }

    /// Returns when the server has started, in microseconds since 1970.
    pub fn started_us(&self) -> i64 {
        self.started_us
    }

    /// Returns the catalogue of a configuration.
    pub fn of(&self, configuration: &Configuration) -> Arc<SchemaCatalogue> {
        let (cluster, epoch) = (configuration.cluster, configuration.epoch.0);
        let mut made = self.made.lock().expect("nothing panics while it is held");
        match &*made {
            Some((of_cluster, of_epoch, known)) if (*of_cluster, *of_epoch) == (cluster, epoch) => {
                Arc::clone(known)
            }
            _ => {
                let new = Arc::new(SchemaCatalogue::new(describe(configuration)));
                *made = Some((cluster, epoch, Arc::clone(&new)));
                new
            }
        }
    }

    /// Executes a statement on a thread of its own. If the caller stops waiting, it is canceled.
    ///
    /// # Errors
    /// The statement fails.
    pub async fn execute(
        &self,
        catalogue: Arc<SchemaCatalogue>,
        request: CatalogueRequest,
    ) -> Result<(Vec<ResultColumn>, Vec<EncodedRow>), Report> {
        let permit = self.permits.acquire().await;
        let permit = permit.expect("the semaphore is never closed");
        let canceled = CancelOnDrop(Arc::new(AtomicBool::new(false)));
        let flag = Arc::clone(&canceled.0);
        let running = tokio::task::spawn_blocking(move || {
            let sleep_us = AtomicU64::new(0);
            let rows = request.statement.execute(CatalogueExecution {
                catalogue: &catalogue,
                session: &request.session,
                types: &request.types,
                parameters: &request.parameters,
                binary: &request.binary,
                canceled: &flag,
                sleep_us: &sleep_us,
            });
            (rows, Duration::from_micros(sleep_us.into_inner()))
        });
        let ended = running.await;
        drop(permit);
        match ended {
            Ok((rows, sleep)) => {
                if !sleep.is_zero() {
                    tokio::time::sleep(sleep).await;
                }
                rows.map_err(|fault| report(&fault))
            }
            Err(_) => Err(errors::internal(
                "a statement about the catalogue has panicked",
            )),
        }
    }
}

/// Prepares a statement.
///
/// # Errors
/// The statement is invalid or not supported.
pub fn prepare(
    statement: &CatalogueStatement,
    declared: &[u32],
    catalogue: &SchemaCatalogue,
) -> Result<PreparedTypes, Report> {
    let declared: Vec<Option<Oid>> = declared
        .iter()
        .map(|oid| Some(*oid).filter(|it| !matches!(*it, 0 | types::UNKNOWN)))
        .collect();
    let prepared = statement.prepare(&declared, catalogue);
    prepared.map_err(|fault| report(&fault))
}

/// Returns the report of an error.
pub fn report(fault: &CatalogueError) -> Report {
    let report = error(fault.sqlstate, &*fault.message);
    match &fault.hint {
        Some(hint) => report.hint(hint.clone()),
        None => report,
    }
}

/// Gives numbers to the objects of a schema.
#[derive(Debug, Default)]
struct Numbers(BTreeSet<Oid>);

impl Numbers {
    /// Returns the number of an object of a table: a hash, or the next free one if two are equal.
    fn number(&mut self, table: &PlacedTable, kind: &str, name: &str) -> Oid {
        let parts = [
            &table.id.0.to_be_bytes()[..],
            kind.as_bytes(),
            b"/",
            name.as_bytes(),
        ];
        let hash = parts
            .concat()
            .into_iter()
            .fold(0x811c_9dc5_u32, |hash, byte| {
                (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
            });
        let mut oid = OBJECTS + hash % OBJECTS;
        while !self.0.insert(oid) {
            oid += 1;
        }
        oid
    }
}

/// Returns the description of the tables of a configuration.
fn describe(configuration: &Configuration) -> SchemaDescription {
    let mut numbers = Numbers::default();
    let mut comments = Vec::new();
    let tables = configuration.tables.iter();
    let tables = tables.filter(|table| table.schema.sequence.is_none());
    let tables = tables.map(|table| {
        let described = describe_table(table, &mut numbers);
        comments.extend(describe_comments(&table.comments, &described));
        TableDescription {
            rights: describe_rights(&configuration.roles, table),
            ..described
        }
    });
    let mut tables: Vec<TableDescription> = tables.collect();
    tables.sort_by(|left, right| left.name.cmp(&right.name));
    let sequences = configuration.tables.iter().filter_map(|table| {
        let described = describe_sequence(table)?;
        Some(SequenceDescription {
            rights: describe_rights(&configuration.roles, table),
            ..described
        })
    });
    let mut sequences: Vec<SequenceDescription> = sequences.collect();
    sequences.sort_by(|left, right| left.name.cmp(&right.name));
    for table in configuration.tables.iter() {
        if table.schema.sequence.is_some() {
            let described = TableDescription {
                oid: FIRST_OID + table.id.0,
                ..TableDescription::default()
            };
            comments.extend(describe_comments(&table.comments, &described));
        }
    }
    let roles = &configuration.roles;
    SchemaDescription {
        tables,
        sequences,
        comments,
        roles: roles
            .all
            .iter()
            .map(|it| describe_role(it, roles))
            .collect(),
        granted: describe_grants(roles, GrantObject::Schema),
    }
}

/// Returns the descriptions of the comments of a table, with the numbers of its objects.
fn describe_comments<'a>(
    comments: &'a TableComments,
    table: &'a TableDescription,
) -> impl Iterator<Item = CommentDescription> + 'a {
    comments.0.iter().filter_map(|comment| {
        let mut indexes = table.indexes.iter();
        let (oid, column) = match &comment.object {
            CommentedObject::Table => (table.oid, 0),
            CommentedObject::Column { position } => (table.oid, position + 1),
            CommentedObject::Index { name } => (indexes.find(|it| it.name == *name)?.oid, 0),
            CommentedObject::Constraint { name } => {
                let checks = table.checks.iter().map(|it| (&it.name, it.oid));
                let keys = table.foreign_keys.iter().map(|it| (&it.name, it.oid));
                let unique = indexes.map(|it| (&it.name, it.constraint_oid));
                let mut all = checks.chain(keys).chain(unique);
                (all.find(|(it, oid)| *it == name && *oid != 0)?.1, 0)
            }
        };
        Some(CommentDescription {
            oid,
            is_constraint: matches!(comment.object, CommentedObject::Constraint { .. }),
            column,
            text: comment.text.clone(),
        })
    })
}

/// Returns the description of a sequence, which is a table with one row; none of another table.
fn describe_sequence(table: &PlacedTable) -> Option<SequenceDescription> {
    let sequence = table.schema.sequence.as_ref()?;
    let owner = sequence.owner.as_ref();
    Some(SequenceDescription {
        oid: FIRST_OID + table.id.0,
        name: table.schema.name.clone(),
        type_oid: types::oid(Some(sequence.value_type)),
        start: sequence.start,
        min: sequence.min,
        max: sequence.max,
        increment: sequence.increment,
        cache: sequence.cache,
        cycles: sequence.cycles,
        owner: owner.map(|it| (it.table.clone(), it.column.clone())),
        rights: ObjectRights::default(),
    })
}

fn describe_table(table: &PlacedTable, numbers: &mut Numbers) -> TableDescription {
    let schema = &table.schema;
    let columns = schema
        .columns
        .iter()
        .map(|column| describe_column(column, table, numbers));
    let columns = columns.collect();
    let indexes = describe_indexes(table, numbers);
    let checks = schema
        .constraints
        .checks
        .iter()
        .map(|check| CheckDescription {
            oid: numbers.number(table, "check", &check.name),
            name: check.name.clone(),
            condition: definitions::condition(schema, &check.condition),
            columns: definitions::columns_of(&check.condition),
            is_valid: check.is_valid,
        });
    let checks = checks.collect();
    let keys = schema.constraints.foreign_keys.iter();
    let foreign_keys = keys.map(|key| describe_key(key, table, numbers)).collect();
    TableDescription {
        oid: FIRST_OID + table.id.0,
        name: schema.name.clone(),
        columns,
        indexes,
        checks,
        foreign_keys,
        rights: ObjectRights::default(),
    }
}

fn describe_role(role: &Role, roles: &Roles) -> RoleDescription {
    let own = roles.memberships.iter().filter(|it| it.member == role.id);
    RoleDescription {
        oid: role.id.0,
        name: role.name.clone(),
        can_login: role.can_login,
        is_superuser: role.is_superuser,
        memberships: own.map(|it| it.role.0).collect(),
        reach: roles.reach(role.id).into_iter().map(|it| it.0).collect(),
    }
}

fn describe_grants(roles: &Roles, object: GrantObject) -> Vec<GrantDescription> {
    let grants = roles.grants_of(object).map(|grant| GrantDescription {
        grantee: match grant.grantee {
            Grantee::Public => 0,
            Grantee::Role(role) => role.0,
        },
        letters: grant.privileges.letters(),
    });
    grants.collect()
}

fn describe_rights(roles: &Roles, table: &PlacedTable) -> ObjectRights {
    ObjectRights {
        owner: Some(roles.owner(table.id).0),
        granted: describe_grants(roles, GrantObject::Relation(table.id)),
    }
}

fn describe_column(column: &Column, table: &PlacedTable, numbers: &mut Numbers) -> DescribedColumn {
    DescribedColumn {
        name: column.name.clone(),
        type_oid: types::oid(Some(column.column_type)),
        type_modifier: types::modifier(Some(column.column_type)),
        not_null: !column.nullable,
        default: definitions::default(&table.schema, column),
        default_oid: numbers.number(table, "default", &column.name),
        identity: match &column.default {
            Some(ColumnDefault::Sequence(default)) => default.identity.map(|kind| match kind {
                IdentityKind::Always => 'a',
                IdentityKind::ByDefault => 'd',
            }),
            _ => None,
        },
        is_generated: column.generation().is_some(),
        is_hidden: column.is_hidden(),
    }
}

fn ascending(columns: &[usize]) -> Vec<IndexKey> {
    let keys = columns.iter().map(|column| IndexKey {
        column: *column,
        ..IndexKey::default()
    });
    keys.collect()
}

fn describe_indexes(table: &PlacedTable, numbers: &mut Numbers) -> Vec<IndexDescription> {
    let schema: &Schema = &table.schema;
    let primary = format!("{}_pkey", schema.name);
    let mut indexes = Vec::new();
    if schema.column_index(HIDDEN_KEY).is_none() {
        indexes.push(IndexDescription {
            oid: numbers.number(table, "index", &primary),
            constraint_oid: numbers.number(table, "constraint", &primary),
            name: primary,
            is_primary: true,
            is_unique: true,
            keys: ascending(&schema.primary_key),
            included: Vec::new(),
        });
    }
    // A copy for an index has no order but ascending.
    let copies = schema.indexes.iter().map(|index| {
        // The last column of a dense index counts within the others, so that no key is there twice.
        let is_unique = matches!(
            index.constraint,
            Some(Constraint::Unique | Constraint::Dense)
        );
        (
            &index.name,
            is_unique,
            ascending(&index.columns),
            Vec::new(),
        )
    });
    let thin = schema.thin.iter().map(|index| {
        let keys = index.columns.iter().map(|sorted| IndexKey {
            column: sorted.column,
            descending: sorted.descending,
            nulls_first: sorted.nulls_first,
        });
        (
            &index.name,
            index.unique,
            keys.collect(),
            index.included.clone(),
        )
    });
    for (name, is_unique, keys, included) in copies.chain(thin) {
        let is_constraint = is_unique && name.ends_with(UNIQUE_SUFFIX);
        indexes.push(IndexDescription {
            oid: numbers.number(table, "index", name),
            constraint_oid: match is_constraint {
                true => numbers.number(table, "constraint", name),
                false => 0,
            },
            name: name.clone(),
            is_primary: false,
            is_unique,
            keys,
            included,
        });
    }
    indexes
}

fn describe_key(
    key: &ForeignKey,
    table: &PlacedTable,
    numbers: &mut Numbers,
) -> ForeignKeyDescription {
    let letter = |action: ReferentialAction| match action {
        ReferentialAction::NoAction => 'a',
        ReferentialAction::Restrict => 'r',
        ReferentialAction::Cascade => 'c',
        ReferentialAction::SetNull => 'n',
    };
    ForeignKeyDescription {
        oid: numbers.number(table, "reference", &key.name),
        name: key.name.clone(),
        columns: key.columns.clone(),
        parent: key.parent.clone(),
        on_update: letter(key.on_update),
        on_delete: letter(key.on_delete),
        is_deferrable: key.deferral != Deferral::NotDeferrable,
        is_deferred: key.deferral == Deferral::InitiallyDeferred,
        is_valid: key.is_valid,
    }
}
