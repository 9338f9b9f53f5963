//! A machine alone that holds a range of a copy: its reports, the rows that it removes, and those
//! that it gives (R47, R49).

mod pair;

use std::ops::ControlFlow;
use std::sync::Arc;

use machines::core::{CoreIdentity, CoreInput, CoreLimits, CoreMachine, CoreOutput};
use placement::tables::{MemoryTables, Tables};
use placement::{Layout, RangeStart, SlotConstraints, Value, encode_key, encode_row};
use protocol::codec::Bytes;
use protocol::configuration::{Configuration, Place};
use protocol::identity::{
    ClockReading, Epoch, FinishedLine, Incarnation, PartitionId, Position, TableId,
};
use protocol::message::{
    CoordinatorRequest, PeerHeader, PeerMessage, RangeReport, Read, Redirect, Reply, Request,
};

use pair::{configuration, core};

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

struct Machine {
    machine: CoreMachine,
    tables: MemoryTables,
    now_us: u64,
}

impl Machine {
    /// Returns a machine whose range has all rows.
    fn start() -> Machine {
        let identity = CoreIdentity {
            cluster: 1,
            core: core(OWN),
            incarnation: Incarnation(1),
        };
        let limits = CoreLimits {
            range_entries_max: ENTRIES_MAX,
            ..CoreLimits::default()
        };
        let configuration = with_range();
        let columns = configuration.tables[0].schema.columns.clone();
        let mut it = Machine {
            machine: CoreMachine::new(identity, limits, Arc::new(configuration)),
            tables: MemoryTables::new(),
            now_us: 5_000_000,
        };
        let (now, mut output) = (it.now(), CoreOutput::default());
        let started = it
            .machine
            .start(now, Position(1), &mut it.tables, &mut output);
        started.expect("tables in memory do not fail");
        for send in output.sends {
            if let PeerMessage::Recover { table, attempt } = send.message {
                it.receive(PeerMessage::RecoverEnd {
                    table,
                    attempt,
                    count: 0,
                    finished_below: FinishedLine {
                        incarnation: Incarnation(1),
                        sequence: 1,
                    },
                });
            }
        }
        assert!(!it.machine.is_recovering());
        for row in 0..ROWS {
            let values = [Value::Int64(row), Value::Int64(row)];
            let stored = encode_row(&columns, &values).expect("the values are of the columns");
            let stored = [&9_u64.to_le_bytes()[..], &stored].concat();
            it.tables.put(range(0).rows_table(), &key(row), &stored);
        }
        it
    }

    fn now(&self) -> ClockReading {
        ClockReading {
            monotonic_us: self.now_us,
            ..ClockReading::default()
        }
    }

    fn step(&mut self, input: CoreInput) -> CoreOutput {
        let (now, mut output) = (self.now(), CoreOutput::default());
        let stepped = self.machine.step(now, input, &mut self.tables, &mut output);
        stepped.expect("tables in memory do not fail");
        output
    }

    fn receive(&mut self, message: PeerMessage) -> CoreOutput {
        let epoch = self.machine.configuration().epoch;
        let header = PeerHeader {
            from: core(OTHER),
            incarnation: Incarnation(1),
            epoch,
            table_epoch: epoch,
        };
        self.step(CoreInput::Peer { header, message })
    }

    /// Lets time pass until the next heartbeat, and returns what it reports of ranges.
    fn reports(&mut self) -> Vec<RangeReport> {
        for _ in 0..1_000 {
            self.now_us += 10_000;
            for ask in self.step(CoreInput::Tick).asks {
                if let CoordinatorRequest::Heartbeat { ranges, .. } = ask {
                    return ranges;
                }
            }
        }
        panic!("there was no heartbeat in ten seconds");
    }

    /// Returns the rows of the range that are stored.
    fn stored(&self) -> usize {
        let mut count = 0;
        let counted = self
            .tables
            .scan(range(0).rows_table(), b"", None, &mut |_, _| {
                count += 1;
                ControlFlow::Continue(())
            });
        counted.expect("tables in memory do not fail");
        count
    }
}

#[test]
fn a_report_ends_with_the_range_that_it_is_about() {
    let mut machine = Machine::start();
    let reported = (0..10).find_map(|_| machine.reports().into_iter().next());
    let report = reported.expect("the range has too many rows");
    assert_eq!((report.partition, report.entries), (range(0), ROWS as u64));
    assert_eq!(report.split_at, Some(Bytes(key(ROWS / 2))));
    // Another core has received the upper part. A split at the same key is impossible now.
    machine.step(CoreInput::Configuration(Arc::new(split_at(10))));
    assert_eq!(machine.reports(), []);
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
    let mut machine = Machine::start();
    machine.step(CoreInput::Configuration(Arc::new(split_at(5))));
    assert_eq!(machine.stored(), ROWS as usize, "they are removed later");
    assert_eq!(given(&mut machine), [5, 1]);
    assert_eq!(read_instead(&mut machine), 5);
    machine.reports();
    assert_eq!(machine.stored(), 5);
}

/// Returns how many rows are given to a partition of the primary replex that is filled: in a page
/// of all rows, and of the rows 4 and 12.
fn given(machine: &mut Machine) -> [u64; 2] {
    let of = PartitionId {
        replex: 0,
        ..range(0)
    };
    let page = |message: PeerMessage| match message {
        PeerMessage::Copied { page, .. } | PeerMessage::Fetched { page, .. } => Some(page.count),
        _ => None,
    };
    let mut count = |message| {
        let sends = machine.receive(message).sends;
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
fn read_instead(machine: &mut Machine) -> u64 {
    machine.step(CoreInput::Beat {
        sent_us: machine.now_us,
        epoch: Epoch(4),
        lease_us: 1_000_000_000,
        session_floor: Default::default(),
    });
    let constraints = SlotConstraints::any(
        machine.machine.configuration().tables[0]
            .layout
            .key_spaces
            .len(),
    );
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
        client: machines::core::ClientId(1),
        correlation: 1,
        request: Request::Read(read),
    };
    let replies = machine.step(request).replies;
    let Some(Reply::Rows(rows)) = replies.first().map(|it| &it.reply) else {
        panic!("no rows: {replies:?}");
    };
    rows.count
}
