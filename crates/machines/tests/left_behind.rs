//! Rows of a table that was dropped while its server was offline go when the server is back.

mod pair;

use std::sync::Arc;

use machines::core::{CoreIdentity, CoreLimits, CoreMachine, CoreOutput};
use placement::tables::{MemoryTables, Tables};
use protocol::configuration::Configuration;
use protocol::identity::{ClockReading, Epoch, Incarnation, PartitionId, Position, TableId};

use pair::{configuration, core};

fn machine(configuration: Configuration) -> CoreMachine {
    let identity = CoreIdentity {
        cluster: 1,
        core: core(1),
        incarnation: Incarnation(1),
    };
    CoreMachine::new(identity, CoreLimits::default(), Arc::new(configuration))
}

/// A table's first partition.
fn first(table: u32) -> PartitionId {
    PartitionId {
        table: TableId(table),
        replex: 0,
        number: 0,
    }
}

/// The table that holds its rows.
fn rows(table: u32) -> u64 {
    first(table).rows_table()
}

/// The table with the state of its local entries: those of table 1's row are to be made.
fn marks(table: u32) -> u64 {
    first(table).marks_table()
}

/// A disk with rows of table 1, which both configurations name, and of table 2; its checkpoint is
/// of epoch 3.
fn disk() -> MemoryTables {
    let mut tables = MemoryTables::new();
    tables.put(rows(1), b"key", b"row");
    tables.put(rows(2), b"key", b"row");
    machine(configuration()).before_checkpoint(&mut tables);
    tables
}

/// Which tables are left after a start in this epoch, and what it noted.
fn started(epoch: u64) -> (Vec<u64>, Vec<String>) {
    let mut configuration = configuration();
    configuration.epoch = Epoch(epoch);
    let (mut tables, mut output) = (disk(), CoreOutput::default());
    let mut machine = machine(configuration);
    machine
        .restore(&mut tables)
        .expect("what was saved decodes");
    machine
        .start(
            ClockReading::default(),
            Position(1),
            &mut tables,
            &mut output,
        )
        .expect("tables in memory do not fail");
    let mut left: Vec<u64> = tables.entries().map(|(table, ..)| table).collect();
    left.dedup();
    (left, output.notes)
}

#[test]
fn rows_of_no_table_go() {
    // The last one is what a checkpoint saves beside the rows.
    for epoch in [3, 4] {
        let left = vec![rows(1), marks(1), u64::MAX];
        assert_eq!(started(epoch), (left, Vec::new()));
    }
}

#[test]
fn an_old_configuration_drops_nothing() {
    let (left, notes) = started(2);
    assert_eq!(left, [rows(1), marks(1), rows(2), u64::MAX]);
    assert!(notes[0].contains("epoch 2, the disk of 3"), "{notes:?}");
}
