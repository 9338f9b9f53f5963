//! The functions of JSON in expressions, by their names in SQL.

use crate::value::ColumnType;

/// A function of JSON. It is NULL if an operand is, except where it builds JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonFunction {
    /// The kind of a `json`.
    JsonTypeof,
    /// The kind of a `jsonb`.
    JsonbTypeof,
    /// The number of items of an array.
    JsonArrayLength,
    /// The number of items of an array.
    JsonbArrayLength,
    /// A `json` of keys and values in turn.
    JsonBuildObject,
    /// A `jsonb` of keys and values in turn.
    JsonbBuildObject,
    /// A `json` of items.
    JsonBuildArray,
    /// A `jsonb` of items.
    JsonbBuildArray,
    /// A value of any type as a `json`.
    ToJson,
    /// A value of any type as a `jsonb`.
    ToJsonb,
    /// A `jsonb` without the keys whose values are null.
    JsonbStripNulls,
    /// A `jsonb` with a line for each of its members.
    JsonbPretty,
    /// The part of a `json` at a path.
    JsonExtractPath,
    /// The part of a `json` at a path, as a text.
    JsonExtractPathText,
    /// The part of a `jsonb` at a path.
    JsonbExtractPath,
    /// The part of a `jsonb` at a path, as a text.
    JsonbExtractPathText,
    /// Whether a key is one of a `jsonb`.
    JsonbExists,
    /// A `jsonb` with a value at a path: the `jsonb`, the value, whether it is added where there is
    /// none, and the steps of the path.
    JsonbSet,
    /// A `jsonb` without the value at a path: the `jsonb`, and the steps of the path.
    JsonbDeletePath,
    /// Whether one of some keys is one of a `jsonb`: the `jsonb`, and the keys.
    JsonbExistsAny,
    /// Whether all of some keys are those of a `jsonb`: the `jsonb`, and the keys.
    JsonbExistsAll,
}

impl JsonFunction {
    /// All functions.
    pub const ALL: [JsonFunction; 21] = [
        JsonFunction::JsonTypeof,
        JsonFunction::JsonbTypeof,
        JsonFunction::JsonArrayLength,
        JsonFunction::JsonbArrayLength,
        JsonFunction::JsonBuildObject,
        JsonFunction::JsonbBuildObject,
        JsonFunction::JsonBuildArray,
        JsonFunction::JsonbBuildArray,
        JsonFunction::ToJson,
        JsonFunction::ToJsonb,
        JsonFunction::JsonbStripNulls,
        JsonFunction::JsonbPretty,
        JsonFunction::JsonExtractPath,
        JsonFunction::JsonExtractPathText,
        JsonFunction::JsonbExtractPath,
        JsonFunction::JsonbExtractPathText,
        JsonFunction::JsonbExists,
        JsonFunction::JsonbSet,
        JsonFunction::JsonbDeletePath,
        JsonFunction::JsonbExistsAny,
        JsonFunction::JsonbExistsAll,
    ];

    /// Returns the name of the function in SQL.
    pub fn name(self) -> &'static str {
        match self {
            JsonFunction::JsonTypeof => "json_typeof",
            JsonFunction::JsonbTypeof => "jsonb_typeof",
            JsonFunction::JsonArrayLength => "json_array_length",
            JsonFunction::JsonbArrayLength => "jsonb_array_length",
            JsonFunction::JsonBuildObject => "json_build_object",
            JsonFunction::JsonbBuildObject => "jsonb_build_object",
            JsonFunction::JsonBuildArray => "json_build_array",
            JsonFunction::JsonbBuildArray => "jsonb_build_array",
            JsonFunction::ToJson => "to_json",
            JsonFunction::ToJsonb => "to_jsonb",
            JsonFunction::JsonbStripNulls => "jsonb_strip_nulls",
            JsonFunction::JsonbPretty => "jsonb_pretty",
            JsonFunction::JsonExtractPath => "json_extract_path",
            JsonFunction::JsonExtractPathText => "json_extract_path_text",
            JsonFunction::JsonbExtractPath => "jsonb_extract_path",
            JsonFunction::JsonbExtractPathText => "jsonb_extract_path_text",
            JsonFunction::JsonbExists => "jsonb_exists",
            JsonFunction::JsonbSet => "jsonb_set",
            JsonFunction::JsonbDeletePath => "jsonb_delete_path",
            JsonFunction::JsonbExistsAny => "jsonb_exists_any",
            JsonFunction::JsonbExistsAll => "jsonb_exists_all",
        }
    }

    /// Returns the type of the function's results.
    pub fn result_type(self) -> ColumnType {
        match self {
            JsonFunction::JsonArrayLength | JsonFunction::JsonbArrayLength => ColumnType::Int32,
            JsonFunction::JsonBuildObject
            | JsonFunction::JsonBuildArray
            | JsonFunction::ToJson
            | JsonFunction::JsonExtractPath => ColumnType::Json,
            JsonFunction::JsonbBuildObject
            | JsonFunction::JsonbBuildArray
            | JsonFunction::ToJsonb
            | JsonFunction::JsonbStripNulls
            | JsonFunction::JsonbExtractPath
            | JsonFunction::JsonbSet
            | JsonFunction::JsonbDeletePath => ColumnType::Jsonb,
            JsonFunction::JsonTypeof
            | JsonFunction::JsonbTypeof
            | JsonFunction::JsonbPretty
            | JsonFunction::JsonExtractPathText
            | JsonFunction::JsonbExtractPathText => ColumnType::Text,
            JsonFunction::JsonbExists
            | JsonFunction::JsonbExistsAny
            | JsonFunction::JsonbExistsAll => ColumnType::Bool,
        }
    }

    /// Returns the type of an operand; none if it may be of any type.
    pub fn operand_type(self, place: usize) -> Option<ColumnType> {
        match self {
            JsonFunction::JsonBuildObject
            | JsonFunction::JsonBuildArray
            | JsonFunction::JsonbBuildObject
            | JsonFunction::JsonbBuildArray
            | JsonFunction::ToJson
            | JsonFunction::ToJsonb => None,
            JsonFunction::JsonbSet if place == 1 => Some(ColumnType::Jsonb),
            JsonFunction::JsonbSet if place == 2 => Some(ColumnType::Bool),
            _ if place > 0 => Some(ColumnType::Text),
            JsonFunction::JsonTypeof
            | JsonFunction::JsonArrayLength
            | JsonFunction::JsonExtractPath
            | JsonFunction::JsonExtractPathText => Some(ColumnType::Json),
            JsonFunction::JsonbTypeof
            | JsonFunction::JsonbArrayLength
            | JsonFunction::JsonbStripNulls
            | JsonFunction::JsonbPretty
            | JsonFunction::JsonbExtractPath
            | JsonFunction::JsonbExtractPathText
            | JsonFunction::JsonbExists
            | JsonFunction::JsonbSet
            | JsonFunction::JsonbDeletePath
            | JsonFunction::JsonbExistsAny
            | JsonFunction::JsonbExistsAll => Some(ColumnType::Jsonb),
        }
    }

    /// Returns whether the function takes so many operands.
    pub fn takes(self, count: usize) -> bool {
        match self {
            _ if self.builds() => true,
            JsonFunction::JsonExtractPath
            | JsonFunction::JsonExtractPathText
            | JsonFunction::JsonbExtractPath
            | JsonFunction::JsonbExtractPathText
            | JsonFunction::JsonbDeletePath
            | JsonFunction::JsonbExistsAny
            | JsonFunction::JsonbExistsAll => count > 0,
            JsonFunction::JsonbSet => count > 2,
            JsonFunction::JsonbExists => count == 2,
            _ => count == 1,
        }
    }

    /// Returns whether SQL writes the last operands as one array.
    pub fn takes_path(self) -> bool {
        matches!(
            self,
            JsonFunction::JsonbSet
                | JsonFunction::JsonbDeletePath
                | JsonFunction::JsonbExistsAny
                | JsonFunction::JsonbExistsAll
        )
    }

    /// Returns whether the function makes JSON of operands of any type, of which any may be NULL.
    pub fn builds(self) -> bool {
        matches!(
            self,
            JsonFunction::JsonBuildObject
                | JsonFunction::JsonbBuildObject
                | JsonFunction::JsonBuildArray
                | JsonFunction::JsonbBuildArray
        )
    }
}
