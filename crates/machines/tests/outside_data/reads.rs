//! Reads whose fields were forged. Where a page starts and ends, in which order and of which
//! snapshot it is read, is up to the client. A core refuses each such read, or answers it with
//! exactly the rows that it describes.

use std::collections::BTreeMap;

use machines::core::CoreLimits;
use placement::{
    ColumnType, Index, Layout, Residue, RowView, SlotConstraints, Value, ValueRef, decode_sorted,
    encode_key, encode_row, encode_sorted,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use protocol::codec::Bytes;
use protocol::configuration::{Configuration, PlacedTable};
use protocol::expression::{Assignment, BinaryOperator, Expression};
use protocol::identity::{
    CoreId, Epoch, Incarnation, PartitionId, ReaderId, RequestId, SessionId, SnapshotId,
};
use protocol::message::{
    Agreement, Consistency, Execute, KEYS_MAX, Read, Redirect, Refusal, Reply, Request, RowPage,
    SnapshotFailure, SnapshotReply, SnapshotRequest, SnapshotUse,
};
use protocol::operation::{Action, Mutation};

use super::samples::generate::{Generate, Source};
use super::{Core, configuration, mostly, samples};

/// Pages end early, so that many reads have a next one.
const PAGE_KEYS_MAX: usize = 7;
/// The rows that are inserted before the snapshot is opened.
const ROWS: i64 = 30;

/// The rows of a table, by id.
type Rows = BTreeMap<i64, Vec<Value>>;

/// A core with every partition of a table, and what is known about the table.
struct Scene {
    core: Core,
    known: Configuration,
    now: Rows,
    at_snapshot: Rows,
    snapshot: SnapshotUse,
    closed: SnapshotId,
    last_request: u64,
}

/// The answer that a core must give.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// Rows of the read's range.
    Rows,
    /// The read is not of the present table, or of no partition that is here.
    Elsewhere,
    /// The snapshot is not open.
    Snapshot,
    Invalid,
}

impl Scene {
    fn new() -> Scene {
        Scene::of(CoreLimits {
            page_keys_max: PAGE_KEYS_MAX,
            snapshot_lease_us: u64::MAX / 4,
            ..CoreLimits::default()
        })
    }

    fn of(limits: CoreLimits) -> Scene {
        let mut known = configuration();
        let table = &mut known.tables[0];
        // The order of its copy is finer than that of the primary replex.
        table.schema.indexes.push(Index {
            name: "fine".into(),
            columns: vec![0, 1],
            constraint: None,
            partition_columns: None,
            by_range: false,
        });
        table.layout = Layout::base(&table.schema);
        let replexes = table.layout.replexes.len();
        let places = table.placement[0].clone();
        table.placement = vec![places; replexes];
        // Its numbers are vacant then.
        let removed = table.layout.remove(&mut table.schema, "h");
        removed.expect("it is a further copy");
        for (number, places) in table.placement.iter_mut().enumerate() {
            let count = table.layout.partition_count(number) as usize;
            let place = places.first().copied().expect("it has places");
            *places = vec![place; count];
        }
        let share = SnapshotUse {
            snapshot: SnapshotId {
                opener: CoreId::default(),
                incarnation: Incarnation(0),
                number: 0,
            },
            reader: ReaderId(1),
            user: 1,
        };
        let mut scene = Scene {
            core: Core::of(known.clone(), limits),
            known,
            now: Rows::new(),
            at_snapshot: Rows::new(),
            snapshot: share,
            closed: share.snapshot,
            last_request: 0,
        };
        for id in 0..ROWS {
            scene.insert(id);
        }
        scene.snapshot = scene.open();
        scene.at_snapshot = scene.now.clone();
        for id in (0..ROWS).step_by(3) {
            scene.move_row(id);
        }
        for id in ROWS - 5..ROWS {
            // The dense index gives up its last place only.
            scene.delete(2 * ROWS - 6 - id);
        }
        scene.insert(ROWS - 5);
        let closed = scene.open();
        scene.closed = closed.snapshot;
        let close = Request::Snapshot(SnapshotRequest::Close(closed));
        scene.core.ask(1, close);
        scene
    }

    fn table(&self) -> &PlacedTable {
        &self.known.tables[0]
    }

    fn open(&mut self) -> SnapshotUse {
        // Until the pause after the opening before is over.
        self.core.now.monotonic_us += 5_000;
        let tables = vec![(self.table().id, self.known.epoch)];
        let reader = ReaderId(1);
        let open = SnapshotRequest::Open { reader, tables };
        self.core.ask(1, Request::Snapshot(open));
        match self.core.last.take() {
            Some(Reply::Snapshot(SnapshotReply::Opened(opened))) => opened.share,
            other => panic!("{other:?}"),
        }
    }

    fn insert(&mut self, id: i64) {
        let values = self.values(id);
        let row = encode_row(&self.table().schema.columns, &values).expect("it fits");
        self.write(id, Action::Insert { row: Bytes(row) });
        self.now.insert(id, values);
    }

    fn move_row(&mut self, id: i64) {
        let tail = Value::Text(format!("moved {}", id % 4));
        let assignment = Assignment {
            column: 1,
            value: Expression::Literal(tail.clone()),
        };
        let assignments = vec![assignment];
        let condition = None;
        self.write(
            id,
            Action::Update {
                assignments,
                condition,
            },
        );
        self.now.get_mut(&id).expect("it is there")[1] = tail;
    }

    fn delete(&mut self, id: i64) {
        self.write(id, Action::Delete { condition: None });
        self.now.remove(&id);
    }

    fn values(&self, id: i64) -> Vec<Value> {
        let golden = samples::row();
        let columns = &self.table().schema.columns;
        let golden = RowView::parse(columns, &golden).expect("it is a row");
        let mut values = golden.to_values();
        values[0] = Value::Int64(id);
        values[1] = Value::Text(format!("N{}", id % 5));
        values[6] = Value::Uuid([id as u8; 16]);
        values[7] = Value::Int64(self.now.len() as i64 + 1);
        values
    }

    fn write(&mut self, id: i64, action: Action) {
        let values = self.values(id);
        let number = partition_of(&self.table().layout, 0, &values);
        self.last_request += 1;
        let execute = Execute {
            request: RequestId {
                session: SessionId(5),
                number: self.last_request,
            },
            acknowledged_below: 0,
            epoch: self.known.epoch,
            table: self.table().id,
            partition: PartitionId {
                table: self.table().id,
                replex: 0,
                number,
            },
            mutations: vec![Mutation {
                pk: Bytes(encode_key([Value::Int64(id).as_ref()])),
                action,
            }],
        };
        self.core.ask(1, Request::Execute(execute));
        let reply = self.core.last.take();
        let applied = self.core.replies.get("reply-applied").copied();
        assert_eq!(applied, Some(self.last_request), "{reply:?}");
    }

    /// Returns a read of which most fields fit.
    fn forge(&self, source: &mut Source<'_>) -> Read {
        let table = self.table();
        let numbers: Vec<usize> = table.layout.numbers().collect();
        let replex = numbers[usize::from(u8::generate(source)) % numbers.len()];
        let count = table.layout.partition_count(replex);
        let mut partition = PartitionId {
            table: table.id,
            replex: replex as u8,
            number: u32::from(u8::generate(source)) % count,
        };
        let rarely = |source: &mut Source<'_>| !mostly(source) && !mostly(source);
        if rarely(source) {
            partition = Generate::generate(source);
        }
        let redirect = (u8::generate(source) % 3 == 0).then(|| self.forge_redirect(source));
        let order = redirect
            .as_ref()
            .map_or(replex, |it| usize::from(it.replex));
        let one_in = |source: &mut Source<'_>, count| u8::generate(source) % count == 0;
        let epoch = match rarely(source) {
            true => Epoch(u64::from(u8::generate(source)) % 12),
            false => self.known.epoch,
        };
        let keys = match one_in(source, 4) {
            true => self.forge_keys(source, order),
            false => Vec::new(),
        };
        Read {
            epoch,
            partition,
            start: match one_in(source, 3) {
                true => Bytes::default(),
                false => self.forge_key(source, order),
            },
            end: (!one_in(source, 3)).then(|| self.forge_key(source, order)),
            filter: one_in(source, 4).then(|| below(i64::from(u8::generate(source)) % ROWS)),
            projection: match u8::generate(source) % 8 {
                0 => Some(vec![0]),
                1 => Some(vec![0, u16::generate(source) % 12]),
                _ => None,
            },
            limit: u32::from(u8::generate(source) % 12),
            descending: one_in(source, 3),
            count_only: one_in(source, 5),
            consistency: match one_in(source, 3) {
                true => Consistency::Stale,
                false => Consistency::Linearizable,
            },
            agreement: match u8::generate(source) % 5 {
                0 => Agreement::Quiet,
                1 => Agreement::Hold(u64::generate(source)),
                _ => Agreement::Alone,
            },
            redirect,
            snapshot: self.forge_snapshot(source),
            keys,
        }
    }

    fn forge_redirect(&self, source: &mut Source<'_>) -> Redirect {
        let layout = &self.table().layout;
        let replex = match mostly(source) {
            true => usize::from(u8::generate(source)) % (layout.replexes.len() + 1),
            false => usize::from(u8::generate(source)),
        };
        let mut constraints = SlotConstraints::any(layout.key_spaces.len());
        let small = |source: &mut Source<'_>| u32::from(u8::generate(source)) % 4;
        match u8::generate(source) % 8 {
            0 => drop(constraints.residues.pop()),
            1 => constraints.residues.push(Vec::new()),
            2..=5 => {
                let place = usize::from(u8::generate(source)) % constraints.residues.len();
                constraints.residues[place].push(Residue {
                    stride: small(source),
                    divisions: small(source),
                    coordinate: small(source),
                });
            }
            _ => {}
        }
        let own = usize::from(u8::generate(source)) % layout.replexes.len();
        let is_scan = u8::generate(source).is_multiple_of(4);
        Redirect {
            replex: replex as u8,
            constraints,
            scan_from: is_scan.then(|| self.forge_key(source, own)),
        }
    }

    fn forge_snapshot(&self, source: &mut Source<'_>) -> Option<SnapshotId> {
        let open = self.snapshot.snapshot;
        match u8::generate(source) % 16 {
            0..=4 => Some(open),
            5 => Some(self.closed),
            6 => Some(SnapshotId {
                number: u64::generate(source),
                ..open
            }),
            7 => Some(SnapshotId {
                incarnation: Incarnation(open.incarnation.0 + 1),
                ..open
            }),
            8 => Some(Generate::generate(source)),
            _ => None,
        }
    }

    /// Returns ascending keys, most of the time.
    fn forge_keys(&self, source: &mut Source<'_>, order: usize) -> Vec<Bytes> {
        let count = match mostly(source) {
            true => 1 + usize::from(u8::generate(source)) % 5,
            false => KEYS_MAX + 1,
        };
        let mut keys: Vec<Bytes> = (0..count).map(|_| self.forge_key(source, order)).collect();
        if mostly(source) {
            keys.sort_by(|one, other| one[..].cmp(&other[..]));
            keys.dedup();
        }
        keys
    }

    /// Returns a key of a row in the order of a replex, often with a byte more or less, or any
    /// bytes.
    fn forge_key(&self, source: &mut Source<'_>, order: usize) -> Bytes {
        let layout = &self.table().layout;
        let row = i64::from(u8::generate(source)) % ROWS;
        let rows = match mostly(source) {
            true => &self.now,
            false => &self.at_snapshot,
        };
        let mut key = match rows.get(&row) {
            Some(values) if order < layout.replexes.len() => key_of(layout, order, values),
            _ => Bytes::generate(source).0,
        };
        match u8::generate(source) % 5 {
            0 => drop(key.pop()),
            1 => key.push(u8::generate(source)),
            2 => key.truncate(usize::from(u8::generate(source)) % 12),
            3 if !mostly(source) => key = vec![u8::generate(source); 5_000],
            _ => {}
        }
        Bytes(key)
    }

    /// Returns what a core must answer to a read.
    fn verdict(&self, read: &Read) -> Verdict {
        let table = self.table();
        let PartitionId {
            table: id,
            replex,
            number,
        } = read.partition;
        let places = table.placement.get(usize::from(replex));
        let is_here = id == table.id && places.is_some_and(|it| it.len() > number as usize);
        if read.epoch != self.known.epoch || !is_here {
            return Verdict::Elsewhere;
        }
        if read.snapshot.is_some_and(|it| it != self.snapshot.snapshot) {
            return Verdict::Snapshot;
        }
        let layout = &table.layout;
        let is_thin = layout.is_thin(usize::from(replex));
        let columns = layout.entry_columns(&table.schema, usize::from(replex));
        let has = |column: &u16| match &columns {
            Some(columns) => columns.contains(&usize::from(*column)),
            None => usize::from(*column) < table.schema.columns.len(),
        };
        let may_name_keys = read.redirect.is_none()
            && !matches!(read.agreement, Agreement::Hold(_))
            && !read.descending
            && read.keys.len() <= KEYS_MAX
            && read.keys.windows(2).all(|pair| pair[0][..] < pair[1][..]);
        let may_be_redirected = read.redirect.as_ref().is_none_or(|redirect| {
            let order = usize::from(redirect.replex);
            let residues = &redirect.constraints.residues;
            let possible = |it: &Residue| it.stride > 0 && it.coordinate < it.divisions;
            let bounds = [Some(&read.start), read.end.as_ref()];
            let mut bounds = bounds.into_iter().flatten();
            read.snapshot.is_none()
                && !is_thin
                && !bounds.any(|bound| self.is_beyond_key(order, bound))
                && layout.numbers().any(|number| number == order)
                && residues.len() == layout.key_spaces.len()
                && residues.iter().flatten().all(possible)
        });
        let is_valid = (read.keys.is_empty() || may_name_keys)
            && may_be_redirected
            && !(is_thin && read.count_only && read.snapshot.is_none())
            && read.projection.iter().flatten().all(has);
        match is_valid {
            true => Verdict::Rows,
            false => Verdict::Invalid,
        }
    }

    /// Returns whether bytes begin with a whole key of a replex's order and go on.
    fn is_beyond_key(&self, order: usize, bytes: &[u8]) -> bool {
        let table = self.table();
        let mut numbers = table.layout.numbers();
        if !numbers.any(|number| number == order) {
            return false;
        }
        let columns = table.layout.order(order);
        let types = columns.iter();
        let types = types.map(|it| table.schema.columns[it.column].column_type);
        let types: Vec<ColumnType> = types.collect();
        (0..bytes.len()).any(|length| decode_sorted(&columns, &types, &bytes[..length]).is_ok())
    }

    /// Returns the rows that a valid read describes, by key, in the order in which they are read.
    fn described(&self, read: &Read, own_order: bool) -> Vec<(Vec<u8>, i64)> {
        let layout = &self.table().layout;
        let own = usize::from(read.partition.replex);
        let redirect = read.redirect.as_ref();
        let order = redirect.map_or(own, |it| usize::from(it.replex));
        let rows = match read.snapshot {
            Some(_) => &self.at_snapshot,
            None => &self.now,
        };
        let is_described = |(id, values): &(&i64, &Vec<Value>)| {
            let key = key_of(layout, order, values);
            let in_range = key[..] >= *read.start && read.end.as_ref().is_none_or(|it| key < it.0);
            let is_named = read.keys.is_empty() || read.keys.iter().any(|it| it.0 == key);
            let admits = |redirect: &Redirect| {
                let row = encode_row(&self.table().schema.columns, values).expect("it fits");
                let row = RowView::parse(&self.table().schema.columns, &row).expect("it is a row");
                layout.admits_row(&redirect.constraints, &row)
            };
            let passes = read
                .filter
                .as_ref()
                .is_none_or(|it| (**id + 1..ROWS).any(|above| *it == below(above)));
            partition_of(layout, own, values) == read.partition.number
                && in_range
                && is_named
                && passes
                && redirect.is_none_or(admits)
        };
        let described = rows.iter().filter(is_described);
        let sorted_by = if own_order { own } else { order };
        let described = described.map(|(id, values)| (key_of(layout, sorted_by, values), *id));
        let mut described: Vec<(Vec<u8>, i64)> = described.collect();
        described.sort();
        if read.descending && !own_order {
            described.reverse();
        }
        if let Some(from) = redirect.and_then(|redirect| redirect.scan_from.as_ref()) {
            described.retain(|(key, _)| key[..] >= from[..]);
        }
        described
    }

    /// Checks a page: it has the first rows that its read describes, and names where the others
    /// follow.
    fn check(&self, read: &Read, page: &RowPage) {
        let redirect = read.redirect.as_ref();
        let is_scan = redirect.is_some_and(|redirect| redirect.scan_from.is_some());
        assert!(redirect.is_some() || !page.own_order, "{read:?}");
        assert!(page.own_order || !is_scan, "{read:?}");
        let described = self.described(read, page.own_order);
        let count = page.count as usize;
        assert!(
            count <= described.len(),
            "{read:?} has {described:?}, got {count}"
        );
        assert!(count <= read.limit as usize, "{read:?}");
        let (first, rest) = described.split_at(count);
        if !read.count_only {
            let ids: Vec<i64> = self.ids(read, page);
            let wanted: Vec<i64> = first.iter().map(|(_, id)| *id).collect();
            assert_eq!(ids, wanted, "{read:?}");
        }
        let descends = read.descending && !page.own_order;
        let follows = |next: &Bytes, key: &[u8]| match descends {
            false => key >= &next[..],
            true => key < &next[..],
        };
        match &page.next {
            None => assert_eq!(rest, [], "{read:?}"),
            // Of no rows there is no next page.
            Some(_) if read.limit == 0 => {}
            Some(next) => {
                assert!(
                    rest.iter().all(|(key, _)| follows(next, key)),
                    "{read:?} {next:?}"
                );
                assert!(
                    !first.iter().any(|(key, _)| follows(next, key)),
                    "{read:?} {next:?}"
                );
            }
        }
    }

    fn ids(&self, read: &Read, page: &RowPage) -> Vec<i64> {
        let mut columns = self.table().schema.columns.clone();
        if let Some(projection) = &read.projection {
            let projected = projection
                .iter()
                .map(|it| columns[usize::from(*it)].clone());
            columns = projected.collect();
        } else if self
            .table()
            .layout
            .is_thin(usize::from(read.partition.replex))
        {
            columns.iter_mut().for_each(|column| column.nullable = true);
        }
        let id = |(_, row): (_, &[u8])| {
            let row = RowView::parse(&columns, row).expect("it was stored");
            match row.column(0) {
                ValueRef::Int64(id) => id,
                other => panic!("{other:?}"),
            }
        };
        page.rows().map(id).collect()
    }
}

/// `id < value`.
fn below(value: i64) -> Expression {
    Expression::Binary(
        BinaryOperator::Less,
        Box::new(Expression::Column(0)),
        Box::new(Expression::Literal(Value::Int64(value))),
    )
}

fn key_of(layout: &Layout, replex: usize, values: &[Value]) -> Vec<u8> {
    encode_sorted(&layout.order(replex), |column| values[column].as_ref())
}

fn partition_of(layout: &Layout, replex: usize, values: &[Value]) -> u32 {
    layout.partition_of_values(replex, |column| values[column].as_ref())
}

#[test]
fn forged_reads_return_what_they_describe_or_are_refused() {
    let mut scene = Scene::new();
    let mut runner = TestRunner::deterministic();
    let mut answers: BTreeMap<&str, u64> = BTreeMap::new();
    for correlation in 2..30_000 {
        let bytes = proptest::collection::vec(any::<u8>(), 400);
        let tree = bytes.new_tree(&mut runner).expect("bytes are not filtered");
        let seed = tree.current();
        let read = scene.forge(&mut Source::new(&seed));
        scene.core.ask(correlation, Request::Read(read.clone()));
        let reply = scene.core.last.take().expect("it was answered");
        let verdict = scene.verdict(&read);
        let answer = match (&reply, verdict) {
            (Reply::Rows(page), Verdict::Rows) => {
                scene.check(&read, page);
                match (page.count, &page.next) {
                    (0, _) => "no rows",
                    (_, None) => "all rows",
                    (_, Some(_)) => "some rows",
                }
            }
            (Reply::Refused(Refusal::Invalid { .. }), Verdict::Invalid) => "invalid",
            (Reply::Refused(Refusal::Snapshot(SnapshotFailure::Unknown)), Verdict::Snapshot) => {
                "snapshot"
            }
            (Reply::Refused(refusal), Verdict::Elsewhere) => {
                let is_named = matches!(
                    refusal,
                    Refusal::StaleEpoch { .. } | Refusal::WrongPartition | Refusal::NotServing
                );
                assert!(is_named, "{read:?} was answered {refusal:?}");
                "elsewhere"
            }
            (reply, verdict) => panic!("{read:?} was answered {reply:?}, not {verdict:?}"),
        };
        *answers.entry(answer).or_default() += 1;
    }
    for answer in [
        "no rows",
        "all rows",
        "some rows",
        "invalid",
        "snapshot",
        "elsewhere",
    ] {
        let count = answers.get(answer).copied().unwrap_or(0);
        assert!(count > 200, "{answers:?}");
    }
}

/// Overwrites rows until the core cannot keep what a snapshot needs. Until then each read of it is
/// complete, and from then on none is answered.
#[test]
fn a_snapshot_older_than_the_history_is_refused() {
    let limits = CoreLimits {
        snapshot_lease_us: u64::MAX / 4,
        ..CoreLimits::default()
    };
    let bytes = Scene::of(limits).core.machine.backlog().history_bytes;
    let mut scene = Scene::of(CoreLimits {
        history_bytes_max: bytes + bytes / 4,
        ..limits
    });
    let snapshot = scene.snapshot.snapshot;
    let layout = scene.table().layout.clone();
    let partitions = layout.numbers().flat_map(|replex| {
        let numbers = 0..layout.partition_count(replex);
        numbers.map(move |number| (replex, number))
    });
    let partitions: Vec<(usize, u32)> = partitions.collect();
    let (mut complete, mut refused) = (0, 0);
    for round in 0..200 {
        let (replex, number) = partitions[round % partitions.len()];
        let read = Read {
            limit: 1_000,
            snapshot: Some(snapshot),
            ..Read::of(
                scene.known.epoch,
                PartitionId {
                    table: scene.table().id,
                    replex: replex as u8,
                    number,
                },
            )
        };
        scene.core.ask(1, Request::Read(read.clone()));
        match scene.core.last.take() {
            Some(Reply::Rows(page)) => {
                assert_eq!(refused, 0, "it was refused before");
                assert_eq!(page.next, None);
                scene.check(&read, &page);
                complete += 1;
            }
            Some(Reply::Refused(Refusal::Snapshot(SnapshotFailure::HistoryFull))) => refused += 1,
            other => panic!("{other:?}"),
        }
        // Each overwrites another row, so that history has more rows and not more versions.
        let ids: Vec<i64> = scene.now.keys().copied().collect();
        scene.move_row(ids[round % ids.len()]);
    }
    assert!(complete > 5 && refused > 5, "{complete} and {refused}");
    // Only the history of this snapshot is full: the next one can be read.
    let next = scene.open().snapshot;
    assert_ne!(next, snapshot);
}
