//! Checks the properties in every state: outcomes that were seen stay, no update is lost, all
//! readers see a transaction's changes together, and the transactions have a serial order. Checks
//! at rest that everything has ended.

use super::state::{ModelState, Stage, history};
use super::walk::TransactionRules;
use crate::changes::{Outcome, contradiction, members};

impl TransactionRules {
    /// Returns a description of the property that a state violates, if it violates one.
    pub fn broken_invariant(&self, state: &ModelState) -> Option<String> {
        if state.replaced_unseen {
            return Some("R42: a value is replaced that the transaction had not evaluated".into());
        }
        let numbers = 0..self.case.transactions.len();
        numbers
            .clone()
            .find_map(|number| self.contradicted(state, number))
            .or_else(|| (0..2).find_map(|row| self.diverged(state, row)))
            .or_else(|| numbers.clone().find_map(|it| self.half_seen(state, it)))
            .or_else(|| self.unserial(state))
    }

    /// Returns a violation of I2 or I3.
    fn contradicted(&self, state: &ModelState, number: usize) -> Option<String> {
        let name = self.transaction(number).name;
        let now = state.transactions[number];
        let knows = |outcome: Outcome| {
            let mut cores =
                (0..self.case.cores.len()).filter(|core| !state.changes.is_removed(*core));
            cores.any(|core| now.parts[core].outcome == outcome)
        };
        let known = (knows(Outcome::Commit), knows(Outcome::Abort));
        let request = self.transaction(number).request;
        let mut others = self.case.transactions.iter().zip(&state.transactions);
        let other = others.any(|(it, other)| {
            it.request == request && other.answered && other.decision == Outcome::Abort
        });
        if other && now.seen_commit {
            return Some(format!(
                "I7: {name} is committed, and its client has seen an abort"
            ));
        }
        contradiction(name, (now.seen_commit, now.seen_abort), known)
    }

    /// Returns the settled value of a row at each remaining core with a copy.
    fn values(&self, state: &ModelState, row: usize) -> Vec<u8> {
        let copies = self.case.copies[row].iter();
        let remaining = copies.filter(|core| !state.changes.is_removed(**core));
        remaining.map(|core| state.rows[row][*core]).collect()
    }

    /// Returns the longest history of a row, oldest change first.
    fn longest(&self, state: &ModelState, row: usize) -> Vec<usize> {
        let values = self.values(state, row).into_iter();
        let histories = values.map(|value| {
            let mut changes: Vec<usize> = history(value).collect();
            changes.reverse();
            changes
        });
        histories.max_by_key(Vec::len).unwrap_or_default()
    }

    /// Returns a violation of I5 or I7: two copies of a row have different histories, or a request
    /// has changed a row twice.
    fn diverged(&self, state: &ModelState, row: usize) -> Option<String> {
        let longest = self.longest(state, row);
        for value in self.values(state, row) {
            let mut changes: Vec<usize> = history(value).collect();
            changes.reverse();
            if !longest.starts_with(&changes) {
                return Some(format!("I5: copies of row {row} have different histories"));
            }
        }
        let requests = longest.iter().map(|it| self.transaction(*it).request);
        let mut requests: Vec<u8> = requests.collect();
        requests.sort_unstable();
        let twice = requests.windows(2).any(|pair| pair[0] == pair[1]);
        twice.then(|| format!("I7: a request has changed row {row} twice"))
    }

    /// Returns a violation of R40: readers see a transaction at one member, and another member
    /// answers reads without it.
    fn half_seen(&self, state: &ModelState, number: usize) -> Option<String> {
        let now = state.transactions[number];
        if now.begun == 0 {
            return None;
        }
        let cores = self.members(state, number);
        let answers =
            |core: &usize| !state.changes.is_removed(*core) && state.asking >> core & 1 == 0;
        let remaining: Vec<usize> = cores.into_iter().filter(answers).collect();
        let shown = |core: usize, row: usize| history(state.rows[row][core]).any(|it| it == number);
        let copies = |core: usize| {
            let rows = members(self.transaction(number).changes);
            rows.filter(move |row| self.case.copies[*row].contains(&core))
        };
        let seen = now.seen_commit
            || remaining
                .iter()
                .any(|core| copies(*core).any(|row| shown(*core, row)));
        let hides = |core: &&usize| {
            let part = now.parts[**core];
            !part.holds() && copies(**core).any(|row| !shown(**core, row))
        };
        let hidden = remaining.iter().find(hides).filter(|_| seen)?;
        Some(format!(
            "R40: {} is seen at one member, and {} answers reads without it",
            self.transaction(number).name,
            self.case.cores[*hidden]
        ))
    }

    /// Returns a violation of I19: the committed transactions and the reads have no serial order
    /// that respects real time.
    fn unserial(&self, state: &ModelState) -> Option<String> {
        let transactions = self.case.transactions.len();
        let mut order = SerialOrder::new(transactions + state.reads.len());
        for (later, transaction) in state.transactions[..transactions].iter().enumerate() {
            order.add_all(transaction.after, later);
        }
        for row in 0..2 {
            let changes = self.longest(state, row);
            for (place, first) in changes.iter().enumerate() {
                for later in &changes[place + 1..] {
                    order.add(*first, *later);
                }
            }
            for (number, transaction) in self.case.transactions.iter().enumerate() {
                let now = state.transactions[number];
                if transaction.checks >> row & 1 != 0 && now.seen_commit {
                    order.add_read(number, now.read[row], &changes);
                }
            }
        }
        let done = state.reads.iter().enumerate().filter(|(_, read)| read.done);
        for (place, read) in done {
            let number = transactions + place;
            if place > 0 {
                order.add(number - 1, number);
            }
            order.add_all(read.after, number);
            let changes = self.longest(state, usize::from(read.row));
            order.add_read(number, read.value, &changes);
        }
        let cyclic = order.cycle()?;
        let name = self.case.transactions.get(cyclic).map(|it| it.name);
        Some(format!(
            "I19: {} is before itself in every serial order",
            name.unwrap_or("a read")
        ))
    }

    /// Returns a description of the work that is unfinished in a state in which only faults can
    /// still happen.
    pub fn unfinished(&self, state: &ModelState) -> Option<String> {
        if state.changes.current().sealed != 0 {
            return Some("I16: a table never serves again".into());
        }
        for (number, transaction) in self.case.transactions.iter().enumerate() {
            let now = state.transactions[number];
            if self.case.must_commit && now.begun != 0 && !now.seen_commit {
                return Some(format!("I16: {} does not commit", transaction.name));
            }
            let parts = now.parts;
            for core in (0..self.case.cores.len()).filter(|core| !state.changes.is_removed(*core)) {
                if parts[core].stage == Stage::Walked || parts[core].holds() {
                    return Some(format!(
                        "I11, I16: {} keeps its locks at {} for ever",
                        transaction.name, self.case.cores[core]
                    ));
                }
            }
        }
        None
    }
}

/// Which transactions and reads must be before which others.
struct SerialOrder {
    before: Vec<Vec<bool>>,
}

impl SerialOrder {
    fn new(count: usize) -> SerialOrder {
        SerialOrder {
            before: vec![vec![false; count]; count],
        }
    }

    fn add(&mut self, first: usize, later: usize) {
        self.before[first][later] = true;
    }

    /// Adds that the transactions of a set are before another one.
    fn add_all(&mut self, first: u8, later: usize) {
        for first in (0..8).filter(|it| first >> it & 1 != 0) {
            self.add(first, later);
        }
    }

    /// Adds that `reader` has read a value, after which others of these changes came.
    fn add_read(&mut self, reader: usize, value: u8, changes: &[usize]) {
        let seen: Vec<usize> = history(value).collect();
        for change in changes.iter().filter(|change| **change != reader) {
            match seen.contains(change) {
                true => self.add(*change, reader),
                false => self.add(reader, *change),
            }
        }
    }

    /// Returns one that must be before itself, if there is one.
    fn cycle(mut self) -> Option<usize> {
        let count = self.before.len();
        for middle in 0..count {
            for first in 0..count {
                for last in 0..count {
                    if self.before[first][middle] && self.before[middle][last] {
                        self.add(first, last);
                    }
                }
            }
        }
        (0..count).find(|number| self.before[*number][*number])
    }
}
