//! The copies that a user requests in addition to those of the primary key and the indexes:
//! hybrids, exact replicas, hyperspaces.
//!
//! Each counts as a copy for the failures tolerated and holds every row. It never votes no, so it
//! is after all indexes in the chain (R3). `hybrid` gives the grid of each, `copies` adds them to a
//! layout.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// A further copy of a schema: it stands for one replex, or for a row of hybrids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FurtherCopy {
    /// The name, unique among the copies and different from the table's.
    pub name: String,
    /// The partitioning of the copy.
    pub cut: Cut,
}

/// How a further copy is partitioned. An index is given by its position in
/// [`Schema::indexes`](crate::Schema::indexes); none is the primary key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cut {
    /// One hybrid for several indexes (Replex sections 3.1 to 3.3).
    Hybrid {
        /// At least two; their divisions multiply to the table's partitions.
        shares: Vec<Share>,
    },
    /// A row of hybrids between two indexes, one fewer than factors (Replex Fig. 7). With two
    /// factors there is one hybrid with the copy's own name. More are numbered from 1, after the
    /// name.
    HybridsBetween {
        /// Shares the most with the first hybrid.
        first: Option<usize>,
        /// Shares the most with the last hybrid.
        last: Option<usize>,
        /// At least two; they multiply to the table's partitions.
        factors: Vec<u32>,
    },
    /// The same partitions and order as an index (Replex section 2.4).
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

/// The part of one index in a hybrid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The index; none is the primary key.
    pub index: Option<usize>,
    /// The number of divisions. It divides the number of partitions.
    pub divisions: u32,
}

/// One column of a hyperspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dimension {
    /// The column, as an index into the table's columns.
    pub column: usize,
    /// The number of divisions of the column's values, at least 1.
    pub divisions: u32,
}

impl FurtherCopy {
    /// Returns the number of replexes that this further copy stands for.
    pub fn replex_count(&self) -> usize {
        match &self.cut {
            Cut::HybridsBetween { factors, .. } => factors.len().saturating_sub(1),
            Cut::Hybrid { .. } | Cut::Replica { .. } | Cut::Hyperspace { .. } => 1,
        }
    }

    /// Returns the names of these replexes.
    pub(crate) fn replex_names(&self) -> Vec<String> {
        let count = self.replex_count();
        let numbers = 1..=count;
        numbers
            .map(|number| numbered(&self.name, number, count))
            .collect()
    }

    /// Returns the indexes from which the copy is derived; none stands for the primary key.
    pub fn indexes(&self) -> Vec<Option<usize>> {
        match &self.cut {
            Cut::Hybrid { shares } => shares.iter().map(|share| share.index).collect(),
            Cut::HybridsBetween { first, last, .. } => [*first, *last].into(),
            Cut::Replica { of } => [*of].into(),
            Cut::Hyperspace { .. } => Vec::new(),
        }
    }
}

/// Returns the name of one of several copies with a common name.
pub(crate) fn numbered(name: &str, number: usize, count: usize) -> String {
    match count {
        1 => name.into(),
        _ => format!("{name}_{number}"),
    }
}
