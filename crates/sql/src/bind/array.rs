//! Binds arrays: constructors, subscripts, comparisons with elements, operators and functions.
//!
//! Element types are unified as PostgreSQL does: those of all arrays and elements of a call get one
//! type, and literals get it, too.

use placement::{ArrayFunction, ArrayOperand, ColumnType, ElementType, Value};
use protocol::expression::{
    BinaryOperator, Comparison, Expression, ExpressionError, FunctionCall, ScalarFunction,
};
use sqlparser::ast::{self, AccessExpr, Expr, Subscript};

use super::call::common_type;
use super::{Bound, Scope, call, converted, expression_error};
use crate::error::{SqlError, sqlstate};
use crate::spelling::function_name;

/// The most subscripts of an array, as in PostgreSQL.
const SUBSCRIPTS_MAX: usize = placement::ARRAY_DIMENSIONS_MAX;

/// A comparison of a value with the elements of an array.
pub(crate) struct Quantified<'e> {
    /// The value.
    pub left: &'e Expr,
    /// The comparison.
    pub comparison: Comparison,
    /// The array.
    pub array: &'e Expr,
    /// Whether one element is enough.
    pub is_any: bool,
    /// Whether the result is negated.
    pub negated: bool,
}

/// Returns the comparison with elements that an expression is; none if it is none.
///
/// # Errors
/// The store does not have the operator.
pub(crate) fn quantified(expression: &Expr) -> Result<Option<Quantified<'_>>, SqlError> {
    let (left, operator, array, is_any) = match expression {
        Expr::AnyOp {
            left,
            compare_op,
            right,
            ..
        } => (left, compare_op, right, true),
        Expr::AllOp {
            left,
            compare_op,
            right,
        } => (left, compare_op, right, false),
        Expr::Like {
            negated,
            any: true,
            expr,
            pattern,
            escape_char: None,
        } => {
            let comparison = match negated {
                false => Comparison::Like,
                true => Comparison::NotLike,
            };
            return Ok(Some(Quantified {
                left: expr,
                comparison,
                array: pattern,
                is_any: true,
                negated: false,
            }));
        }
        _ => return Ok(None),
    };
    let comparison = match operator {
        ast::BinaryOperator::PGLikeMatch => Some(Comparison::Like),
        ast::BinaryOperator::PGNotLikeMatch => Some(Comparison::NotLike),
        other => super::binary_operator(other, expression)
            .ok()
            .and_then(Comparison::of),
    };
    let is_query = matches!(**array, Expr::Subquery(_));
    match comparison {
        Some(comparison) if !is_query => Ok(Some(Quantified {
            left,
            comparison,
            array,
            is_any,
            negated: false,
        })),
        _ => Err(SqlError::unsupported(
            format!("\"{expression}\""),
            "ANY, SOME and ALL take =, <>, <, <=, >, >= or LIKE, and an array",
        )),
    }
}

/// Returns the elements of an array that is written as `ARRAY[…]`; none of another expression.
pub(crate) fn written_elements(expression: &Expr) -> Option<&[Expr]> {
    match expression {
        Expr::Nested(inner) => written_elements(inner),
        Expr::Array(array) => Some(&array.elem),
        _ => None,
    }
}

/// Returns the function of arrays that an expression calls by its name, with its operands; none of
/// another expression.
pub(crate) fn array_call(expression: &Expr) -> Option<(ArrayFunction, Vec<&Expr>)> {
    let Expr::Function(function) = expression else {
        return None;
    };
    let called = function_name(function)?;
    let mut named = ArrayFunction::NAMED.into_iter();
    let found = named.find(|it| it.name() == called)?;
    let operands = call::arguments(function)?;
    found.takes(operands.len()).then_some((found, operands))
}

/// An array and its subscripts as they are written.
pub(crate) struct Subscripted<'e> {
    /// The array.
    pub root: std::borrow::Cow<'e, Expr>,
    /// The bounds of each subscript; the first is none without a colon.
    pub subscripts: Vec<WrittenSubscript<'e>>,
}

/// One subscript.
pub(crate) enum WrittenSubscript<'e> {
    /// `[i]`
    Index(&'e Expr),
    /// `[i:j]`, where both may be left out.
    Slice(Option<&'e Expr>, Option<&'e Expr>),
}

impl Subscripted<'_> {
    /// Returns whether the result is a part of the array, and no element.
    pub fn is_slice(&self) -> bool {
        let mut subscripts = self.subscripts.iter();
        subscripts.any(|it| matches!(it, WrittenSubscript::Slice(..)))
    }
}

/// Returns the subscripts of an expression; none if it has none.
pub(crate) fn subscripted(expression: &Expr) -> Option<Subscripted<'_>> {
    let Expr::CompoundFieldAccess { root, access_chain } = expression else {
        return None;
    };
    let mut names = match &**root {
        Expr::Identifier(first) => vec![first.clone()],
        _ => Vec::new(),
    };
    let mut subscripts = Vec::new();
    for access in access_chain {
        match access {
            AccessExpr::Dot(Expr::Identifier(name))
                if subscripts.is_empty() && !names.is_empty() =>
            {
                names.push(name.clone());
            }
            AccessExpr::Dot(_) => return None,
            AccessExpr::Subscript(Subscript::Index { index }) => {
                subscripts.push(WrittenSubscript::Index(index));
            }
            AccessExpr::Subscript(Subscript::Slice {
                lower_bound,
                upper_bound,
                stride: None,
            }) => subscripts.push(WrittenSubscript::Slice(
                lower_bound.as_ref(),
                upper_bound.as_ref(),
            )),
            AccessExpr::Subscript(Subscript::Slice { .. }) => return None,
        }
    }
    if subscripts.is_empty() {
        return None;
    }
    let root = match names.len() {
        0 | 1 => std::borrow::Cow::Borrowed(&**root),
        _ => std::borrow::Cow::Owned(Expr::CompoundIdentifier(names)),
    };
    Some(Subscripted { root, subscripts })
}

/// Returns the type of the elements of an array.
pub(crate) fn element_of(array: Option<ColumnType>) -> Option<ColumnType> {
    match array {
        Some(ColumnType::Array(element)) => Some(element.column_type()),
        _ => None,
    }
}

/// Returns the type of arrays of an element type; none if the type is an array.
pub(crate) fn array_of(element: ColumnType) -> Option<ColumnType> {
    ElementType::of(element).map(ColumnType::Array)
}

/// Returns the type of `ARRAY[…]` of elements of these types: an array of their common type, or of
/// arrays one of more dimensions.
pub(crate) fn made_type(
    types: impl Iterator<Item = Option<ColumnType>> + Clone,
) -> Result<ColumnType, ExpressionError> {
    let function = ScalarFunction::Array(ArrayFunction::Make(ElementType::Text));
    let wrong = ExpressionError::WrongOperands { function };
    let is_array = |it: ColumnType| matches!(it, ColumnType::Array(_));
    if types.clone().flatten().any(is_array) {
        let elements = types.map(|it| match it {
            Some(found) => element_of(Some(found)).ok_or(wrong).map(Some),
            None => Ok(None),
        });
        let elements: Vec<Option<ColumnType>> = elements.collect::<Result<_, _>>()?;
        return made_type(elements.into_iter());
    }
    let common = common_type(function, types)?.unwrap_or(ColumnType::Text);
    array_of(common).ok_or(wrong)
}

/// Returns a function of arrays for an element type.
pub(crate) fn of_element(function: ArrayFunction, element: ElementType) -> ArrayFunction {
    match function {
        ArrayFunction::Make(_) => ArrayFunction::Make(element),
        ArrayFunction::Append(_) => ArrayFunction::Append(element),
        ArrayFunction::Prepend(_) => ArrayFunction::Prepend(element),
        other => other,
    }
}

fn wrong(function: ArrayFunction, source: &Expr) -> SqlError {
    let function = ScalarFunction::Array(function);
    expression_error(source, ExpressionError::WrongOperands { function })
}

impl Scope<'_> {
    /// Binds an array expression; none if the expression is none of these forms.
    pub(super) fn bind_array_form(
        &self,
        expression: &Expr,
        depth: usize,
    ) -> Result<Option<Bound>, SqlError> {
        if let Some((function, operands)) = array_call(expression) {
            let operands = operands.iter().map(|it| self.bind(it, depth + 1));
            let operands: Vec<Bound> = operands.collect::<Result<_, _>>()?;
            return self
                .bind_array_call(function, operands, expression)
                .map(Some);
        }
        if let Some(subscripted) = subscripted(expression) {
            return self
                .bind_subscripts(&subscripted, expression, depth)
                .map(Some);
        }
        if let Some(quantified) = quantified(expression)? {
            return self
                .bind_quantified(&quantified, expression, depth)
                .map(Some);
        }
        match expression {
            Expr::Array(array) => self
                .bind_elements(&array.elem, None, expression, depth)
                .map(Some),
            Expr::Cast {
                kind: ast::CastKind::Cast | ast::CastKind::DoubleColon,
                expr,
                data_type,
                format: None,
            } if matches!(data_type, ast::DataType::Array(_)) => {
                let Some(elements) = written_elements(expr) else {
                    return Ok(None);
                };
                match crate::spelling::column_type(data_type)? {
                    ColumnType::Array(element) => self
                        .bind_elements(elements, Some(element), expression, depth)
                        .map(Some),
                    _ => Ok(None),
                }
            }
            _ => Ok(None),
        }
    }

    /// Binds `ARRAY[…]`, whose elements are converted to a type if one is given.
    pub(super) fn bind_elements(
        &self,
        elements: &[Expr],
        to: Option<ElementType>,
        source: &Expr,
        depth: usize,
    ) -> Result<Bound, SqlError> {
        if elements.is_empty() && to.is_none() {
            return Err(SqlError::with_state(
                sqlstate::INDETERMINATE_TYPE,
                "cannot determine type of empty array: convert it, as in ARRAY[]::integer[]",
            ));
        }
        let mut bound = Vec::with_capacity(elements.len());
        for element in elements {
            bound.push(match written_elements(element) {
                Some(inner) => self.bind_elements(inner, to, source, depth + 1)?,
                None => self.bind(element, depth + 1)?,
            });
        }
        let column_type = match to {
            Some(to) => ColumnType::Array(to),
            None => {
                call::refuse_mixed_chars(bound.iter(), source)?;
                let types = bound.iter().map(Bound::context);
                made_type(types).map_err(|it| expression_error(source, it))?
            }
        };
        let ColumnType::Array(element) = column_type else {
            unreachable!("ARRAY makes an array");
        };
        let has_arrays = bound.iter().any(|it| element_of(it.context()).is_some());
        let wanted = match has_arrays {
            true => column_type,
            false => element.column_type(),
        };
        let operands = bound.into_iter().map(|it| match to {
            Some(_) => match self.bind_cast(it, wanted, source)? {
                Bound::Typed(operand, _) => Ok(operand),
                other => Ok(self.resolve(other, Some(wanted), source)?.0),
            },
            None => self.of_type(it, wanted, source),
        });
        let operands = operands.collect::<Result<_, SqlError>>()?;
        let function = ScalarFunction::Array(match has_arrays {
            true => ArrayFunction::Join(element),
            false => ArrayFunction::Make(element),
        });
        let call = Expression::Call(Box::new(FunctionCall::new(function, operands)));
        Ok(match self.compound(call, source)? {
            Bound::Typed(made, _) => Bound::Typed(made, Some(column_type)),
            other => other,
        })
    }

    fn bind_subscripts(
        &self,
        subscripted: &Subscripted<'_>,
        source: &Expr,
        depth: usize,
    ) -> Result<Bound, SqlError> {
        if subscripted.subscripts.len() > SUBSCRIPTS_MAX {
            return Err(SqlError::with_state(
                sqlstate::LIMIT,
                format!(
                    "number of array dimensions ({}) exceeds the maximum allowed \
                     ({SUBSCRIPTS_MAX})",
                    subscripted.subscripts.len()
                ),
            ));
        }
        let root = self.bind(&subscripted.root, depth + 1)?;
        let (root, found) = self.resolve(root, None, source)?;
        let Some(ColumnType::Array(element)) = found else {
            let found = found.map_or("unknown", ColumnType::name);
            return Err(SqlError::with_state(
                sqlstate::TYPE_MISMATCH,
                format!("cannot subscript type {found} because it does not support subscripting"),
            ));
        };
        let root = match root {
            null @ Expression::Literal(Value::Null) => converted(null, ColumnType::Array(element)),
            root => root,
        };
        let mut operands = vec![root];
        let is_slice = subscripted.is_slice();
        let mut open = 0;
        for (place, subscript) in subscripted.subscripts.iter().enumerate() {
            let bounds = match subscript {
                WrittenSubscript::Index(index) if !is_slice => {
                    operands.push(self.bind_subscript(index, source, depth)?);
                    continue;
                }
                // Beside a slice, an index is the upper bound.
                WrittenSubscript::Index(index) => {
                    operands.push(Expression::Literal(Value::Int32(1)));
                    operands.push(self.bind_subscript(index, source, depth)?);
                    continue;
                }
                WrittenSubscript::Slice(lower, upper) => [lower, upper],
            };
            for (bit, bound) in bounds.into_iter().enumerate() {
                match bound {
                    Some(bound) => operands.push(self.bind_subscript(bound, source, depth)?),
                    None => open |= 1 << (2 * place + bit),
                }
            }
        }
        let function = match is_slice {
            true => ArrayFunction::Slice(open),
            false => ArrayFunction::Subscript,
        };
        let column_type = function.result_type(element);
        let function = ScalarFunction::Array(function);
        let call = Expression::Call(Box::new(FunctionCall::new(function, operands)));
        Ok(match self.compound(call, source)? {
            Bound::Typed(found, _) => Bound::Typed(found, Some(column_type)),
            other => other,
        })
    }

    fn bind_subscript(
        &self,
        subscript: &Expr,
        source: &Expr,
        depth: usize,
    ) -> Result<Expression, SqlError> {
        let bound = self.bind(subscript, depth + 1)?;
        let found = bound.context();
        if !found.is_none_or(ColumnType::is_number) {
            return Err(SqlError::with_state(
                sqlstate::TYPE_MISMATCH,
                format!("array subscript must have type integer: {subscript}"),
            ));
        }
        match self.bind_cast(bound, ColumnType::Int32, source)? {
            Bound::Typed(subscript, _) => Ok(subscript),
            other => Ok(self.resolve(other, Some(ColumnType::Int32), source)?.0),
        }
    }

    /// Binds a function of arrays with these operands.
    pub(super) fn bind_array_call(
        &self,
        function: ArrayFunction,
        operands: Vec<Bound>,
        source: &Expr,
    ) -> Result<Bound, SqlError> {
        let wrong = || wrong(function, source);
        let roles = operands.iter().enumerate();
        let types = roles.filter_map(|(place, operand)| match function.operand(place) {
            ArrayOperand::Array => match operand.context() {
                None => Some(Ok(None)),
                Some(ColumnType::Array(element)) => Some(Ok(Some(element.column_type()))),
                Some(_) => Some(Err(wrong())),
            },
            ArrayOperand::Element => Some(Ok(operand.context())),
            ArrayOperand::Of(_) => None,
        });
        let types: Vec<Option<ColumnType>> = types.collect::<Result<_, _>>()?;
        let common = common_type(ScalarFunction::Array(function), types.iter().copied());
        let common = match common.map_err(|it| expression_error(source, it))? {
            Some(common) => common,
            // PostgreSQL takes literals as texts where it looks for a common type.
            None if takes_texts(function) => ColumnType::Text,
            None => return Err(wrong()),
        };
        let element = ElementType::of(common).ok_or_else(wrong)?;
        self.refuse_dependent(function, element, source)?;
        let function = of_element(function, element);
        let operands = operands.into_iter().enumerate();
        let operands = operands.map(|(place, operand)| match function.operand(place) {
            ArrayOperand::Array => self.of_type(operand, ColumnType::Array(element), source),
            ArrayOperand::Element => self.of_type(operand, common, source),
            ArrayOperand::Of(wanted) => {
                let (operand, found) = self.resolve(operand, Some(wanted), source)?;
                match found {
                    Some(ColumnType::Int16) if wanted == ColumnType::Int32 => {
                        self.converted(operand, (ColumnType::Int16, wanted), source)
                    }
                    _ => Ok(operand),
                }
            }
        });
        let operands = operands.collect::<Result<_, SqlError>>()?;
        let column_type = function.result_type(element);
        let function = ScalarFunction::Array(function);
        let call = Expression::Call(Box::new(FunctionCall::new(function, operands)));
        Ok(match self.compound(call, source)? {
            Bound::Typed(found, _) => Bound::Typed(found, Some(column_type)),
            other => other,
        })
    }

    /// Refuses functions whose results depend on the session or on the limit of the elements.
    fn refuse_dependent(
        &self,
        function: ArrayFunction,
        element: ElementType,
        source: &Expr,
    ) -> Result<(), SqlError> {
        let prints = matches!(function, ArrayFunction::ToText | ArrayFunction::ToJson);
        if prints && matches!(element, ElementType::Char(_)) {
            return Err(SqlError::unsupported(
                format!("{} of a {}", function.name(), ColumnType::Array(element)),
                "PostgreSQL shows the spaces at the end of each: convert it to text[]",
            ));
        }
        let is_local = self.stored_in.is_some() || !self.zone.is_utc();
        if prints && element == ElementType::TimestampTz && is_local {
            return Err(SqlError::unsupported(
                format!("\"{source}\" in a time zone"),
                "it depends on the time zone of the session: SET timezone = 'UTC'",
            ));
        }
        Ok(())
    }

    fn bind_quantified(
        &self,
        written: &Quantified<'_>,
        source: &Expr,
        depth: usize,
    ) -> Result<Bound, SqlError> {
        let left = self.bind(written.left, depth + 1)?;
        let left_type = match written.comparison {
            Comparison::Like | Comparison::NotLike => Some(ColumnType::Text),
            _ => left.context(),
        };
        let array = match (written_elements(written.array), left_type) {
            // Literals that have no type take that of the value.
            (Some(elements), Some(wanted)) if elements.iter().all(is_literal) => {
                let to = ElementType::of(wanted);
                self.bind_elements(elements, to, source, depth + 1)?
            }
            _ => self.bind(written.array, depth + 1)?,
        };
        let wanted = array_of(left_type.unwrap_or(ColumnType::Text));
        let (array, found) = self.resolve(array, wanted, source)?;
        let element = match found {
            Some(ColumnType::Array(element)) => Some(element),
            None => None,
            Some(_) => {
                return Err(SqlError::with_state(
                    sqlstate::WRONG_OBJECT,
                    format!("op ANY/ALL (array) requires array on right side: {source}"),
                ));
            }
        };
        let element = element.map(ElementType::column_type);
        let left = self.beside_elements(left, element, source)?;
        let operator = match written.is_any {
            true => BinaryOperator::Any(written.comparison),
            false => BinaryOperator::All(written.comparison),
        };
        let comparison = Expression::Binary(operator, Box::new(left), Box::new(array));
        let bound = self.compound(comparison, source)?;
        self.negated(bound, written.negated, source)
    }

    /// Returns the value that is compared with elements of a type.
    fn beside_elements(
        &self,
        left: Bound,
        element: Option<ColumnType>,
        source: &Expr,
    ) -> Result<Expression, SqlError> {
        let (left, found) = self.resolve(left, element, source)?;
        let (Some(found), Some(element)) = (found, element) else {
            return Ok(left);
        };
        let is_moment = |it| it == ColumnType::TimestampTz;
        let is_local = |it| matches!(it, ColumnType::Date | ColumnType::Timestamp);
        let mixes = is_moment(found) && is_local(element) || is_local(found) && is_moment(element);
        if mixes && (self.stored_in.is_some() || !self.zone.is_utc()) {
            return Err(SqlError::unsupported(
                format!("\"{source}\" of times with and without a zone"),
                "convert the array to the type of the value",
            ));
        }
        let is_char = |it| matches!(it, ColumnType::Char(_));
        let is_varchar = |it| matches!(it, ColumnType::Varchar(_));
        if is_char(found) && is_varchar(element) || is_varchar(found) && is_char(element) {
            return Err(SqlError::unsupported(
                format!("\"{source}\" of a char and a varchar"),
                "convert both to text",
            ));
        }
        Ok(left)
    }
}

/// Returns whether operands without a type are texts and arrays of texts.
fn takes_texts(function: ArrayFunction) -> bool {
    matches!(
        function,
        ArrayFunction::OfText
            | ArrayFunction::Append(_)
            | ArrayFunction::Prepend(_)
            | ArrayFunction::Concatenate
            | ArrayFunction::Remove
            | ArrayFunction::Replace
            | ArrayFunction::Position
            | ArrayFunction::Positions
    )
}

/// Returns whether an element is a literal without a type of its own, or NULL.
fn is_literal(element: &Expr) -> bool {
    match element {
        Expr::Nested(inner) => is_literal(inner),
        Expr::Value(value) => matches!(
            value.value,
            ast::Value::SingleQuotedString(_) | ast::Value::Null | ast::Value::Placeholder(_)
        ),
        _ => false,
    }
}
