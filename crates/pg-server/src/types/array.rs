//! Arrays in PostgreSQL's binary format, and the numbers of their types.
//!
//! The format is the number of dimensions, whether an element is NULL, the type of the elements,
//! the length and the first subscript of each dimension, and the elements with their lengths, of
//! which -1 is NULL. All numbers are 32 bits, big endian.

use bytes::{BufMut, BytesMut};
use placement::{
    ARRAY_DIMENSIONS_MAX, ARRAY_ELEMENTS_MAX, ArrayBuilder, ArrayDimension, ArrayError, ArrayRef,
    ColumnType, ElementType, TimeZone, Value, ValueRef,
};
use protocol::expression::ExpressionError;

use pg_wire::frontend::WireFormat;
use pg_wire::report::Report;

use super::ParameterType;
use crate::errors;

/// The fewest bytes of an array in binary.
pub(super) const BINARY_LEN_MIN: usize = 12;

/// The OIDs of the types of arrays, and those of their elements.
const ARRAYS: &[(u32, u32)] = &[
    (199, 114),
    (1000, 16),
    (1001, 17),
    (1003, 19),
    (1005, 21),
    (1007, 23),
    (1009, 25),
    (1014, 1042),
    (1015, 1043),
    (1016, 20),
    (1021, 700),
    (1022, 701),
    (1115, 1114),
    (1182, 1082),
    (1183, 1083),
    (1185, 1184),
    (1187, 1186),
    (1231, 1700),
    (2951, 2950),
    (3807, 3802),
];

/// Returns the OID of the type of arrays of an element type.
pub(super) fn oid(element: ElementType) -> u32 {
    let wanted = super::oid(Some(element.column_type()));
    let found = ARRAYS.iter().find(|(_, element)| *element == wanted);
    let (array, _) = found.expect("each type has a type of arrays");
    *array
}

/// Returns the type of arrays with an OID that a client may declare.
pub(super) fn declared(oid: u32) -> Option<ColumnType> {
    let (_, element) = ARRAYS.iter().find(|(array, _)| *array == oid)?;
    let declared = super::DECLARED.iter().find(|(oid, _)| oid == element);
    let (_, element) = declared?;
    ElementType::of(*element).map(ColumnType::Array)
}

fn number(rest: &mut &[u8]) -> Option<i32> {
    let (number, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(i32::from_be_bytes(*number))
}

/// Returns the value of an array in binary; none if the bytes are not of this type. It takes only
/// memory in proportion to the bytes.
pub(super) fn read(element: ElementType, bytes: &[u8]) -> Option<Result<Value, Report>> {
    let failed = |error: ArrayError| {
        let fault = ExpressionError::Array(error);
        Some(Err(errors::invalid_array(&fault)))
    };
    let mut rest = bytes;
    let (dimensions, has_nulls) = (number(&mut rest)?, number(&mut rest)?);
    let found = number(&mut rest)?.cast_unsigned();
    let dimensions = usize::try_from(dimensions).ok()?;
    if dimensions > ARRAY_DIMENSIONS_MAX {
        return failed(ArrayError::TooManyDimensions { found: dimensions });
    }
    if !matches!(has_nulls, 0 | 1) {
        return None;
    }
    let wanted = super::oid(Some(element.column_type()));
    let is_text = |oid: u32| matches!(oid, 19 | 25 | 1042 | 1043);
    if found != wanted && !(is_text(found) && is_text(wanted)) {
        return Some(Err(errors::wrong_element_type(found, wanted)));
    }
    let mut lengths = Vec::with_capacity(dimensions);
    let mut count: u32 = 1;
    for _ in 0..dimensions {
        let (length, lower) = (number(&mut rest)?, number(&mut rest)?);
        let length = u32::try_from(length).ok()?;
        match count.checked_mul(length) {
            Some(product) if product <= ARRAY_ELEMENTS_MAX => count = product,
            _ => return failed(ArrayError::TooManyElements),
        }
        lengths.push(ArrayDimension { length, lower });
    }
    let count = if dimensions == 0 { 0 } else { count };
    let mut builder = ArrayBuilder::new(element);
    for _ in 0..count {
        match number(&mut rest)? {
            -1 => builder.push(ValueRef::Null),
            length => {
                let length = usize::try_from(length).ok()?;
                let (item, after) = rest.split_at_checked(length)?;
                rest = after;
                match ParameterType(element.column_type()).of_binary(item)? {
                    Ok(value) => builder.push(value.as_ref()),
                    Err(report) => return Some(Err(report)),
                }
            }
        }
    }
    if !rest.is_empty() {
        return None;
    }
    match builder.finish(&lengths) {
        Ok(array) => Some(Ok(Value::Array(array))),
        Err(error) => failed(error),
    }
}

/// Appends an array of a column whose elements are of this type.
pub(super) fn write(
    out: &mut BytesMut,
    array: ArrayRef<'_>,
    element: ElementType,
    zone: &TimeZone<'_>,
) -> Result<(), Report> {
    let column_type = Some(element.column_type());
    let count = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
    out.put_i32(count(array.dimension_count()));
    let has_nulls = array.values().any(ValueRef::is_null);
    out.put_i32(i32::from(has_nulls));
    out.put_u32(super::oid(column_type));
    for dimension in array.dimensions() {
        out.put_u32(dimension.length);
        out.put_i32(dimension.lower);
    }
    for value in array.values() {
        if value.is_null() {
            out.put_i32(-1);
            continue;
        }
        let start = out.len();
        out.put_i32(0);
        let binary = (WireFormat::Binary, zone);
        super::write(out, &value.to_owned(), column_type, binary)?;
        let length = count(out.len() - start - 4);
        out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::oid;

    const INTEGERS: ElementType = ElementType::Int32;

    fn bytes(numbers: &[i32]) -> Vec<u8> {
        numbers.iter().flat_map(|it| it.to_be_bytes()).collect()
    }

    fn failed(numbers: &[i32]) -> Option<String> {
        let read = read(INTEGERS, &bytes(numbers))?;
        Some(read.expect_err("it is no array").code.to_string())
    }

    #[test]
    fn types_of_arrays_have_their_numbers() {
        for column_type in ColumnType::ALL {
            let array = ColumnType::Array(ElementType::of(column_type).unwrap());
            let declared = ParameterType::of(oid(Some(array))).unwrap();
            assert_eq!(declared, Some(ParameterType(array)));
        }
        assert_eq!(oid(Some(ColumnType::Array(ElementType::Int64))), 1016);
        assert_eq!(oid(Some(ColumnType::Array(ElementType::Varchar(3)))), 1015);
        assert_eq!(oid(Some(ColumnType::Array(ElementType::Char(3)))), 1014);
    }

    #[test]
    fn arrays_in_binary_are_read_again() {
        for (element, text) in [
            (INTEGERS, "{}"),
            (INTEGERS, "{1,NULL,-3}"),
            (INTEGERS, "[0:1][2:3]={{1,2},{3,4}}"),
            (ElementType::Text, "{a,\"\",NULL,\"b c\"}"),
            (ElementType::Numeric, "{1.50,NaN}"),
            (
                ElementType::TimestampTz,
                "{\"2024-01-01 00:00:00+00\",infinity}",
            ),
            (ElementType::Jsonb, "{\"{\\\"a\\\": 1}\"}"),
        ] {
            let column_type = ColumnType::Array(element);
            let value = Value::parse(column_type, text).unwrap();
            let mut out = BytesMut::new();
            let binary = (WireFormat::Binary, &TimeZone::UTC);
            crate::types::write(&mut out, &value, Some(column_type), binary).unwrap();
            let again = read(element, &out).unwrap().unwrap();
            assert_eq!(again.to_string(), text);
        }
        let expected = bytes(&[1, 1, 23, 2, 5, 4, 7, -1]);
        let Some(Ok(value)) = read(INTEGERS, &expected) else {
            panic!("it is an array");
        };
        assert_eq!(value.to_string(), "[5:6]={7,NULL}");
        // PostgreSQL takes a dimension without members for an array without elements.
        let empty = read(INTEGERS, &bytes(&[1, 0, 23, 0, 9])).unwrap().unwrap();
        assert_eq!(empty.to_string(), "{}");
    }

    #[test]
    fn invalid_arrays_are_refused_without_their_memory() {
        let large = i32::MAX;
        assert_eq!(failed(&[7, 0, 23]).as_deref(), Some("54000"));
        assert_eq!(failed(&[1, 0, 23, large, 1]).as_deref(), Some("54000"));
        assert_eq!(
            failed(&[2, 0, 23, 65_536, 1, 65_536, 1]).as_deref(),
            Some("54000")
        );
        assert_eq!(
            failed(&[1, 0, 23, 1, large, 4, 7]).as_deref(),
            Some("54000")
        );
        assert_eq!(failed(&[1, 0, 20, 1, 1, 4, 7]).as_deref(), Some("42804"));
        for malformed in [
            &[1, 0][..],
            &[-1, 0, 23],
            &[1, 2, 23, 1, 1, 4, 7],
            &[1, 0, 23, -1, 1],
            &[1, 0, 23, 1, 1],
            &[1, 0, 23, 100_000_000, 1, -1],
            &[1, 0, 23, 1, 1, -2],
            &[1, 0, 23, 1, 1, 8, 7],
            &[1, 0, 23, 1, 1, 3, 7],
            &[1, 0, 23, 1, 1, 4, 7, 0],
        ] {
            assert!(read(INTEGERS, &bytes(malformed)).is_none(), "{malformed:?}");
        }
    }
}
