//! A machine alone that holds a range of a copy: its reports, the rows that it removes, and those
//! that it gives (R47, R49).

mod pair;
mod serving;

use std::ops::ControlFlow;
use std::sync::Arc;

use machines::core::{ClientId, CoreInput, CoreLimits};
use placement::tables::Tables;
use placement::{Layout, RangeStart, SlotConstraints, Value, encode_key, encode_row};
use protocol::codec::Bytes;
use protocol::configuration::{Configuration, Place};
use protocol::identity::{Epoch, PartitionId, TableId};
use protocol::message::{
    CoordinatorRequest, PeerMessage, RangeReport, Read, Redirect, Reply, Request,
};

use pair::{configuration, core};
use serving::Participant;

/// The server with the ranges, and the one with the primary replex.
const OWN: u32 = 2;
const OTHER: u32 = 1;
const BY_TAIL: u8 = 1;
const ENTRIES_MAX: u64 = 8;
const ROWS: i64 = 20;

fn range(number: u32) -> PartitionId {
    PartitionId {
        table: TableId(1),
        replex: BY_TAIL,
        number,
    }
}

/// The key of a row in the order of the copy. Row n has the id n and the tail n.
fn key(row: i64) -> Vec<u8> {
    encode_key([Value::Int64(row).as_ref(), Value::Int64(row).as_ref()])
}

/// The pair's table, whose copy by `tail` is one range.
fn with_range() -> Configuration {
    let mut configuration = configuration();
    let table = &mut configuration.tables[0];
    table.schema.indexes[0].by_range = true;
    table.schema.local_entries = false;
    table.layout = Layout::base(&table.schema);
    configuration
}

/// The next configuration, in which another partition has the range from a row on.
fn split_at(row: i64) -> Configuration {
    let mut next = with_range();
    next.epoch = Epoch(4);
    let table = &mut next.tables[0];
    table.epoch = Epoch(4);
    let ranges = table.layout.replexes[1].ranges.as_mut();
    let ranges = ranges.expect("ranges divide it");
    ranges.starts.push(RangeStart {
        key: key(row),
        partition: 1,
    });
    ranges.count = 2;
    table.placement[1].push(Place::serving(core(OTHER), Epoch(4)));
    next
}

/// Returns a server whose range has all rows.
fn start() -> Participant {
    let limits = CoreLimits {
        range_entries_max: ENTRIES_MAX,
        ..CoreLimits::default()
    };
    let configuration = with_range();
    let columns = configuration.tables[0].schema.columns.clone();
    let mut server = Participant::of(OWN, configuration, limits);
    for row in 0..ROWS {
        let values = [Value::Int64(row), Value::Int64(row)];
        let stored = encode_row(&columns, &values).expect("the values are of the columns");
        let stored = [&9_u64.to_le_bytes()[..], &stored].concat();
        server.tables.put(range(0).rows_table(), &key(row), &stored);
    }
    server
}

/// Lets the server learn that another partition has the range from a row on.
fn split(server: &mut Participant, row: i64) {
    server.step(CoreInput::Configuration(Arc::new(split_at(row))));
    server.epoch = 4;
}

/// Lets time pass until the next heartbeat, and returns what it reports of ranges.
fn reports(server: &mut Participant) -> Vec<RangeReport> {
    for _ in 0..1_000 {
        server.now.monotonic_us += 10_000;
        for ask in server.step(CoreInput::Tick).asks {
            if let CoordinatorRequest::Heartbeat { ranges, .. } = ask {
                return ranges;
            }
        }
    }
    panic!("there was no heartbeat in ten seconds");
}

/// Returns the number of the range's rows that are stored.
fn stored(server: &Participant) -> usize {
    let mut count = 0;
    let rows = range(0).rows_table();
    let counted = server.tables.scan(rows, b"", None, &mut |_, _| {
        count += 1;
        ControlFlow::Continue(())
    });
    counted.expect("tables in memory do not fail");
    count
}

#[test]
fn a_report_ends_with_the_range_that_it_is_about() {
    let mut server = start();
    let reported = (0..10).find_map(|_| reports(&mut server).into_iter().next());
    let report = reported.expect("the range has too many rows");
    assert_eq!((report.partition, report.entries), (range(0), ROWS as u64));
    assert_eq!(report.split_at, Some(Bytes(key(ROWS / 2))));
    // Another core has received the upper part. A split at the same key is impossible now.
    split(&mut server, 10);
    assert_eq!(reports(&mut server), []);
}

// `cargo xtask mutants` runs it alone: the bug is planted for the whole process.
#[cfg(feature = "planted")]
#[test]
fn the_planted_bug_is_noticed() {
    use protocol::planted::{Bug, select};
    select(Some(Bug::OldReportKept));
    let noticed = std::panic::catch_unwind(a_report_ends_with_the_range_that_it_is_about);
    assert!(noticed.is_err());
}

#[test]
fn rows_beyond_the_range_are_not_given_and_removed() {
    let mut server = start();
    split(&mut server, 5);
    assert_eq!(stored(&server), ROWS as usize, "they are removed later");
    assert_eq!(given(&mut server), [5, 1]);
    assert_eq!(read_instead(&mut server), 5);
    reports(&mut server);
    assert_eq!(stored(&server), 5);
}

/// Returns how many rows are given to a partition of the primary replex that is filled: in a page
/// of all rows, and of the rows 4 and 12.
fn given(server: &mut Participant) -> [u64; 2] {
    let of = PartitionId {
        replex: 0,
        ..range(0)
    };
    let page = |message: PeerMessage| match message {
        PeerMessage::Copied { page, .. } | PeerMessage::Fetched { page, .. } => Some(page.count),
        _ => None,
    };
    let mut count = |message| {
        let sends = server.peer(message).sends;
        let pages: Vec<u64> = sends
            .into_iter()
            .filter_map(|it| page(it.message))
            .collect();
        assert_eq!(pages.len(), 1, "it is answered");
        pages[0]
    };
    let copy = PeerMessage::Copy {
        of: vec![of],
        from: range(0),
        start: Bytes::default(),
    };
    let all = count(copy);
    let wanted = |row: i64| (Bytes(encode_key([Value::Int64(row).as_ref()])), None);
    let fetch = PeerMessage::Fetch {
        of,
        from: range(0),
        pass: 1,
        wanted: vec![wanted(4), wanted(12)],
        start: Bytes::default(),
    };
    [all, count(fetch)]
}

/// Returns how many rows a read returns in place of a lost partition of the primary replex.
fn read_instead(server: &mut Participant) -> u64 {
    server.renew();
    let layout = &server.machine.configuration().tables[0].layout;
    let constraints = SlotConstraints::any(layout.key_spaces.len());
    let read = Read {
        limit: 100,
        redirect: Some(Redirect {
            replex: 0,
            constraints,
            scan_from: None,
        }),
        ..Read::of(Epoch(4), range(0))
    };
    let request = CoreInput::Request {
        client: ClientId(1),
        correlation: 1,
        request: Request::Read(read),
    };
    let replies = server.step(request).replies;
    let Some(Reply::Rows(rows)) = replies.first().map(|it| &it.reply) else {
        panic!("no rows: {replies:?}");
    };
    rows.count
}
