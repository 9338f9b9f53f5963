//! Tests the tables without a log. Each test decides when each step of a checkpoint happens.

use super::*;
use placement::Position;
use placement::tables::MemoryTables;
use std::ops::ControlFlow;
use std::sync::mpsc;

fn all(tables: &impl Tables, table: u64, reverse: bool) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut seen = vec![];
    let mut visit = |key: &[u8], value: &[u8]| {
        seen.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    };
    if reverse {
        tables.scan_reverse(table, b"", None, &mut visit).unwrap();
    } else {
        tables.scan(table, b"", None, &mut visit).unwrap();
    }
    seen
}

fn key(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

struct Fixture {
    tables: DurableTables,
    checkpointer: Checkpointer,
    wakes: mpsc::Receiver<()>,
    cold: ColdStore,
    _folder: tempfile::TempDir,
}

fn fixture(memory_bytes: usize) -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let cold = ColdStore::open(folder.path(), 8 << 20).unwrap();
    let (sender, wakes) = mpsc::channel();
    let wake = Arc::new(move || sender.send(()).unwrap_or_default());
    Fixture {
        tables: DurableTables::over(cold.clone(), memory_bytes, true),
        checkpointer: Checkpointer::start(cold.clone(), wake).unwrap(),
        wakes,
        cold,
        _folder: folder,
    }
}

impl Fixture {
    fn begin(&mut self, position: u64) {
        let mark = CheckpointMark {
            position: Position(position),
            retain_from: Position(position),
        };
        let generations = self.tables.begin_gathering();
        self.checkpointer.begin(mark, generations);
    }

    fn finish(&mut self) {
        loop {
            let (leaves, done) = self.tables.gather(3);
            self.checkpointer.add(leaves);
            if done {
                break;
            }
        }
        self.checkpointer.finish();
        self.wakes.recv().unwrap();
        let completed = self.checkpointer.progress().completed.unwrap();
        self.tables.complete(completed.generation);
        for (table, key) in completed.purge {
            self.tables.purge(table, &key);
        }
    }

    /// Returns the state that a restart right now would find.
    fn restarted(&self) -> DurableTables {
        DurableTables::over(self.cold.clone(), usize::MAX, false)
    }
}

#[test]
fn checkpoint_holds_the_state_at_its_beginning() {
    let mut fixture = fixture(usize::MAX);
    let mut model = MemoryTables::new();
    for number in 0..5000 {
        model.put(number % 3, &key(number), &[1; 40]);
        fixture.tables.put(number % 3, &key(number), &[1; 40]);
    }
    fixture.begin(1);
    // Everything changes while the checkpoint is gathered: overwritten, deleted, split, dropped.
    for number in 0..3000 {
        fixture.tables.put(number % 3, &key(number), &[2; 50]);
        fixture.tables.delete(number % 3, &key(number + 2000));
        fixture
            .tables
            .put(number % 3, &key(number + 10_000), &[2; 90]);
    }
    fixture.tables.drop_table(2);
    fixture.tables.put(2, b"again", b"");
    fixture.finish();
    let restarted = fixture.restarted();
    for table in 0..3 {
        assert_eq!(all(&restarted, table, false), all(&model, table, false));
    }
    fixture.begin(2);
    fixture.finish();
    let restarted = fixture.restarted();
    for table in 0..4 {
        assert_eq!(
            all(&restarted, table, true),
            all(&fixture.tables, table, true)
        );
    }
    assert_eq!(fixture.cold.mark().unwrap().unwrap().position, Position(2));
}

#[test]
fn tables_are_found_by_their_numbers() {
    let found = |tables: &DurableTables| {
        let mut found = Vec::new();
        let mut next = Some(0);
        while let Some(first) = next {
            let table = tables.table_from(first).unwrap();
            found.extend(table);
            next = table.and_then(|table| table.checked_add(1));
        }
        found
    };
    let mut fixture = fixture(usize::MAX);
    assert_eq!(found(&fixture.tables), []);
    for table in [3, 7, 1 << 32, u64::MAX] {
        fixture.tables.put(table, b"", b"");
    }
    assert_eq!(found(&fixture.tables), [3, 7, 1 << 32, u64::MAX]);
    fixture.begin(1);
    fixture.finish();
    // Entries of the cold store, and an entry in memory only.
    let mut restarted = fixture.restarted();
    restarted.put(5, b"", b"");
    assert_eq!(found(&restarted), [3, 5, 7, 1 << 32, u64::MAX]);
    fixture.tables.drop_table(7);
    fixture.begin(2);
    fixture.finish();
    assert_eq!(found(&fixture.restarted()), [3, 1 << 32, u64::MAX]);
}

#[test]
fn memory_stays_in_its_budget_once_changes_are_saved() {
    let budget = 300_000;
    let mut fixture = fixture(budget);
    let rows = 20_000;
    for round in 0..10 {
        for number in round * rows / 10..(round + 1) * rows / 10 {
            fixture.tables.put(0, &key(number), &[number as u8; 100]);
        }
        fixture.begin(round + 1);
        fixture.finish();
    }
    for number in 0..rows {
        let found = fixture.tables.value(0, &key(number)).unwrap();
        assert_eq!(found.as_deref(), Some(&[number as u8; 100][..]));
        assert!(
            !fixture
                .tables
                .read(0, &key(number + rows), &mut |_| {})
                .unwrap()
        );
    }
    let memory_bytes = fixture.tables.memory_bytes();
    assert!(memory_bytes <= budget + 50_000, "{memory_bytes} bytes");
    assert_eq!(all(&fixture.tables, 0, false).len(), rows as usize);
    let memory_bytes = fixture.tables.memory_bytes();
    assert!(memory_bytes <= budget + 50_000, "{memory_bytes} bytes");
}

#[test]
fn queue_leaves_nothing_behind() {
    let mut fixture = fixture(usize::MAX);
    let mut most = 0;
    for round in 0..60_u64 {
        for number in round * 1000..(round + 1) * 1000 {
            fixture.tables.put(0, &number.to_be_bytes(), &[0; 60]);
            if number >= 1500 {
                fixture.tables.delete(0, &(number - 1500).to_be_bytes());
            }
        }
        if round % 2 == 1 {
            fixture.begin(round);
            fixture.finish();
        }
        most = most.max(fixture.tables.memory_bytes());
    }
    assert!(
        most < 4500 * 120,
        "{most} bytes for 1500 rows and what two rounds change"
    );
    assert_eq!(all(&fixture.tables, 0, true).len(), 1500);
}

#[test]
fn visitor_may_look_into_the_same_tables() {
    let mut fixture = fixture(10_000);
    for number in 0..500 {
        fixture.tables.put(0, &key(number), &key(number + 1));
    }
    fixture.begin(1);
    fixture.finish();
    let tables = fixture.restarted();
    let mut count = 0;
    let mut visit = |_: &[u8], value: &[u8]| {
        count += usize::from(tables.read(0, value, &mut |_| {}).unwrap());
        ControlFlow::Continue(())
    };
    tables.scan(0, b"", None, &mut visit).unwrap();
    assert_eq!(count, 499);
}
