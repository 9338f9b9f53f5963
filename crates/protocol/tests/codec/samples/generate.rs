//! Any message from a string of bytes: short strings give small messages, so that proptest, by
//! shrinking the bytes, shrinks the message.
//!
//! The macros mirror those of the codec. A field that is missing here does not compile; that every
//! variant is made is a test.

use std::sync::Arc;

use placement::{
    Alteration, Axis, CheckConstraint, Column, ColumnDefault, ColumnType, Comment, CommentedObject,
    ComputedDefault, Constraint, Cut, Deferral, Dimension, Durability, ElementType, ForeignKey,
    FurtherCopy, IdentityKind, Index, Interval, KeySpace, Layout, Numeric, RangePart, RangeStart,
    RangeTransfer, Ranges, ReferentialAction, Replex, ReplexKind, Residue, Schema, Sequence,
    SequenceDefault, SequenceOwner, Share, SlotConstraints, SortColumn, TableComments,
    TableConstraints, ThinIndex, Value,
};
use protocol::codec::Bytes;
use protocol::configuration::roles::{
    Grant, GrantObject, Grantee, Membership, PasswordChange, PasswordVerifier, Privileges, Role,
    RoleAttributes, RoleChange, RoleId, Roles, TableOwner,
};
use protocol::configuration::{
    Configuration, ConfigurationChanges, MoveProgress, PartitionState, Place, PlacedTable,
    PlacedTables, Sealing, Server, ServerState, Tenure,
};
use protocol::expression::{
    Assignment, BinaryOperator, Comparison, Expression, FunctionCall, ScalarFunction, UnaryOperator,
};
use protocol::identity::*;
use protocol::message::*;
use protocol::operation::*;
use protocol::record::{PartitionStart, Record, SavedCompletion};
use protocol::state::{
    CoordinatorState, FolderTrust, RequestedChange, ServerMember, WaitingChange,
};
use protocol::transaction::*;

/// Bytes to decide by; zeros without end once they are used up.
pub struct Source<'a> {
    bytes: &'a [u8],
    depth: u32,
}

impl<'a> Source<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Source { bytes, depth: 0 }
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut out = [0; N];
        let count = N.min(self.bytes.len());
        out[..count].copy_from_slice(&self.bytes[..count]);
        self.bytes = &self.bytes[count..];
        out
    }

    fn below(&mut self, count: usize) -> usize {
        usize::from(self.array::<1>()[0]) % count
    }
}

/// A type whose values can be made from bytes.
pub trait Generate: Sized {
    fn generate(source: &mut Source<'_>) -> Self;
}

macro_rules! generate_integer {
    ($($type:ty),*) => {$(
        impl Generate for $type {
            fn generate(source: &mut Source<'_>) -> Self {
                // Small and extreme numbers are as likely as any others.
                match source.below(4) {
                    0 => source.below(4) as $type,
                    1 => <$type>::MAX,
                    _ => <$type>::from_le_bytes(source.array()),
                }
            }
        }
    )*};
}

generate_integer!(u8, u16, u32, u64, i16, i32, i64, f64);

macro_rules! generate_newtype {
    ($($type:ident),*) => {$(
        impl Generate for $type {
            fn generate(source: &mut Source<'_>) -> Self {
                $type(Generate::generate(source))
            }
        }
    )*};
}

generate_newtype!(
    Epoch,
    Incarnation,
    Position,
    PasswordVerifier,
    Privileges,
    ReaderId,
    RoleId,
    ServerId,
    SessionId,
    TableId,
    Version
);

impl Generate for usize {
    fn generate(source: &mut Source<'_>) -> Self {
        u32::generate(source) as usize
    }
}

impl Generate for bool {
    fn generate(source: &mut Source<'_>) -> Self {
        source.below(2) == 1
    }
}

impl Generate for String {
    fn generate(source: &mut Source<'_>) -> Self {
        let characters = (0..source.below(4)).map(|_| ['a', '\0', '€', '🛫'][source.below(4)]);
        characters.collect()
    }
}

impl Generate for Bytes {
    fn generate(source: &mut Source<'_>) -> Self {
        let bytes: Vec<u8> = (0..source.below(12))
            .map(|_| source.array::<1>()[0])
            .collect();
        Bytes(bytes)
    }
}

impl<T: Generate> Generate for Vec<T> {
    fn generate(source: &mut Source<'_>) -> Self {
        (0..source.below(4)).map(|_| T::generate(source)).collect()
    }
}

impl Generate for TableComments {
    fn generate(source: &mut Source) -> Self {
        TableComments(Generate::generate(source))
    }
}

impl Generate for PlacedTables {
    fn generate(source: &mut Source<'_>) -> Self {
        Vec::<PlacedTable>::generate(source).into()
    }
}

impl<T: Generate> Generate for Option<T> {
    fn generate(source: &mut Source<'_>) -> Self {
        (source.below(2) == 1).then(|| T::generate(source))
    }
}

impl<T: Generate> Generate for Arc<T> {
    fn generate(source: &mut Source<'_>) -> Self {
        Arc::new(T::generate(source))
    }
}

impl<T: Generate> Generate for Box<T> {
    fn generate(source: &mut Source<'_>) -> Self {
        Box::new(T::generate(source))
    }
}

impl<A: Generate, B: Generate> Generate for (A, B) {
    fn generate(source: &mut Source<'_>) -> Self {
        (A::generate(source), B::generate(source))
    }
}

impl<A: Generate, B: Generate, C: Generate> Generate for (A, B, C) {
    fn generate(source: &mut Source<'_>) -> Self {
        (
            A::generate(source),
            B::generate(source),
            C::generate(source),
        )
    }
}

macro_rules! generate_struct {
    ($($name:ident { $($field:ident),* $(,)? })*) => {$(
        impl Generate for $name {
            fn generate(source: &mut Source<'_>) -> Self {
                $name { $($field: Generate::generate(source)),* }
            }
        }
    )*};
}

macro_rules! generate_enum {
    ($($name:ident { $($variant:ident $(( $($item:ident),* ))? $({ $($field:ident),* })?),* $(,)? })*)
        => {$(
        impl Generate for $name {
            fn generate(source: &mut Source<'_>) -> Self {
                let makers: &[fn(&mut Source<'_>) -> Self] = &[$(|_source| {
                    $($(let $item = Generate::generate(_source);)*)?
                    $($(let $field = Generate::generate(_source);)*)?
                    $name::$variant $(( $($item),* ))? $({ $($field),* })?
                }),*];
                makers[source.below(makers.len())](source)
            }
        }
    )*};
}

impl Generate for FunctionCall {
    fn generate(source: &mut Source<'_>) -> Self {
        let function = Generate::generate(source);
        FunctionCall::new(function, Generate::generate(source))
    }
}

generate_struct! {
    CoreId { server, core }
    PartitionId { table, replex, number }
    FinishedLine { incarnation, sequence }
    RequestId { session, number }
    OperationId { head, incarnation, sequence }
    Configuration { cluster, epoch, servers, tables, roles }
    ConfigurationChanges { cluster, since, epoch, servers, tables, dropped, roles }
    Roles { epoch, next, all, memberships, owners, grants }
    Role { id, name, can_login, is_superuser, password }
    Membership { member, role }
    TableOwner { table, owner }
    Grant { object, grantee, privileges }
    RoleAttributes { can_login, is_superuser, password }
    Sealing { since, removed, leaving }
    SealReport { table, stage, vouched_ago_us }
    FillReport { table, replex, partitions, sources, sources_done, rows, of_rows, obstacles }
    CopyFailure { table, name, why }
    WaitingChange { table, wanted }
    ScanCounts { rows, bytes, of_rows }
    Server { id, incarnation, domain, cores, state, is_draining, is_new }
    PlacedTable { id, epoch, sealing, columns_since, schema, layout, placement, building, comments }
    Comment { object, text }
    Place { core, state, since, moving, former }
    Tenure { core, since }
    Schema {
        name, columns, primary_key, indexes, further, thin, partitions, failures_tolerated,
        failures_wanted, local_entries,
        durability, primary_partition_columns, sequence, constraints,
    }
    Sequence { value_type, increment, min, max, start, cache, cycles, owner }
    SequenceOwner { table, column }
    SequenceDefault { sequence, identity }
    TableConstraints { checks, foreign_keys, referenced_by }
    ForeignKey { name, columns, parent, on_delete, on_update, deferral, is_valid }
    ReferenceViolation { child, constraint, key, fault }
    CheckConstraint { name, condition, is_valid }
    FurtherCopy { name, cut }
    Share { index, divisions }
    Dimension { column, divisions }
    Column { name, column_type, nullable, default, missing }
    Index { name, columns, constraint, partition_columns, by_range }
    ThinIndex { name, columns, included, by_range, unique, copies }
    SortColumn { column, descending, nulls_first }
    Layout { key_spaces, replexes, local_entries }
    KeySpace { columns, slots }
    Replex { name, kind, axes, sort_columns, ranges }
    Ranges { starts, count, transfers }
    RangeStart { key, partition }
    RangeTransfer { to, parts }
    RangePart { from, start, end }
    RangeReport { partition, entries, requests, split_at }
    Axis { key_space, stride, divisions }
    Assignment { column, value }
    Mutation { pk, action }
    RowChange { pk, version, old, new }
    RequestRecord { request, acknowledged_below, digest, result }
    Transact { request, acknowledged_below, epochs, partition, changes, checks, ranges }
    TransactionChange { table, mutation, must_apply }
    RowCheck { table, pk, version }
    RangeCheck { read, versions, digest }
    TransactionPart { member, unchanged, head, still }
    Walk { request, digest, route, place, changes, evaluated, outcomes }
    EvaluatedRow { table, change }
    TransactionMessage { operation, epochs, content }
    Prepare {
        operation, epoch, finished_below, table, members, sides, side, votes, changes, requests,
        transaction,
    }
    Hello { cluster, core }
    Welcome { cluster, core, epoch }
    Leadership { leads, leader, standbys, kept_in }
    Execute { request, acknowledged_below, epoch, table, partition, mutations }
    Read {
        epoch, partition, start, end, filter, projection, limit, descending, count_only,
        consistency, agreement, redirect, snapshot, keys,
    }
    Redirect { replex, constraints, scan_from }
    SlotConstraints { residues }
    Residue { stride, divisions, coordinate }
    ChecksumRead { epoch, partition, start, limit, snapshot, entries_of }
    SnapshotId { opener, incarnation, number }
    SnapshotUse { snapshot, reader, user }
    OpenedSnapshot { share, at, lease_us }
    RecallReport { core, incarnation, runs, folder, session_floor, configuration }
    HoldRelease { epoch, partition, holds }
    RowPage { count, rows, next, quiet_us, held, marked, own_order }
    ChecksumPart { count, sum, next }
    StatisticsRead { epoch, partition }
    PartitionStatistics { rows, rows_per_key, first, last }
    PeerHeader { from, incarnation, epoch, table_epoch }
    SavedCompletion { head, request }
    Shortage { server, room, stays }
    CoordinatorState {
        version, configuration, members, changes, failures, next_server, next_table, sessions_reserved,
        session_floor,
    }
    ServerMember { server, disk, instance, has_stopped, trust, logs }
    FolderReport { disk, last, incarnation, epoch, has_stopped, is_old }
}

generate_enum! {
    RequestedChange {
        Add { schema }, Drop { name }, Replace { name, by }, Renew { cells }, Resize { partitions }, Promote,
        Alter { alterations }, Truncate { tables },
    }
    Alteration {
        RenameTable { name }, RenameColumn { column, name }, RenameIndex { index, name },
        RenameConstraint { constraint, name }, SetDefault { column, default },
        SetNullable { column, nullable }, AddColumn { column }, AddCheck { check },
        Validate { constraint }, DropConstraint { constraint }, DropColumn { column },
        SetType { column, column_type }, AddForeignKey { key }, SetFailures { failures },
        Comment { object, text },
    }
    CommentedObject { Table, Column { position }, Index { name }, Constraint { name } }
    PartitionStart { Empty, Taken, Compared }
    ServerState { Up, Down }
    PartitionState { Serving, Rebuilding }
    MoveProgress { To(tenure), From(tenure) }
    Constraint { Unique, Dense }
    ColumnDefault { Constant(value), Computed(computed), Sequence(default), Generated(expression) }
    IdentityKind { Always, ByDefault }
    ComputedDefault { Now, Today, RandomUuid }
    Cut {
        Hybrid { shares }, HybridsBetween { first, last, factors }, Replica { of },
        Hyperspace { dimensions },
    }
    Durability { Sync, Replicated }
    ColumnType {
        Bool, Int64, Float64, Text, Bytes, Timestamp, Uuid, Int16, Int32, Float32, Varchar(limit),
        Char(limit), Date, TimestampTz, Numeric, Decimal { precision, scale }, Time(precision),
        Interval(precision),
    }
    ReplexKind {
        Primary, Index { index }, Hybrid, Exact { of }, Hyperspace, Successor { of }, Vacant,
        Thin { index, copy },
    }
    UnaryOperator { Not, Negate, IsNull, IsNotNull, Cast(column_type) }
    ScalarFunction {
        Coalesce, Case, NullIf, Greatest, Least, Lower, Upper, Length, OctetLength, Abs, Round, Floor,
        Ceil, Trunc, Substring, Trim, TrimStart, TrimEnd, Replace, Position, Left, Right, Concat,
        AtZone, MomentText, ReadMoment, DateTrunc, Extract, DatePart, MomentLater, Age, MakeInterval,
        MakeTime, JustifyDays, JustifyHours, JustifyInterval,
        Sign, Modulo, DivideWhole, Scale, ScaleMin, TrimScale,
    }
    BinaryOperator {
        And, Or, Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual, Add, Subtract, Multiply,
        Divide, Modulo, Concatenate, Like, Any(comparison), All(comparison), Overlaps,
    }
    Comparison { Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual, Like, NotLike }
    Action {
        Insert { row }, InsertOrKeep { row }, Upsert { row, assignments, condition },
        Update { assignments, condition }, Delete { condition },
    }
    RequestResult {
        Applied { version }, Kept, NotFound, ConditionFailed, Duplicate { replex, key },
        NotDense { replex, expected }, Invalid { message }, Conflict, Transaction(result),
        CheckFailed { constraint },
    }
    Deferral { NotDeferrable, InitiallyImmediate, InitiallyDeferred }
    ReferentialAction { NoAction, Restrict, Cascade, SetNull }
    ReferenceFault { NoParent, HasChildren }
    ReferenceCheck { Parent { table, pk }, NoChild { partition, key, except } }
    ChangeOutcome { Applied, Kept, NotFound, ConditionFailed }
    TransactionResult { Committed { version, outcomes }, Aborted { table, reason } }
    AbortReason {
        Duplicate { replex, key }, NotDense { replex, expected }, Invalid { message },
        NotApplied { change, outcome }, Changed { check }, Conflict, CheckFailed { constraint },
        ReferenceViolated(violation),
    }
    WalkEnd { Known(result), Aborted(result), Refused(refusal), Dropped }
    TransactionContent {
        Walk(walk), Walked(walk), WalkEnded(end), DropWalk, Prepare(prepare),
        Voted { member, vote }, Check { checks, ranges, references },
        Checked { passed, failed, held },
        Decision { to, decision, settled }, Kept { member }, Ended { member }, Ask { member },
        Over { to, finished_below }, AskDecision { to }, Known { member, decision },
    }
    OldRow { Absent, SameKeys { version }, Keys { version, row } }
    Vote { Yes, No(reason) }
    Decision { Commit, Abort(reason) }
    Message {
        Hello(hello), Welcome(welcome), Request(request), Reply(reply), Peer(header, message),
        Ask(request), Answer(reply), Goodbye { reason }, Echo(bytes), FindLeader,
        Leadership(leadership),
    }
    Request {
        Execute(execute), Read(read), Checksum(read), Status, Release(release), Snapshot(request),
        Statistics(read), Transact(transact),
    }
    SnapshotRequest { Open { reader, tables }, Keep(share), Close(share) }
    SnapshotReply { Opened(opened), Kept, Closed }
    SnapshotFailure {
        Unknown, ClusterChanged, HistoryFull, LeaseOver, ServerMissing(server), Busy,
        TooMany,
    }
    SnapshotMessage {
        Hold { snapshot, tables, hold_us }, Held { snapshot, clock },
        Close { snapshot, at, lease_us }, Closed { snapshot }, Refused { snapshot, reason },
        Keep { snapshot, lease_us }, End { snapshot },
    }
    Agreement { Alone, Quiet, Hold(hold_us) }
    Consistency { Linearizable, Stale }
    Reply {
        Executed(result), Rows(page), Checksum(part), Status(counters), Refused(refusal),
        Released(unchanged), Snapshot(reply), Statistics(statistics),
    }
    Refusal {
        StaleEpoch { epoch }, WrongPartition, Begun, NotServing, Overloaded, DiskFull { server },
        SessionEnded, RequestMismatch, Invalid { message }, Lost { server, begun },
        Snapshot(failure),
    }
    PeerMessage {
        Prepare(prepare), Decision { operation, to, decision, settled }, Settled { operation, to },
        Reported { operation, to, side }, Durable { operations }, Confirm { operations },
        Finished(below), Recover { table, attempt },
        Adopt { attempt, prepare, decision }, RecoverEnd { table, attempt, count, finished_below },
        LeaseRequest { sent_us, room, finished_below }, LeaseGrant { sent_us, room }, NewerEpoch { epoch },
        Copy { of, from, start }, Copied { of, from, start, page, sum, looked },
        Fetch { of, from, pass, wanted, start },
        Fetched { of, from, pass, start, page, complete_from },
        CopyCompletions { of, start },
        CopiedCompletions { of, start, completions, next, last_version },
        Compare { of, question, start, ranges },
        Compared { of, question, list, changes, differing, page, looked_at_bytes },
        Changes { of, question, list, since },
        Changed { of, question, list, page, gone, until, is_all },
        AskSealed { table, attempt }, Witness { table, attempt, prepare, decision },
        WitnessEnd { table, attempt, count, forgot_nothing }, Snapshot(message),
        Transaction(message),
    }
    FolderTrust { Newest, Void, Voided, Any }
    GrantObject { Schema, Relation(table) }
    Grantee { Public, Role(role) }
    PasswordChange { Keep, Remove, Set(verifier) }
    RoleChange {
        Create { name, attributes, of, members }, Alter { name, attributes }, Rename { name, to },
        Drop { names }, Join { roles, members }, Leave { roles, members },
        Grant { objects, grantees }, Revoke { objects, grantees }, SetOwner { tables, owner },
    }
    SealStage { Sealing, Resolved, Stuck }
    Room { Free, Reserve, Full }
    CoordinatorRequest {
        Join { server, instance, folder, domain, cores },
        Heartbeat { core, incarnation, epoch, sent_us, durable, filled, fills, seals, room, ranges },
        Fetch { known },
        OpenSession,
        CreateTable { schema, if_not_exists, sequences, owner }, DropTable { name, if_exists }, Leave { server },
        AddCopy { schema }, DropCopy { table, name, if_exists },
        ReplaceCopy { table, name, by }, Progress,
        Renew { table, cells }, SetPartitions { table, partitions },
        AlterTable { table, alterations }, Truncate { tables, cascade }, ChangeRoles { change },
        Stopped { server, incarnation, logs }, Remove { server }, Drain { server },
        EndDrain { server }, AcceptFolder { server },
        Remember(memory),
    }
    CoordinatorReply {
        Joined { server, incarnation, logs, configuration },
        Beat { sent_us, epoch, lease_us, session_floor }, Configuration(configuration),
        Unchanged { epoch }, Session { session, life_us }, Done { epoch, table },
        Refused { message, retry }, Progress { fills, waiting, failures, without_room },
        NewEpoch { epoch }, Recall, Wait { message }, Changes(changes),
    }
    Record {
        Prepared { partition, prepare }, Decided { partition, operation, decision, settles },
        Settled { partition, operation }, Completed { partition, requests },
        Copied { partition, rows }, Matched { partition, rows, gone },
        Whole { partition }, Versions { last },
        Sealed { epoch, tables }, Resolved { epoch, tables }, Given { partition, since, start },
    }
}

impl Generate for Value {
    fn generate(source: &mut Source<'_>) -> Self {
        match source.below(24) {
            0 => Value::Null,
            // A condition is one.
            1 | 13..=17 => Value::Bool(Generate::generate(source)),
            2 => Value::Int64(Generate::generate(source)),
            3 => Value::Float64(Generate::generate(source)),
            4 => Value::Text(Generate::generate(source)),
            5 => Value::Bytes(Bytes::generate(source).0),
            6 => Value::Timestamp(Generate::generate(source)),
            7 => Value::Uuid(source.array()),
            8 => Value::Int16(Generate::generate(source)),
            9 => Value::Int32(Generate::generate(source)),
            10 => Value::Float32(f32::from_le_bytes(source.array())),
            11 => Value::Date(Generate::generate(source)),
            18 => Value::Numeric(numeric(source)),
            19 => Value::Json(format!(" [{}]", i64::generate(source))),
            20 => Value::Jsonb(format!("{{\"a\": {}}}", i64::generate(source))),
            21 => Value::Time(i64::generate(source).rem_euclid(86_400_000_001)),
            22 => Value::Interval(Interval {
                months: Generate::generate(source),
                days: Generate::generate(source),
                micros: Generate::generate(source),
            }),
            23 => {
                let text = format!("[0:1]={{{},NULL}}", i64::generate(source));
                let array = ColumnType::Array(ElementType::Int64);
                Value::parse(array, &text).expect("it is an array")
            }
            _ => Value::TimestampTz(Generate::generate(source)),
        }
    }
}

/// A number of any sign and scale, or none.
fn numeric(source: &mut Source<'_>) -> Numeric {
    match source.below(8) {
        0 => Numeric::nan(),
        1 => Numeric::infinity(source.below(2) == 0),
        _ => {
            let (digits, scale) = (i64::generate(source), u8::generate(source));
            Numeric::parse(&format!("{digits}e-{scale}")).expect("a few digits are a number")
        }
    }
}

impl Generate for Expression {
    fn generate(source: &mut Source<'_>) -> Self {
        source.depth += 1;
        let kinds = if source.depth > 6 { 6 } else { 11 };
        // Few calls and casts of random operands have a type.
        let expression = match source.below(kinds) {
            0 | 1 => Expression::Column(Generate::generate(source)),
            2 | 3 => Expression::Excluded(Generate::generate(source)),
            4 | 5 => Expression::Literal(Generate::generate(source)),
            6 | 7 => Expression::Unary(Generate::generate(source), Generate::generate(source)),
            8 => Expression::Call(Box::new(Generate::generate(source))),
            _ => Expression::Binary(
                Generate::generate(source),
                Generate::generate(source),
                Generate::generate(source),
            ),
        };
        source.depth -= 1;
        expression
    }
}
