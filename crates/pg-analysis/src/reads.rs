//! Determines the tables, columns and rows that a SELECT depends on (Table 2 of the paper).

use std::collections::BTreeSet;

use pg_raw_parse::Node;
use pg_raw_parse::nodes::SelectStmt;

use super::catalogue::{FIRST_USER_OID, Relation, RelationKind};
use super::facts::{QualifiedName, StatementFacts};
use super::{AnalysedStatement, NameScope, StatementAction, TEMPORARY_TABLE, TableUse};
use super::{functions, keys, select_into, utility};
use crate::select::{first_of_union, is_list_alone};
use proxy_core::freshness::{AffectingClass, CountedItems, TableAccess, TableOid, TableParts};

/// The most views within views in one statement.
const VIEWS_MAX: usize = 100;

/// The function that changes a setting as SET does.
const SET_CONFIG: &str = "set_config";

/// Returns the analysis of a SELECT.
pub fn analyse(names: &NameScope<'_>, select: &SelectStmt, text: &str) -> AnalysedStatement {
    if let Some(into) = first_of_union(select).into_clause() {
        let made = into.rel().filter(|made| !utility::is_temporary(Some(made)));
        return AnalysedStatement::writes_anything(match made {
            None => StatementAction::Pin(TEMPORARY_TABLE),
            Some(made) => select_into::as_create_table(made, text).map_or(
                StatementAction::Refused(select_into::REFUSED),
                StatementAction::Schema,
            ),
        });
    }
    if only_sets(names, select) {
        return AnalysedStatement::without_tables(StatementAction::Session);
    }
    let facts = StatementFacts::of(names.catalogue, [Node::SelectStmt(select)]);
    let mut statement = of_facts(names, &facts);
    if let ([only], Some(rows)) = (&mut statement.tables[..], rows_of(names, select, &facts)) {
        only.rows = rows;
    }
    statement
}

/// Returns whether a SELECT does nothing but change the session's settings, by `SELECT
/// set_config(…), …`.
fn only_sets(names: &NameScope<'_>, select: &SelectStmt) -> bool {
    let sets = |node: Node<'_>| {
        let Node::FuncCall(call) = node else {
            return false;
        };
        let name: Vec<&str> = call.funcname().iter().filter_map(Node::as_str).collect();
        let facts = StatementFacts::of(names.catalogue, call.args());
        let is_plain = facts.primary.is_none() && facts.query_count == 0 && facts.names.is_empty();
        is_plain && matches!(name[..], [SET_CONFIG] | ["pg_catalog", SET_CONFIG])
    };
    is_list_alone(select)
        && !names.catalogue.user_functions.contains(SET_CONFIG)
        && select.target_list().iter().all(|target| sets(target.val()))
}

/// Returns the analysis of a read with these facts, without the rows that it reads.
pub fn of_facts(names: &NameScope<'_>, facts: &StatementFacts) -> AnalysedStatement {
    let mut tables = ReadTables::default();
    tables.add(names, facts);
    tables.statement()
}

/// Returns the columns of `relation` that a read with these facts reads.
pub fn columns_of(
    relation: &Relation,
    facts: &StatementFacts,
    known: &BTreeSet<&str>,
) -> CountedItems<proxy_core::freshness::ColumnNumber> {
    // A name that is no column of any table here may stand for whole rows.
    let all = facts.star
        || facts
            .names
            .iter()
            .any(|name| !known.contains(name.as_str()));
    let columns = relation.columns.iter();
    let named = columns.filter(|column| all || facts.names.contains(&column.name));
    let count = named.clone().count();
    match count == relation.columns.len() {
        true => CountedItems::all(),
        false => named.map(|column| column.number).collect(),
    }
}

#[derive(Default)]
struct ReadTables {
    uses: Vec<TableUse>,
    named: Vec<TableOid>,
    primary: Option<&'static str>,
    unknown: bool,
    of_transaction_time: bool,
    locks: bool,
    views: usize,
}

impl ReadTables {
    fn add(&mut self, names: &NameScope<'_>, facts: &StatementFacts) {
        self.unknown |= facts.unknown || !facts.inner_writes.is_empty();
        self.primary = self.primary.or(facts.primary);
        self.of_transaction_time |= facts.transaction_time;
        self.locks |= facts.locks;
        if names.catalogue.has_user_casts {
            self.primary
                .get_or_insert("users have made casts between types");
        }
        let mut relations = Vec::new();
        for name in &facts.reads {
            let of_with = name.schema.is_none() && facts.with_names.contains(&name.name);
            match names.resolve(name) {
                Some(relation) => relations.push(relation),
                None if of_with => {}
                None => self.not_known(name),
            }
        }
        if self.views == 0 {
            self.named = relations.iter().map(|relation| relation.table).collect();
        }
        let known = relations.iter().flat_map(|relation| &relation.columns);
        let known: BTreeSet<&str> = known.map(|column| column.name.as_str()).collect();
        // Another query of the statement may have a column of that name.
        let mut bare = facts.bare_names.intersection(&facts.called);
        let is_whole = bare.any(|name| facts.query_count > 1 || !known.contains(name.as_str()));
        if is_whole || !facts.whole_rows.is_disjoint(&facts.called) {
            self.primary
                .get_or_insert("it reads whole rows, whose type has another number on every node");
        }
        for relation in relations {
            self.relation(names, relation, facts, &known);
        }
    }

    fn not_known(&mut self, name: &QualifiedName) {
        self.primary.get_or_insert("a table is not known");
        // The name there may be a view with anything in it.
        self.unknown |= name.schema.as_deref() != Some("pg_catalog");
    }

    fn relation(
        &mut self,
        names: &NameScope<'_>,
        relation: &Relation,
        facts: &StatementFacts,
        known: &BTreeSet<&str>,
    ) {
        match &relation.kind {
            RelationKind::Other => {
                self.primary.get_or_insert("it reads unreplicated rows");
            }
            RelationKind::View(definition) => self.view(names, definition),
            RelationKind::Table => {
                let columns = columns_of(relation, facts, known);
                self.table(relation, columns);
            }
        }
    }

    fn table(
        &mut self,
        relation: &Relation,
        columns: CountedItems<proxy_core::freshness::ColumnNumber>,
    ) {
        if !relation.replicated {
            self.primary
                .get_or_insert("it reads a table that is not replicated");
        }
        if relation.row_security {
            self.primary
                .get_or_insert("row security decides which rows it reads");
        }
        let read = |column: TableOid| (column, TableAccess::read_table());
        let users_type = relation.columns.iter().any(|column| {
            let named = CountedItems::one(column.number);
            is_of_node(column.type_oid) && columns.meets(&named)
        });
        if users_type {
            self.primary
                .get_or_insert("it reads a type whose values or number differ between nodes");
        }
        if !relation.children.is_empty() {
            let all = [relation.table]
                .into_iter()
                .chain(relation.children.clone());
            let uses = all
                .map(read)
                .map(|(table, touch)| TableUse::new(table, touch));
            self.uses.extend(uses);
            return;
        }
        let class = match columns.is_all() {
            true => AffectingClass::Table,
            false => AffectingClass::Columns,
        };
        let reads = TableParts {
            columns,
            rows: CountedItems::default(),
        };
        let touch = TableAccess {
            class,
            reads: Some(reads),
            writes: None,
        };
        self.uses.push(TableUse::new(relation.table, touch));
    }

    fn view(&mut self, names: &NameScope<'_>, definition: &str) {
        self.views += 1;
        let tree = pg_raw_parse::parse(definition).ok();
        let query = tree.as_ref().and_then(|tree| tree.iter().next());
        match query.map(|raw| raw.stmt()) {
            Some(query @ Node::SelectStmt(_)) if self.views <= VIEWS_MAX => {
                let mut facts = StatementFacts::of(names.catalogue, [query]);
                facts.star = true;
                let search_path = ["pg_catalog".to_owned()];
                let qualified = NameScope {
                    catalogue: names.catalogue,
                    search_path: &search_path,
                };
                self.add(&qualified, &facts);
            }
            _ => {
                self.primary.get_or_insert("a view is not understood");
                self.unknown = true;
            }
        }
    }

    fn statement(self) -> AnalysedStatement {
        if self.unknown {
            return AnalysedStatement::unproven(self.primary.unwrap_or("it is not understood"));
        }
        let action = match self.primary {
            Some(why) => StatementAction::Primary(why),
            None => StatementAction::Read,
        };
        AnalysedStatement {
            of_transaction_time: self.of_transaction_time,
            locks: self.locks,
            named: self.named,
            ..AnalysedStatement::touching(action, self.uses)
        }
    }
}

/// Returns whether values of this type, or the type's OID, mean something else on another server.
pub fn is_of_node(type_oid: u32) -> bool {
    type_oid >= FIRST_USER_OID || functions::TYPES_OF_NODES.contains(&type_oid)
}

/// Returns the key of the only row that a SELECT from one table can read; none if the statement
/// does not fix all columns of a key.
fn rows_of(
    names: &NameScope<'_>,
    select: &SelectStmt,
    facts: &StatementFacts,
) -> Option<Vec<Vec<keys::KeyValue>>> {
    if facts.query_count != 1 || facts.read_count != 1 || !facts.with_names.is_empty() {
        return None;
    }
    let Some(Node::RangeVar(range)) = select.from_clause().first() else {
        return None;
    };
    let relation = names.resolve(&QualifiedName::of(range)?)?;
    if relation.kind != RelationKind::Table || !relation.children.is_empty() {
        return None;
    }
    let alias = range.alias();
    if alias.is_some_and(|alias| !alias.colnames().is_empty()) {
        return None;
    }
    let alias = alias
        .and_then(|alias| alias.aliasname())
        .or(range.relname());
    let key = keys::of_where(relation, &[alias?], select.where_clause(), facts)?;
    Some(vec![key])
}
