//! Arrays: values of one element type in up to [`ARRAY_DIMENSIONS_MAX`] dimensions, as PostgreSQL
//! has them.
//!
//! | part | bytes |
//! |---|---|
//! | element type | its tag, u8: see [`ElementType`] |
//! | dimensions | u8; 0 if there are no elements |
//! | per dimension | its length, u32, and its first subscript, i32; little endian |
//! | per element | `00` for NULL; else `01`, the length, u32, little endian, and a row's bytes |
//!
//! The elements of the last dimension follow each other. An array has exactly one such form. Its
//! text is in `text`, its functions are in `edit`, its keys in the module `key` of
//! the crate.

mod edit;
mod element;
mod field;
#[cfg(test)]
mod tests;
mod text;

use alloc::vec::Vec;
use core::cmp::Ordering;
use core::fmt;

use super::{ColumnType, Value, ValueRef};

pub use element::ElementType;
pub(crate) use element::element_name;
pub(crate) use field::{field_fits, field_value, write_field};
pub(crate) use text::{ArrayTextError, parse as parse_array, write as write_array};

/// The most dimensions of an array, as in PostgreSQL.
pub const ARRAY_DIMENSIONS_MAX: usize = 6;
/// The most elements of an array, as in PostgreSQL.
pub const ARRAY_ELEMENTS_MAX: u32 = 134_217_727;

const DIMENSION_BYTES: usize = 8;
const NULL_ELEMENT: u8 = 0;
const VALUE_ELEMENT: u8 = 1;

/// One dimension of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayDimension {
    /// The number of its members, from 1.
    pub length: u32,
    /// The subscript of its first member.
    pub lower: i32,
}

impl ArrayDimension {
    /// Returns the subscript of the last member.
    pub fn upper(self) -> i32 {
        let upper = i64::from(self.lower) + i64::from(self.length) - 1;
        i32::try_from(upper).unwrap_or(i32::MAX)
    }
}

/// An array that owns its bytes. Its bytes are valid.
#[derive(Clone, Debug)]
pub struct Array {
    bytes: Vec<u8>,
}

/// An array that borrows its bytes, which are valid.
#[derive(Clone, Copy, Debug)]
pub struct ArrayRef<'a> {
    bytes: &'a [u8],
}

/// Why there is no such array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrayError {
    /// A text that is not in the form of an array.
    Malformed,
    /// More dimensions than [`ARRAY_DIMENSIONS_MAX`].
    TooManyDimensions {
        /// The dimensions.
        found: usize,
    },
    /// More elements than [`ARRAY_ELEMENTS_MAX`].
    TooManyElements,
    /// The last subscript of a dimension is beyond the integers.
    BoundTooLarge {
        /// The first subscript.
        lower: i32,
    },
    /// An upper bound below its lower bound.
    BoundsReversed,
    /// Arrays of other dimensions than their neighbours.
    OtherDimensions,
    /// Arrays of dimensions that do not fit to each other.
    NotConcatenable,
    /// An array of several dimensions where one is expected.
    NotOneDimension,
    /// A search in an array of several dimensions.
    SearchInDimensions,
    /// A removal from an array of several dimensions.
    RemovalFromDimensions,
    /// A subscript of a search that is NULL.
    NullStart,
    /// A subscript where the array has no subscripts left.
    SubscriptOutOfRange,
    /// A number of elements to remove that an array does not have.
    TrimOutOfRange,
}

impl ArrayError {
    /// All reasons; those with numbers as examples.
    pub const ALL: [ArrayError; 13] = [
        ArrayError::Malformed,
        ArrayError::TooManyDimensions { found: 7 },
        ArrayError::TooManyElements,
        ArrayError::BoundTooLarge { lower: i32::MAX },
        ArrayError::BoundsReversed,
        ArrayError::OtherDimensions,
        ArrayError::NotConcatenable,
        ArrayError::NotOneDimension,
        ArrayError::SearchInDimensions,
        ArrayError::RemovalFromDimensions,
        ArrayError::NullStart,
        ArrayError::SubscriptOutOfRange,
        ArrayError::TrimOutOfRange,
    ];
}

impl fmt::Display for ArrayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ArrayError::Malformed => "malformed array literal: write {1,2} or {{1,2},{3,4}}",
            ArrayError::TooManyDimensions { found } => {
                return write!(
                    f,
                    "number of array dimensions ({found}) exceeds the maximum allowed \
                     ({ARRAY_DIMENSIONS_MAX})"
                );
            }
            ArrayError::TooManyElements => {
                return write!(
                    f,
                    "array size exceeds the maximum allowed ({ARRAY_ELEMENTS_MAX})"
                );
            }
            ArrayError::BoundTooLarge { lower } => {
                return write!(f, "array lower bound is too large: {lower}");
            }
            ArrayError::BoundsReversed => "upper bound cannot be less than lower bound",
            ArrayError::OtherDimensions => {
                "multidimensional arrays must have array expressions with matching dimensions"
            }
            ArrayError::NotConcatenable => "cannot concatenate incompatible arrays",
            ArrayError::NotOneDimension => "argument must be empty or one-dimensional array",
            ArrayError::SearchInDimensions => {
                "searching for elements in multidimensional arrays is not supported"
            }
            ArrayError::RemovalFromDimensions => {
                "removing elements from multidimensional arrays is not supported"
            }
            ArrayError::NullStart => "initial position must not be null",
            ArrayError::SubscriptOutOfRange => {
                "the array has no subscript left: use smaller subscripts"
            }
            ArrayError::TrimOutOfRange => {
                "number of elements to trim must be between 0 and the number of elements"
            }
        })
    }
}

impl Array {
    /// Returns an array without elements.
    pub fn empty(element: ElementType) -> Array {
        Array {
            bytes: [element.tag(), 0].into(),
        }
    }

    /// Returns an array of one dimension whose first subscript is 1.
    ///
    /// # Errors
    /// It would have too many elements.
    pub fn of<'v>(
        element: ElementType,
        values: impl ExactSizeIterator<Item = ValueRef<'v>>,
    ) -> Result<Array, ArrayError> {
        let length = u32::try_from(values.len()).map_err(|_| ArrayError::TooManyElements)?;
        Array::new(element, &[ArrayDimension { length, lower: 1 }], values)
    }

    /// Returns an array of these dimensions. Without an element it has none.
    ///
    /// # Errors
    /// The dimensions are none of an array.
    ///
    /// # Panics
    /// If a value is not of the element type, or the values are not as many as the dimensions have.
    pub fn new<'v>(
        element: ElementType,
        dimensions: &[ArrayDimension],
        values: impl Iterator<Item = ValueRef<'v>>,
    ) -> Result<Array, ArrayError> {
        let count = elements_of(dimensions)?;
        let mut builder = ArrayBuilder::new(element);
        for value in values {
            builder.push(value);
        }
        assert_eq!(builder.count, count, "the dimensions count the elements");
        builder.finish(dimensions)
    }

    /// Returns the borrowed form.
    pub fn as_ref(&self) -> ArrayRef<'_> {
        ArrayRef { bytes: &self.bytes }
    }

    /// Returns the bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Returns the number of elements that dimensions have.
///
/// # Errors
/// They are too many, or are none of an array.
pub(crate) fn elements_of(dimensions: &[ArrayDimension]) -> Result<u32, ArrayError> {
    if dimensions.len() > ARRAY_DIMENSIONS_MAX {
        let found = dimensions.len();
        return Err(ArrayError::TooManyDimensions { found });
    }
    if dimensions.is_empty() {
        return Ok(0);
    }
    let mut count: u32 = 1;
    for dimension in dimensions {
        count = count
            .checked_mul(dimension.length)
            .filter(|it| *it <= ARRAY_ELEMENTS_MAX)
            .ok_or(ArrayError::TooManyElements)?;
    }
    for ArrayDimension { length, lower } in dimensions {
        if i32::try_from(i64::from(*lower) + i64::from(*length)).is_err() {
            return Err(ArrayError::BoundTooLarge { lower: *lower });
        }
    }
    Ok(count)
}

/// Collects the elements of an array whose dimensions are known at the end.
#[derive(Debug)]
pub struct ArrayBuilder {
    element: ElementType,
    /// The elements in their form.
    bytes: Vec<u8>,
    /// The number of elements.
    count: u32,
}

impl ArrayBuilder {
    /// Returns a builder without elements.
    pub fn new(element: ElementType) -> ArrayBuilder {
        ArrayBuilder {
            element: element.of_values(),
            bytes: Vec::new(),
            count: 0,
        }
    }

    /// Returns the number of elements.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Returns the bytes that the elements take.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Appends an element.
    ///
    /// # Panics
    /// If the value is not of the element type.
    pub fn push(&mut self, value: ValueRef<'_>) {
        self.count = self.count.saturating_add(1);
        let Some(found) = value.column_type() else {
            self.bytes.push(NULL_ELEMENT);
            return;
        };
        assert_eq!(
            found,
            self.element.column_type(),
            "an array has elements of one type"
        );
        self.bytes.push(VALUE_ELEMENT);
        let start = self.bytes.len();
        self.bytes.extend([0; 4]);
        write_field(&mut self.bytes, value);
        let length = u32::try_from(self.bytes.len() - start - 4).expect("values are shorter");
        self.bytes[start..start + 4].copy_from_slice(&length.to_le_bytes());
    }

    /// Appends all elements of an array of the same element type.
    pub fn extend(&mut self, array: ArrayRef<'_>) {
        assert_eq!(self.element, array.element(), "elements have one type");
        self.bytes.extend_from_slice(array.elements());
        self.count = self.count.saturating_add(array.count());
    }

    /// Returns the array of one dimension from the subscript 1 on.
    ///
    /// # Errors
    /// There are too many elements.
    pub fn finish_list(self) -> Result<Array, ArrayError> {
        let length = self.count;
        self.finish(&[ArrayDimension { length, lower: 1 }])
    }

    /// Returns the array. Without an element it has no dimensions.
    ///
    /// # Errors
    /// The dimensions are none of an array, or of another number of elements.
    pub fn finish(self, dimensions: &[ArrayDimension]) -> Result<Array, ArrayError> {
        if elements_of(dimensions)? != self.count {
            return Err(ArrayError::OtherDimensions);
        }
        if self.count == 0 {
            return Ok(Array::empty(self.element));
        }
        let header = 2 + dimensions.len() * DIMENSION_BYTES;
        let mut bytes = Vec::with_capacity(header + self.bytes.len());
        let count = u8::try_from(dimensions.len()).expect("elements_of bounds them");
        bytes.extend([self.element.tag(), count]);
        for dimension in dimensions {
            bytes.extend(dimension.length.to_le_bytes());
            bytes.extend(dimension.lower.to_le_bytes());
        }
        bytes.extend_from_slice(&self.bytes);
        Ok(Array { bytes })
    }
}

impl<'a> ArrayRef<'a> {
    /// Returns the array of these bytes; none if they are none of an array.
    pub fn from_bytes(bytes: &'a [u8]) -> Option<ArrayRef<'a>> {
        let (&[tag, dimensions], rest) = bytes.split_first_chunk()?;
        let element = ElementType::of_tag(tag)?;
        let header = usize::from(dimensions) * DIMENSION_BYTES;
        let (_, mut rest) = rest.split_at_checked(header)?;
        let array = ArrayRef { bytes };
        let dimensions: Vec<ArrayDimension> = array.dimensions().collect();
        if dimensions.iter().any(|it| it.length == 0) {
            return None;
        }
        for _ in 0..elements_of(&dimensions).ok()? {
            let (mark, after) = rest.split_first()?;
            rest = after;
            match *mark {
                NULL_ELEMENT => {}
                VALUE_ELEMENT => {
                    let (length, after) = rest.split_first_chunk()?;
                    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
                    let (field, after) = after.split_at_checked(length)?;
                    if !field_fits(element.column_type(), field) {
                        return None;
                    }
                    rest = after;
                }
                _ => return None,
            }
        }
        rest.is_empty().then_some(array)
    }

    /// Returns the array of bytes that [`ArrayRef::from_bytes`] has accepted before.
    pub(crate) fn checked_before(bytes: &'a [u8]) -> ArrayRef<'a> {
        ArrayRef { bytes }
    }

    /// Returns the bytes.
    pub fn as_bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// Returns an owned form.
    #[allow(
        clippy::wrong_self_convention,
        reason = "the type is Copy, as the borrowed form of other values"
    )]
    pub fn to_owned(self) -> Array {
        Array {
            bytes: self.bytes.into(),
        }
    }

    /// Returns the type of the elements, without a limit.
    pub fn element(self) -> ElementType {
        ElementType::of_tag(self.bytes[0]).expect("the bytes were checked")
    }

    /// Returns the number of dimensions; 0 if there are no elements.
    pub fn dimension_count(self) -> usize {
        usize::from(self.bytes[1])
    }

    /// Returns the dimensions, the outermost first.
    pub fn dimensions(self) -> impl ExactSizeIterator<Item = ArrayDimension> + use<'a> {
        let (header, _) = self.bytes[2..].as_chunks::<DIMENSION_BYTES>();
        header[..self.dimension_count()].iter().map(|bytes| {
            let [a, b, c, d, e, f, g, h] = *bytes;
            ArrayDimension {
                length: u32::from_le_bytes([a, b, c, d]),
                lower: i32::from_le_bytes([e, f, g, h]),
            }
        })
    }

    /// Returns the number of elements of all dimensions.
    pub fn count(self) -> u32 {
        match self.dimension_count() {
            0 => 0,
            _ => self.dimensions().map(|it| it.length).product(),
        }
    }

    /// Returns the elements in their order.
    pub fn values(self) -> ArrayValues<'a> {
        ArrayValues {
            element: self.element().column_type(),
            rest: self.elements(),
            left: self.count(),
        }
    }

    /// Returns the bytes of the elements.
    fn elements(self) -> &'a [u8] {
        &self.bytes[2 + self.dimension_count() * DIMENSION_BYTES..]
    }

    /// Returns the order of two arrays, which is total: that of their first elements that differ,
    /// then that of their lengths, and then that of their dimensions. A NULL comes last.
    pub(crate) fn order(self, other: ArrayRef<'_>) -> Ordering {
        if self.bytes == other.bytes {
            return Ordering::Equal;
        }
        let of_type = self.element().cmp(&other.element());
        let dimensions = |it: ArrayRef<'_>| {
            let lengths: Vec<u32> = it.dimensions().map(|it| it.length).collect();
            let lowers: Vec<i32> = it.dimensions().map(|it| it.lower).collect();
            (it.count(), it.dimension_count(), lengths, lowers)
        };
        let of_elements = || {
            let pairs = self.values().zip(other.values());
            pairs.map(|(a, b)| a.cmp(&b)).find(|it| it.is_ne())
        };
        of_type
            .then_with(|| of_elements().unwrap_or(Ordering::Equal))
            .then_with(|| dimensions(self).cmp(&dimensions(other)))
    }
}

/// The elements of an array, in their order.
#[derive(Clone, Debug)]
pub struct ArrayValues<'a> {
    element: ColumnType,
    rest: &'a [u8],
    left: u32,
}

impl<'a> Iterator for ArrayValues<'a> {
    type Item = ValueRef<'a>;

    fn next(&mut self) -> Option<ValueRef<'a>> {
        self.left = self.left.checked_sub(1)?;
        let (mark, rest) = self.rest.split_first()?;
        if *mark == NULL_ELEMENT {
            self.rest = rest;
            return Some(ValueRef::Null);
        }
        let (length, rest) = rest.split_first_chunk()?;
        let (field, rest) = rest.split_at(u32::from_le_bytes(*length) as usize);
        self.rest = rest;
        Some(field_value(self.element, field))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for ArrayValues<'_> {}

impl Value {
    /// Returns each element of an array converted by `convert`, as an array of another element
    /// type.
    pub(crate) fn array_mapped<E>(
        array: ArrayRef<'_>,
        to: ElementType,
        mut convert: impl FnMut(Value) -> Result<Value, E>,
    ) -> Result<Value, E> {
        let mut builder = ArrayBuilder::new(to);
        for value in array.values() {
            builder.push(convert(value.to_owned())?.as_ref());
        }
        let dimensions: Vec<ArrayDimension> = array.dimensions().collect();
        let mapped = builder.finish(&dimensions);
        Ok(Value::Array(
            mapped.expect("the dimensions are those of an array"),
        ))
    }
}
