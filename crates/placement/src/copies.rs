//! Computes the layout that a schema requires: one replex per index, the further copies, and exact
//! replicas of the primary replex if these are too few copies.

use alloc::format;
use alloc::vec::Vec;

use crate::further::{Cut, FurtherCopy};
use crate::grid::{Layout, Replex, ReplexKind};
use crate::hybrid::GridError;
use crate::schema::Schema;

impl Layout {
    /// Returns every copy of a schema: one replex per index, its further copies and, if these are
    /// fewer than f + 1, exact replicas of the primary.
    ///
    /// # Panics
    /// If [`Schema::validate`] refuses the schema.
    pub fn base(schema: &Schema) -> Layout {
        let mut layout = Layout::of_indexes(schema);
        let added = layout.add_further(schema);
        added.expect("a valid schema has copies that can be");
        let mut number = 0;
        while layout.copies() <= usize::from(schema.failures_tolerated) {
            number += 1;
            let name = format!("{}_copy_{number}", schema.name);
            if layout.replexes.iter().all(|replex| replex.name != name) {
                let replica = layout
                    .exact(&name, layout.primary())
                    .expect("number 0 is a copy");
                layout.add(replica).expect("a valid schema has few copies");
            }
        }
        layout.add_thin(schema);
        layout
    }

    /// Adds the schema's thin indexes, in the order in which the schema lists them.
    pub(crate) fn add_thin(&mut self, schema: &Schema) {
        for index in 0..schema.thin.len() {
            let added = self.add_thin_index(schema, index);
            added.expect("a valid schema has few replexes");
        }
    }

    /// Adds all copies of a thin index, and returns their numbers.
    pub(crate) fn add_thin_index(
        &mut self,
        schema: &Schema,
        index: usize,
    ) -> Result<Vec<usize>, GridError> {
        let copies = 0..schema.thin[index].copies;
        let mut add = |copy| {
            let replex = self.thin_replex(schema, index, copy);
            self.add(replex)
        };
        copies.map(&mut add).collect()
    }

    /// Returns the primary replex and one replex per index. Replexes that can vote no come first.
    pub(crate) fn of_indexes(schema: &Schema) -> Layout {
        let mut layout = Layout {
            key_spaces: Vec::new(),
            replexes: Vec::new(),
            local_entries: schema.local_entries,
        };
        let add = |layout: &mut Layout, columns: &[usize], index| {
            let replex = layout.index_replex(schema, columns, index);
            layout.replexes.push(replex);
        };
        add(&mut layout, &schema.primary_key, None);
        let voters_first = |voter: bool| {
            let indexes = schema.indexes.iter().enumerate();
            indexes.filter(move |(_, index)| index.constraint.is_some() == voter)
        };
        for (index, _) in voters_first(true).chain(voters_first(false)) {
            add(&mut layout, &schema.indexes[index].columns, Some(index));
        }
        layout
    }

    /// Adds the schema's further copies, in the order in which the schema lists them.
    pub(crate) fn add_further(&mut self, schema: &Schema) -> Result<(), GridError> {
        for copy in &schema.further {
            self.add_copy(copy)?;
        }
        Ok(())
    }

    /// Adds one further copy, and returns the numbers of its replexes.
    pub(crate) fn add_copy(&mut self, copy: &FurtherCopy) -> Result<Vec<usize>, GridError> {
        let grids = self.grids(copy)?;
        grids.into_iter().map(|replex| self.add(replex)).collect()
    }

    fn grids(&mut self, copy: &FurtherCopy) -> Result<Vec<Replex>, GridError> {
        let name = &copy.name;
        let single = match &copy.cut {
            Cut::Hybrid { shares } => {
                let parts: Vec<(usize, u32)> = shares
                    .iter()
                    .map(|share| (self.replex_of_index(share.index), share.divisions))
                    .collect();
                self.hybrid(name, &parts)?
            }
            Cut::HybridsBetween {
                first,
                last,
                factors,
            } => {
                let between = (self.replex_of_index(*first), self.replex_of_index(*last));
                return self.hybrids_between(name, between, factors);
            }
            Cut::Replica { of } => self.exact(name, self.replex_of_index(*of))?,
            Cut::Hyperspace { dimensions } => {
                let parts: Vec<(usize, u32)> = dimensions
                    .iter()
                    .map(|it| (it.column, it.divisions))
                    .collect();
                self.hyperspace(name, &parts)?
            }
        };
        Ok([single].into())
    }

    fn replex_of_index(&self, index: Option<usize>) -> usize {
        let kind = index.map_or(ReplexKind::Primary, |index| ReplexKind::Index { index });
        let position = self.replexes.iter().position(|replex| replex.kind == kind);
        position.expect("the indexes were checked, and each has a replex")
    }
}
