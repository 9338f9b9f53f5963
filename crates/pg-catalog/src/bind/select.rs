//! Binds a `SELECT`: its items, groups and order.

use sqlparser::ast::{self, Expr, SelectItem};

use super::{Binder, Scope, SelectParts, Typed, refuse, spelling};
use crate::datum::Datum;
use crate::error::CatalogueError;
use crate::plan::{Body, Groups, Node, Output, Query, Select, SortKey};
use crate::types;

/// Returns the position of the output column that a key of an order names or counts.
pub(super) fn output_position(
    key: &Expr,
    columns: &[Output],
) -> Result<Option<usize>, CatalogueError> {
    match key {
        Expr::Identifier(ident) => {
            let name = spelling::name(ident);
            Ok(columns.iter().position(|column| column.name == name))
        }
        Expr::Value(value) => match &value.value {
            ast::Value::Number(number, _) => {
                let position: Option<usize> = number.parse().ok();
                let position = position.filter(|it| (1..=columns.len()).contains(it));
                match position {
                    Some(position) => Ok(Some(position - 1)),
                    None => {
                        let text = format!("ORDER BY position {number} is not in select list");
                        Err(CatalogueError::new("42P10", text))
                    }
                }
            }
            _ => Ok(None),
        },
        _ => Ok(None),
    }
}

/// Returns whether a key sorts from large to small, and whether NULLs come first.
pub(super) fn directions(options: &ast::OrderByOptions) -> Result<(bool, bool), CatalogueError> {
    let descending = match &options.sort {
        None | Some(ast::OrderBySort::Asc) => false,
        Some(ast::OrderBySort::Desc) => true,
        Some(ast::OrderBySort::Using(_)) => {
            return Err(CatalogueError::unsupported("ORDER BY USING"));
        }
    };
    Ok((descending, options.nulls_first.unwrap_or(descending)))
}

pub(super) fn sort_key(
    position: usize,
    options: &ast::OrderByOptions,
) -> Result<SortKey, CatalogueError> {
    let (descending, nulls_first) = directions(options)?;
    Ok(SortKey {
        position,
        descending,
        nulls_first,
    })
}

/// The items of a `SELECT`, with their columns and the expressions that they are written as.
#[derive(Default)]
struct Items {
    nodes: Vec<Node>,
    columns: Vec<Output>,
    written: Vec<Option<Expr>>,
}

impl Items {
    fn push(&mut self, typed: Typed, name: String, written: Option<Expr>) {
        self.nodes.push(typed.node);
        self.columns.push(Output {
            name,
            type_oid: typed.type_oid,
            fields: typed.fields,
        });
        self.written.push(written);
    }
}

impl Binder<'_> {
    fn parts(&mut self) -> &mut SelectParts {
        self.selects.last_mut().expect("a SELECT is being bound")
    }

    /// Binds a `SELECT`, with the `ORDER BY` after it.
    pub(super) fn select(
        &mut self,
        select: &ast::Select,
        order: &[ast::OrderByExpr],
        outer: Option<&Scope<'_>>,
    ) -> Result<Query, CatalogueError> {
        refuse(&[
            (select.into.is_some(), "SELECT INTO"),
            (select.top.is_some(), "TOP"),
            (!select.lateral_views.is_empty(), "LATERAL VIEW"),
            (select.prewhere.is_some(), "PREWHERE"),
            (!select.connect_by.is_empty(), "CONNECT BY"),
            (!select.cluster_by.is_empty(), "CLUSTER BY"),
            (!select.distribute_by.is_empty(), "DISTRIBUTE BY"),
            (!select.sort_by.is_empty(), "SORT BY"),
            (select.qualify.is_some(), "QUALIFY"),
            (select.exclude.is_some(), "EXCLUDE"),
        ])?;
        self.selects.push(SelectParts::default());
        let bound = self.select_inside(select, order, outer);
        self.selects.pop();
        bound
    }

    // tidy: long — the clauses, in the order in which names become known.
    fn select_inside(
        &mut self,
        select: &ast::Select,
        order: &[ast::OrderByExpr],
        outer: Option<&Scope<'_>>,
    ) -> Result<Query, CatalogueError> {
        let (scope, from, filters) = self.bind_from(select, outer)?;
        let from_width = self.parts().next_slot;
        for named in &select.named_window {
            let ast::NamedWindowDefinition(name, ast::NamedWindowExpr::WindowSpec(spec)) = named
            else {
                return Err(CatalogueError::unsupported(
                    "a window that names another one",
                ));
            };
            let named = (spelling::name(name), spec.clone());
            self.parts().named.push(named);
        }
        let keys = self.group_keys(select, &scope)?;
        let has_keys = !keys.is_empty();
        let mut items = self.items(select, &scope)?;
        let visible = items.columns.len();
        let mut sort = Vec::new();
        for key in order {
            let position = self.order_position(&key.expr, &mut items, visible, &scope)?;
            sort.push(sort_key(position, &key.options)?);
        }
        let (distinct, distinct_on) = match &select.distinct {
            None | Some(ast::Distinct::All) => (false, None),
            Some(ast::Distinct::Distinct) => (true, None),
            Some(ast::Distinct::On(keys)) => {
                let positions = keys.iter();
                let positions = positions
                    .map(|key| self.order_position(key, &mut items, visible, &scope))
                    .collect::<Result<Vec<_>, _>>()?;
                (false, Some(positions))
            }
        };
        if distinct && items.nodes.len() > visible {
            let text = "for SELECT DISTINCT, ORDER BY expressions must appear in select list";
            return Err(CatalogueError::new("42P10", text));
        }
        let having = match &select.having {
            None => None,
            Some(having) => {
                let bound = self.expression(having, &scope)?;
                Some(self.coerce(bound, types::BOOL)?)
            }
        };
        let parts = self.selects.last_mut().expect("a SELECT is being bound");
        let is_grouped = has_keys || having.is_some() || !parts.aggregates.is_empty();
        let groups = is_grouped.then(|| Groups {
            keys,
            has_keys,
            aggregates: std::mem::take(&mut parts.aggregates),
            having,
        });
        if let Some(groups) = &groups {
            check_grouped(groups, &items.nodes, from_width, &scope)?;
        }
        let body = Select {
            from,
            width: parts.next_slot,
            filters,
            groups,
            windows: std::mem::take(&mut parts.windows),
            sets: std::mem::take(&mut parts.sets),
            items: items.nodes,
            distinct,
        };
        let mut bound = self.whole(Body::Select(Box::new(body)), items.columns);
        bound.columns.truncate(visible);
        bound.order = sort;
        bound.distinct_on = distinct_on;
        Ok(bound)
    }

    /// Binds the keys of the groups, and gives each of them a slot.
    fn group_keys(
        &mut self,
        select: &ast::Select,
        scope: &Scope<'_>,
    ) -> Result<Vec<(Node, usize)>, CatalogueError> {
        let written = match &select.group_by {
            ast::GroupByExpr::Expressions(written, modifiers) if modifiers.is_empty() => written,
            _ => return Err(CatalogueError::unsupported("this form of GROUP BY")),
        };
        let mut keys = Vec::new();
        for key in written {
            let key = grouped_expression(key, select, scope)?;
            self.parts().forbidden = Some("GROUP BY");
            let bound = self.expression(&key, scope);
            self.parts().forbidden = None;
            let bound = bound?;
            let type_oid = match bound.type_oid {
                types::UNKNOWN => types::TEXT,
                known => known,
            };
            let node = self.coerce(bound, type_oid)?;
            let parts = self.parts();
            let slot = parts.next_slot;
            parts.next_slot += 1;
            keys.push((node, slot));
            parts.keys.push((key, slot, type_oid));
        }
        Ok(keys)
    }

    fn items(&mut self, select: &ast::Select, scope: &Scope<'_>) -> Result<Items, CatalogueError> {
        let mut items = Items::default();
        for item in &select.projection {
            match item {
                SelectItem::UnnamedExpr(expression) => {
                    let typed = self.expression(expression, scope)?;
                    items.push(typed, implied_name(expression), Some(expression.clone()));
                }
                SelectItem::ExprWithAlias { expr, alias } => {
                    let typed = self.expression(expr, scope)?;
                    items.push(typed, spelling::name(alias), Some(expr.clone()));
                }
                SelectItem::ExprWithAliases { .. } => {
                    return Err(CatalogueError::unsupported("an item with several names"));
                }
                SelectItem::Wildcard(_) => {
                    if scope.relations.is_empty() {
                        let text = "SELECT * with no tables specified is not valid";
                        return Err(CatalogueError::syntax(text));
                    }
                    let columns = scope.relations.iter().flat_map(|it| &it.columns);
                    for column in columns.filter(|it| !it.is_merged) {
                        items.push(column.typed(0), column.output.name.clone(), None);
                    }
                }
                SelectItem::QualifiedWildcard(kind, _) => {
                    self.qualified_wildcard(kind, scope, &mut items)?;
                }
            }
        }
        Ok(items)
    }

    fn qualified_wildcard(
        &mut self,
        kind: &ast::SelectItemQualifiedWildcardKind,
        scope: &Scope<'_>,
        items: &mut Items,
    ) -> Result<(), CatalogueError> {
        match kind {
            ast::SelectItemQualifiedWildcardKind::ObjectName(object) => {
                let parts = spelling::parts(object)?;
                let alias = parts.last().map_or("", String::as_str);
                let Some((up, relation)) = scope.relation(alias) else {
                    let text = format!("missing FROM-clause entry for table \"{alias}\"");
                    return Err(CatalogueError::new("42P01", text));
                };
                for column in &relation.columns {
                    items.push(column.typed(up), column.output.name.clone(), None);
                }
            }
            ast::SelectItemQualifiedWildcardKind::Expr(expression) => {
                let typed = self.expression(expression, scope)?;
                if typed.fields.is_empty() {
                    let text = "row expansion via \"*\" is not supported here";
                    return Err(CatalogueError::new("0A000", text));
                }
                for (position, (name, type_oid)) in typed.fields.iter().enumerate() {
                    let again = self.expression(expression, scope)?;
                    let field = Node::Field(Box::new(again.node), position);
                    items.push(Typed::new(field, *type_oid), name.clone(), None);
                }
            }
        }
        Ok(())
    }

    /// Returns the position of the item by which a key sorts, which may be a further item.
    fn order_position(
        &mut self,
        key: &Expr,
        items: &mut Items,
        visible: usize,
        scope: &Scope<'_>,
    ) -> Result<usize, CatalogueError> {
        if let Some(position) = output_position(key, &items.columns[..visible])? {
            return Ok(position);
        }
        let same = |written: &Option<Expr>| written.as_ref() == Some(key);
        if let Some(position) = items.written.iter().position(same) {
            return Ok(position);
        }
        let typed = self.expression(key, scope)?;
        items.push(typed, String::new(), Some(key.clone()));
        Ok(items.nodes.len() - 1)
    }
}

/// Returns the expression of a key of the groups, which may count an item or name one.
fn grouped_expression(
    key: &Expr,
    select: &ast::Select,
    scope: &Scope<'_>,
) -> Result<Expr, CatalogueError> {
    match key {
        Expr::Value(value) => {
            let ast::Value::Number(number, _) = &value.value else {
                return Ok(key.clone());
            };
            let position: Option<usize> = number.parse().ok();
            let item = position.and_then(|it| select.projection.get(it.checked_sub(1)?));
            match item {
                Some(
                    SelectItem::UnnamedExpr(expression)
                    | SelectItem::ExprWithAlias {
                        expr: expression, ..
                    },
                ) => Ok(expression.clone()),
                _ => {
                    let text = format!("GROUP BY position {number} is not in select list");
                    Err(CatalogueError::new("42P10", text))
                }
            }
        }
        Expr::Identifier(ident) if !scope.has_column(&spelling::name(ident)) => {
            let name = spelling::name(ident);
            let item = select.projection.iter().find_map(|item| match item {
                SelectItem::ExprWithAlias { expr, alias } if spelling::name(alias) == name => {
                    Some(expr.clone())
                }
                _ => None,
            });
            Ok(item.unwrap_or_else(|| key.clone()))
        }
        _ => Ok(key.clone()),
    }
}

/// Checks that the items of groups read only keys, aggregates, and columns that a key determines.
fn check_grouped(
    groups: &Groups,
    items: &[Node],
    from_width: usize,
    scope: &Scope<'_>,
) -> Result<(), CatalogueError> {
    let key_slots: Vec<usize> = groups
        .keys
        .iter()
        .filter_map(|(key, _)| match key {
            Node::Column { up: 0, slot } => Some(*slot),
            _ => None,
        })
        .collect();
    let mut missing = None;
    let mut check = |further: usize, slot: usize| {
        if further > 0 || slot >= from_width || key_slots.contains(&slot) {
            return;
        }
        let relation = scope
            .relations
            .iter()
            .find(|relation| relation.columns.iter().any(|column| column.slot == slot));
        let is_determined = relation
            .and_then(|it| it.oid_slot)
            .is_some_and(|oid| key_slots.contains(&oid));
        if !is_determined && missing.is_none() {
            missing = relation.and_then(|relation| {
                let column = relation.columns.iter().find(|column| column.slot == slot)?;
                Some(format!("{}.{}", relation.alias, column.output.name))
            });
        }
    };
    for node in items.iter().chain(&groups.having) {
        node.slots(0, &mut check);
    }
    match missing {
        None => Ok(()),
        Some(column) => {
            let text = format!(
                "column \"{column}\" must appear in the GROUP BY clause or be used in an aggregate \
                 function"
            );
            Err(CatalogueError::new("42803", text))
        }
    }
}

/// Returns the name of a column without an alias.
pub(super) fn implied_name(expression: &Expr) -> String {
    match expression {
        Expr::Identifier(ident) => spelling::name(ident),
        Expr::CompoundIdentifier(parts) => parts.last().map_or_else(String::new, spelling::name),
        Expr::CompoundFieldAccess { root, access_chain } => match access_chain.last() {
            Some(ast::AccessExpr::Dot(field)) => implied_name(field),
            _ => implied_name(root),
        },
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => implied_name(inner),
        Expr::Function(function) => {
            let name = function.name.0.last().and_then(|it| it.as_ident());
            name.map_or_else(String::new, spelling::name)
        }
        Expr::Cast {
            expr, data_type, ..
        } => match implied_name(expr) {
            name if name == "?column?" => {
                let oid = spelling::data_type(data_type).ok();
                let found = oid.and_then(types::by_oid);
                found.map_or_else(|| "?column?".into(), |it| it.name.to_owned())
            }
            name => name,
        },
        Expr::Case { else_result, .. } => match else_result.as_deref().map(implied_name) {
            Some(name) if name != "?column?" => name,
            _ => "case".into(),
        },
        Expr::Array(_) => "array".into(),
        Expr::Exists { .. } => "exists".into(),
        Expr::Tuple(_) => "row".into(),
        Expr::Substring { .. } => "substring".into(),
        Expr::Position { .. } => "position".into(),
        Expr::Trim { .. } => "btrim".into(),
        Expr::Ceil { .. } => "ceil".into(),
        Expr::Floor { .. } => "floor".into(),
        Expr::Value(value) if matches!(value.value, ast::Value::Boolean(_)) => "bool".into(),
        Expr::Subquery(query) => match &*query.body {
            ast::SetExpr::Select(select) => match select.projection.first() {
                Some(SelectItem::UnnamedExpr(expression)) => implied_name(expression),
                Some(SelectItem::ExprWithAlias { alias, .. }) => spelling::name(alias),
                _ => "?column?".into(),
            },
            _ => "?column?".into(),
        },
        _ => "?column?".into(),
    }
}

impl super::ScopeColumn {
    pub(super) fn typed(&self, up: usize) -> Typed {
        let slot = self.slot;
        Typed {
            node: Node::Column { up, slot },
            type_oid: self.output.type_oid,
            fields: self.output.fields.clone(),
        }
    }
}

/// Keeps the value of a literal without a type for the type that its place gives it.
pub(super) fn literal(text: &str) -> Typed {
    Typed::new(Node::Constant(Datum::text(text)), types::UNKNOWN)
}
