//! The copies that a user asks for beside those of the primary key and the indexes: hybrids,
//! replicas, hyperspaces.
//!
//! Each counts as a copy for the failures tolerated, holds every row, and never votes no, so it
//! stands after all indexes in the chain (R3). `hybrid` gives the grid of each, `copies` adds them
//! to a layout.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// A copy, or a row of hybrids, that is requested by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FurtherCopy {
    /// Unique within the table, indexes included, and not the table's own.
    pub name: String,
    /// How it is cut.
    pub cut: Cut,
}

/// How a further copy is cut. An index is named by its position in
/// [`Schema::indexes`](crate::Schema::indexes); none is the primary key.
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

/// The part of one index that a hybrid keeps.
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
    /// Returns how many replexes it stands for.
    pub fn replex_count(&self) -> usize {
        match &self.cut {
            Cut::HybridsBetween { factors, .. } => factors.len().saturating_sub(1),
            Cut::Hybrid { .. } | Cut::Replica { .. } | Cut::Hyperspace { .. } => 1,
        }
    }

    /// Returns the names of the replexes that it stands for.
    pub(crate) fn replex_names(&self) -> Vec<String> {
        let count = self.replex_count();
        let numbers = 1..=count;
        numbers
            .map(|number| numbered(&self.name, number, count))
            .collect()
    }

    /// Returns the indexes that it refers to; none is the primary key.
    pub fn indexes(&self) -> Vec<Option<usize>> {
        match &self.cut {
            Cut::Hybrid { shares } => shares.iter().map(|share| share.index).collect(),
            Cut::HybridsBetween { first, last, .. } => [*first, *last].into(),
            Cut::Replica { of } => [*of].into(),
            Cut::Hyperspace { .. } => Vec::new(),
        }
    }
}

/// Returns the name of one of several copies that were asked for by one name.
pub(crate) fn numbered(name: &str, number: usize, count: usize) -> String {
    match count {
        1 => name.into(),
        _ => format!("{name}_{number}"),
    }
}
