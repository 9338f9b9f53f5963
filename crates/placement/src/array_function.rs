//! The functions of arrays in expressions, by their names in SQL.

use crate::value::{ColumnType, ElementType};

/// A function of arrays. It is NULL if an operand is, except where this is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrayFunction {
    /// `ARRAY[…]`: an array of this element type of its operands, which may be NULL.
    Make(ElementType),
    /// `ARRAY[…]` of arrays of this element type, which become its members. NULL is an array
    /// without elements.
    Join(ElementType),
    /// `a[i][j]`: the element at the subscripts.
    Subscript,
    /// `a[i:j]`: the part between two subscripts per dimension. Bit 2n is set if the lower bound of
    /// the dimension n is that of the array, and bit 2n + 1 if the upper one is: they are no
    /// operands.
    Slice(u16),
    /// The members of a dimension.
    Length,
    /// The number of dimensions.
    Dimensions,
    /// The bounds of all dimensions, as text.
    DimensionsText,
    /// The first subscript of a dimension.
    Lower,
    /// The last subscript of a dimension.
    Upper,
    /// The number of elements.
    Cardinality,
    /// An array of this element type and one more element at its end. NULL is an array without
    /// elements.
    Append(ElementType),
    /// An element, and an array of this element type behind it. NULL is an array without elements.
    Prepend(ElementType),
    /// Two arrays as one; one of them if the other one is NULL.
    Concatenate,
    /// An array without the elements that equal a value, which may be NULL.
    Remove,
    /// An array with a value instead of another one, which both may be NULL.
    Replace,
    /// The first subscript of a value, which may be NULL, at or behind a subscript.
    Position,
    /// All subscripts of a value, which may be NULL.
    Positions,
    /// The texts of the elements with a text between them. A third operand, which may be NULL, is
    /// that of NULL.
    ToText,
    /// The parts of a text between the occurrences of another one, or its characters if that is
    /// NULL. A third operand, which may be NULL, is the text of NULL.
    OfText,
    /// An array without its last members.
    Trim,
    /// An array as a `json`.
    ToJson,
}

impl ArrayFunction {
    /// All functions that have a name. Their element type is an example.
    pub const NAMED: [ArrayFunction; 17] = [
        ArrayFunction::Append(ElementType::Text),
        ArrayFunction::Concatenate,
        ArrayFunction::DimensionsText,
        ArrayFunction::Length,
        ArrayFunction::Lower,
        ArrayFunction::Dimensions,
        ArrayFunction::Position,
        ArrayFunction::Positions,
        ArrayFunction::Prepend(ElementType::Text),
        ArrayFunction::Remove,
        ArrayFunction::Replace,
        ArrayFunction::ToJson,
        ArrayFunction::ToText,
        ArrayFunction::Upper,
        ArrayFunction::Cardinality,
        ArrayFunction::OfText,
        ArrayFunction::Trim,
    ];

    /// Returns the name of the function in SQL.
    pub fn name(self) -> &'static str {
        match self {
            ArrayFunction::Make(_) | ArrayFunction::Join(_) => "ARRAY",
            ArrayFunction::Subscript => "subscript",
            ArrayFunction::Slice(_) => "slice",
            ArrayFunction::Length => "array_length",
            ArrayFunction::Dimensions => "array_ndims",
            ArrayFunction::DimensionsText => "array_dims",
            ArrayFunction::Lower => "array_lower",
            ArrayFunction::Upper => "array_upper",
            ArrayFunction::Cardinality => "cardinality",
            ArrayFunction::Append(_) => "array_append",
            ArrayFunction::Prepend(_) => "array_prepend",
            ArrayFunction::Concatenate => "array_cat",
            ArrayFunction::Remove => "array_remove",
            ArrayFunction::Replace => "array_replace",
            ArrayFunction::Position => "array_position",
            ArrayFunction::Positions => "array_positions",
            ArrayFunction::ToText => "array_to_string",
            ArrayFunction::OfText => "string_to_array",
            ArrayFunction::Trim => "trim_array",
            ArrayFunction::ToJson => "array_to_json",
        }
    }

    /// Returns whether the function takes so many operands, if it is called by its name.
    pub fn takes(self, count: usize) -> bool {
        match self {
            ArrayFunction::Dimensions
            | ArrayFunction::DimensionsText
            | ArrayFunction::Cardinality
            | ArrayFunction::ToJson => count == 1,
            ArrayFunction::Length
            | ArrayFunction::Lower
            | ArrayFunction::Upper
            | ArrayFunction::Append(_)
            | ArrayFunction::Prepend(_)
            | ArrayFunction::Concatenate
            | ArrayFunction::Remove
            | ArrayFunction::Positions
            | ArrayFunction::Trim => count == 2,
            ArrayFunction::Replace => count == 3,
            ArrayFunction::Position | ArrayFunction::ToText | ArrayFunction::OfText => {
                matches!(count, 2 | 3)
            }
            ArrayFunction::Make(_)
            | ArrayFunction::Join(_)
            | ArrayFunction::Subscript
            | ArrayFunction::Slice(_) => false,
        }
    }

    /// Returns what an operand has to be, if the function is called by its name.
    pub fn operand(self, place: usize) -> ArrayOperand {
        match (self, place) {
            (ArrayFunction::OfText, _) => ArrayOperand::Of(ColumnType::Text),
            (ArrayFunction::Prepend(_), 0) => ArrayOperand::Element,
            (ArrayFunction::Prepend(_) | ArrayFunction::Concatenate, _) | (_, 0) => {
                ArrayOperand::Array
            }
            (ArrayFunction::ToText, _) => ArrayOperand::Of(ColumnType::Text),
            (
                ArrayFunction::Append(_)
                | ArrayFunction::Remove
                | ArrayFunction::Replace
                | ArrayFunction::Positions,
                _,
            )
            | (ArrayFunction::Position, 1) => ArrayOperand::Element,
            _ => ArrayOperand::Of(ColumnType::Int32),
        }
    }

    /// Returns the type of the results of the function for arrays of an element type.
    pub fn result_type(self, element: ElementType) -> ColumnType {
        match self {
            ArrayFunction::Subscript => element.column_type(),
            ArrayFunction::Length
            | ArrayFunction::Dimensions
            | ArrayFunction::Lower
            | ArrayFunction::Upper
            | ArrayFunction::Cardinality
            | ArrayFunction::Position => ColumnType::Int32,
            ArrayFunction::DimensionsText | ArrayFunction::ToText => ColumnType::Text,
            ArrayFunction::Positions => ColumnType::Array(ElementType::Int32),
            ArrayFunction::OfText => ColumnType::Array(ElementType::Text),
            ArrayFunction::ToJson => ColumnType::Json,
            ArrayFunction::Make(element)
            | ArrayFunction::Join(element)
            | ArrayFunction::Append(element)
            | ArrayFunction::Prepend(element) => ColumnType::Array(element),
            ArrayFunction::Slice(_)
            | ArrayFunction::Concatenate
            | ArrayFunction::Remove
            | ArrayFunction::Replace
            | ArrayFunction::Trim => ColumnType::Array(element),
        }
    }
}

/// The kind of operand that a function of arrays takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrayOperand {
    /// An array; all that the function takes are of one type.
    Array,
    /// A value of the element type of its array.
    Element,
    /// A value of this type.
    Of(ColumnType),
}
