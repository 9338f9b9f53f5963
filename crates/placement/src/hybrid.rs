//! Constructs further copies of a table: hybrids, exact replicas, hyperspaces. Also checks a whole
//! layout before it is used.
//!
//! The constructors return a replex; `add` gives it its number. `advisor` finds which hybrid is
//! worth having.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use crate::further::numbered;
use crate::grid::{Axis, KeySpace, Layout, Replex, ReplexKind};
use crate::ranges::Ranges;
use crate::schema::{PARTITIONS_MAX, REPLEXES_MAX, Schema};
use crate::slots::SlotConstraints;
use crate::sort::{SortColumn, ascending, columns_of};

/// An error in a grid, and the remedy. The user can change the statement and try again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GridError {
    /// For people: the error, its object and the remedy.
    pub message: String,
}

impl fmt::Display for GridError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl core::error::Error for GridError {}

macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err(GridError { message: format!($($message)+) });
        }
    };
}

impl Layout {
    /// Returns a hybrid of several replexes, each with the number of divisions of its axis. It
    /// follows equation (2) of the Replex paper for two replexes, and section 3.3 for more. A
    /// lookup of a lost partition of one replex reads as many partitions as the product of the
    /// divisions of the *other* replexes. With divisions n1 for A and n2 for B, a lookup costs n2
    /// partitions after a failure in A, and n1 after a failure in B.
    pub fn hybrid(&self, name: &str, parts: &[(usize, u32)]) -> Result<Replex, GridError> {
        ensure!(
            parts.len() >= 2,
            "hybrid {name} is shared by {} indexes: name at least two",
            parts.len()
        );
        let mut axes = Vec::with_capacity(parts.len());
        for (replex, divisions) in parts {
            let key_space = self.shared_key_space(name, *replex)?;
            ensure!(
                axes.iter().all(|axis: &Axis| axis.key_space != key_space),
                "hybrid {name} names two indexes over the same columns: name each once"
            );
            self.check_divisions(name, key_space, *divisions)?;
            axes.push(Axis {
                key_space,
                stride: 1,
                divisions: *divisions,
            });
        }
        self.check_product(name, &axes)?;
        Ok(self.hybrid_of(name.to_string(), axes))
    }

    /// Returns k hybrids between replexes A and B (Replex Fig. 7), for k + 1 factors whose product
    /// is the number of partitions. Slots are read as k + 1 digits of these bases, the highest
    /// first. Hybrid i has the first k + 1 − i digits of A and the last i digits of B. So
    /// neighbours in the row A, hybrid 1, …, hybrid k, B differ by one digit, and one failure costs
    /// one factor.
    pub fn hybrids_between(
        &self,
        name: &str,
        between: (usize, usize),
        factors: &[u32],
    ) -> Result<Vec<Replex>, GridError> {
        let (a, b) = between;
        ensure!(
            factors.len() >= 2,
            "hybrids {name} have {} factors: give one more than hybrids, at least two",
            factors.len()
        );
        let (a, b) = (
            self.shared_key_space(name, a)?,
            self.shared_key_space(name, b)?,
        );
        ensure!(
            a != b,
            "hybrids {name} name two indexes over the same columns: name two others"
        );
        let partitions = self.partition_count(self.primary());
        let product = factors
            .iter()
            .try_fold(1, |product: u32, factor| product.checked_mul(*factor));
        ensure!(
            product == Some(partitions),
            "the factors of hybrids {name} do not multiply to the table's {partitions} partitions: choose others"
        );
        self.check_divisions(name, a, partitions)?;
        self.check_divisions(name, b, partitions)?;
        let hybrids = (1..factors.len()).map(|number| {
            let low: u32 = factors[factors.len() - number..].iter().product();
            let axes = [
                Axis {
                    key_space: a,
                    stride: low,
                    divisions: partitions / low,
                },
                Axis {
                    key_space: b,
                    stride: 1,
                    divisions: low,
                },
            ];
            self.hybrid_of(numbered(name, number, factors.len() - 1), axes.into())
        });
        Ok(hybrids.collect())
    }

    /// Returns an exact replica of a replex. A lookup of a lost partition of this replex reads one
    /// partition. It does not help the others (Replex section 2.4).
    pub fn exact(&self, name: &str, of: usize) -> Result<Replex, GridError> {
        self.check_replex(name, of)?;
        ensure!(
            !self.is_ranged(of),
            "{name} cannot be a replica of {}, which ranges divide: name another index",
            self.replexes[of].name
        );
        let Replex {
            axes, sort_columns, ..
        } = self.replexes[of].clone();
        Ok(Replex {
            name: name.into(),
            kind: ReplexKind::Exact { of },
            axes,
            sort_columns,
            ranges: None,
        })
    }

    /// Returns a replex with one axis per column, each column given with its divisions (HyperDex).
    /// Adds the key spaces that it needs.
    pub fn hyperspace(&mut self, name: &str, parts: &[(usize, u32)]) -> Result<Replex, GridError> {
        ensure!(
            !parts.is_empty(),
            "hyperspace {name} has no columns: name at least one"
        );
        let product = parts
            .iter()
            .try_fold(1, |product: u32, part| product.checked_mul(part.1));
        ensure!(
            product.is_some_and(|product| (1..=PARTITIONS_MAX).contains(&product)),
            "the divisions of hyperspace {name} must multiply to 1 to {PARTITIONS_MAX}: choose others"
        );
        for (index, (column, _)) in parts.iter().enumerate() {
            ensure!(
                parts[..index].iter().all(|(other, _)| other != column),
                "hyperspace {name} names a column twice: name each once"
            );
        }
        let mut axes = Vec::with_capacity(parts.len());
        for (column, divisions) in parts {
            // Sharing the key space of an index on the same column ties the two grids together,
            // so that each is a cheaper cover of the other.
            let shared = self
                .key_spaces
                .iter()
                .position(|it| it.columns == [*column] && it.slots.is_multiple_of(*divisions));
            let key_space = shared.unwrap_or_else(|| self.key_space(&[*column], *divisions));
            axes.push(Axis {
                key_space,
                stride: 1,
                divisions: *divisions,
            });
        }
        let columns = parts
            .iter()
            .map(|(column, _)| SortColumn::ascending(*column));
        Ok(Replex {
            name: name.into(),
            kind: ReplexKind::Hyperspace,
            axes,
            sort_columns: columns.collect(),
            ranges: None,
        })
    }

    /// Adds a replex under the lowest vacant number, and returns the number.
    pub fn add(&mut self, replex: Replex) -> Result<usize, GridError> {
        let name = &replex.name;
        ensure!(
            self.replexes.iter().all(|other| other.name != *name),
            "the table has a replex named {name} already: choose another name"
        );
        ensure!(
            self.numbers().count() < REPLEXES_MAX,
            "{name} would be one copy more than the limit of {REPLEXES_MAX}: drop another first"
        );
        let mut replexes = self.replexes.iter();
        let vacant = replexes.position(|it| it.kind == ReplexKind::Vacant);
        let number = vacant.unwrap_or(self.replexes.len());
        match vacant {
            Some(number) => self.replexes[number] = replex,
            None => self.replexes.push(replex),
        }
        Ok(number)
    }

    /// Checks a layout from outside. After this check no function of the crate panics on it.
    pub fn validate(&self, schema: &Schema) -> Result<(), GridError> {
        let columns = schema.columns.len();
        let known = |list: &[usize]| list.iter().all(|column| *column < columns);
        for KeySpace { columns, slots } in &self.key_spaces {
            ensure!(
                known(columns) && (1..=PARTITIONS_MAX).contains(slots),
                "a key space of table {} is malformed: refresh the configuration",
                schema.name
            );
        }
        ensure!(
            (1..=REPLEXES_MAX).contains(&self.replexes.len()) && self.primaries() == 1,
            "table {} has {} replexes or not one primary one: refresh the configuration",
            schema.name,
            self.replexes.len()
        );
        ensure!(
            self.local_entries == schema.local_entries,
            "table {} contradicts itself about local entries: refresh the configuration",
            schema.name
        );
        for Replex {
            name,
            kind,
            axes,
            sort_columns,
            ranges,
        } in &self.replexes
        {
            let axes_fit = axes.iter().all(|axis| {
                let slots = self.key_spaces.get(axis.key_space).map_or(0, |it| it.slots);
                let used = axis.stride.checked_mul(axis.divisions);
                used.is_some_and(|used| used > 0 && used <= slots)
            });
            let cells = axes
                .iter()
                .try_fold(1, |cells: u32, axis| cells.checked_mul(axis.divisions));
            let kind_fits = match kind {
                ReplexKind::Index { index } => {
                    let defined = schema.indexes.get(*index);
                    defined.is_some_and(|defined| defined.by_range == ranges.is_some())
                }
                ReplexKind::Thin { index, .. } => {
                    let defined = schema.thin.get(*index);
                    defined.is_some_and(|defined| {
                        defined.by_range == ranges.is_some()
                            && self.has_all_copies(*index, defined.copies, axes)
                    })
                }
                ReplexKind::Exact { of } | ReplexKind::Successor { of } => self.is_copy(*of),
                ReplexKind::Vacant => axes.is_empty() && sort_columns.is_empty(),
                ReplexKind::Primary | ReplexKind::Hybrid | ReplexKind::Hyperspace => true,
            };
            let may_have = matches!(kind, ReplexKind::Index { .. } | ReplexKind::Thin { .. });
            let may_have = may_have && axes.is_empty();
            let fits = |ranges: &Ranges| may_have && ranges.validate().is_ok();
            let ranges_fit = ranges.as_ref().is_none_or(fits);
            let cells_fit = cells.is_some_and(|cells| cells <= PARTITIONS_MAX);
            ensure!(
                axes_fit
                    && cells_fit
                    && kind_fits
                    && ranges_fit
                    && known(&columns_of(sort_columns)),
                "replex {name} of table {} is malformed: refresh the configuration",
                schema.name
            );
        }
        Ok(())
    }

    /// Returns whether constraints that a client has sent are valid for this layout, so that no
    /// function of the crate panics on them.
    pub fn accepts(&self, constraints: &SlotConstraints) -> bool {
        let residues = &constraints.residues;
        residues.len() == self.key_spaces.len()
            && residues
                .iter()
                .flatten()
                .all(|it| it.stride > 0 && it.coordinate < it.divisions)
    }

    fn hybrid_of(&self, name: String, axes: Vec<Axis>) -> Replex {
        let sort_columns = ascending(&self.key_spaces[axes[0].key_space].columns);
        Replex {
            name,
            kind: ReplexKind::Hybrid,
            axes,
            sort_columns,
            ranges: None,
        }
    }

    fn check_replex(&self, name: &str, replex: usize) -> Result<(), GridError> {
        ensure!(
            self.is_copy(replex),
            "{name} refers to replex number {replex}, the table has {}: name one of them",
            self.copies()
        );
        Ok(())
    }

    /// Returns whether there is each copy of a thin index, once and with these axes.
    fn has_all_copies(&self, index: usize, copies: u8, axes: &[Axis]) -> bool {
        let replexes = self.replexes.iter();
        let of_index = replexes.filter_map(|replex| match replex.kind {
            ReplexKind::Thin { index: of, copy } if of == index => Some((copy, &replex.axes)),
            _ => None,
        });
        let mut found: Vec<u8> = of_index
            .filter(|(_, others)| *others == axes)
            .map(|(copy, _)| copy)
            .collect();
        found.sort_unstable();
        found.into_iter().eq(0..copies)
    }

    fn primaries(&self) -> usize {
        let kinds = self.replexes.iter().map(|replex| replex.kind);
        kinds.filter(|kind| *kind == ReplexKind::Primary).count()
    }

    fn is_copy(&self, number: usize) -> bool {
        let replex = self.replexes.get(number);
        replex.is_some_and(|replex| replex.kind != ReplexKind::Vacant) && !self.is_thin(number)
    }

    /// Returns the key space of a replex that a hybrid can share. Such a replex has a single whole
    /// axis.
    fn shared_key_space(&self, name: &str, replex: usize) -> Result<usize, GridError> {
        self.check_replex(name, replex)?;
        let shared = &self.replexes[replex];
        ensure!(
            shared.ranges.is_none(),
            "{name} cannot be shared by {}, which ranges divide: name an index that a hash divides",
            shared.name
        );
        match shared.axes.as_slice() {
            [
                Axis {
                    key_space,
                    stride: 1,
                    ..
                },
            ] => Ok(*key_space),
            _ => Err(GridError {
                message: format!(
                    "{name} cannot be shared by {}, which is not an index: name indexes",
                    shared.name
                ),
            }),
        }
    }

    fn check_divisions(
        &self,
        name: &str,
        key_space: usize,
        divisions: u32,
    ) -> Result<(), GridError> {
        let slots = self.key_spaces[key_space].slots;
        ensure!(
            divisions > 0 && slots.is_multiple_of(divisions),
            "{name} cuts an index of {slots} partitions into {divisions}, which does not divide it: choose a divisor of {slots}"
        );
        Ok(())
    }

    fn check_product(&self, name: &str, axes: &[Axis]) -> Result<(), GridError> {
        let partitions = self.partition_count(self.primary());
        let product = axes
            .iter()
            .try_fold(1, |product: u32, it| product.checked_mul(it.divisions));
        ensure!(
            product == Some(partitions),
            "the divisions of {name} do not multiply to the table's {partitions} partitions: choose others"
        );
        Ok(())
    }
}
