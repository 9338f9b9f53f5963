//! Plans the change of the number of partitions of a table in use.
//!
//! Each copy whose grid follows from the number gets a *successor*: a further copy of the same
//! order with the new grid. Once all successors have their rows, they take the places of the copies
//! before, all at once. A successor keeps its number then, so that its stored rows stay as they
//! are; the numbers of the copies before become vacant.

use alloc::format;
use alloc::vec::Vec;

use crate::further::Cut;
use crate::grid::{Layout, Replex, ReplexKind};
use crate::hybrid::GridError;
use crate::schema::Schema;

impl Layout {
    /// Adds a successor of each copy whose grid changes with another number of partitions. Returns
    /// their numbers. `known` is the layout's schema.
    ///
    /// # Errors
    /// A hybrid is cut by the number of partitions, or there would be too many copies.
    pub fn add_successors(
        &mut self,
        known: &Schema,
        partitions: u32,
    ) -> Result<Vec<usize>, GridError> {
        assert_eq!(self.successors().count(), 0, "callers have checked it");
        if let Some(hybrid) = known.further.iter().find(|copy| is_hybrid(&copy.cut)) {
            return Err(GridError {
                message: format!(
                    "hybrid {} of table {} divides its {} partitions: drop {} first, and make it \
                     again with other divisions afterwards",
                    hybrid.name, known.name, known.partitions, hybrid.name
                ),
            });
        }
        let wanted = Schema {
            partitions,
            ..known.clone()
        };
        let mut added = Vec::new();
        let numbers: Vec<usize> = self.numbers().collect();
        for number in numbers {
            let Some(grid) = self.grid_with(&wanted, number) else {
                continue;
            };
            if grid.axes == self.replexes[number].axes {
                continue;
            }
            added.push(self.add(Replex {
                name: format!(
                    "{} with {partitions} partitions",
                    self.replexes[number].name
                ),
                kind: ReplexKind::Successor { of: number },
                ..grid
            })?);
        }
        Ok(added)
    }

    /// Returns the copy of this number as the schema with another number of partitions has it, if
    /// its grid follows from that.
    fn grid_with(&mut self, wanted: &Schema, number: usize) -> Option<Replex> {
        match self.replexes[number].kind {
            ReplexKind::Primary => Some(self.index_replex(wanted, &wanted.primary_key, None)),
            ReplexKind::Index { index } => {
                Some(self.index_replex(wanted, &wanted.indexes[index].columns, Some(index)))
            }
            ReplexKind::Exact { of } => self.grid_with(wanted, of),
            ReplexKind::Hybrid
            | ReplexKind::Hyperspace
            | ReplexKind::Successor { .. }
            | ReplexKind::Thin { .. }
            | ReplexKind::Vacant => None,
        }
    }

    /// Returns the number of each successor with the number of the copy that it will replace,
    /// ascending.
    pub fn successors(&self) -> impl Iterator<Item = (usize, usize)> {
        let replexes = self.replexes.iter().enumerate();
        replexes.filter_map(|(number, replex)| match replex.kind {
            ReplexKind::Successor { of } => Some((number, of)),
            _ => None,
        })
    }

    /// Returns the number of partitions of the table after its successors have replaced the earlier
    /// copies; none if it has no successors.
    pub fn next_partitions(&self) -> Option<u32> {
        let (number, _) = self
            .successors()
            .find(|(_, of)| self.replexes[*of].kind == ReplexKind::Primary)?;
        Some(self.partition_count(number))
    }

    /// Lets all successors replace the earlier copies, whose numbers become vacant.
    pub fn promote_successors(&mut self) {
        let successors: Vec<(usize, usize)> = self.successors().collect();
        let next = |of: usize| {
            let successor = successors.iter().find(|(_, before)| *before == of);
            successor.map_or(of, |(number, _)| *number)
        };
        for (number, of) in &successors {
            let Replex { name, kind, .. } = self.replexes[*of].clone();
            let successor = &mut self.replexes[*number];
            successor.name = name;
            successor.kind = match kind {
                ReplexKind::Exact { of } => ReplexKind::Exact { of: next(of) },
                kind => kind,
            };
        }
        let gone: Vec<usize> = successors.iter().map(|(_, of)| *of).collect();
        self.vacate(&gone);
    }

    /// Removes all successors from the table.
    pub fn drop_successors(&mut self) {
        let gone: Vec<usize> = self.successors().map(|(number, _)| number).collect();
        self.vacate(&gone);
    }
}

/// Returns whether a copy is cut by a part of the number of partitions.
fn is_hybrid(cut: &Cut) -> bool {
    match cut {
        Cut::Hybrid { .. } | Cut::HybridsBetween { .. } => true,
        Cut::Replica { .. } | Cut::Hyperspace { .. } => false,
    }
}
