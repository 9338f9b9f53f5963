//! Infers the types of parameters in expressions of arrays.

use placement::{ArrayFunction, ArrayOperand, ColumnType};
use protocol::expression::ExpressionError;
use sqlparser::ast::Expr;

use super::{ParameterTypes, is_open};
use crate::bind::{
    Scope, WrittenSubscript, array_call, array_of, concatenation, element_of, made_type,
    quantified, subscripted, written_elements,
};
use crate::error::SqlError;

impl ParameterTypes<'_> {
    // tidy: long — one part per form of an expression.
    /// Infers an expression of arrays, and returns the type of its value; none if the expression
    /// is none of these forms.
    pub(super) fn array_form(
        &mut self,
        expression: &Expr,
        wanted: Option<ColumnType>,
        (scope, depth): (&Scope<'_>, usize),
    ) -> Result<Option<Option<ColumnType>>, SqlError> {
        let failed = |error: ExpressionError| SqlError::Expression {
            text: expression.to_string(),
            error,
        };
        if let Some((function, operands)) = array_call(expression) {
            return self
                .array_call(function, &operands, (scope, depth))
                .map(Some);
        }
        if let Some(quantified) = quantified(expression)? {
            let (left, array) = (quantified.left, quantified.array);
            if is_open(left) && !is_open(array) {
                let found = self.infer(array, None, scope, depth)?;
                self.infer(left, element_of(found), scope, depth)?;
            } else {
                let found = self.infer(left, None, scope, depth)?;
                let of = array_of(found.unwrap_or(ColumnType::Text));
                self.infer(array, of, scope, depth)?;
            }
            return Ok(Some(Some(ColumnType::Bool)));
        }
        if let Some(subscripted) = subscripted(expression) {
            let found = self.infer(&subscripted.root, None, scope, depth)?;
            for subscript in &subscripted.subscripts {
                let bounds = match subscript {
                    WrittenSubscript::Index(index) => [Some(*index), None],
                    WrittenSubscript::Slice(lower, upper) => [*lower, *upper],
                };
                for bound in bounds.into_iter().flatten() {
                    self.infer(bound, Some(ColumnType::Int32), scope, depth)?;
                }
            }
            return Ok(Some(match subscripted.is_slice() {
                true => found,
                false => element_of(found),
            }));
        }
        let Some(elements) = written_elements(expression) else {
            return Ok(None);
        };
        if let Some(element) = element_of(wanted) {
            for item in elements {
                let of = match written_elements(item) {
                    Some(_) => wanted,
                    None => Some(element),
                };
                self.infer(item, of, scope, depth)?;
            }
            // Elements with a type of their own decide.
            if elements.iter().all(is_open) {
                return Ok(Some(wanted));
            }
        }
        let mut types = Vec::with_capacity(elements.len());
        for item in elements {
            let open = is_open(item) && element_of(wanted).is_none();
            types.push(match open {
                true => None,
                false => self.infer(item, element_of(wanted), scope, depth)?,
            });
        }
        let made = made_type(types.iter().copied()).map_err(failed)?;
        for item in elements.iter().filter(|it| is_open(it)) {
            self.infer(item, element_of(Some(made)), scope, depth)?;
        }
        Ok(Some(Some(made)))
    }

    /// Infers the operands of `||` if one is an array, and returns the type of the result.
    pub(super) fn array_concatenation(
        &mut self,
        (left, right): (&Expr, &Expr),
        (scope, depth): (&Scope<'_>, usize),
    ) -> Result<Option<ColumnType>, SqlError> {
        let mut types = [None, None];
        for (operand, found) in [left, right].into_iter().zip(&mut types) {
            if !is_open(operand) {
                *found = self.infer(operand, None, scope, depth)?;
            }
        }
        match concatenation(types[0], types[1]) {
            None => Ok(None),
            Some(function) => self.array_call(function, &[left, right], (scope, depth)),
        }
    }

    fn array_call(
        &mut self,
        function: ArrayFunction,
        operands: &[&Expr],
        (scope, depth): (&Scope<'_>, usize),
    ) -> Result<Option<ColumnType>, SqlError> {
        let mut types = Vec::new();
        for (place, operand) in operands.iter().enumerate() {
            match function.operand(place) {
                ArrayOperand::Of(wanted) => {
                    self.infer(operand, Some(wanted), scope, depth)?;
                }
                _ if is_open(operand) => {}
                ArrayOperand::Array => {
                    types.push(element_of(self.infer(operand, None, scope, depth)?));
                }
                ArrayOperand::Element => types.push(self.infer(operand, None, scope, depth)?),
            }
        }
        let element = types.into_iter().flatten().reduce(|one, other| {
            let made = made_type([Some(one), Some(other)].into_iter());
            made.ok().and_then(|it| element_of(Some(it))).unwrap_or(one)
        });
        let element = element.unwrap_or(ColumnType::Text);
        for (place, operand) in operands.iter().enumerate().filter(|(_, it)| is_open(it)) {
            let wanted = match function.operand(place) {
                ArrayOperand::Array => array_of(element),
                ArrayOperand::Element => Some(element),
                ArrayOperand::Of(_) => continue,
            };
            self.infer(operand, wanted, scope, depth)?;
        }
        let element = placement::ElementType::of(element);
        Ok(element.map(|it| crate::bind::of_element(function, it).result_type(it)))
    }
}

#[cfg(test)]
mod tests {
    use placement::ColumnType;

    use crate::describe::describe;
    use crate::fixture;
    use crate::parse::parse;
    use crate::session_functions::tests::Version;

    fn described(text: &str) -> String {
        let statement = parse(text).unwrap().remove(0).statement;
        let found = describe(&statement, &fixture::configuration(), &[], &Version).unwrap();
        let parameters = found.parameters.iter().map(ToString::to_string);
        let columns = found.columns.into_iter().flatten();
        let columns = columns.map(|it| {
            it.column_type
                .map_or("NULL".into(), |it: ColumnType| it.to_string())
        });
        format!(
            "{} -> {}",
            parameters.collect::<Vec<_>>().join(", "),
            columns.collect::<Vec<_>>().join(", ")
        )
    }

    #[test]
    fn parameters_are_arrays_of_their_columns() {
        for (text, expected) in [
            (
                "SELECT id FROM flights WHERE id = ANY ($1) AND origin <> ALL ($2)",
                "bigint[], text[] -> bigint",
            ),
            ("SELECT $1 = ANY ('{1}'::integer[])", "integer -> boolean"),
            ("SELECT $1 = ANY ($2)", "text, text[] -> boolean"),
            (
                "SELECT $1::integer[], ARRAY[$2, 1]",
                "integer[], integer -> integer[], integer[]",
            ),
            (
                "SELECT (ARRAY[1, 2])[$1], (ARRAY[1, 2])[1:$2]",
                "integer, integer -> integer, integer[]",
            ),
            (
                "SELECT ARRAY[1] || $1, ARRAY[1] || 2::bigint",
                "integer[] -> integer[], bigint[]",
            ),
            (
                "SELECT array_append(ARRAY[1.5], $1)",
                "numeric -> numeric[]",
            ),
            (
                "SELECT array_length($1::text[], $2), string_to_array($3, ',')",
                "text[], integer, text -> integer, text[]",
            ),
            ("DELETE FROM flights WHERE id = ANY ($1)", "bigint[] -> "),
            (
                "SELECT id FROM flights WHERE origin LIKE ANY ($1)",
                "text[] -> bigint",
            ),
            ("SELECT array_agg(id) FROM flights", " -> bigint[]"),
            ("SELECT ARRAY[[$1, 2], [3, 4]]", "integer -> integer[]"),
            ("SELECT ARRAY[$1, $2]::uuid[]", "uuid, uuid -> uuid[]"),
        ] {
            assert_eq!(described(text), expected, "{text}");
        }
    }
}
