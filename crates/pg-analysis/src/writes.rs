//! Determines the rows and columns that an INSERT, UPDATE or DELETE may change, before it is
//! committed (Table 2 of the paper). The actual changes come from the row images.

use std::collections::BTreeSet;

use pg_raw_parse::Node;
use pg_raw_parse::nodes::{InsertStmt, RangeVar};

use super::catalogue::{Catalogue, Relation, RelationKind};
use super::facts::{QualifiedName, StatementFacts, parts_of_write};
use super::keys::{self, KeyValue};
use super::{AnalysedStatement, NameScope, StatementAction, TableUse, reads};
use proxy_core::freshness::{
    AffectingClass, ColumnNumber, CountedItems, TableAccess, TableOid, TableParts,
};

const VARCHAR: u32 = 1043;

/// Analyses a write, see the module.
pub fn analyse(names: &NameScope<'_>, node: Node<'_>) -> AnalysedStatement {
    let facts = StatementFacts::of(names.catalogue, parts_of_write(node));
    let known = || uses(names, node, &facts);
    match known() {
        Some(uses) if !facts.unknown => AnalysedStatement {
            locks: facts.locks,
            ..AnalysedStatement::touching(StatementAction::Write, uses)
        },
        _ => AnalysedStatement::unproven(match facts.primary {
            Some(why) if facts.unknown => why,
            _ if !is_target_known(names, node) => "a table is not known",
            _ => "its triggers or rules may do anything",
        }),
    }
}

fn is_target_known(names: &NameScope<'_>, node: Node<'_>) -> bool {
    let name = target(node).and_then(QualifiedName::of);
    name.is_some_and(|name| names.resolve(&name).is_some())
}

fn uses(names: &NameScope<'_>, node: Node<'_>, facts: &StatementFacts) -> Option<Vec<TableUse>> {
    let range = target(node)?;
    let relation = plain_table(names, &QualifiedName::of(range)?)?;
    let mut uses = vec![use_of_target(names, node, range, relation, facts)];
    let cascades = !matches!(node, Node::InsertStmt(_)) || has_conflict_clause(node);
    let mut whole = changed_with(names.catalogue, relation, cascades)?;
    for name in &facts.inner_writes {
        let inner = plain_table(names, name)?;
        whole.insert(inner.table);
        whole.extend(changed_with(names.catalogue, inner, true)?);
    }
    uses.extend(
        whole
            .into_iter()
            .map(|table| TableUse::new(table, TableAccess::write_table())),
    );
    for name in &facts.reads {
        let of_with = name.schema.is_none() && facts.with_names.contains(&name.name);
        match names.resolve(name) {
            Some(read) if read.kind == RelationKind::Table => {
                let tables = [read.table].into_iter().chain(read.children.clone());
                uses.extend(tables.map(|table| TableUse::new(table, TableAccess::read_table())));
            }
            None if of_with => {}
            _ => return None,
        }
    }
    Some(uses)
}

fn target(node: Node<'_>) -> Option<&RangeVar> {
    match node {
        Node::InsertStmt(insert) => insert.relation(),
        Node::UpdateStmt(update) => update.relation(),
        Node::DeleteStmt(delete) => delete.relation(),
        _ => None,
    }
}

fn has_conflict_clause(node: Node<'_>) -> bool {
    matches!(node, Node::InsertStmt(insert) if insert.on_conflict_clause().is_some())
}

/// Returns a table on which a statement has exactly its named effect.
fn plain_table<'a>(names: &NameScope<'a>, name: &QualifiedName) -> Option<&'a Relation> {
    let relation = names.resolve(name)?;
    (relation.kind == RelationKind::Table && !relation.has_triggers).then_some(relation)
}

/// Returns the tables that change together with a table whose statement has no other effects: its
/// children, and the tables that foreign keys of any of them reach. None if users' triggers of
/// those may do anything.
fn changed_with(
    catalogue: &Catalogue,
    relation: &Relation,
    cascades: bool,
) -> Option<BTreeSet<TableOid>> {
    let mut tables: BTreeSet<TableOid> = relation.children.iter().copied().collect();
    if cascades {
        let children = relations_of(catalogue, &tables);
        let further: Vec<TableOid> = children
            .flat_map(|child| child.cascades.iter().copied())
            .collect();
        tables.extend(further);
        tables.extend(relation.cascades.iter().copied());
    }
    let is_plain = relations_of(catalogue, &tables).all(|relation| !relation.has_triggers);
    is_plain.then_some(tables)
}

fn relations_of<'a>(
    catalogue: &'a Catalogue,
    tables: &BTreeSet<TableOid>,
) -> impl Iterator<Item = &'a Relation> {
    // Most tables have none: then the catalogue, which may be long, is not looked through.
    let all = catalogue.relations.values();
    let all = all.take(if tables.is_empty() { 0 } else { usize::MAX });
    all.filter(|relation| tables.contains(&relation.table))
}

fn use_of_target(
    names: &NameScope<'_>,
    node: Node<'_>,
    range: &RangeVar,
    relation: &Relation,
    facts: &StatementFacts,
) -> TableUse {
    let simple = relation.children.is_empty() && facts.query_count == 0 && facts.read_count == 0;
    let alias = range.alias().and_then(|alias| alias.aliasname());
    let aliases = [alias.or(range.relname()).unwrap_or_default()];
    let rows_where = |clause| {
        let row = keys::of_where(relation, &aliases, clause, facts).filter(|_| simple);
        row.map(|row| vec![row]).unwrap_or_default()
    };
    let mut table_use = TableUse::new(relation.table, TableAccess::write_table());
    match node {
        Node::UpdateStmt(update) => {
            let known: BTreeSet<&str> = relation.columns.iter().map(|c| c.name.as_str()).collect();
            let written = update.target_list().iter().map(|target| target.name());
            let written = assigned(relation, written.collect());
            let keeps_key = !written.meets(&relation.key.iter().copied().collect());
            if keeps_key && simple {
                table_use.otherwise =
                    columns_touch(reads::columns_of(relation, facts, &known), written);
                table_use.rows = rows_where(update.where_clause());
            }
        }
        Node::DeleteStmt(delete) => {
            let known: BTreeSet<&str> = relation.columns.iter().map(|c| c.name.as_str()).collect();
            table_use.rows = rows_where(delete.where_clause());
            let read = reads::columns_of(relation, facts, &known);
            table_use.otherwise = TableAccess {
                class: AffectingClass::Table,
                ..columns_touch(read, CountedItems::all())
            };
        }
        Node::InsertStmt(insert) if relation.children.is_empty() => {
            table_use.rows = inserted_rows(names, relation, insert, facts).unwrap_or_default();
        }
        _ => {}
    }
    table_use
}

fn columns_touch(
    read: CountedItems<ColumnNumber>,
    written: CountedItems<ColumnNumber>,
) -> TableAccess {
    let parts = |columns| TableParts {
        columns,
        rows: CountedItems::default(),
    };
    TableAccess {
        class: AffectingClass::Columns,
        reads: Some(parts(read)),
        writes: Some(parts(written)),
    }
}

/// Returns the columns that UPDATE assigns; all where one is not known or others are computed from
/// them.
fn assigned(relation: &Relation, names: Vec<Option<&str>>) -> CountedItems<ColumnNumber> {
    let columns = names.iter().map(|name| relation.column((*name)?));
    match columns.collect::<Option<Vec<_>>>() {
        Some(columns) if !relation.has_generated => {
            columns.iter().map(|column| column.number).collect()
        }
        _ => CountedItems::all(),
    }
}

/// Returns the rows of `INSERT … VALUES`, where each gives the whole key as constants or
/// parameters.
fn inserted_rows(
    names: &NameScope<'_>,
    relation: &Relation,
    insert: &InsertStmt,
    facts: &StatementFacts,
) -> Option<Vec<Vec<KeyValue>>> {
    let Node::SelectStmt(values) = insert.select_stmt() else {
        return None;
    };
    let inner = StatementFacts::of(names.catalogue, [Node::SelectStmt(values)]);
    let is_plain = inner.query_count == 1 && inner.read_count == 0;
    if !is_plain || insert.on_conflict_clause().is_some() || relation.key.is_empty() {
        return None;
    }
    let columns: Vec<&str> = match insert.cols().is_empty() {
        true => relation
            .columns
            .iter()
            .map(|column| column.name.as_str())
            .collect(),
        false => insert
            .cols()
            .iter()
            .map(|target| match target {
                Node::ResTarget(target) => target.name(),
                _ => None,
            })
            .collect::<Option<_>>()?,
    };
    let positions = relation.key.iter().map(|key| {
        let column = relation.column_numbered(*key)?;
        // A value that is stored as varchar(n) may lose trailing blanks.
        let may_change = column.type_oid == VARCHAR;
        let position = columns.iter().position(|name| *name == column.name)?;
        (!may_change).then_some((position, column))
    });
    let positions = positions.collect::<Option<Vec<_>>>()?;
    let rows = values.values_lists().iter().map(|row| {
        let row = row.as_node_list()?;
        let key = positions
            .iter()
            .map(|(position, column)| keys::value_of(column, row.get(*position)?, facts));
        key.collect::<Option<Vec<_>>>()
    });
    rows.collect()
}
