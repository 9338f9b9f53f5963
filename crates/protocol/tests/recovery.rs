//! A recovery ends also when there is nobody left to hear.

mod pair;

use std::sync::Arc;

use placement::tables::MemoryTables;
use protocol::identity::{Epoch, Incarnation, Now, Position};
use protocol::machine::{CoreMachine, Identity, Input, Limits, Output};

use pair::{configuration, core};

#[test]
fn a_recovery_whose_peers_hold_nothing_any_more_ends() {
    let identity = Identity {
        cluster: 1,
        core: core(1),
        incarnation: Incarnation(2),
    };
    let (mut tables, mut output) = (MemoryTables::new(), Output::default());
    let mut machine = CoreMachine::new(identity, Limits::default(), Arc::new(configuration()));
    machine
        .start(Now::default(), Position(1), &mut tables, &mut output)
        .expect("tables in memory do not fail");
    assert!(machine.is_recovering());
    let mut without_tables = configuration();
    without_tables.epoch = Epoch(4);
    without_tables.tables.clear();
    let input = Input::Configuration(Arc::new(without_tables));
    machine
        .step(Now::default(), input, &mut tables, &mut output)
        .expect("tables in memory do not fail");
    assert!(!machine.is_recovering());
}
