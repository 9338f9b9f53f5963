//! Indexes that come to the table of a history and go from it, while it is written to.

use placement::{Constraint, Index};

use super::{Finding, History};

const NAME: &str = "late";

/// The index that comes and goes.
#[derive(Debug, Default)]
pub(super) struct Late {
    /// Its number, since it came for the first time.
    pub number: Option<u8>,
    /// The table has it.
    is_there: bool,
    /// Two rows had the same number when it came, as far as is known.
    collides: bool,
}

impl History {
    /// An index comes, unique by number or by number and tail, an order that is new, or goes, with
    /// requests under way.
    pub(super) fn change_copies(&mut self) -> Finding {
        if self.random.one_in(2) {
            self.settle_down()?;
        } else {
            self.come_back()?;
        }
        if self.late.is_there {
            return self.remove_late();
        }
        let spares = self.cluster.spares();
        if spares.len() < 2 {
            return Ok(());
        }
        self.end_epoch(Vec::new())?;
        let mut wanted = self.cluster.schema().clone();
        let (columns, constraint) = match self.random.below(2) {
            0 => (vec![2, 1], None),
            _ => (vec![2], Some(Constraint::Unique)),
        };
        wanted.indexes.push(Index {
            name: NAME.into(),
            columns,
            constraint,
            partition_columns: None,
            by_range: false,
        });
        self.cluster.add_copy(&wanted, spares[0])?;
        let added = self.cluster.configuration.tables[0].building[0];
        self.late = Late {
            number: Some(added),
            is_there: true,
            // A request without an answer may have written a number twice.
            collides: self.number_twice().is_some() || !self.open.is_empty(),
        };
        Ok(())
    }

    fn remove_late(&mut self) -> Finding {
        self.end_epoch(Vec::new())?;
        self.late.is_there = false;
        self.cluster.remove_copy(NAME)
    }

    /// An index that cannot be is given up: only if rows had the same key when it came.
    pub(super) fn give_up(&mut self) -> Finding {
        if self.cluster.has_obstacles() {
            if !self.late.collides {
                return Err("a unique index is given up that could be made".into());
            }
            self.settle_down()?;
            self.remove_late()?;
        }
        Ok(())
    }

    /// Checks that the demand of a unique index holds once it serves.
    pub(super) fn check_late(&self) -> Finding {
        let indexes = &self.cluster.schema().indexes;
        let late = indexes.iter().find(|index| index.name == NAME);
        if late.is_none_or(|late| late.constraint.is_none()) {
            return Ok(());
        }
        match self.number_twice() {
            Some(number) => Err(format!("two rows have number {number} in a unique index")),
            None => Ok(()),
        }
    }

    /// Returns a number that two rows have.
    fn number_twice(&self) -> Option<i64> {
        let mut numbers: Vec<i64> = self.model.values().map(|(_, number)| *number).collect();
        numbers.sort_unstable();
        let pair = numbers.windows(2).find(|pair| pair[0] == pair[1])?;
        Some(pair[0])
    }
}
