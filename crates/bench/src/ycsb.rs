//! YCSB's core workloads (Cooper et al., SoCC 2010), with the mixes of HyperDex's Table 1, which
//! the paper's section 5 uses too.
//!
//! | workload | mix | keys |
//! |---|---|---|
//! | Load | inserts | rising |
//! | A | 50% reads, 50% updates | zipfian |
//! | B | 95% reads, 5% updates | zipfian |
//! | C | reads | zipfian |
//! | D | 95% reads, 5% inserts | latest |
//! | E | 95% scans of 1 to 100 rows in the order of the key, 5% inserts | zipfian |
//! | F | 50% reads, 50% reads followed by an update of the same row | zipfian |
//!
//! A read returns all fields, and an update writes one. The scans of E read a thin index whose
//! partitions are ranges and whose entries have all fields.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io;
use std::ops::Bound;
use std::rc::Rc;

use client::Table;
use placement::{Value, encode_key};

use crate::distribution::{BenchRandom, Zipfian};
use crate::measure::MeasuredWorker;
use crate::store::{self, FIELDS, RowShape};

/// A workload over rows that are loaded already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct YcsbWorkload {
    pub name: &'static str,
    /// The number of updates in a hundred operations.
    pub updates: u64,
    pub inserts: u64,
    /// The number of reads that are followed by an update, in a hundred operations.
    pub modifications: u64,
    /// Whether the newest rows are the most popular ones.
    pub latest: bool,
    /// Whether reads are scans.
    pub scans: bool,
}

/// The index that scans read.
pub const SCAN_INDEX: &str = "in_order";
/// The most rows of a scan. Each number of rows is equally probable.
pub const SCAN_ROWS_MAX: u64 = 100;

/// E.
pub const SCANS: YcsbWorkload = YcsbWorkload {
    latest: false,
    scans: true,
    ..mix("E", 0, 5, 0)
};

/// A, B, C, D and F.
pub const WORKLOADS: [YcsbWorkload; 5] = [
    mix("A", 50, 0, 0),
    mix("B", 5, 0, 0),
    mix("C", 0, 0, 0),
    mix("D", 0, 5, 0),
    mix("F", 0, 0, 50),
];

const fn mix(name: &'static str, updates: u64, inserts: u64, modifications: u64) -> YcsbWorkload {
    YcsbWorkload {
        name,
        updates,
        inserts,
        modifications,
        latest: inserts > 0,
        scans: false,
    }
}

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Read(u64),
    /// The first row and the number of rows.
    Scan(u64, u64),
    Update(u64),
    Insert(u64),
    Modify(u64),
}

/// The rows that exist, shared by the workers of a workload.
#[derive(Debug)]
pub struct YcsbRows {
    zipfian: Zipfian,
    /// The number that the next insert takes.
    next: u64,
    /// Every row below exists.
    acknowledged: u64,
    /// Rows from there on that exist.
    beyond: BTreeSet<u64>,
}

impl YcsbRows {
    /// Returns the state of a workload over `rows` rows.
    pub fn new(rows: u64) -> YcsbRows {
        YcsbRows {
            zipfian: Zipfian::new(rows),
            next: rows,
            acknowledged: rows,
            beyond: BTreeSet::new(),
        }
    }

    fn draw(&mut self, workload: YcsbWorkload, random: &mut BenchRandom) -> Operation {
        let chance = random.below(100);
        let YcsbWorkload {
            updates,
            inserts,
            modifications,
            ..
        } = workload;
        if (updates..updates + inserts).contains(&chance) {
            self.next += 1;
            return Operation::Insert(self.next - 1);
        }
        let number = if workload.latest {
            self.acknowledged - 1 - self.zipfian.rank(random)
        } else {
            self.zipfian.key(random)
        };
        if chance < updates {
            Operation::Update(number)
        } else if chance < updates + inserts + modifications {
            Operation::Modify(number)
        } else if workload.scans {
            Operation::Scan(number, 1 + random.below(SCAN_ROWS_MAX))
        } else {
            Operation::Read(number)
        }
    }

    fn inserted(&mut self, number: u64) {
        self.beyond.insert(number);
        while self.beyond.remove(&self.acknowledged) {
            self.acknowledged += 1;
        }
    }
}

/// A client that runs a workload.
#[derive(Debug)]
pub struct YcsbClient {
    table: Table,
    workload: YcsbWorkload,
    shape: RowShape,
    shared: Rc<RefCell<YcsbRows>>,
    random: BenchRandom,
}

impl YcsbClient {
    /// Returns a client that shares the set of existing rows with other clients.
    pub fn new(
        table: Table,
        workload: YcsbWorkload,
        shape: RowShape,
        shared: Rc<RefCell<YcsbRows>>,
        seed: u64,
    ) -> YcsbClient {
        YcsbClient {
            table,
            workload,
            shape,
            shared,
            random: BenchRandom::new(seed),
        }
    }

    async fn read(&self, number: u64) -> io::Result<()> {
        let key = encode_key([Value::Text(store::key(number)).as_ref()]);
        let page = self.table.get_raw(0, &key, 1).await;
        match page.map_err(store::failed)?.count {
            1 => Ok(()),
            _ => Err(io::Error::other(format!("row {number} is not there"))),
        }
    }

    /// Reads up to `count` rows from row `number` on.
    async fn scan(&self, number: u64, count: u64) -> io::Result<()> {
        let first = [Value::Text(store::key(number))];
        let range = self
            .table
            .range(SCAN_INDEX, Bound::Included(&first), Bound::Unbounded);
        let rows = range.map_err(store::failed)?.limit(count).await;
        match rows.map_err(store::failed)?.is_empty() {
            false => Ok(()),
            true => Err(io::Error::other(format!("row {number} is not there"))),
        }
    }

    async fn update(&mut self, number: u64) -> io::Result<()> {
        let field = self.random.below(FIELDS as u64) as usize;
        let text = self.random.text(self.shape.field_bytes);
        let pk = [Value::Text(store::key(number))];
        let assignments = vec![store::set(field, text)];
        store::applied(self.table.update(&pk, assignments, None).await)
    }
}

impl MeasuredWorker for YcsbClient {
    async fn operate(&mut self) -> io::Result<u64> {
        let operation = self
            .shared
            .borrow_mut()
            .draw(self.workload, &mut self.random);
        match operation {
            Operation::Read(number) => self.read(number).await?,
            Operation::Scan(number, count) => self.scan(number, count).await?,
            Operation::Update(number) => self.update(number).await?,
            Operation::Insert(number) => {
                let row = store::row(number, self.shape.field_bytes);
                store::applied(self.table.insert(&row).await)?;
                self.shared.borrow_mut().inserted(number);
            }
            Operation::Modify(number) => {
                self.read(number).await?;
                self.update(number).await?;
            }
        }
        Ok(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixes_equal_the_published_table() {
        let rows = 1000;
        let draws = 100_000u32;
        for workload in WORKLOADS.into_iter().chain([SCANS]) {
            let mut shared = YcsbRows::new(rows);
            let mut random = BenchRandom::new(3);
            let mut counts = [0u32; 4];
            for _ in 0..draws {
                let (kind, number) = match shared.draw(workload, &mut random) {
                    Operation::Read(number) => (0, number),
                    Operation::Scan(number, count) => {
                        assert!((1..=SCAN_ROWS_MAX).contains(&count));
                        (0, number)
                    }
                    Operation::Update(number) => (1, number),
                    Operation::Insert(number) => {
                        shared.inserted(number);
                        (2, number)
                    }
                    Operation::Modify(number) => (3, number),
                };
                counts[kind] += 1;
                assert!(number < shared.next, "{workload:?}");
            }
            let written = [workload.updates, workload.inserts, workload.modifications];
            let reads = 100 - written.iter().sum::<u64>();
            let expected = [reads, written[0], written[1], written[2]];
            for (count, share) in counts.iter().zip(expected) {
                let found = f64::from(*count) / f64::from(draws) * 100.0;
                assert!(
                    (found - share as f64).abs() < 1.0,
                    "{workload:?}: {counts:?}"
                );
            }
        }
    }

    #[test]
    fn latest_rows_are_read_most_and_all_exist() {
        let workload = WORKLOADS[3];
        assert!(workload.latest);
        let mut shared = YcsbRows::new(1000);
        let mut random = BenchRandom::new(4);
        let mut pending = Vec::new();
        let (mut newest, mut reads) = (0u32, 0u32);
        for _ in 0..20_000 {
            match shared.draw(workload, &mut random) {
                Operation::Insert(number) => pending.push(number),
                Operation::Read(number) => {
                    assert!(number < shared.acknowledged);
                    reads += 1;
                    newest += u32::from(shared.acknowledged - number <= 100);
                }
                other => panic!("{other:?} in D"),
            }
            // Acknowledged in another order than started.
            if pending.len() == 4 {
                pending.reverse();
                pending.drain(..).for_each(|number| shared.inserted(number));
            }
        }
        assert!(
            f64::from(newest) / f64::from(reads) > 0.6,
            "{newest} of {reads}"
        );
        assert!(shared.acknowledged > 1900);
    }
}
