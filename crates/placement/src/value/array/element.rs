//! The types that the elements of an array can have: all but arrays.

use crate::value::ColumnType;

/// The tag of times of the day in the bytes of an array, and that of intervals.
const TIME_TAG: u8 = 16;
const INTERVAL_TAG: u8 = 17;

/// Defines [`ElementType`] from one line per type: its variant, the tag in the bytes of an array,
/// and the name of the type of arrays.
macro_rules! elements {
    ($($variant:ident $tag:literal $name:literal,)*) => {
        /// The type of the elements of an array. Each is that of a column without arrays.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ElementType {
            $(
                #[doc = concat!("See [`ColumnType::", stringify!($variant), "`].")]
                $variant,
            )*
            /// See [`ColumnType::Varchar`].
            Varchar(u32),
            /// See [`ColumnType::Char`].
            Char(u32),
            /// See [`ColumnType::Decimal`].
            Decimal {
                /// See [`ColumnType::Decimal`].
                precision: u16,
                /// See [`ColumnType::Decimal`].
                scale: i16,
            },
            /// See [`ColumnType::Time`].
            Time(u8),
            /// See [`ColumnType::Interval`].
            Interval(u8),
        }

        impl ElementType {
            /// Returns the element type that a column's type is; none if it is an array.
            pub fn of(column_type: ColumnType) -> Option<ElementType> {
                Some(match column_type {
                    $(ColumnType::$variant => ElementType::$variant,)*
                    ColumnType::Varchar(limit) => ElementType::Varchar(limit),
                    ColumnType::Char(limit) => ElementType::Char(limit),
                    ColumnType::Decimal { precision, scale } => {
                        ElementType::Decimal { precision, scale }
                    }
                    ColumnType::Time(precision) => ElementType::Time(precision),
                    ColumnType::Interval(precision) => ElementType::Interval(precision),
                    ColumnType::Array(_) => return None,
                })
            }

            /// Returns the type of one element.
            pub fn column_type(self) -> ColumnType {
                match self {
                    $(ElementType::$variant => ColumnType::$variant,)*
                    ElementType::Varchar(limit) => ColumnType::Varchar(limit),
                    ElementType::Char(limit) => ColumnType::Char(limit),
                    ElementType::Decimal { precision, scale } => {
                        ColumnType::Decimal { precision, scale }
                    }
                    ElementType::Time(precision) => ColumnType::Time(precision),
                    ElementType::Interval(precision) => ColumnType::Interval(precision),
                }
            }

            /// Returns the name in SQL of the type of arrays, without a limit.
            pub fn array_name(self) -> &'static str {
                match self {
                    $(ElementType::$variant => $name,)*
                    ElementType::Varchar(_) => "varchar[]",
                    ElementType::Char(_) => "char[]",
                    ElementType::Decimal { .. } => "numeric[]",
                    ElementType::Time(_) => "time[]",
                    ElementType::Interval(_) => "interval[]",
                }
            }

            /// Returns the tag of the type without its limit.
            pub(crate) fn tag(self) -> u8 {
                match self {
                    $(ElementType::$variant => $tag,)*
                    ElementType::Varchar(_) | ElementType::Char(_) => ElementType::Text.tag(),
                    ElementType::Decimal { .. } => ElementType::Numeric.tag(),
                    ElementType::Time(_) => TIME_TAG,
                    ElementType::Interval(_) => INTERVAL_TAG,
                }
            }

            /// Returns the type of a tag.
            pub(crate) fn of_tag(tag: u8) -> Option<ElementType> {
                match tag {
                    $($tag => Some(ElementType::$variant),)*
                    TIME_TAG => ElementType::of(ColumnType::TIME),
                    INTERVAL_TAG => ElementType::of(ColumnType::INTERVAL),
                    _ => None,
                }
            }
        }
    };
}

// The tags are those of the types in messages.
elements! {
    Bool 0 "boolean[]",
    Int64 1 "bigint[]",
    Float64 2 "double precision[]",
    Text 3 "text[]",
    Bytes 4 "bytea[]",
    Timestamp 5 "timestamp[]",
    Uuid 6 "uuid[]",
    Int16 7 "smallint[]",
    Int32 8 "integer[]",
    Float32 9 "real[]",
    Date 12 "date[]",
    TimestampTz 13 "timestamptz[]",
    Numeric 14 "numeric[]",
    Json 18 "json[]",
    Jsonb 19 "jsonb[]",
}

impl ElementType {
    /// Returns the type without its limit.
    pub fn of_values(self) -> ElementType {
        let column_type = self.column_type().of_values();
        ElementType::of(column_type).expect("a type without a limit is no array")
    }
}

/// Returns the name of the element type in the name of a type of arrays, in lower case: that before
/// `[]`, `[3]` or `[][]`. Returns none for the name of another type.
pub(crate) fn element_name(name: &str) -> Option<&str> {
    let mut element = name.trim_end();
    let mut is_array = false;
    while let Some(before) = element.strip_suffix(']') {
        let (before, length) = before.rsplit_once('[')?;
        if !length.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        element = before.trim_end();
        is_array = true;
    }
    is_array.then_some(element)
}
