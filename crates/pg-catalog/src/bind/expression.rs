//! Binds expressions.

use sqlparser::ast::{self, BinaryOperator, Expr, UnaryOperator};

use super::operators::{common_type, comparison, is_array, only_column, symbol};
use super::select::literal;
use super::{Binder, Scope, Typed, spelling};
use crate::datum::Datum;
use crate::description::Oid;
use crate::error::CatalogueError;
use crate::plan::{Node, Operator, Query};
use crate::types::{self, Kind};

impl Binder<'_> {
    /// Binds an expression.
    pub(super) fn expression(
        &mut self,
        expression: &Expr,
        scope: &Scope<'_>,
    ) -> Result<Typed, CatalogueError> {
        self.enter()?;
        let bound = match self.grouped(expression) {
            Some(key) => Ok(key),
            None => self.any_expression(expression, scope),
        };
        self.depth -= 1;
        bound
    }

    /// Returns the slot of a key of the groups, if the expression is one.
    fn grouped(&mut self, expression: &Expr) -> Option<Typed> {
        let parts = self.selects.last()?;
        if parts.keys.is_empty() || parts.in_aggregate || parts.forbidden.is_some() {
            return None;
        }
        // The column itself is as good, and other queries can read it.
        if matches!(
            expression,
            Expr::Identifier(_) | Expr::CompoundIdentifier(_)
        ) {
            return None;
        }
        let (_, slot, type_oid) = parts.keys.iter().find(|(key, ..)| key == expression)?;
        Some(Typed::new(Node::Column { up: 0, slot: *slot }, *type_oid))
    }

    // tidy: long — one arm per form of an expression.
    fn any_expression(
        &mut self,
        expression: &Expr,
        scope: &Scope<'_>,
    ) -> Result<Typed, CatalogueError> {
        let truth = |node: Node| Ok(Typed::new(node, types::BOOL));
        match expression {
            Expr::Identifier(ident) => self.name(&[spelling::name(ident)], scope, expression),
            Expr::CompoundIdentifier(parts) => {
                let parts: Vec<String> = parts.iter().map(spelling::name).collect();
                self.name(&parts, scope, expression)
            }
            Expr::Value(value) => self.value(&value.value),
            Expr::Nested(inner) => self.expression(inner, scope),
            Expr::Collate { expr, collation } => {
                let parts = spelling::parts(collation)?;
                match parts.last().map(String::as_str) {
                    Some("default" | "C" | "POSIX" | "ucs_basic") => self.expression(expr, scope),
                    _ => Err(CatalogueError::new(
                        "42704",
                        format!("collation \"{collation}\" for encoding \"UTF8\" does not exist"),
                    )),
                }
            }
            Expr::Cast {
                kind: ast::CastKind::Cast | ast::CastKind::DoubleColon,
                expr,
                data_type,
                ..
            } => {
                let to = spelling::data_type(data_type)?;
                let inner = match &**expr {
                    // An empty array has the type of the cast.
                    Expr::Array(array) if array.elem.is_empty() => {
                        Typed::new(Node::Array(Vec::new()), to)
                    }
                    expr => self.expression(expr, scope)?,
                };
                self.cast(inner, to)
            }
            Expr::TypedString(typed) => {
                let to = spelling::data_type(&typed.data_type)?;
                let Some(text) = typed.value.clone().into_string() else {
                    return Err(CatalogueError::unsupported(expression));
                };
                self.cast(literal(&text), to)
            }
            Expr::UnaryOp { op, expr } => self.unary(*op, expr, scope),
            Expr::BinaryOp {
                op: op @ (BinaryOperator::And | BinaryOperator::Or),
                ..
            } => {
                let mut parts = Vec::new();
                for part in chain(expression, op) {
                    let bound = self.expression(part, scope)?;
                    match self.coerce(bound, types::BOOL)? {
                        Node::And(more) if *op == BinaryOperator::And => parts.extend(more),
                        node => parts.push(node),
                    }
                }
                truth(match op {
                    BinaryOperator::And => Node::And(parts),
                    _ => Node::Or(parts),
                })
            }
            Expr::BinaryOp {
                op: op @ BinaryOperator::StringConcat,
                ..
            } => {
                let mut parts = chain(expression, op).into_iter();
                let first = parts.next().expect("an operator has operands");
                let mut whole = self.expression(first, scope)?;
                for part in parts {
                    let part = self.expression(part, scope)?;
                    whole = self.operator("||", whole, part)?;
                }
                Ok(whole)
            }
            Expr::BinaryOp { left, op, right } => match (&**left, &**right) {
                (_, Expr::AnyOp { .. } | Expr::AllOp { .. }) => {
                    Err(CatalogueError::unsupported(expression))
                }
                (Expr::Tuple(left), Expr::Tuple(right)) => {
                    self.tuples(&symbol(op)?, left, right, scope)
                }
                (left, right) => {
                    let left = self.expression(left, scope)?;
                    let right = self.expression(right, scope)?;
                    self.operator(&symbol(op)?, left, right)
                }
            },
            Expr::AnyOp {
                left,
                compare_op,
                right,
                ..
            } => self.quantified(left, &symbol(compare_op)?, right, (false, scope)),
            Expr::AllOp {
                left,
                compare_op,
                right,
            } => self.quantified(left, &symbol(compare_op)?, right, (true, scope)),
            Expr::IsNull(inner) => {
                let inner = self.expression(inner, scope)?;
                truth(Node::IsNull(Box::new(inner.node)))
            }
            Expr::IsNotNull(inner) => {
                let inner = self.expression(inner, scope)?;
                truth(Node::Not(Box::new(Node::IsNull(Box::new(inner.node)))))
            }
            Expr::IsTrue(inner) => self.is_truth(inner, Some(true), (false, scope)),
            Expr::IsNotTrue(inner) => self.is_truth(inner, Some(true), (true, scope)),
            Expr::IsFalse(inner) => self.is_truth(inner, Some(false), (false, scope)),
            Expr::IsNotFalse(inner) => self.is_truth(inner, Some(false), (true, scope)),
            Expr::IsUnknown(inner) => self.is_truth(inner, None, (false, scope)),
            Expr::IsNotUnknown(inner) => self.is_truth(inner, None, (true, scope)),
            Expr::IsDistinctFrom(left, right) => {
                let (left, right) = self.pair(left, right, scope)?;
                truth(Node::IsDistinct(Box::new(left), Box::new(right)))
            }
            Expr::IsNotDistinctFrom(left, right) => {
                let (left, right) = self.pair(left, right, scope)?;
                let distinct = Node::IsDistinct(Box::new(left), Box::new(right));
                truth(Node::Not(Box::new(distinct)))
            }
            Expr::InList {
                expr,
                list,
                negated,
            } => self.in_list(expr, list, (*negated, scope)),
            Expr::InSubquery {
                expr,
                subquery,
                negated,
            } => {
                let left = self.expression(expr, scope)?;
                let query = self.subquery(subquery, scope)?;
                let found = self.against_query(left, "=", query, false)?;
                truth(negate(found, *negated))
            }
            Expr::Between {
                expr,
                negated,
                low,
                high,
            } => {
                let (value, low) = self.pair(expr, low, scope)?;
                let (again, high) = self.pair(expr, high, scope)?;
                let from = Operator::GreaterOrEqual;
                let parts = vec![
                    Node::Binary(from, Box::new(value), Box::new(low)),
                    Node::Binary(Operator::LessOrEqual, Box::new(again), Box::new(high)),
                ];
                truth(negate(Node::And(parts), *negated))
            }
            Expr::Like {
                negated,
                any: false,
                expr,
                pattern,
                escape_char,
            } => {
                let symbol = if *negated { "!~~" } else { "~~" };
                self.like(symbol, (expr, pattern, escape_char.as_deref()), scope)
            }
            Expr::ILike {
                negated,
                any: false,
                expr,
                pattern,
                escape_char,
            } => {
                let symbol = if *negated { "!~~*" } else { "~~*" };
                self.like(symbol, (expr, pattern, escape_char.as_deref()), scope)
            }
            Expr::Case {
                operand,
                conditions,
                else_result,
                ..
            } => self.case(
                operand.as_deref(),
                conditions,
                else_result.as_deref(),
                scope,
            ),
            Expr::Exists { subquery, negated } => {
                let query = self.query(subquery, Some(scope))?;
                truth(negate(Node::Exists(Box::new(query)), *negated))
            }
            Expr::Subquery(query) => {
                let query = self.subquery(query, scope)?;
                let type_oid = only_column(&query.columns)?;
                let fields = query.columns[0].fields.clone();
                Ok(Typed {
                    node: Node::Scalar(Box::new(query)),
                    type_oid,
                    fields,
                })
            }
            Expr::Array(array) => self.array(&array.elem, scope),
            Expr::Tuple(items) => {
                let mut nodes = Vec::new();
                let mut fields = Vec::new();
                for (position, item) in items.iter().enumerate() {
                    let item = self.expression(item, scope)?;
                    fields.push((format!("f{}", position + 1), item.type_oid));
                    nodes.push(item.node);
                }
                Ok(Typed {
                    node: Node::Record(nodes),
                    type_oid: types::RECORD,
                    fields,
                })
            }
            Expr::CompoundFieldAccess { root, access_chain } => {
                self.access(root, access_chain, scope)
            }
            Expr::Function(function) => self.function(function, scope),
            Expr::Substring {
                expr,
                substring_from,
                substring_for,
                ..
            } => {
                let from = substring_from.as_deref();
                let rest = from.into_iter().chain(substring_for.as_deref());
                self.named_call("substring", [&**expr].into_iter().chain(rest), scope)
            }
            Expr::Position { expr, r#in } => self.named_call("strpos", [&**r#in, &**expr], scope),
            Expr::Ceil { expr, .. } => self.named_call("ceil", [&**expr], scope),
            Expr::Floor { expr, .. } => self.named_call("floor", [&**expr], scope),
            Expr::Trim {
                trim_where,
                trim_what,
                expr,
                trim_characters: None,
            } => {
                let name = match trim_where {
                    None | Some(ast::TrimWhereField::Both) => "btrim",
                    Some(ast::TrimWhereField::Leading) => "ltrim",
                    Some(ast::TrimWhereField::Trailing) => "rtrim",
                };
                let characters = trim_what.as_deref();
                self.named_call(name, [&**expr].into_iter().chain(characters), scope)
            }
            other => Err(CatalogueError::unsupported(format!(
                "the expression {other}"
            ))),
        }
    }

    /// Binds the name of a column, or of a row of columns.
    fn name(
        &mut self,
        parts: &[String],
        scope: &Scope<'_>,
        written: &Expr,
    ) -> Result<Typed, CatalogueError> {
        match parts {
            [name] => {
                if let Some((up, column)) = scope.column(name)? {
                    return Ok(column.typed(up));
                }
                if let Some(found) = scope
                    .relations
                    .iter()
                    .find_map(|it| system_column(it, name))
                {
                    return Ok(found);
                }
                if let Some((up, relation)) = scope.relation(name) {
                    return Ok(whole_row(up, relation));
                }
                if let Some(found) = self.keyword(name)? {
                    return Ok(found);
                }
                let text = format!("column \"{name}\" does not exist");
                Err(CatalogueError::new("42703", text))
            }
            [qualifier @ .., name] => {
                let alias = qualifier.last().expect("a qualified name has a qualifier");
                let found = scope
                    .relation(alias)
                    .filter(|(_, relation)| match qualifier {
                        [_] => true,
                        [.., schema, _] => relation.schema.as_deref() == Some(schema),
                        [] => false,
                    });
                let Some((up, relation)) = found else {
                    // A column whose values are rows, as in `(keys).n` without parentheses.
                    let text = format!("missing FROM-clause entry for table \"{alias}\"");
                    return Err(CatalogueError::new("42P01", text));
                };
                let mut columns = relation.columns.iter();
                match columns.find(|it| it.output.name == *name) {
                    Some(column) => Ok(column.typed(up)),
                    None => system_column(relation, name).ok_or_else(|| {
                        let text = format!("column {written} does not exist");
                        CatalogueError::new("42703", text)
                    }),
                }
            }
            [] => Err(CatalogueError::syntax("a name is empty")),
        }
    }

    fn value(&mut self, value: &ast::Value) -> Result<Typed, CatalogueError> {
        Ok(match value {
            ast::Value::Number(number, _) => number_literal(number)?,
            ast::Value::SingleQuotedString(text)
            | ast::Value::EscapedStringLiteral(text)
            | ast::Value::UnicodeStringLiteral(text) => literal(text),
            ast::Value::DollarQuotedString(quoted) => literal(&quoted.value),
            ast::Value::Boolean(value) => {
                Typed::new(Node::Constant(Datum::Bool(*value)), types::BOOL)
            }
            ast::Value::Null => Typed::new(Node::Constant(Datum::Null), types::UNKNOWN),
            ast::Value::Placeholder(placeholder) => self.parameter(placeholder)?,
            other => return Err(CatalogueError::unsupported(format!("the literal {other}"))),
        })
    }

    fn unary(
        &mut self,
        operator: UnaryOperator,
        inner: &Expr,
        scope: &Scope<'_>,
    ) -> Result<Typed, CatalogueError> {
        let inner = self.expression(inner, scope)?;
        match operator {
            UnaryOperator::Not => {
                let inner = self.coerce(inner, types::BOOL)?;
                Ok(Typed::new(Node::Not(Box::new(inner)), types::BOOL))
            }
            UnaryOperator::Minus | UnaryOperator::Plus => {
                let type_oid = match inner.is_unknown() {
                    true => types::FLOAT8,
                    false => inner.type_oid,
                };
                if !types::is_number(type_oid) {
                    let name = types::sql_name(type_oid);
                    let text = format!("operator does not exist: {operator} {name}");
                    return Err(CatalogueError::new("42883", text));
                }
                let node = self.coerce(inner, type_oid)?;
                Ok(Typed::new(
                    match operator {
                        UnaryOperator::Minus => Node::Negate(Box::new(node)),
                        _ => node,
                    },
                    type_oid,
                ))
            }
            other => Err(CatalogueError::unsupported(format!("the operator {other}"))),
        }
    }

    fn is_truth(
        &mut self,
        inner: &Expr,
        wanted: Option<bool>,
        (negated, scope): (bool, &Scope<'_>),
    ) -> Result<Typed, CatalogueError> {
        let inner = self.expression(inner, scope)?;
        let inner = self.coerce(inner, types::BOOL)?;
        let node = negate(Node::IsTruth(Box::new(inner), wanted), negated);
        Ok(Typed::new(node, types::BOOL))
    }

    /// Binds two expressions whose values are compared.
    fn pair(
        &mut self,
        left: &Expr,
        right: &Expr,
        scope: &Scope<'_>,
    ) -> Result<(Node, Node), CatalogueError> {
        let left = self.expression(left, scope)?;
        let right = self.expression(right, scope)?;
        self.comparable("=", left, right)
    }

    /// Binds a comparison of rows, item by item.
    fn tuples(
        &mut self,
        symbol: &str,
        left: &[Expr],
        right: &[Expr],
        scope: &Scope<'_>,
    ) -> Result<Typed, CatalogueError> {
        let Some(operator) = comparison(symbol) else {
            return Err(CatalogueError::unsupported(format!(
                "the operator {symbol} of rows"
            )));
        };
        if left.len() != right.len() {
            return Err(CatalogueError::syntax(
                "unequal number of entries in row expressions",
            ));
        }
        let mut lefts = Vec::new();
        let mut rights = Vec::new();
        for (left, right) in left.iter().zip(right) {
            let (left, right) = self.pair(left, right, scope)?;
            lefts.push(left);
            rights.push(right);
        }
        let node = match operator {
            Operator::Equal | Operator::NotEqual => {
                let pairs = lefts.into_iter().zip(rights).map(|(left, right)| {
                    Node::Binary(Operator::Equal, Box::new(left), Box::new(right))
                });
                negate(Node::And(pairs.collect()), operator == Operator::NotEqual)
            }
            operator => Node::Binary(
                operator,
                Box::new(Node::Record(lefts)),
                Box::new(Node::Record(rights)),
            ),
        };
        Ok(Typed::new(node, types::BOOL))
    }

    fn in_list(
        &mut self,
        value: &Expr,
        list: &[Expr],
        (negated, scope): (bool, &Scope<'_>),
    ) -> Result<Typed, CatalogueError> {
        if let Expr::Tuple(items) = value {
            let mut any = Vec::new();
            for row in list {
                let Expr::Tuple(row) = row else {
                    return Err(CatalogueError::unsupported(
                        "IN with rows of different kinds",
                    ));
                };
                any.push(self.tuples("=", items, row, scope)?.node);
            }
            return Ok(Typed::new(negate(Node::Or(any), negated), types::BOOL));
        }
        let left = self.expression(value, scope)?;
        let items = list.iter().map(|it| self.expression(it, scope));
        let items: Vec<Typed> = items.collect::<Result<_, _>>()?;
        let found = [left.type_oid]
            .into_iter()
            .chain(items.iter().map(|it| it.type_oid));
        let common = match common_type(found, "IN") {
            Ok(types::UNKNOWN) => types::TEXT,
            Ok(common) => common,
            Err(_) => {
                // PostgreSQL names the operator that does not exist.
                let other = items
                    .into_iter()
                    .find(|it| common_type([left.type_oid, it.type_oid], "IN").is_err());
                let other = other.unwrap_or_else(|| literal(""));
                self.comparable("=", left, other)?;
                return Err(CatalogueError::unsupported(
                    "IN with values of several types",
                ));
            }
        };
        let left = self.coerce(left, common)?;
        let items = items.into_iter().map(|it| self.coerce(it, common));
        let items: Vec<Node> = items.collect::<Result<_, _>>()?;
        let node = negate(Node::InList(Box::new(left), items), negated);
        Ok(Typed::new(node, types::BOOL))
    }

    /// Binds a query that is an expression.
    fn subquery(&mut self, query: &ast::Query, scope: &Scope<'_>) -> Result<Query, CatalogueError> {
        let mut query = self.query(query, Some(scope))?;
        self.settle(&mut query)?;
        Ok(query)
    }

    fn quantified(
        &mut self,
        left: &Expr,
        symbol: &str,
        right: &Expr,
        (all, scope): (bool, &Scope<'_>),
    ) -> Result<Typed, CatalogueError> {
        let left = self.expression(left, scope)?;
        let right = match right {
            Expr::Nested(inner) => inner,
            right => right,
        };
        if let Expr::Subquery(query) = right {
            let query = self.subquery(query, scope)?;
            let node = self.against_query(left, symbol, query, all)?;
            return Ok(Typed::new(node, types::BOOL));
        }
        let right = self.expression(right, scope)?;
        let right = match right.is_unknown() {
            true => {
                let element = if left.is_unknown() {
                    types::TEXT
                } else {
                    left.type_oid
                };
                self.cast(right, types::array_of(element))?
            }
            false => right,
        };
        if !is_array(&right) {
            let text = "op ANY/ALL (array) requires array on right side";
            return Err(CatalogueError::new("42809", text));
        }
        let element = types::element(right.type_oid).unwrap_or(types::TEXT);
        let (left, operator) = self.quantified_operator(left, symbol, element)?;
        let node = Node::Quantified {
            operator,
            all,
            left: Box::new(left),
            array: Box::new(right.node),
        };
        Ok(Typed::new(node, types::BOOL))
    }

    /// Chooses the operator that compares a value with items of a type.
    fn quantified_operator(
        &mut self,
        left: Typed,
        symbol: &str,
        element: Oid,
    ) -> Result<(Node, Operator), CatalogueError> {
        let item = Typed::new(Node::Constant(Datum::Null), element);
        let bound = self.operator(symbol, left, item)?;
        match bound.node {
            Node::Binary(operator, left, _) if bound.type_oid == types::BOOL => {
                Ok((*left, operator))
            }
            _ => Err(CatalogueError::new(
                "42809",
                "op ANY/ALL requires operator to yield boolean",
            )),
        }
    }

    fn against_query(
        &mut self,
        left: Typed,
        symbol: &str,
        query: Query,
        all: bool,
    ) -> Result<Node, CatalogueError> {
        if types::kind(left.type_oid) == Kind::Record && query.columns.len() > 1 {
            if left.fields.len() != query.columns.len() || symbol != "=" {
                return Err(CatalogueError::syntax("subquery has too many columns"));
            }
            return Ok(Node::QuantifiedQuery {
                operator: Operator::Equal,
                all,
                left: Box::new(left.node),
                query: Box::new(query),
            });
        }
        let element = match &query.columns[..] {
            [column] => column.type_oid,
            _ => return Err(CatalogueError::syntax("subquery has too many columns")),
        };
        let (left, operator) = self.quantified_operator(left, symbol, element)?;
        Ok(Node::QuantifiedQuery {
            operator,
            all,
            left: Box::new(left),
            query: Box::new(query),
        })
    }

    fn like(
        &mut self,
        symbol: &str,
        (value, pattern, escape): (&Expr, &Expr, Option<&Expr>),
        scope: &Scope<'_>,
    ) -> Result<Typed, CatalogueError> {
        let value = self.expression(value, scope)?;
        let mut pattern = self.expression(pattern, scope)?;
        if let Some(escape) = escape {
            let escape = self.expression(escape, scope)?;
            let pattern_text = Typed::new(self.coerce(pattern, types::TEXT)?, types::TEXT);
            let escape = Typed::new(self.coerce(escape, types::TEXT)?, types::TEXT);
            pattern = self.call("like_escape", vec![pattern_text, escape])?;
        }
        self.operator(symbol, value, pattern)
    }

    fn case(
        &mut self,
        operand: Option<&Expr>,
        conditions: &[ast::CaseWhen],
        otherwise: Option<&Expr>,
        scope: &Scope<'_>,
    ) -> Result<Typed, CatalogueError> {
        let mut tests = Vec::new();
        let mut values = Vec::new();
        for arm in conditions {
            tests.push(match operand {
                None => {
                    let test = self.expression(&arm.condition, scope)?;
                    self.coerce(test, types::BOOL)?
                }
                Some(operand) => {
                    let (left, right) = self.pair(operand, &arm.condition, scope)?;
                    Node::Binary(Operator::Equal, Box::new(left), Box::new(right))
                }
            });
            values.push(self.expression(&arm.result, scope)?);
        }
        let otherwise = otherwise.map(|it| self.expression(it, scope)).transpose()?;
        let found = values.iter().chain(&otherwise).map(|it| it.type_oid);
        let common = match common_type(found, "CASE")? {
            types::UNKNOWN => types::TEXT,
            known => known,
        };
        let mut arms = Vec::with_capacity(tests.len());
        for (test, value) in tests.into_iter().zip(values) {
            arms.push((test, self.coerce(value, common)?));
        }
        let otherwise = otherwise.map(|it| self.coerce(it, common)).transpose()?;
        let otherwise = otherwise.map(Box::new);
        Ok(Typed::new(Node::Case { arms, otherwise }, common))
    }

    fn array(&mut self, items: &[Expr], scope: &Scope<'_>) -> Result<Typed, CatalogueError> {
        let items = items.iter().map(|it| self.expression(it, scope));
        let items: Vec<Typed> = items.collect::<Result<_, _>>()?;
        if items.is_empty() {
            let text = "cannot determine type of empty array";
            return Err(CatalogueError::new("42P18", text));
        }
        let common = match common_type(items.iter().map(|it| it.type_oid), "ARRAY")? {
            types::UNKNOWN => types::TEXT,
            known => known,
        };
        if types::kind(common) == Kind::Array {
            return Err(CatalogueError::unsupported("an array of arrays"));
        }
        let nodes = items.into_iter().map(|it| self.coerce(it, common));
        let nodes = nodes.collect::<Result<Vec<Node>, _>>()?;
        Ok(Typed::new(Node::Array(nodes), types::array_of(common)))
    }
}

/// Returns the value of a system column of a relation of the catalogue; none if it has no such
/// column. It is the same in all rows.
fn system_column(relation: &super::ScopeRelation, name: &str) -> Option<Typed> {
    let oid = relation.table_oid?;
    match name {
        "tableoid" => Some(Typed::new(Node::Constant(Datum::oid(oid)), types::OID)),
        // No transaction has written the rows: the number is that of a row that is always there.
        "xmin" => Some(Typed::new(Node::Constant(Datum::Int(1)), types::XID)),
        _ => None,
    }
}

/// Returns a row with all columns of a relation.
fn whole_row(up: usize, relation: &super::ScopeRelation) -> Typed {
    // The only column of a function is the function's value.
    let columns = relation.columns.iter();
    let fields = columns
        .clone()
        .map(|it| (it.output.name.clone(), it.output.type_oid));
    let fields = fields.collect();
    let nodes = columns
        .map(|it| Node::Column { up, slot: it.slot })
        .collect();
    Typed {
        node: Node::Record(nodes),
        type_oid: types::RECORD,
        fields,
    }
}

/// Returns the type and the value of a number.
fn number_literal(number: &str) -> Result<Typed, CatalogueError> {
    if let Ok(value) = number.parse::<i64>() {
        let type_oid = match i32::try_from(value) {
            Ok(_) => types::INT4,
            Err(_) => types::INT8,
        };
        return Ok(Typed::new(Node::Constant(Datum::Int(value)), type_oid));
    }
    match number.parse::<f64>() {
        Ok(value) => Ok(Typed::new(
            Node::Constant(Datum::float(value)),
            types::NUMERIC,
        )),
        Err(_) => Err(CatalogueError::syntax(format!("invalid number {number}"))),
    }
}

/// Returns the operands of a chain of one operator, from left to right.
fn chain<'e>(expression: &'e Expr, operator: &BinaryOperator) -> Vec<&'e Expr> {
    let mut operands = Vec::new();
    let mut rest = expression;
    while let Expr::BinaryOp { left, op, right } = rest
        && op == operator
    {
        operands.push(&**right);
        rest = left;
    }
    operands.push(rest);
    operands.reverse();
    operands
}

fn negate(node: Node, negated: bool) -> Node {
    match negated {
        true => Node::Not(Box::new(node)),
        false => node,
    }
}
