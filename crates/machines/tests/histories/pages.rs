//! A row that moves from a page that is read late to a page that was read early, while a thin index
//! is filled from these pages (R55).

use machines::core::CoreLimits;
use placement::Value;
use protocol::message::PeerMessage;

use super::{Change, Finding, History, NUMBER, Random, SPACE, TAIL, push_thin, schema};
use crate::cluster::{Cluster, Flight};

/// The only row.
const ID: i64 = 1;

/// Fills the thin index over a column, and changes the other column of the row meanwhile.
pub(super) fn row_passes_the_pages(column: usize, unique: bool) -> Finding {
    let mut random = Random(0);
    let mut schema = schema(&mut random);
    schema.partitions = 4;
    schema.further.clear();
    schema.thin.clear();
    let indexes = schema.indexes.iter_mut();
    indexes.for_each(|index| index.constraint = None);
    push_thin(&mut schema, column, unique);
    let space = 3;
    let mut history = History::of(random, schema, CoreLimits::default());
    assert_eq!(history.cluster.layout().replexes[space].name, SPACE);
    let cell = |cluster: &Cluster, (tail, number): (u64, i64)| {
        let values = [
            Value::Int64(ID),
            Value::Text(format!("T{tail}")),
            Value::Int64(number),
        ];
        let value = |column: usize| values[column].as_ref();
        cluster.layout().partition_of_values(space, value)
    };
    // The first place of the row, from which the change moves it to another cell.
    let mut places = (0..100).map(|it| match column {
        NUMBER => ((it, 0), (it + 1, 0)),
        _ => ((0, it as i64), (0, it as i64 + 1)),
    });
    let moves = |(from, to): &((u64, i64), (u64, i64))| {
        let cluster = &history.cluster;
        cell(cluster, *from) != cell(cluster, *to)
    };
    let (from, to) = places.find(moves).expect("cells differ");
    let late = cell(&history.cluster, from);
    history.begin(ID, Change::Insert(format!("T{}", from.0), from.1))?;
    history.settle_down()?;

    lose(&mut history.cluster, space + 1)?;
    let asks_late = |flight: &Flight| {
        let PeerMessage::Copy { from, .. } = &flight.message else {
            return false;
        };
        (usize::from(from.replex), from.number) == (space, late)
    };
    deliver_others(&mut history, &asks_late)?;
    let change = match column {
        TAIL => Change::Add,
        _ => Change::Retail(format!("T{}", to.0)),
    };
    history.begin(ID, change)?;
    deliver_others(&mut history, &asks_late)?;
    if !history.open.is_empty() || !history.cluster.network.iter().any(asks_late) {
        return Err("the page is not read after the change".into());
    }
    history.fill_all()?;
    history.cluster.make_entries()?;
    history.check()
}

/// Loses the server of a replex, whose partitions a spare server gets.
fn lose(cluster: &mut Cluster, replex: usize) -> Finding {
    let places = &cluster.configuration.tables[0].placement[replex];
    let lost = places[0].core.server.0;
    let partitions: Vec<_> = (0..places.len()).map(|number| (replex, number)).collect();
    let by = cluster.spares()[0];
    cluster.crash(lost, true)?;
    cluster.replace(&partitions, by)?;
    cluster.wipe(lost);
    cluster.pass(1)
}

/// Delivers all messages but these, and what follows from them.
fn deliver_others(history: &mut History, is_held: &dyn Fn(&Flight) -> bool) -> Finding {
    let network = |history: &History| {
        let mut network = history.cluster.network.iter();
        network.position(|flight| !is_held(flight))
    };
    while let Some(index) = network(history) {
        history.cluster.deliver(index)?;
    }
    history.take_replies()
}

#[cfg(not(feature = "planted"))]
#[test]
fn a_row_that_passes_the_pages_has_its_entry() {
    for column in [TAIL, NUMBER] {
        for unique in [false, true] {
            row_passes_the_pages(column, unique).unwrap();
        }
    }
}
