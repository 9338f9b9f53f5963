//! The copies that a user asks for beside those of the primary key and the indexes: hybrids,
//! replicas, hyperspaces.
//!
//! Each counts as a copy for the failures tolerated, holds every row, and never votes no, so it
//! stands behind all indexes in the chain (R3). What its grid looks like is in `hybrid`; the order
//! of all copies is in `grid`.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::grid::{Layout, Replex, ReplexKind};
use crate::hybrid::{GridError, numbered};
use crate::schema::{REPLEXES_MAX, Schema, SchemaError, check_name, ensure};

/// A copy, or a row of hybrids, that is asked for by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FurtherCopy {
    /// Unique within the table, indexes included, and not the table's own.
    pub name: String,
    /// How it is cut.
    pub cut: Cut,
}

/// How a further copy is cut. An index is named by its position in [`Schema::indexes`]; none is
/// the primary key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cut {
    /// One hybrid that several indexes share (Replex sections 3.1 to 3.3).
    Hybrid {
        /// At least two; their divisions multiply to the table's partitions.
        shares: Vec<Share>,
    },
    /// A row of hybrids between two indexes, one fewer than factors (Replex Fig. 7). With two
    /// factors there is one, of the copy's own name; more are numbered from 1 behind it.
    HybridsBetween {
        /// Shares the most with the first hybrid.
        first: Option<usize>,
        /// Shares the most with the last hybrid.
        last: Option<usize>,
        /// At least two; they multiply to the table's partitions.
        factors: Vec<u32>,
    },
    /// The same cut and sort as an index (Replex section 2.4).
    Replica {
        /// Which.
        of: Option<usize>,
    },
    /// One axis per column (HyperDex).
    Hyperspace {
        /// At least one.
        dimensions: Vec<Dimension>,
    },
}

/// What a hybrid keeps of one index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Which; none is the primary key.
    pub index: Option<usize>,
    /// Into how many it is cut; divides its partitions.
    pub divisions: u32,
}

/// A column of a hyperspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dimension {
    /// As an index into the table's columns.
    pub column: usize,
    /// Into how many its values are cut; at least 1.
    pub divisions: u32,
}

impl FurtherCopy {
    /// How many replexes it stands for.
    pub fn replex_count(&self) -> usize {
        match &self.cut {
            Cut::HybridsBetween { factors, .. } => factors.len().saturating_sub(1),
            Cut::Hybrid { .. } | Cut::Replica { .. } | Cut::Hyperspace { .. } => 1,
        }
    }

    /// The names of the replexes that it stands for.
    pub(crate) fn replex_names(&self) -> Vec<String> {
        let count = self.replex_count();
        let numbers = 1..=count;
        numbers
            .map(|number| numbered(&self.name, number, count))
            .collect()
    }

    /// The indexes that it refers to; none is the primary key.
    pub fn indexes(&self) -> Vec<Option<usize>> {
        match &self.cut {
            Cut::Hybrid { shares } => shares.iter().map(|share| share.index).collect(),
            Cut::HybridsBetween { first, last, .. } => [*first, *last].into(),
            Cut::Replica { of } => [*of].into(),
            Cut::Hyperspace { .. } => Vec::new(),
        }
    }
}

impl Schema {
    /// How many replexes the table has.
    pub fn replex_count(&self) -> usize {
        let named = self.further.iter().map(FurtherCopy::replex_count);
        let named = named.fold(self.indexes.len() + 1, usize::saturating_add);
        named.max(usize::from(self.failures_tolerated) + 1)
    }

    /// Checks the further copies; columns, indexes and partitions have been checked.
    pub(crate) fn check_further(&self) -> Result<(), SchemaError> {
        let replexes = self.replex_count();
        ensure!(
            replexes <= REPLEXES_MAX,
            "table {} takes {replexes} copies ({} indexes beside the primary key, {} further ones, {} failures tolerated), the limit is {REPLEXES_MAX}: drop some, or tolerate fewer failures",
            self.name,
            self.indexes.len(),
            self.further
                .iter()
                .map(FurtherCopy::replex_count)
                .sum::<usize>(),
            self.failures_tolerated
        );
        for copy in &self.further {
            let name = &copy.name;
            check_name("copy", name)?;
            let known = |index: &usize| *index < self.indexes.len();
            ensure!(
                copy.indexes().iter().flatten().all(known),
                "copy {name} of table {} names an index that the table does not have: name one of its {}",
                self.name,
                self.indexes.len()
            );
            if let Cut::Hyperspace { dimensions } = &copy.cut {
                let columns: Vec<usize> = dimensions.iter().map(|it| it.column).collect();
                self.check_key(&format!("hyperspace {name}"), &columns)?;
            }
        }
        let mut layout = Layout::of_indexes(self);
        layout.add_further(self).map_err(|error| SchemaError {
            message: error.message,
        })
    }
}

impl Layout {
    /// Adds the further copies of a schema, in its order.
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
