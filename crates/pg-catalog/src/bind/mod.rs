//! Gives a statement its meaning: resolves names to slots, and determines types.
//!
//! A parameter or a literal without a type has the type of the place where it stands, as in
//! PostgreSQL. Names that PostgreSQL does not know are refused with its errors. Features of its
//! grammar that no part of this module names are refused as not supported.

mod access;
mod calls;
mod expression;
mod from;
mod operators;
mod select;
mod spelling;

pub(crate) use spelling::parts;

use sqlparser::ast;

use crate::catalogue::SchemaCatalogue;
use crate::datum::Datum;
use crate::description::Oid;
use crate::error::{CatalogueError, DEPTH_MAX};
use crate::plan::{
    Aggregate, Body, Cte, Node, Output, Query, SetCall, SetOperator, SortKey, Window,
};
use crate::types;

/// The most columns of a result, as in PostgreSQL.
const COLUMNS_MAX: usize = 1664;
/// The most parameters: as many as a message of PostgreSQL's protocol can have.
const PARAMETERS_MAX: usize = 65_535;

/// Refuses a type whose values are only texts here.
fn check_exact(type_oid: Oid) -> Result<(), CatalogueError> {
    match types::is_exact(type_oid) {
        true => Ok(()),
        false => {
            let name = types::sql_name(type_oid);
            let text = format!("the type {name} is not supported");
            Err(CatalogueError::new("0A000", text))
        }
    }
}

/// An expression with its type.
#[derive(Debug)]
pub(crate) struct Typed {
    pub node: Node,
    pub type_oid: Oid,
    /// The fields of its values, if they are rows.
    pub fields: Vec<(String, Oid)>,
}

impl Typed {
    pub(crate) fn new(node: Node, type_oid: Oid) -> Typed {
        Typed {
            node,
            type_oid,
            fields: Vec::new(),
        }
    }

    /// Returns whether its place determines its type.
    pub(crate) fn is_unknown(&self) -> bool {
        self.type_oid == types::UNKNOWN
    }
}

/// A column in scope.
#[derive(Clone, Debug)]
pub(crate) struct ScopeColumn {
    pub output: Output,
    pub slot: usize,
    /// Whether a `USING` has merged it into another column of the same name.
    pub is_merged: bool,
}

/// A part of a `FROM` with its alias.
#[derive(Clone, Debug)]
pub(crate) struct ScopeRelation {
    pub schema: Option<String>,
    pub alias: String,
    pub columns: Vec<ScopeColumn>,
    /// Whether its columns are those of a relation with the column `oid`, which determines them.
    pub oid_slot: Option<usize>,
    /// The number of the relation, if it is one: the value of its system column `tableoid`.
    pub table_oid: Option<Oid>,
}

/// The names that an expression can use: those of its own `FROM`, then those further out.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scope<'p> {
    pub relations: Vec<ScopeRelation>,
    pub parent: Option<&'p Scope<'p>>,
}

impl<'p> Scope<'p> {
    pub(crate) fn below(parent: Option<&'p Scope<'p>>) -> Scope<'p> {
        Scope {
            relations: Vec::new(),
            parent,
        }
    }
}

/// The parts of a `SELECT` that are found in its expressions.
#[derive(Debug, Default)]
pub(crate) struct SelectParts {
    pub next_slot: usize,
    /// The expressions of the `GROUP BY`, with the slots and types of their values.
    pub keys: Vec<(ast::Expr, usize, Oid)>,
    pub aggregates: Vec<Aggregate>,
    pub windows: Vec<Window>,
    pub sets: Vec<SetCall>,
    /// The named windows.
    pub named: Vec<(String, ast::WindowSpec)>,
    /// Whether the expression that is bound now is inside of an aggregate's arguments.
    pub in_aggregate: bool,
    /// The functions that the present place forbids, with the name of the place.
    pub forbidden: Option<&'static str>,
}

/// A name of a `WITH` in scope.
#[derive(Clone, Debug)]
struct CteName {
    name: String,
    id: usize,
    columns: Vec<Output>,
}

/// Binds one statement.
pub(crate) struct Binder<'c> {
    /// The catalogue, for the names of the tables that a statement must not read.
    catalogue: &'c SchemaCatalogue,
    /// The types of the parameters as far as they are known.
    pub parameters: Vec<Option<Oid>>,
    selects: Vec<SelectParts>,
    ctes: Vec<CteName>,
    next_id: usize,
    depth: usize,
    /// Whether casts to types that are only texts here are refused.
    is_strict: bool,
}

impl<'c> Binder<'c> {
    /// Returns a binder for a statement whose client has declared these types of parameters.
    pub(crate) fn new(declared: &[Option<Oid>], catalogue: &'c SchemaCatalogue) -> Binder<'c> {
        Binder {
            catalogue,
            parameters: declared.to_vec(),
            selects: Vec::new(),
            ctes: Vec::new(),
            next_id: 0,
            depth: 0,
            is_strict: false,
        }
    }

    /// Refuses types whose values are only texts here, for a statement that is not about the
    /// catalogue: its client expects values of the type.
    ///
    /// # Errors
    /// A parameter was declared to be of such a type.
    pub(crate) fn strict(mut self) -> Result<Binder<'c>, CatalogueError> {
        for declared in self.parameters.iter().flatten() {
            check_exact(*declared)?;
        }
        self.is_strict = true;
        Ok(self)
    }

    fn id(&mut self) -> usize {
        self.next_id += 1;
        self.next_id
    }

    fn enter(&mut self) -> Result<(), CatalogueError> {
        self.depth += 1;
        match self.depth > DEPTH_MAX {
            true => Err(CatalogueError::new(
                "54001",
                format!("a statement is nested deeper than {DEPTH_MAX} levels: simplify it"),
            )),
            false => Ok(()),
        }
    }

    /// Binds a query. `outer` are the names further out.
    pub(crate) fn query(
        &mut self,
        query: &ast::Query,
        outer: Option<&Scope<'_>>,
    ) -> Result<Query, CatalogueError> {
        self.enter()?;
        let names = self.ctes.len();
        let bound = self.query_inside(query, outer);
        self.ctes.truncate(names);
        self.depth -= 1;
        bound
    }

    fn query_inside(
        &mut self,
        query: &ast::Query,
        outer: Option<&Scope<'_>>,
    ) -> Result<Query, CatalogueError> {
        refuse(&[
            (!query.locks.is_empty(), "FOR UPDATE"),
            (query.for_clause.is_some(), "FOR"),
            (query.settings.is_some(), "SETTINGS"),
            (query.format_clause.is_some(), "FORMAT"),
            (!query.pipe_operators.is_empty(), "a pipe operator"),
        ])?;
        let mut ctes = Vec::new();
        if let Some(with) = &query.with {
            for cte in &with.cte_tables {
                ctes.push(self.cte(cte, with.recursive, outer)?);
            }
        }
        let order = match &query.order_by {
            None => &[][..],
            Some(order) => match &order.kind {
                ast::OrderByKind::Expressions(keys) => keys,
                ast::OrderByKind::All(_) => {
                    return Err(CatalogueError::unsupported("ORDER BY ALL"));
                }
            },
        };
        let mut bound = self.body(&query.body, order, outer)?;
        let (limit, offset) = limits(query)?;
        bound.limit = self.count(limit)?;
        bound.offset = self.count(offset)?;
        ctes.append(&mut bound.ctes);
        bound.ctes = ctes;
        let mut is_correlated = false;
        bound.slots(1, &mut |_, _| is_correlated = true);
        bound.is_correlated = is_correlated;
        if bound.columns.len() > COLUMNS_MAX {
            let text = format!("target lists can have at most {COLUMNS_MAX} entries");
            return Err(CatalogueError::new("54011", text));
        }
        Ok(bound)
    }

    /// Binds the number of a `LIMIT` or an `OFFSET`.
    fn count(&mut self, count: Option<&ast::Expr>) -> Result<Option<Node>, CatalogueError> {
        let Some(count) = count else {
            return Ok(None);
        };
        let bound = self.expression(count, &Scope::default())?;
        self.coerce(bound, types::INT8).map(Some)
    }

    fn cte(
        &mut self,
        cte: &ast::Cte,
        recursive: bool,
        outer: Option<&Scope<'_>>,
    ) -> Result<Cte, CatalogueError> {
        let name = spelling::name(&cte.alias.name);
        let id = self.id();
        let renamed = |mut columns: Vec<Output>| {
            for (column, alias) in columns.iter_mut().zip(&cte.alias.columns) {
                column.name = spelling::name(&alias.name);
            }
            columns
        };
        let union = match &*cte.query.body {
            ast::SetExpr::SetOperation {
                op: ast::SetOperator::Union,
                left,
                right,
                set_quantifier,
            } if recursive && cte.query.with.is_none() => {
                let all = matches!(set_quantifier, ast::SetQuantifier::All);
                Some((left, right, all))
            }
            _ => None,
        };
        let Some((left, right, all)) = union else {
            let query = self.query(&cte.query, outer)?;
            let columns = renamed(query.columns.clone());
            self.ctes.push(CteName { name, id, columns });
            let is_recursive = false;
            return Ok(Cte {
                id,
                query,
                is_recursive,
            });
        };
        let mut left = self.body(left, &[], outer)?;
        self.settle(&mut left)?;
        let columns = renamed(left.columns.clone());
        self.ctes.push(CteName {
            name,
            id,
            columns: columns.clone(),
        });
        let right = self.body(right, &[], outer)?;
        let right = self.as_columns(right, &columns, "UNION")?;
        let query = self.whole(
            Body::Set {
                operator: SetOperator::Union,
                all,
                left: Box::new(left),
                right: Box::new(right),
            },
            columns,
        );
        let is_recursive = true;
        Ok(Cte {
            id,
            query,
            is_recursive,
        })
    }

    /// Returns a query without an order or limits.
    fn whole(&mut self, body: Body, columns: Vec<Output>) -> Query {
        Query {
            id: self.id(),
            ctes: Vec::new(),
            body,
            order: Vec::new(),
            distinct_on: None,
            limit: None,
            offset: None,
            columns,
            is_correlated: true,
        }
    }

    fn body(
        &mut self,
        body: &ast::SetExpr,
        order: &[ast::OrderByExpr],
        outer: Option<&Scope<'_>>,
    ) -> Result<Query, CatalogueError> {
        match body {
            ast::SetExpr::Select(select) => self.select(select, order, outer),
            ast::SetExpr::Query(query) => {
                let inner = self.query(query, outer)?;
                if order.is_empty() && inner.limit.is_none() && inner.offset.is_none() {
                    return Ok(inner);
                }
                let columns = inner.columns.clone();
                let body = Body::Set {
                    operator: SetOperator::Union,
                    all: true,
                    left: Box::new(inner),
                    right: Box::new(self.whole(Body::Values(Vec::new()), columns.clone())),
                };
                let mut bound = self.whole(body, columns);
                bound.order = output_order(order, &bound.columns)?;
                Ok(bound)
            }
            ast::SetExpr::SetOperation {
                left,
                op,
                set_quantifier,
                right,
            } => {
                self.enter()?;
                let bound = self.set_operation((left, *op, *set_quantifier, right), order, outer);
                self.depth -= 1;
                bound
            }
            ast::SetExpr::Values(values) => {
                let scope = Scope::below(outer);
                let rows = values.rows.iter();
                let rows: Vec<Vec<Typed>> = rows
                    .map(|row| row.iter().map(|it| self.expression(it, &scope)).collect())
                    .collect::<Result<_, CatalogueError>>()?;
                let (rows, columns) = self.values(rows)?;
                let mut bound = self.whole(Body::Values(rows), columns);
                bound.order = output_order(order, &bound.columns)?;
                Ok(bound)
            }
            ast::SetExpr::Table(_) => Err(CatalogueError::unsupported("TABLE")),
            _ => Err(CatalogueError::unsupported("a statement that changes rows")),
        }
    }

    /// Gives the columns of rows of expressions their common types.
    fn values(
        &mut self,
        rows: Vec<Vec<Typed>>,
    ) -> Result<(Vec<Vec<Node>>, Vec<Output>), CatalogueError> {
        let width = rows.first().map_or(0, Vec::len);
        if rows.iter().any(|row| row.len() != width) {
            return Err(CatalogueError::syntax(
                "VALUES lists must all be the same length",
            ));
        }
        let mut types = Vec::with_capacity(width);
        for column in 0..width {
            let found = rows.iter().map(|row| row[column].type_oid);
            types.push(operators::common_type(found, "VALUES")?);
        }
        let mut nodes = Vec::with_capacity(rows.len());
        for row in rows {
            let cells = row.into_iter().zip(&types);
            let cells = cells.map(|(cell, type_oid)| self.coerce(cell, *type_oid));
            nodes.push(cells.collect::<Result<Vec<Node>, CatalogueError>>()?);
        }
        let columns = types.iter().enumerate().map(|(position, type_oid)| Output {
            name: format!("column{}", position + 1),
            type_oid: *type_oid,
            fields: Vec::new(),
        });
        Ok((nodes, columns.collect()))
    }

    fn set_operation(
        &mut self,
        (left, operator, quantifier, right): (
            &ast::SetExpr,
            ast::SetOperator,
            ast::SetQuantifier,
            &ast::SetExpr,
        ),
        order: &[ast::OrderByExpr],
        outer: Option<&Scope<'_>>,
    ) -> Result<Query, CatalogueError> {
        let (operator, word) = match operator {
            ast::SetOperator::Union => (SetOperator::Union, "UNION"),
            ast::SetOperator::Intersect => (SetOperator::Intersect, "INTERSECT"),
            ast::SetOperator::Except => (SetOperator::Except, "EXCEPT"),
            ast::SetOperator::Minus => return Err(CatalogueError::unsupported("MINUS")),
        };
        let all = match quantifier {
            ast::SetQuantifier::All => true,
            ast::SetQuantifier::None | ast::SetQuantifier::Distinct => false,
            other => return Err(CatalogueError::unsupported(other)),
        };
        let left = self.body(left, &[], outer)?;
        let right = self.body(right, &[], outer)?;
        if left.columns.len() != right.columns.len() {
            let text = format!("each {word} query must have the same number of columns");
            return Err(CatalogueError::syntax(text));
        }
        let mut columns = left.columns.clone();
        for (column, other) in columns.iter_mut().zip(&right.columns) {
            let found = [column.type_oid, other.type_oid];
            column.type_oid = operators::common_type(found, word)?;
        }
        let left = self.as_columns(left, &columns, word)?;
        let right = self.as_columns(right, &columns, word)?;
        let body = Body::Set {
            operator,
            all,
            left: Box::new(left),
            right: Box::new(right),
        };
        let mut bound = self.whole(body, columns);
        bound.order = output_order(order, &bound.columns)?;
        Ok(bound)
    }

    /// Gives the columns of a query the types of other ones.
    fn as_columns(
        &mut self,
        mut query: Query,
        columns: &[Output],
        word: &str,
    ) -> Result<Query, CatalogueError> {
        if query.columns.len() != columns.len() {
            let text = format!("each {word} query must have the same number of columns");
            return Err(CatalogueError::syntax(text));
        }
        for (position, wanted) in columns.iter().enumerate() {
            let from = query.columns[position].type_oid;
            self.retype(&mut query, position, from, wanted.type_oid)?;
            query.columns[position].type_oid = wanted.type_oid;
        }
        Ok(query)
    }

    /// Makes texts of the columns whose types nothing determines.
    fn settle(&mut self, query: &mut Query) -> Result<(), CatalogueError> {
        for position in 0..query.columns.len() {
            if query.columns[position].type_oid == types::UNKNOWN {
                self.retype(query, position, types::UNKNOWN, types::TEXT)?;
                query.columns[position].type_oid = types::TEXT;
            }
        }
        Ok(())
    }

    fn retype(
        &mut self,
        query: &mut Query,
        position: usize,
        from: Oid,
        to: Oid,
    ) -> Result<(), CatalogueError> {
        if from == to {
            return Ok(());
        }
        match &mut query.body {
            Body::Select(select) => {
                let node =
                    std::mem::replace(&mut select.items[position], Node::Constant(Datum::Null));
                select.items[position] = self.coerce(Typed::new(node, from), to)?;
            }
            Body::Values(rows) => {
                for row in rows {
                    let node = std::mem::replace(&mut row[position], Node::Constant(Datum::Null));
                    row[position] = self.coerce(Typed::new(node, from), to)?;
                }
            }
            Body::Set { left, right, .. } => {
                self.retype(left, position, from, to)?;
                self.retype(right, position, from, to)?;
            }
        }
        Ok(())
    }

    /// Binds the whole statement.
    pub(crate) fn statement(&mut self, query: &ast::Query) -> Result<Query, CatalogueError> {
        let mut bound = self.query(query, None)?;
        self.settle(&mut bound)?;
        Ok(bound)
    }

    fn parameter(&mut self, placeholder: &str) -> Result<Typed, CatalogueError> {
        let number = placeholder
            .strip_prefix('$')
            .and_then(|it| it.parse::<usize>().ok());
        let number = number.filter(|it| (1..=PARAMETERS_MAX).contains(it));
        let Some(number) = number else {
            let text = format!("there is no parameter {placeholder}");
            return Err(CatalogueError::new("42P02", text));
        };
        if self.parameters.len() < number {
            self.parameters.resize(number, None);
        }
        let known = self.parameters[number - 1];
        Ok(Typed::new(
            Node::Parameter(number - 1),
            known.unwrap_or(types::UNKNOWN),
        ))
    }
}

/// Returns the keys of an order that names columns of the result.
fn output_order(
    order: &[ast::OrderByExpr],
    columns: &[Output],
) -> Result<Vec<SortKey>, CatalogueError> {
    let keys = order.iter().map(|key| {
        let position = select::output_position(&key.expr, columns)?.ok_or_else(|| {
            CatalogueError::unsupported("an expression in the ORDER BY of a UNION")
        })?;
        select::sort_key(position, &key.options)
    });
    keys.collect()
}

fn limits(query: &ast::Query) -> Result<(Option<&ast::Expr>, Option<&ast::Expr>), CatalogueError> {
    let (mut limit, offset) = match &query.limit_clause {
        None => (None, None),
        Some(ast::LimitClause::LimitOffset {
            limit,
            offset,
            limit_by,
        }) if limit_by.is_empty() => (limit.as_ref(), offset.as_ref().map(|it| &it.value)),
        Some(_) => return Err(CatalogueError::unsupported("this form of LIMIT")),
    };
    if let Some(fetch) = &query.fetch {
        refuse(&[(fetch.with_ties, "WITH TIES"), (fetch.percent, "PERCENT")])?;
        limit = fetch.quantity.as_ref();
    }
    Ok((limit, offset))
}

/// Refuses the first feature that is present.
fn refuse(features: &[(bool, &str)]) -> Result<(), CatalogueError> {
    match features.iter().find(|(is_present, _)| *is_present) {
        Some((_, name)) => Err(CatalogueError::unsupported(name)),
        None => Ok(()),
    }
}
