//! Binds a `FROM`, and places each condition at the first part of it that has all of its columns.

use std::collections::BTreeSet;

use sqlparser::ast::{self, Expr, JoinConstraint, JoinOperator, TableFactor};

use super::{Binder, Scope, ScopeColumn, ScopeRelation, Typed, refuse, spelling};
use crate::error::CatalogueError;
use crate::functions;
use crate::plan::{From, Node, Operator, Output, Scan, SetCall, Source};
use crate::relations;
use crate::types::{self, Kind};

/// The parts of a `FROM` that are joined, and the conditions on all of them.
#[derive(Default)]
struct Joined {
    parts: Vec<From>,
    conditions: Vec<Node>,
}

impl<'p> Scope<'p> {
    /// Returns the relation of an alias, and the number of queries further out.
    pub(super) fn relation(&self, alias: &str) -> Option<(usize, &ScopeRelation)> {
        let own = self.relations.iter().find(|it| it.alias == alias);
        match (own, self.parent) {
            (Some(own), _) => Some((0, own)),
            (None, Some(parent)) => parent.relation(alias).map(|(up, found)| (up + 1, found)),
            (None, None) => None,
        }
    }

    /// Returns whether the query's own `FROM` has a column of this name.
    pub(super) fn has_column(&self, name: &str) -> bool {
        let columns = self.relations.iter().flat_map(|it| &it.columns);
        columns.into_iter().any(|column| column.output.name == name)
    }

    /// Returns the column of a name, and the number of queries further out.
    ///
    /// # Errors
    /// Two relations have such a column.
    pub(super) fn column(
        &self,
        name: &str,
    ) -> Result<Option<(usize, &ScopeColumn)>, CatalogueError> {
        let columns = self.relations.iter().flat_map(|it| &it.columns);
        let mut found = columns.filter(|it| it.output.name == name && !it.is_merged);
        match (found.next(), found.next(), self.parent) {
            (Some(_), Some(_), _) => {
                let text = format!("column reference \"{name}\" is ambiguous");
                Err(CatalogueError::new("42702", text))
            }
            (Some(column), None, _) => Ok(Some((0, column))),
            (None, _, Some(parent)) => Ok(parent.column(name)?.map(|(up, found)| (up + 1, found))),
            (None, _, None) => Ok(None),
        }
    }
}

impl Binder<'_> {
    /// Binds the `FROM` and the `WHERE` of a `SELECT`. Returns the names, the parts, and the
    /// conditions that no part tests.
    pub(super) fn bind_from<'p>(
        &mut self,
        select: &ast::Select,
        outer: Option<&'p Scope<'p>>,
    ) -> Result<(Scope<'p>, Option<From>, Vec<Node>), CatalogueError> {
        let mut scope = Scope::below(outer);
        let mut joined = Joined::default();
        self.forbid(Some("FROM"));
        for tables in &select.from {
            self.table_with_joins(tables, &mut scope, &mut joined)?;
        }
        if let Some(selection) = &select.selection {
            self.forbid(Some("WHERE"));
            joined
                .conditions
                .extend(self.conditions(selection, &scope)?);
        }
        self.forbid(None);
        if joined.parts.is_empty() {
            return Ok((scope, None, joined.conditions));
        }
        Ok((scope, Some(join(joined)), Vec::new()))
    }

    fn forbid(&mut self, place: Option<&'static str>) {
        let parts = self.selects.last_mut().expect("a SELECT is being bound");
        parts.forbidden = place;
    }

    fn table_with_joins(
        &mut self,
        tables: &ast::TableWithJoins,
        scope: &mut Scope<'_>,
        joined: &mut Joined,
    ) -> Result<(), CatalogueError> {
        let mut own = Joined::default();
        let first = scope.relations.len();
        self.factor(&tables.relation, scope, &mut own)?;
        for next in &tables.joins {
            let right_at = scope.relations.len();
            let mut right = Joined::default();
            self.factor(&next.relation, scope, &mut right)?;
            let (kind, constraint) = join_kind(&next.join_operator)?;
            let on = self.join_conditions(constraint, scope, (first, right_at), kind)?;
            match kind {
                JoinKind::Inner => {
                    own.parts.append(&mut right.parts);
                    own.conditions.append(&mut right.conditions);
                    own.conditions.extend(on);
                }
                JoinKind::Left | JoinKind::Right => {
                    let (mut kept, mut added) = (join(own), join(right));
                    if kind == JoinKind::Right {
                        std::mem::swap(&mut kept, &mut added);
                    }
                    for condition in on {
                        added = place(added, condition, &known(&kept));
                    }
                    own = Joined {
                        parts: vec![From::Left(Box::new(kept), Box::new(added))],
                        conditions: Vec::new(),
                    };
                }
                JoinKind::Full => {
                    let (left, right) = (Box::new(join(own)), Box::new(join(right)));
                    own = Joined {
                        parts: vec![From::Full { left, right, on }],
                        conditions: Vec::new(),
                    };
                }
            }
        }
        joined.parts.append(&mut own.parts);
        joined.conditions.append(&mut own.conditions);
        Ok(())
    }

    fn join_conditions(
        &mut self,
        constraint: &JoinConstraint,
        scope: &mut Scope<'_>,
        (left_at, right_at): (usize, usize),
        kind: JoinKind,
    ) -> Result<Vec<Node>, CatalogueError> {
        let names: Vec<String> = match constraint {
            JoinConstraint::None => return Ok(Vec::new()),
            JoinConstraint::On(condition) => return self.conditions(condition, scope),
            JoinConstraint::Using(names) => {
                let names = names.iter().map(|it| Ok(spelling::parts(it)?.concat()));
                names.collect::<Result<_, CatalogueError>>()?
            }
            JoinConstraint::Natural => {
                let right = scope.relations[right_at..]
                    .iter()
                    .flat_map(|it| &it.columns);
                let right: Vec<String> = right.map(|it| it.output.name.clone()).collect();
                let left = &scope.relations[left_at..right_at];
                let shared = right.into_iter().filter(|name| {
                    let mut columns = left.iter().flat_map(|it| &it.columns);
                    columns.any(|column| !column.is_merged && column.output.name == *name)
                });
                shared.collect()
            }
        };
        let mut conditions = Vec::new();
        for name in names {
            let find = |relations: &[ScopeRelation]| {
                let mut columns = relations.iter().flat_map(|it| &it.columns);
                columns
                    .find(|it| it.output.name == name && !it.is_merged)
                    .cloned()
            };
            let left = find(&scope.relations[left_at..right_at]);
            let right = find(&scope.relations[right_at..]);
            let (Some(left), Some(right)) = (left, right) else {
                let text = format!("column \"{name}\" specified in USING clause does not exist");
                return Err(CatalogueError::new("42703", text));
            };
            let merged = if kind == JoinKind::Right {
                left.slot
            } else {
                right.slot
            };
            let columns = scope.relations.iter_mut().flat_map(|it| &mut it.columns);
            for column in columns.filter(|it| it.slot == merged) {
                column.is_merged = true;
            }
            let equal = self.operator("=", left.typed(0), right.typed(0))?;
            conditions.push(equal.node);
        }
        Ok(conditions)
    }

    /// Binds a condition as the conditions that `AND` joins.
    fn conditions(
        &mut self,
        condition: &Expr,
        scope: &Scope<'_>,
    ) -> Result<Vec<Node>, CatalogueError> {
        let bound = self.expression(condition, scope)?;
        let bound = match self.coerce(bound, types::BOOL) {
            Ok(bound) => bound,
            Err(_) => {
                let text = "argument of WHERE must be type boolean";
                return Err(CatalogueError::new("42804", text));
            }
        };
        Ok(match bound {
            Node::And(parts) => parts,
            other => vec![other],
        })
    }

    // tidy: long — one arm per kind of table.
    fn factor(
        &mut self,
        factor: &TableFactor,
        scope: &mut Scope<'_>,
        joined: &mut Joined,
    ) -> Result<(), CatalogueError> {
        let bound = match factor {
            TableFactor::Table {
                name,
                alias,
                args,
                with_ordinality,
                sample,
                ..
            } => {
                refuse(&[(sample.is_some(), "TABLESAMPLE")])?;
                match args {
                    None => self.table(name, alias.as_ref())?,
                    Some(args) => {
                        let call = (name, &args.args[..]);
                        self.bind_function_source(call, *with_ordinality, alias.as_ref(), scope)?
                    }
                }
            }
            TableFactor::Function {
                name,
                args,
                with_ordinality,
                alias,
                ..
            } => {
                self.bind_function_source((name, args), *with_ordinality, alias.as_ref(), scope)?
            }
            TableFactor::UNNEST {
                alias,
                array_exprs,
                with_ordinality,
                ..
            } => self.bind_unnest(array_exprs, *with_ordinality, alias.as_ref(), scope)?,
            TableFactor::Derived {
                lateral,
                subquery,
                alias,
                ..
            } => {
                // Names of the same FROM are out of sight, unless it is LATERAL.
                let hidden = Scope::below(scope.parent);
                let visible = if *lateral { &*scope } else { &hidden };
                let mut query = self.query(subquery, Some(visible))?;
                self.settle(&mut query)?;
                let columns = query.columns.clone();
                let alias = alias.as_ref();
                let name = alias.map_or_else(String::new, |it| spelling::name(&it.name));
                (Source::Derived(Box::new(query)), name, None, columns, alias)
            }
            TableFactor::NestedJoin {
                table_with_joins,
                alias: None,
            } => {
                let mut inner = Joined::default();
                self.table_with_joins(table_with_joins, scope, &mut inner)?;
                joined.parts.push(join(inner));
                return Ok(());
            }
            other => {
                return Err(CatalogueError::unsupported(format!(
                    "the FROM item {other}"
                )));
            }
        };
        let (source, name, schema, mut columns, alias) = bound;
        if let Some(alias) = alias {
            for (column, given) in columns.iter_mut().zip(&alias.columns) {
                column.name = spelling::name(&given.name);
            }
            if alias.columns.len() > columns.len() {
                let text = format!(
                    "table \"{name}\" has {} columns available but {} columns specified",
                    columns.len(),
                    alias.columns.len()
                );
                return Err(CatalogueError::new("42P10", text));
            }
        }
        if !name.is_empty() && scope.relations.iter().any(|it| it.alias == name) {
            let text = format!("table name \"{name}\" specified more than once");
            return Err(CatalogueError::new("42712", text));
        }
        let parts = self.selects.last_mut().expect("a SELECT is being bound");
        let (offset, width) = (parts.next_slot, columns.len());
        parts.next_slot += width;
        let table_oid = match source {
            Source::Relation(position) => Some(relations::all()[position].oid),
            _ => None,
        };
        let columns = columns
            .into_iter()
            .enumerate()
            .map(|(at, output)| ScopeColumn {
                output,
                slot: offset + at,
                is_merged: false,
            });
        let columns: Vec<ScopeColumn> = columns.collect();
        let oid = columns
            .iter()
            .find(|it| table_oid.is_some() && it.output.name == "oid");
        let oid_slot = oid.map(|it| it.slot);
        scope.relations.push(ScopeRelation {
            schema,
            alias: name,
            columns,
            oid_slot,
            table_oid,
        });
        joined.parts.push(From::Scan(Scan {
            source,
            offset,
            width,
            lookup: None,
            filters: Vec::new(),
        }));
        Ok(())
    }

    fn table<'a>(
        &mut self,
        object: &ast::ObjectName,
        alias: Option<&'a ast::TableAlias>,
    ) -> Result<BoundSource<'a>, CatalogueError> {
        let parts = spelling::parts(object)?;
        let (schema, table) = match &parts[..] {
            [table] => (None, table),
            [schema, table] | [_, schema, table] => (Some(schema.as_str()), table),
            _ => {
                return Err(CatalogueError::syntax(format!(
                    "improper qualified name: {object}"
                )));
            }
        };
        let name = alias.map_or_else(|| table.clone(), |it| spelling::name(&it.name));
        let cte = self
            .ctes
            .iter()
            .rev()
            .find(|it| schema.is_none() && it.name == *table);
        if let Some(cte) = cte {
            return Ok((Source::Cte(cte.id), name, None, cte.columns.clone(), alias));
        }
        let Some(position) = relations::position(schema, table) else {
            let is_of_schema = matches!(schema, None | Some("public"));
            if is_of_schema && self.catalogue.relation_oid(Some("public"), table).is_some() {
                let what = format!("table {table} beside relations of the catalogue");
                return Err(CatalogueError::unsupported(what));
            }
            let text = format!("relation \"{object}\" does not exist");
            return Err(CatalogueError::new("42P01", text));
        };
        let relation = &relations::all()[position];
        let columns = relation.columns.iter().map(|column| Output {
            name: column.name.to_owned(),
            type_oid: column.type_oid,
            fields: Vec::new(),
        });
        let schema = alias.is_none().then(|| relation.schema.to_owned());
        Ok((
            Source::Relation(position),
            name,
            schema,
            columns.collect(),
            alias,
        ))
    }

    fn bind_function_source<'a>(
        &mut self,
        (object, arguments): (&ast::ObjectName, &[ast::FunctionArg]),
        with_ordinality: bool,
        alias: Option<&'a ast::TableAlias>,
        scope: &Scope<'_>,
    ) -> Result<BoundSource<'a>, CatalogueError> {
        let function = spelling::function_name(object)?;
        let bare = function.rsplit('.').next().unwrap_or(&function).to_owned();
        let name = alias.map_or_else(|| bare.clone(), |it| spelling::name(&it.name));
        let mut bound = Vec::new();
        for argument in arguments {
            bound.push(self.argument(argument, scope)?);
        }
        let (source, mut columns) = match functions::sets(&function).next() {
            Some(_) => {
                let (call, columns) = self.set_call(&function, bound)?;
                let calls = vec![call];
                (
                    Source::Function {
                        calls,
                        with_ordinality,
                    },
                    columns,
                )
            }
            None => {
                let value = self.call(&function, bound)?;
                let column = Output {
                    name: bare,
                    type_oid: value.type_oid,
                    fields: Vec::new(),
                };
                (Source::Value(value.node), vec![column])
            }
        };
        if let ([column], Some(_)) = (&mut columns[..], alias) {
            // The column of a function is named as its table.
            column.name.clone_from(&name);
        }
        ordinality(with_ordinality, &mut columns);
        Ok((source, name, None, columns, alias))
    }

    fn bind_unnest<'a>(
        &mut self,
        arrays: &[Expr],
        with_ordinality: bool,
        alias: Option<&'a ast::TableAlias>,
        scope: &Scope<'_>,
    ) -> Result<BoundSource<'a>, CatalogueError> {
        let name = alias.map_or_else(|| "unnest".to_owned(), |it| spelling::name(&it.name));
        let mut calls: Vec<SetCall> = Vec::new();
        let mut columns = Vec::new();
        for array in arrays {
            let bound = self.expression(array, scope)?;
            let (call, mut own) = self.set_call("unnest", vec![bound])?;
            calls.push(call);
            columns.append(&mut own);
        }
        if let ([column], Some(_)) = (&mut columns[..], alias) {
            column.name.clone_from(&name);
        }
        ordinality(with_ordinality, &mut columns);
        let source = Source::Function {
            calls,
            with_ordinality,
        };
        Ok((source, name, None, columns, alias))
    }

    /// Binds a call of a function that returns rows, and returns its columns.
    pub(super) fn set_call(
        &mut self,
        name: &str,
        arguments: Vec<Typed>,
    ) -> Result<(SetCall, Vec<Output>), CatalogueError> {
        let found = functions::sets(name).find(|function| {
            function.arguments.len() == arguments.len()
                && arguments
                    .iter()
                    .zip(function.arguments)
                    .all(|(argument, wanted)| super::operators::fits(argument.type_oid, *wanted))
        });
        let Some(function) = found else {
            return Err(super::operators::no_function(name, &arguments));
        };
        let array = arguments
            .iter()
            .find(|it| types::kind(it.type_oid) == Kind::Array);
        let item = array
            .and_then(|it| types::element(it.type_oid))
            .unwrap_or(types::TEXT);
        let columns = function.columns.iter().map(|(name, type_oid)| Output {
            name: (*name).to_owned(),
            type_oid: if *type_oid == types::ANYELEMENT {
                item
            } else {
                *type_oid
            },
            fields: Vec::new(),
        });
        let columns = columns.collect();
        let mut nodes = Vec::with_capacity(arguments.len());
        for (argument, wanted) in arguments.into_iter().zip(function.arguments) {
            let wanted = match *wanted {
                types::ANYARRAY if argument.is_unknown() => types::TEXT_ARRAY,
                types::ANYARRAY => argument.type_oid,
                wanted => wanted,
            };
            nodes.push(self.coerce(argument, wanted)?);
        }
        let call = SetCall {
            function,
            arguments: nodes,
            slot: 0,
        };
        Ok((call, columns))
    }
}

/// A source of rows, its alias, its schema if it has no alias, its columns, and how the statement
/// renames it.
type BoundSource<'a> = (
    Source,
    String,
    Option<String>,
    Vec<Output>,
    Option<&'a ast::TableAlias>,
);

fn ordinality(with_ordinality: bool, columns: &mut Vec<Output>) {
    if with_ordinality {
        columns.push(Output {
            name: "ordinality".into(),
            type_oid: types::INT8,
            fields: Vec::new(),
        });
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum JoinKind {
    Inner,
    Left,
    Right,
    Full,
}

fn join_kind(operator: &JoinOperator) -> Result<(JoinKind, &JoinConstraint), CatalogueError> {
    Ok(match operator {
        JoinOperator::Join(on) | JoinOperator::Inner(on) | JoinOperator::CrossJoin(on) => {
            (JoinKind::Inner, on)
        }
        JoinOperator::Left(on) | JoinOperator::LeftOuter(on) => (JoinKind::Left, on),
        JoinOperator::Right(on) | JoinOperator::RightOuter(on) => (JoinKind::Right, on),
        JoinOperator::FullOuter(on) => (JoinKind::Full, on),
        _ => return Err(CatalogueError::unsupported("this kind of JOIN")),
    })
}

/// Joins parts, and places the conditions on them.
fn join(joined: Joined) -> From {
    let Joined {
        mut parts,
        conditions,
    } = joined;
    let mut whole = match parts.len() {
        1 => parts.remove(0),
        _ => From::Cross(parts),
    };
    for condition in conditions {
        whole = place(whole, condition, &BTreeSet::new());
    }
    whole
}

/// Returns the slots that a part fills.
fn known(part: &From) -> BTreeSet<usize> {
    let mut filled = BTreeSet::new();
    part.fills(&mut |slot| {
        filled.insert(slot);
    });
    filled
}

/// Places a condition in the first part that has all of its slots. `outer` are slots that are
/// filled before.
fn place(from: From, condition: Node, outer: &BTreeSet<usize>) -> From {
    let mut needed = BTreeSet::new();
    condition.slots(0, &mut |further, slot| {
        if further == 0 {
            needed.insert(slot);
        }
    });
    match from {
        From::Scan(mut scan) => {
            let own = scan.offset..scan.offset + scan.width;
            match scan.lookup {
                None => match lookup(condition, &own) {
                    Ok(found) => scan.lookup = Some(found),
                    Err(condition) => scan.filters.push(condition),
                },
                Some(_) => scan.filters.push(condition),
            }
            From::Scan(scan)
        }
        From::Cross(mut parts) => {
            let mut filled = outer.clone();
            let position = parts.iter().position(|part| {
                filled.extend(known(part));
                needed.is_subset(&filled)
            });
            match position {
                None => From::Filtered(Box::new(From::Cross(parts)), vec![condition]),
                Some(position) => {
                    let mut before = outer.clone();
                    parts[..position]
                        .iter()
                        .for_each(|part| before.extend(known(part)));
                    let part = std::mem::replace(&mut parts[position], From::Cross(Vec::new()));
                    parts[position] = place(part, condition, &before);
                    From::Cross(parts)
                }
            }
        }
        From::Left(left, right) => {
            let mut filled = outer.clone();
            filled.extend(known(&left));
            match needed.is_subset(&filled) {
                true => From::Left(Box::new(place(*left, condition, outer)), right),
                false => From::Filtered(Box::new(From::Left(left, right)), vec![condition]),
            }
        }
        From::Filtered(inner, mut filters) => match place(*inner, condition, outer) {
            From::Filtered(inner, more) => {
                filters.extend(more);
                From::Filtered(inner, filters)
            }
            inner => From::Filtered(Box::new(inner), filters),
        },
        full @ From::Full { .. } => From::Filtered(Box::new(full), vec![condition]),
    }
}

/// Returns the column of a scan that a condition equates with a value from elsewhere.
fn lookup(condition: Node, own: &std::ops::Range<usize>) -> Result<(usize, Node), Node> {
    let Node::Binary(Operator::Equal, left, right) = condition else {
        return Err(condition);
    };
    let column = |node: &Node| match node {
        Node::Column { up: 0, slot } if own.contains(slot) => Some(*slot - own.start),
        _ => None,
    };
    let is_elsewhere = |node: &Node| {
        let mut elsewhere = true;
        node.slots(0, &mut |further, slot| {
            elsewhere &= further > 0 || !own.contains(&slot);
        });
        elsewhere && !has_query(node)
    };
    match (column(&left), column(&right)) {
        (Some(column), _) if is_elsewhere(&right) => Ok((column, *right)),
        (_, Some(column)) if is_elsewhere(&left) => Ok((column, *left)),
        _ => Err(Node::Binary(Operator::Equal, left, right)),
    }
}

/// Returns whether an expression is a query, whose value is too dear to be computed for a lookup.
fn has_query(node: &Node) -> bool {
    matches!(
        node,
        Node::Scalar(_) | Node::Exists(_) | Node::ArrayOf(_) | Node::QuantifiedQuery { .. }
    )
}
