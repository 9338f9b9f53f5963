//! The estimates of one core about a partition: exact for few rows, and near enough for many.

mod pair;
mod serving;

use machines::core::{ClientId, CoreInput, CoreLimits};
use placement::tables::Tables;
use placement::{Value, encode_key, part_before};
use protocol::identity::{Epoch, PartitionId, TableId};
use protocol::message::{PartitionStatistics, Refusal, Reply, Request, StatisticsRead};

use pair::configuration;
use serving::Participant;

/// The partition of the index over `tail`, which server 2 holds.
const BY_TAIL: PartitionId = PartitionId {
    table: TableId(1),
    replex: 1,
    number: 0,
};

/// Returns server 2 with these tails in its partition, one for each row.
fn holder_of(tails: impl Iterator<Item = i64>) -> Participant {
    let mut holder = Participant::of(2, configuration(), CoreLimits::default());
    for (id, tail) in (0..).zip(tails) {
        let key = encode_key([Value::Int64(tail).as_ref(), Value::Int64(id).as_ref()]);
        holder.tables.put(BY_TAIL.rows_table(), &key, b"");
    }
    holder
}

fn ask(holder: &mut Participant, epoch: u64, partition: PartitionId) -> Reply {
    let output = holder.step(CoreInput::Request {
        client: ClientId(1),
        correlation: 1,
        request: Request::Statistics(StatisticsRead {
            epoch: Epoch(epoch),
            partition,
        }),
    });
    let mut replies = output.replies.into_iter();
    replies.next().expect("it is answered at once").reply
}

fn statistics(tails: impl Iterator<Item = i64>) -> PartitionStatistics {
    match ask(&mut holder_of(tails), 3, BY_TAIL) {
        Reply::Statistics(statistics) => statistics,
        other => panic!("{other:?}"),
    }
}

/// Returns the rows for each tail.
fn rows_per_tail(tails: impl Iterator<Item = i64>) -> u64 {
    statistics(tails).rows_per_key[0]
}

#[test]
fn few_rows_are_counted() {
    let empty = statistics(0..0);
    assert_eq!((empty.rows, &empty.rows_per_key[..]), (Some(0), &[][..]));
    let few = statistics((0..100).map(|id| id % 5));
    assert_eq!(few.rows, Some(100));
    assert_eq!(few.rows_per_key, [20, 1]);
    let ends = (&few.first[..], &few.last[..]);
    let half = encode_key([Value::Int64(2).as_ref()]);
    assert!((0.4..0.6).contains(&part_before(ends, &half)));
    // One row, and keys that are shorter than others.
    for tails in [0..1, 0..2, 0..3] {
        let rows = tails.end as u64;
        assert_eq!(statistics(tails).rows, Some(rows));
    }
}

#[test]
fn many_rows_are_estimated() {
    let many = statistics((0..50_000).map(|id| id / 20));
    assert_eq!(many.rows, Some(50_000));
    assert!((15..=25).contains(&many.rows_per_key[0]), "{many:?}");
    assert_eq!(many.rows_per_key[1], 1);
    assert_eq!(rows_per_tail(0..50_000), 1, "all tails differ");
    assert_eq!(
        rows_per_tail((0..50_000).map(|_| 7)),
        50_000,
        "all are equal"
    );
    assert_eq!(rows_per_tail((0..50_000).map(|id| id % 10)), 5_000);
    // One value is rare, or far from the others.
    let one_differs = |last| (0..50_000).map(move |id| if id == 0 { last } else { 0 });
    assert_eq!(rows_per_tail(one_differs(1)), 25_000);
    let with_outlier = (0..50_000).map(|id| if id == 0 { 1 << 60 } else { id % 50 });
    let frequent = rows_per_tail(with_outlier);
    assert!(frequent >= 250, "{frequent}");
    // More values than are looked for one by one.
    let frequent = rows_per_tail((0..100_000).map(|id| id % 100));
    assert!((800..=1_250).contains(&frequent), "{frequent}");
}

#[test]
fn others_partitions_and_old_epochs_are_refused() {
    let mut holder = holder_of(0..10);
    let old = ask(&mut holder, 2, BY_TAIL);
    let is_stale = matches!(old, Reply::Refused(Refusal::StaleEpoch { .. }));
    assert!(is_stale, "{old:?}");
    let elsewhere = PartitionId {
        replex: 0,
        ..BY_TAIL
    };
    let refused = ask(&mut holder, 3, elsewhere);
    let is_refused = matches!(refused, Reply::Refused(Refusal::WrongPartition));
    assert!(is_refused, "{refused:?}");
}
