//! Computes where every row is stored, as pure code: values and their encodings, schemas, key
//! spaces, grids, covers of lost partitions, and the assignment of partitions to servers.
//!
//! Invariants: byte order of an encoded key is SQL order of its values. A row is in exactly one
//! partition of each replex. A cover holds every row of the covered partitions exactly once. A
//! placement that `assign` returns has been proven to tolerate the requested failures.
//!
//! This crate does no I/O, reads no clock and draws no random numbers, and must not know of
//! messages, logs or sockets. Equal inputs give equal outputs on every machine.
#![no_std]

extern crate alloc;

mod advisor;
mod alter;
mod alteration;
mod array_function;
mod assignment;
mod calendar;
mod clock;
mod comment;
mod constraints;
mod conversion;
mod copies;
mod cover;
mod expression;
mod float;
mod function_error;
mod further;
mod grid;
mod hybrid;
mod interpolation;
mod interval;
mod json;
mod json_function;
mod key;
mod math_function;
mod moment;
mod numeric;
mod partitions;
mod pattern;
mod places;
mod position;
mod proof;
mod ranges;
mod relocation;
mod report;
mod row;
mod schema;
mod sequence;
mod sequence_table;
mod slots;
mod sort;
mod statistics;
pub mod tables;
mod text;
mod text_function;
mod validation;
mod value;
mod zone;

pub use advisor::{
    Amplification, SAMPLES_MAX, Spread, amplification, amplification_of, best_divisions,
    even_factors,
};
pub use alteration::Alteration;
pub use array_function::{ArrayFunction, ArrayOperand};
pub use assignment::{AssignmentError, assign};
pub use calendar::{civil_from_days, days_from_civil};
pub use comment::{COMMENT_BYTES_MAX, COMMENTS_BYTES_MAX, Comment, CommentedObject, TableComments};
pub use constraints::{
    CHECKS_MAX, CheckConstraint, Deferral, FOREIGN_KEYS_MAX, ForeignKey, REFERENCED_BY_MAX,
    ReferentialAction, TableConstraints, check_violation_text,
};
pub use conversion::{
    ConversionError, is_assignable, is_castable, moment_of, narrowed, numeric_of,
};
pub use cover::{
    COVER_STEPS_MAX, Cover, CoverCosts, CoverMember, RowAccess, access, cover, cover_constraints,
};
pub use expression::{
    BinaryOperator, Comparison, Expression, FunctionCall, ScalarFunction, UnaryOperator,
};
pub use float::{WHOLE_DOUBLES, round_half_even};
pub use function_error::FunctionError;
pub use further::{Cut, Dimension, FurtherCopy, Share};
pub use grid::{Axis, KeySpace, Layout, Replex, ReplexKind};
pub use hybrid::GridError;
pub use interpolation::{key_between, part_before};
pub use interval::{
    Interval, IntervalError, IntervalField, TIME_PRECISION_MAX, age, moved_local, moved_moment,
    rounded_time, time_after,
};
pub use json::{
    JSON_DEPTH_MAX, Json, JsonError, JsonPart, PathEdit, check_json, json_kind, json_parts,
    stored_jsonb, write_json_string,
};
pub use json_function::JsonFunction;
pub use key::{
    KEY_BYTES_MAX, KeyError, check_key_bytes, decode_key, encode_key, encode_value, key_has_null,
    prefix_end,
};
pub use math_function::MathFunction;
pub use moment::TimeInput;
pub use numeric::{
    NUMERIC_PRECISION_MAX, NUMERIC_SCALE_MAX, NUMERIC_WHOLE_DIGITS_MAX, Numeric, NumericError,
    NumericRef,
};
pub use pattern::{Pattern, PatternError};
pub use places::{HostCore, LOAD_PER_COPY, Loads, PartitionHost, Placement, beside};
pub use position::Position;
pub use proof::{PROOF_STEPS_MAX, PlacementProof, decision_position, members_at_risk, prove};
pub use ranges::{KeyInterval, RANGES_MAX, RangePart, RangeStart, RangeTransfer, Ranges};
pub use relocation::{Cell, Relocation};
pub use report::{ReplexReport, TableReport};
pub use row::{ROW_BYTES_MAX, RowError, RowView, encode_row, encode_row_refs};
pub use schema::{
    COLUMNS_MAX, Column, ColumnDefault, ComputedDefault, Constraint, Durability, HIDDEN_KEY, Index,
    NAME_BYTES_MAX, PARTITIONS_MAX, REPLEXES_MAX, Schema, SchemaError, THIN_MAX, ThinIndex,
    is_dropped_name,
};
pub use sequence::{
    IdentityKind, Sequence, SequenceBlock, SequenceDefault, SequenceLimit, SequenceOwner,
    SequenceState,
};
pub use slots::{Residue, SlotConstraints};
pub use sort::{
    KeyRange, SortColumn, ascending, columns_of, decode_sorted, encode_prefix, encode_sorted,
    sorted_range,
};
pub use statistics::{median, percentile, percentiles};
pub use text::{DATES, ValueError, moment_text, unescaped_bytes};
pub use text_function::TextFunction;
pub use validation::check_name;
pub use value::{
    ARRAY_DIMENSIONS_MAX, ARRAY_ELEMENTS_MAX, Array, ArrayBuilder, ArrayDimension, ArrayError,
    ArrayRef, ArrayValues, ColumnType, ElementType, TEXT_LIMIT_MAX, Value, ValueRef,
};
pub use zone::{POSIX_ZONE_LEN_MAX, PosixZone, TimeZone, Tzif};
