//! The bytes of schemas and layouts. Their types are those of crate `placement`.

use alloc::vec::Vec;

use placement::{
    Alteration, Axis, CheckConstraint, Column, ColumnDefault, ColumnType, Comment, CommentedObject,
    ComputedDefault, Constraint, Cut, Deferral, Dimension, Durability, ForeignKey, FurtherCopy,
    IdentityKind, Index, KeySpace, Layout, RangePart, RangeStart, RangeTransfer, Ranges,
    ReferentialAction, Replex, ReplexKind, Residue, Schema, Sequence, SequenceDefault,
    SequenceOwner, Share, SlotConstraints, SortColumn, TableComments, TableConstraints, ThinIndex,
};

use crate::codec::{DecodeError, Reader, Wire, wire_enum, wire_struct};

wire_struct!(Schema {
    name,
    columns,
    primary_key,
    indexes,
    further,
    thin,
    partitions,
    failures_tolerated,
    failures_wanted,
    local_entries,
    durability,
    primary_partition_columns,
    sequence,
    constraints,
});
wire_struct!(TableConstraints {
    checks,
    foreign_keys,
    referenced_by
});
wire_struct!(ForeignKey {
    name,
    columns,
    parent,
    on_delete,
    on_update,
    deferral,
    is_valid
});
wire_enum!(Deferral { 0 => NotDeferrable, 1 => InitiallyImmediate, 2 => InitiallyDeferred });
wire_enum!(ReferentialAction { 0 => NoAction, 1 => Restrict, 2 => Cascade, 3 => SetNull });
wire_struct!(CheckConstraint {
    name,
    condition,
    is_valid
});
wire_enum!(Alteration {
    0 => RenameTable { name }, 1 => RenameColumn { column, name }, 2 => RenameIndex { index, name },
    3 => RenameConstraint { constraint, name }, 4 => SetDefault { column, default },
    5 => SetNullable { column, nullable }, 6 => AddColumn { column }, 7 => AddCheck { check },
    8 => Validate { constraint }, 9 => DropConstraint { constraint },
    10 => DropColumn { column }, 11 => SetType { column, column_type }, 12 => AddForeignKey { key },
    13 => SetFailures { failures }, 14 => Comment { object, text },
});
wire_struct!(Comment { object, text });
wire_enum!(CommentedObject {
    0 => Table, 1 => Column { position }, 2 => Index { name }, 3 => Constraint { name },
});

impl Wire for TableComments {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
    }
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(TableComments(Vec::decode(reader)?))
    }
}
wire_struct!(Column {
    name,
    column_type,
    nullable,
    default,
    missing
});
wire_struct!(Index {
    name,
    columns,
    constraint,
    partition_columns,
    by_range,
});
wire_struct!(ThinIndex {
    name,
    columns,
    included,
    by_range,
    unique,
    copies
});
wire_struct!(SortColumn {
    column,
    descending,
    nulls_first
});
wire_struct!(FurtherCopy { name, cut });
wire_enum!(Cut {
    0 => Hybrid { shares }, 1 => HybridsBetween { first, last, factors }, 2 => Replica { of },
    3 => Hyperspace { dimensions },
});
wire_struct!(Share { index, divisions });
wire_struct!(Dimension { column, divisions });
wire_enum!(Constraint { 0 => Unique, 1 => Dense });
wire_enum!(Durability { 0 => Sync, 1 => Replicated });
wire_enum!(ColumnDefault {
    0 => Constant(value), 1 => Computed(computed), 2 => Sequence(default), 3 => Generated(expression),
});
wire_struct!(SequenceDefault { sequence, identity });
wire_enum!(IdentityKind { 0 => Always, 1 => ByDefault });
wire_struct!(Sequence {
    value_type,
    increment,
    min,
    max,
    start,
    cache,
    cycles,
    owner
});
wire_struct!(SequenceOwner { table, column });
wire_enum!(ComputedDefault { 0 => Now, 1 => Today, 2 => RandomUuid });
wire_enum!(ColumnType {
    0 => Bool, 1 => Int64, 2 => Float64, 3 => Text, 4 => Bytes, 5 => Timestamp, 6 => Uuid,
    7 => Int16, 8 => Int32, 9 => Float32, 10 => Varchar(limit), 11 => Char(limit), 12 => Date,
    13 => TimestampTz, 14 => Numeric, 15 => Decimal { precision, scale },
    16 => Time(precision), 17 => Interval(precision),
    18 => Json, 19 => Jsonb, 20 => Array(element),
});
wire_struct!(Layout {
    key_spaces,
    replexes,
    local_entries
});
wire_struct!(KeySpace { columns, slots });
wire_struct!(Replex {
    name,
    kind,
    axes,
    sort_columns,
    ranges
});
wire_struct!(Ranges {
    starts,
    count,
    transfers
});
wire_struct!(RangeStart { key, partition });
wire_struct!(RangeTransfer { to, parts });
wire_struct!(RangePart { from, start, end });
wire_struct!(Axis {
    key_space,
    stride,
    divisions
});
wire_struct!(SlotConstraints { residues });
wire_struct!(Residue {
    stride,
    divisions,
    coordinate
});
wire_enum!(ReplexKind {
    0 => Primary, 1 => Index { index }, 2 => Hybrid, 3 => Exact { of }, 4 => Hyperspace, 5 => Vacant,
    6 => Successor { of }, 7 => Thin { index, copy },
});

/// Positions of columns, key spaces and replexes; all are small.
impl Wire for usize {
    fn encode(&self, out: &mut Vec<u8>) {
        u32::try_from(*self)
            .expect("positions in a schema are small")
            .encode(out);
    }
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(u32::decode(reader)? as usize)
    }
}
