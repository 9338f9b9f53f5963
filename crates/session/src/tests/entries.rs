//! Reads of a thin index: entries first, then the rows of those that do not answer alone.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use placement::{Column, Layout, ThinIndex, Value, encode_key, encode_row};
use protocol::configuration::{Configuration, Place, ServerState};
use protocol::expression::{BinaryOperator, Expression};
use protocol::identity::{Epoch, Version};
use protocol::message::{Agreement, Read, Reply, Request, RowPage};

use super::redirect::Client;
use super::{configuration, core, key, partition, read, row, schema};
use crate::{Attempt, SessionFailure, SessionInput, SessionOperation, SessionOutcome};

const SECOND: u64 = 1_000_000;
/// The number of the thin index.
const THIN: u8 = 2;

/// Returns a table with a thin index over `a`, whose partitions are on server 2.
fn with_thin(down: bool) -> Arc<Configuration> {
    let mut with_thin = (*configuration(1)).clone();
    let table = &mut with_thin.tables[0];
    table.schema.thin.push(ThinIndex {
        name: "thin".into(),
        columns: placement::ascending(&[1]),
        included: Vec::new(),
        by_range: false,
        unique: false,
        copies: 1,
    });
    table.layout = Layout::base(&table.schema);
    let count = table.layout.partition_count(usize::from(THIN)) as usize;
    let place = Place::serving(core(2), Epoch(0));
    table.placement.push(vec![place; count]);
    if down {
        with_thin.servers[1].state = ServerState::Down;
        for places in &mut table.placement[..2] {
            places.fill(Place::serving(core(1), Epoch(0)));
        }
    }
    Arc::new(with_thin)
}

fn read_of_thin(change: impl Fn(&mut Read)) -> Read {
    let SessionOperation::Read(mut wanted) = read(0) else {
        panic!("it is a read");
    };
    wanted.partition = partition(THIN, 0);
    change(&mut wanted);
    wanted
}

impl Client {
    fn of_thin(change: impl Fn(&mut Read)) -> Client {
        let mut client = Client::new(with_thin(false));
        client.submit(SessionOperation::Read(read_of_thin(change)));
        client
    }

    /// Returns the reads that were sent since the last call.
    fn asked(&mut self) -> Vec<(Attempt, Read)> {
        let sent = core::mem::take(&mut self.sent).into_iter();
        let read = |attempt: Attempt| match attempt.request.clone() {
            Request::Read(read) => (attempt, read),
            other => panic!("{other:?} is no read"),
        };
        sent.map(read).collect()
    }

    /// Answers the read of entries with these values of `a` and ids; those at the positions in
    /// `marked` are marked.
    fn answer_entries(&mut self, entries: &[(i64, i64)], marked: &[u32]) {
        let mut asked = self.asked();
        let (attempt, read) = asked.pop().expect("entries are asked for");
        assert!(asked.is_empty() && read.partition == partition(THIN, 0));
        let mut page = quiet_page();
        for (version, (a, id)) in (1..).zip(entries) {
            page.push(Version(version), &row(*id, *a));
        }
        page.marked = marked.to_vec();
        self.reply(&attempt, Reply::Rows(page));
    }

    /// Answers the reads of rows that were sent. A row has this `a`, or is not there. Returns the
    /// ids that were asked for, ascending.
    fn answer_rows(&mut self, a_of: impl Fn(i64) -> Option<i64>) -> Vec<i64> {
        let mut asked_for = Vec::new();
        while !self.sent.is_empty() {
            for (attempt, read) in self.asked() {
                let ids = ids_of(&read);
                let page = rows_of(&read, &ids, &a_of);
                asked_for.extend(ids);
                self.reply(&attempt, Reply::Rows(page));
            }
        }
        asked_for.sort_unstable();
        asked_for
    }

    fn rows_page(&self) -> &RowPage {
        match &self.outcome {
            Some(SessionOutcome::Rows(page)) => page,
            other => panic!("no rows: {other:?}"),
        }
    }
}

/// Returns the ids that a read of rows asks for.
fn ids_of(read: &Read) -> Vec<i64> {
    assert_eq!(read.partition.replex, 0);
    let keys: Vec<Vec<u8>> = match read.keys.is_empty() {
        true => vec![read.start.0.clone()],
        false => read.keys.iter().map(|key| key.0.clone()).collect(),
    };
    let id = |wanted: Vec<u8>| (0..1_000).find(|id| key(*id) == wanted);
    let ids = keys.into_iter().map(id);
    ids.map(|id| id.expect("a row is asked for by its pk"))
        .collect()
}

/// Returns the page of the rows with these ids.
fn rows_of(read: &Read, ids: &[i64], a_of: &impl Fn(i64) -> Option<i64>) -> RowPage {
    let mut page = quiet_page();
    for (id, a) in ids.iter().filter_map(|id| Some((*id, a_of(*id)?))) {
        let columns = schema().columns;
        let values = [Value::Int64(id), Value::Int64(a)];
        let wanted = read.projection.as_ref().expect("it names the columns");
        let chosen = wanted.iter().map(|column| usize::from(*column));
        let columns: Vec<Column> = chosen.clone().map(|it| columns[it].clone()).collect();
        let values: Vec<Value> = chosen.map(|it| values[it].clone()).collect();
        page.push(Version(50), &encode_row(&columns, &values).unwrap());
    }
    page
}

fn quiet_page() -> RowPage {
    RowPage {
        quiet_us: Some(SECOND),
        ..RowPage::default()
    }
}

/// A condition that all rows fulfil.
fn condition() -> Expression {
    let zero = Expression::Literal(Value::Int64(0));
    let id = Expression::Column(0);
    Expression::Binary(BinaryOperator::GreaterEqual, id.into(), zero.into())
}

#[test]
fn an_entry_with_all_columns_answers_alone_unless_it_is_marked() {
    let mut client = Client::of_thin(|read| read.filter = Some(condition()));
    let asked = match &client.sent[0].request {
        Request::Read(read) => read.clone(),
        other => panic!("{other:?} is no read"),
    };
    assert_eq!(asked.filter, Some(condition()), "entries have its columns");
    client.answer_entries(&[(3, 1), (3, 2), (4, 1), (5, 3)], &[0, 2]);
    // The row of id 1 has moved from 3 to 4.
    assert_eq!(client.answer_rows(|_| Some(4)), [1]);
    let rows: Vec<_> = client
        .rows_page()
        .rows()
        .map(|(_, row)| row.to_vec())
        .collect();
    assert_eq!(rows, [row(2, 3), row(1, 4), row(3, 5)]);
}

#[test]
fn the_row_decides_about_a_marked_entry() {
    let mut client = Client::of_thin(|read| read.count_only = true);
    client.answer_entries(&[(3, 1), (3, 2), (7, 3)], &[0, 1, 2]);
    // The first has another key, the second is as it was, the third is gone.
    let asked = client.answer_rows(|id| [None, Some(9), Some(3), None][id as usize]);
    assert_eq!(asked, [1, 2, 3]);
    assert_eq!(client.rows_page().count, 1);
    assert!(client.rows_page().rows.is_empty());
}

#[test]
fn a_page_has_no_more_rows_than_its_limit() {
    for descending in [false, true] {
        let mut client = Client::of_thin(|read| (read.limit, read.descending) = (2, descending));
        let mut entries = vec![(3, 1), (4, 2), (5, 3)];
        if descending {
            entries.reverse();
        }
        client.answer_entries(&entries, &[0, 1, 2]);
        client.answer_rows(|id| Some(id + 2));
        let page = client.rows_page();
        assert_eq!(page.count, 2);
        // The last entry that counts, or the first one that does not.
        let next = if descending { (4, 2) } else { (5, 3) };
        let next = [next.0, next.1].map(Value::Int64);
        let next = encode_key(next.iter().map(Value::as_ref));
        assert_eq!(page.next.as_ref().map(|it| &it.0), Some(&next));
    }
}

#[test]
fn entries_and_rows_show_one_moment() {
    let mut client = Client::new(with_thin(false));
    let wanted = read_of_thin(|_| {});
    client.submit(SessionOperation::Moment(vec![wanted]));
    let mut rounds = 0;
    while client.outcome.is_none() {
        if client.sent.is_empty() {
            client.pass();
            continue;
        }
        rounds += 1;
        client.answer_entries(&[(3, 1)], &[0]);
        let (attempt, read) = client.asked().pop().expect("the row is asked for");
        assert_eq!(read.agreement, Agreement::Quiet);
        let mut page = RowPage {
            quiet_us: Some(0),
            ..RowPage::default()
        };
        page.push(Version(8), &row(1, 3));
        client.now_us += 1;
        client.reply(&attempt, Reply::Rows(page));
    }
    assert_eq!(client.outcome, Some(SessionOutcome::NoMoment));
    assert_eq!(rounds, 6, "rows that change all the time need a snapshot");
}

#[test]
fn a_lost_partition_is_read_from_copies() {
    let mut client = Client::new(with_thin(true));
    client.submit(SessionOperation::Read(read_of_thin(|_| {})));
    let asked = client.asked();
    assert!(!asked.is_empty());
    for (attempt, read) in asked {
        assert_ne!(read.partition.replex, THIN);
        let redirect = read.redirect.expect("it is in the order of the index");
        assert_eq!(redirect.replex, THIN);
        let mut page = quiet_page();
        if read.partition.number == 0 {
            page.push(Version(1), &row(4, 2));
        }
        client.reply(&attempt, Reply::Rows(page));
    }
    assert_eq!(client.rows_page().count, 1);
}

#[test]
fn malformed_entries_end_the_read() {
    let mut client = Client::of_thin(|_| {});
    let (attempt, _) = client.asked().pop().expect("entries are asked for");
    let mut page = quiet_page();
    page.push(Version(1), b"no entry");
    client.reply(&attempt, Reply::Rows(page));
    assert!(matches!(client.outcome, Some(SessionOutcome::Failed(_))));
    assert_eq!(client.machine.open_requests(), 0);
}

/// Seed 200,008,866: a thin index got the number of a dropped copy with the same order.
#[test]
fn a_thin_index_is_another_copy_than_the_dropped_one_of_its_number() {
    let mut client = Client::new(configuration(1));
    let mut next = (*configuration(2)).clone();
    let table = &mut next.tables[0];
    table.schema.indexes.clear();
    table.schema.thin.push(ThinIndex {
        name: "by_a".into(),
        columns: placement::ascending(&[1]),
        included: Vec::new(),
        by_range: false,
        unique: false,
        copies: 1,
    });
    table.layout = Layout::base(&table.schema);
    client.step(SessionInput::Configuration(Arc::new(next)));
    let chosen = read_of_thin(|read| (read.epoch, read.partition) = (Epoch(1), partition(1, 0)));
    client.submit(SessionOperation::Read(chosen));
    let gone = SessionFailure::PlaceGone {
        partition: Some(partition(1, 0)),
    };
    assert_eq!(client.outcome, Some(SessionOutcome::Failed(gone)));
}

#[test]
fn rows_of_one_partition_are_read_together() {
    let mut client = Client::of_thin(|read| read.limit = 100);
    let entries: Vec<(i64, i64)> = (0..50).map(|id| (3, id)).collect();
    client.answer_entries(&entries, &(0..50).collect::<Vec<u32>>());
    let asked = client.asked();
    assert!(asked.len() <= 4, "one request per partition");
    // A page that is full continues with the next key.
    let mut rest = Vec::new();
    for (attempt, read) in asked {
        let ids = ids_of(&read);
        assert!(read.keys.is_sorted() && read.limit as usize == ids.len());
        let (first, others) = ids.split_at(ids.len() / 2);
        let mut page = rows_of(&read, first, &|_| Some(3));
        page.next = others.first().map(|id| key(*id).into());
        rest.extend_from_slice(others);
        client.reply(&attempt, Reply::Rows(page));
    }
    rest.sort_unstable();
    assert_eq!(client.answer_rows(|id| (id != 7).then_some(3)), rest);
    let found: Vec<_> = client
        .rows_page()
        .rows()
        .map(|(_, row)| row.to_vec())
        .collect();
    let expected = (0..50).filter(|id| *id != 7 || !rest.contains(id));
    assert_eq!(found, expected.map(|id| row(id, 3)).collect::<Vec<_>>());
}

#[test]
fn rows_of_a_lost_partition_are_read_one_by_one() {
    let mut client = Client::new(with_thin(false));
    client.submit(SessionOperation::Read(read_of_thin(|read| {
        read.limit = 100
    })));
    let marked: Vec<u32> = (0..20).collect();
    let entries: Vec<(i64, i64)> = (0..20).map(|id| (3, id)).collect();
    client.answer_entries(&entries, &marked);
    let batches = core::mem::take(&mut client.sent).len();
    let mut next = (*with_thin(false)).clone();
    (next.epoch, next.servers[0].state) = (Epoch(2), ServerState::Down);
    next.tables[0].epoch = Epoch(2);
    next.tables[0].placement[1].fill(Place::serving(core(2), Epoch(0)));
    client.step(SessionInput::Configuration(Arc::new(next)));
    // The table has changed, so the entries are read again.
    client.answer_entries(&entries, &marked);
    let reads: Vec<Read> = client.asked().into_iter().map(|(_, read)| read).collect();
    let of_lost: Vec<&Read> = reads
        .iter()
        .filter(|read| read.redirect.is_some())
        .collect();
    assert!(of_lost.len() > batches, "a cover reads single keys");
    assert!(of_lost.iter().all(|read| read.keys.is_empty()));
}

/// Returns the key of an entry with a value of `a`, and of no id in particular.
fn key_of_a(a: i64) -> Vec<u8> {
    encode_key([Value::Int64(a)].iter().map(Value::as_ref))
}

/// Returns a table with two copies of a thin index. The first is one range, on server 2, which is
/// down. The second is on server 1, and is split where `a` is 4.
fn with_two_copies() -> Arc<Configuration> {
    let mut two = (*with_thin(true)).clone();
    let table = &mut two.tables[0];
    (table.schema.thin[0].by_range, table.schema.thin[0].copies) = (true, 2);
    table.layout = Layout::base(&table.schema);
    let ranges = table.layout.replexes[usize::from(COPY)].ranges.as_mut();
    let ranges = ranges.expect("ranges divide it");
    assert!(ranges.begin_split(0, &key_of_a(4), 1));
    ranges.hand_over(1);
    assert!(ranges.end_transfer(1));
    table.placement.truncate(usize::from(THIN));
    let place = |server| Place::serving(core(server), Epoch(0));
    table.placement.extend([vec![place(2)], vec![place(1); 2]]);
    Arc::new(two)
}

/// The number of the second copy.
const COPY: u8 = 3;

#[test]
fn another_copy_answers_for_the_keys_that_it_has() {
    for descending in [false, true] {
        let mut client = Client::new(with_two_copies());
        let ranges = match descending {
            false => [0, 1],
            true => [1, 0],
        };
        let bounds = |number| match number {
            0 => (key_of_a(2), Some(key_of_a(4))),
            _ => (key_of_a(4), Some(key_of_a(9))),
        };
        let (mut start, mut end) = (key_of_a(2), Some(key_of_a(9)));
        for (round, number) in ranges.into_iter().enumerate() {
            let wanted = read_of_thin(|read| {
                read.descending = descending;
                (read.start, read.end) = (start.clone().into(), end.clone().map(Into::into));
            });
            client.submit(SessionOperation::Read(wanted));
            let (attempt, asked) = client.asked().pop().expect("entries are asked for");
            assert_eq!(asked.partition, partition(COPY, number));
            let keys = (asked.start.0.clone(), asked.end.clone().map(|end| end.0));
            assert_eq!(keys, bounds(number), "{descending}");
            let mut page = quiet_page();
            page.push(Version(1), &row(7, 2 + 3 * i64::from(number)));
            client.reply(&attempt, Reply::Rows(page));
            let page = client.rows_page();
            assert_eq!(page.count, 1);
            // It continues where the copy's range ends.
            let next = page.next.as_ref().map(|it| it.0.clone());
            assert_eq!(next, (round == 0).then(|| key_of_a(4)), "{descending}");
            match descending {
                false => start = key_of_a(4),
                true => end = next,
            }
            client.outcome = None;
        }
    }
}

#[test]
fn copies_that_hashes_divide_have_the_same_partitions() {
    let mut two = (*with_thin(true)).clone();
    let table = &mut two.tables[0];
    table.schema.thin[0].copies = 2;
    table.layout = Layout::base(&table.schema);
    let count = table.placement[usize::from(THIN)].len();
    let place = Place::serving(core(1), Epoch(0));
    table.placement.push(vec![place; count]);
    let mut client = Client::new(Arc::new(two));
    client.submit(SessionOperation::Read(read_of_thin(|_| {})));
    let (_, asked) = client.asked().pop().expect("entries are asked for");
    assert_eq!(asked.partition, partition(COPY, 0));
    assert_eq!(asked.redirect, None);
}

#[test]
fn copies_of_the_table_answer_when_no_copy_of_the_index_can() {
    let mut both_down = (*with_two_copies()).clone();
    for place in &mut both_down.tables[0].placement[usize::from(COPY)] {
        *place = Place::serving(core(2), Epoch(0));
    }
    let mut client = Client::new(Arc::new(both_down));
    client.submit(SessionOperation::Read(read_of_thin(|_| {})));
    let asked = client.asked();
    assert!(!asked.is_empty());
    for (_, read) in asked {
        assert!(read.partition.replex < THIN && read.redirect.is_some());
    }
}
