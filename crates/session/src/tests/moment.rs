//! Several ranges are read as of one moment: in quiet rounds, then in rounds with holds.

use alloc::vec;
use alloc::vec::Vec;

use protocol::codec::Bytes;
use protocol::configuration::PlacedTables;
use protocol::identity::Version;
use protocol::message::{Agreement, HoldRelease, Read, Reply, Request, RowPage};

use super::redirect::Client;
use super::{configuration, partition, read, row};
use crate::{Attempt, SessionFailure, SessionInput, SessionOperation, SessionOutcome};

const SECOND: u64 = 1_000_000;

/// Returns the read of the first page of a partition.
fn first_page(number: u32) -> Read {
    match read(number) {
        SessionOperation::Read(read) => read,
        other => panic!("{other:?} is no read"),
    }
}

impl Client {
    /// Asks for the first page of each of these partitions.
    fn reading(numbers: &[u32]) -> Client {
        let mut client = Client::new(configuration(1));
        let reads = numbers.iter().map(|number| first_page(*number));
        client.submit(SessionOperation::Moment(reads.collect()));
        client
    }

    /// Returns the reads that were sent since the last call.
    fn reads(&mut self) -> Vec<(Attempt, Read)> {
        let sent = core::mem::take(&mut self.sent).into_iter();
        sent.filter_map(|attempt| match attempt.request.clone() {
            Request::Read(read) => Some((attempt, read)),
            _ => None,
        })
        .collect()
    }

    fn releases(&mut self) -> Vec<(Attempt, HoldRelease)> {
        let sent = core::mem::take(&mut self.sent).into_iter();
        sent.filter_map(|attempt| match attempt.request.clone() {
            Request::Release(release) => Some((attempt, release)),
            _ => None,
        })
        .collect()
    }

    /// Answers the reads that were sent; those of these partitions have just changed.
    fn answer_reads(&mut self, changed: &[u32]) {
        for (attempt, read) in self.reads() {
            let quiet_us = match changed.contains(&read.partition.number) {
                true => 0,
                false => SECOND,
            };
            self.reply(&attempt, Reply::Rows(page(read.partition.number, quiet_us)));
        }
    }

    /// Answers reads one after the other, each with a hold, and returns the order.
    fn hold_all(&mut self) -> Vec<u32> {
        let mut order = Vec::new();
        loop {
            let mut reads = self.reads();
            let Some((attempt, read)) = reads.pop() else {
                return order;
            };
            assert!(reads.is_empty(), "one is held after the other");
            assert!(matches!(read.agreement, Agreement::Hold(_)));
            order.push(read.partition.number);
            let held = RowPage {
                held: true,
                ..page(read.partition.number, 0)
            };
            let before = self.sent.len();
            self.reply(&attempt, Reply::Rows(held));
            if matches!(
                &self.sent[before..],
                [
                    Attempt {
                        request: Request::Release(_),
                        ..
                    },
                    ..
                ]
            ) {
                return order;
            }
        }
    }

    /// Lets time pass until something is sent.
    fn pass_until_sent(&mut self) {
        while self.sent.is_empty() {
            self.pass();
        }
    }

    /// Returns the number of received rows of each range.
    fn rows(&self) -> Vec<u64> {
        match &self.outcome {
            Some(SessionOutcome::Moment(pages)) => pages
                .ranges
                .iter()
                .map(|pages| pages.iter().map(|page| page.count).sum())
                .collect(),
            other => panic!("no moment: {other:?}"),
        }
    }
}

/// Returns a page of one row.
fn page(id: u32, quiet_us: u64) -> RowPage {
    let mut page = RowPage {
        quiet_us: Some(quiet_us),
        ..RowPage::default()
    };
    page.push(Version(1), &row(i64::from(id), 0));
    page
}

#[test]
fn quiet_ranges_are_of_one_moment() {
    let mut client = Client::reading(&[0, 1, 2]);
    assert_eq!(client.sent.len(), 3, "they are asked for at once");
    client.answer_reads(&[]);
    assert_eq!(client.rows(), [1, 1, 1]);
}

#[test]
fn a_single_page_agrees_with_itself() {
    let mut client = Client::reading(&[2]);
    let (attempt, read) = client.reads().pop().unwrap();
    assert_eq!(read.agreement, Agreement::Alone);
    client.reply(&attempt, Reply::Rows(page(2, 0)));
    assert_eq!(client.rows(), [1]);
}

#[test]
fn several_pages_of_one_range_must_agree() {
    let mut client = Client::reading(&[2]);
    let (attempt, _) = client.reads().pop().unwrap();
    let first = |quiet_us| RowPage {
        next: Some(Bytes(vec![7])),
        ..page(2, quiet_us)
    };
    client.reply(&attempt, Reply::Rows(first(0)));
    let (attempt, read) = client.reads().pop().unwrap();
    assert_eq!((read.agreement, &*read.start), (Agreement::Quiet, &[][..]));
    client.reply(&attempt, Reply::Rows(first(SECOND)));
    let (attempt, read) = client.reads().pop().unwrap();
    assert_eq!((&*read.start, read.limit), (&[7][..], 9));
    client.reply(&attempt, Reply::Rows(page(2, SECOND)));
    assert_eq!(client.rows(), [2]);
}

#[test]
fn a_change_since_the_first_question_is_a_further_round() {
    let mut client = Client::reading(&[0, 1]);
    client.answer_reads(&[1]);
    assert_eq!(client.outcome, None);
    client.answer_reads(&[]);
    assert_eq!(client.rows(), [1, 1]);
}

#[test]
fn ranges_without_rest_are_held_in_order_and_released_together() {
    let mut client = Client::reading(&[3, 0, 2]);
    for _ in 0..3 {
        client.answer_reads(&[2]);
    }
    client.pass_until_sent();
    assert_eq!(client.hold_all(), [0, 2, 3]);
    let releases = client.releases();
    assert_eq!(releases.len(), 3);
    for (attempt, release) in &releases {
        assert_eq!(release.holds.len(), 1);
        assert_eq!(client.outcome, None, "{release:?} is not answered yet");
        client.reply(attempt, Reply::Released(true));
    }
    assert_eq!(client.rows(), [1, 1, 1]);
}

#[test]
fn a_hold_that_did_not_last_is_a_further_round() {
    let mut client = Client::reading(&[0, 1]);
    for _ in 0..3 {
        client.answer_reads(&[0]);
    }
    for lasted in [false, true] {
        client.pass_until_sent();
        assert_eq!(client.hold_all(), [0, 1]);
        let releases = client.releases();
        client.reply(&releases[0].0, Reply::Released(true));
        client.reply(&releases[1].0, Reply::Released(lasted));
    }
    assert_eq!(client.rows(), [1, 1]);
}

#[test]
fn a_page_without_its_hold_lets_the_others_go() {
    let mut client = Client::reading(&[0, 1]);
    for _ in 0..3 {
        client.answer_reads(&[0]);
    }
    client.pass_until_sent();
    let (attempt, first) = client.reads().pop().unwrap();
    let held = RowPage {
        held: true,
        ..page(0, 0)
    };
    client.reply(&attempt, Reply::Rows(held));
    let (second, _) = client.reads().pop().unwrap();
    client.reply(&second, Reply::Rows(page(1, 0)));
    let releases = client.releases();
    assert_eq!(releases.len(), 1, "what is held is released at once");
    assert_eq!(releases[0].1.partition, first.partition);
    assert_eq!(releases[0].1.holds, [attempt.correlation]);
    assert_eq!(client.outcome, None);
}

#[test]
fn oversized_pages_end_without_a_moment() {
    let mut client = Client::reading(&[0, 1]);
    let (attempt, read) = client.reads().swap_remove(0);
    let many = RowPage {
        count: 20_000,
        rows: Bytes(vec![0; 5 << 20]),
        ..page(read.partition.number, SECOND)
    };
    client.reply(&attempt, Reply::Rows(many));
    assert_eq!(client.outcome, Some(SessionOutcome::NoMoment));
}

#[test]
fn a_new_configuration_begins_again() {
    let mut client = Client::reading(&[0, 1]);
    let before = client.reads();
    client.reply(&before[0].0, Reply::Rows(page(0, SECOND)));
    client.step(SessionInput::Configuration(configuration(2)));
    let again = client.sent.len();
    assert_eq!(again, 2, "both are read again");
    client.reply(&before[1].0, Reply::Rows(page(1, SECOND)));
    assert_eq!(
        client.outcome, None,
        "an answer of the round before is late"
    );
    client.answer_reads(&[]);
    assert_eq!(client.rows(), [1, 1]);
}

#[test]
fn a_table_that_is_gone_is_named() {
    let mut client = Client::reading(&[0, 1]);
    let mut without = (*configuration(2)).clone();
    without.tables = PlacedTables::default();
    client.step(SessionInput::Configuration(without.into()));
    let gone = SessionFailure::TableGone {
        table: partition(0, 0).table,
    };
    assert_eq!(client.outcome, Some(SessionOutcome::Failed(gone)));
}
