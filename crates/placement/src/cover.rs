//! Finds covers: sets of partitions of other replexes that together hold every row of a lost
//! partition. Of the sets whose members are all available, it returns the cheapest (Replex section
//! 3.1, Fig. 6).
//!
//! A lost partition is a constraint on slots; the partitions of another replex that admit it are a
//! cover. A member that is lost too is replaced in turn by a cover of its rows, which both
//! constraints describe. Every row wanted is in exactly one member, under that member's
//! constraints. Reading or rebuilding from the cover is left to others.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::grid::Layout;
use crate::slots::SlotConstraints;

/// The most partitions that one search examines before it returns the best cover so far. It limits
/// the time when very many partitions are lost. Up to three failures never reach it.
pub const COVER_STEPS_MAX: u32 = 1 << 20;

/// The most results that one search keeps. It limits the memory, a few hundred bytes each.
const KNOWN_MAX: usize = 1 << 14;

/// The way in which a member of a cover finds the requested rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RowAccess {
    /// The replex's own sort order serves the lookup.
    Sorted,
    /// It has thin local entries in the lookup's order.
    LocalIndex,
    /// It scans all its rows.
    Scan,
}

/// The cost of one member of a cover, in any unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoverCosts {
    /// The cost of [`RowAccess::Sorted`]; at least 1.
    pub sorted: u64,
    /// The cost of [`RowAccess::LocalIndex`]; at least 1.
    pub local_index: u64,
    /// The cost of [`RowAccess::Scan`]; at least 1.
    pub scan: u64,
}

impl CoverCosts {
    /// The costs for lookups: a scan costs more than an index lookup at every partition of another
    /// replex.
    pub const LOOKUP: CoverCosts = CoverCosts {
        sorted: 10,
        local_index: 15,
        scan: 100_000,
    };
    /// Equal costs for all partitions. They serve to count partitions, and for rebuilds, which read
    /// whole partitions.
    pub const UNIFORM: CoverCosts = CoverCosts {
        sorted: 1,
        local_index: 1,
        scan: 1,
    };

    /// Returns the cost of one member.
    pub fn of(&self, access: RowAccess) -> u64 {
        match access {
            RowAccess::Sorted => self.sorted,
            RowAccess::LocalIndex => self.local_index,
            RowAccess::Scan => self.scan,
        }
    }
}

/// A member of a cover: a partition, and the rows that it must return.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoverMember {
    /// Index into [`Layout::replexes`].
    pub replex: usize,
    /// The partition's number within the replex.
    pub partition: u32,
    /// The way in which the member finds the rows.
    pub access: RowAccess,
    /// The slots of the rows that the member must return. Another member may return other rows of
    /// the partition, which would otherwise appear twice.
    pub constraints: SlotConstraints,
}

/// A set of available partitions that together have every wanted row, each row once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cover {
    /// The members. A partition can occur twice, with constraints that exclude each other.
    pub members: Vec<CoverMember>,
    /// The sum of the members' costs.
    pub cost: u64,
}

impl Cover {
    /// Returns the number of visited partitions: the failure amplification.
    pub fn amplification(&self) -> u32 {
        let distinct: BTreeSet<(usize, u32)> = self
            .members
            .iter()
            .map(|member| (member.replex, member.partition))
            .collect();
        distinct.len() as u32
    }
}

/// Returns the cheapest available cover of a lost partition, given as (replex, partition); none if
/// there is none. The cover never includes the lost partition.
pub fn cover(
    layout: &Layout,
    lost: (usize, u32),
    available: &dyn Fn(usize, u32) -> bool,
    costs: &CoverCosts,
) -> Option<Cover> {
    let (replex, partition) = lost;
    let mut search = Search {
        layout,
        lookup: replex,
        available,
        costs,
        steps_left: COVER_STEPS_MAX,
        known: BTreeMap::new(),
    };
    let constraints = layout.constraints_of_partition(replex, partition);
    search.cheapest(&constraints, 1 << replex, u64::MAX)
}

/// Returns the cheapest available cover of all rows that satisfy the constraints, for a lookup in
/// the sort order of replex `lookup`. If nothing is lost, these are the lookup's own partitions. So
/// one function serves reads before and after a failure.
pub fn cover_constraints(
    layout: &Layout,
    lookup: usize,
    constraints: &SlotConstraints,
    available: &dyn Fn(usize, u32) -> bool,
    costs: &CoverCosts,
) -> Option<Cover> {
    let mut search = Search {
        layout,
        lookup,
        available,
        costs,
        steps_left: COVER_STEPS_MAX,
        known: BTreeMap::new(),
    };
    search.cheapest(constraints, 0, u64::MAX)
}

/// Returns how a partition of replex `member` serves a lookup in the sort order of replex `lookup`.
/// It may still have to scan if the copy was added later and its local entries are incomplete.
pub fn access(layout: &Layout, lookup: usize, member: usize) -> RowAccess {
    let order = layout.order(lookup);
    if layout.order(member).starts_with(&order) {
        RowAccess::Sorted
    } else if layout.local_entries {
        RowAccess::LocalIndex
    } else {
        RowAccess::Scan
    }
}

struct Search<'a> {
    layout: &'a Layout,
    lookup: usize,
    available: &'a dyn Fn(usize, u32) -> bool,
    costs: &'a CoverCosts,
    steps_left: u32,
    /// The results by constraints and excluded replexes. Lost members that are replaced in another
    /// order lead to the same constraints.
    known: BTreeMap<(SlotConstraints, u64), Known>,
}

/// The result of a search for some constraints.
enum Known {
    Cheapest(Cover),
    /// No cover costs less than this.
    NoneBelow(u64),
}

/// One replex's way to cover some constraints, before its lost members are replaced.
struct Candidate {
    replex: usize,
    access: RowAccess,
    available: Vec<u32>,
    lost: Vec<u32>,
    /// No completion of this candidate costs less.
    cost_min: u64,
}

impl Search<'_> {
    /// Returns the cheapest cover that costs less than `limit`, without the replexes in the bit set
    /// `excluded`. The constraints name a lost partition of each excluded replex, so its other
    /// partitions hold none of the rows. This also bounds the depth by the replexes.
    fn cheapest(
        &mut self,
        constraints: &SlotConstraints,
        excluded: u64,
        limit: u64,
    ) -> Option<Cover> {
        let key = (constraints.clone(), excluded);
        match self.known.get(&key) {
            Some(Known::Cheapest(cover)) => {
                return Some(cover.clone()).filter(|it| it.cost < limit);
            }
            Some(Known::NoneBelow(none)) if limit <= *none => return None,
            _ => {}
        }
        let best = self.search(constraints, excluded, limit);
        let found = match &best {
            Some(cover) => Known::Cheapest(cover.clone()),
            None => Known::NoneBelow(limit),
        };
        if self.known.len() < KNOWN_MAX {
            self.known.insert(key, found);
        }
        best
    }

    /// Finds what [`Self::cheapest`] returns, if it is not known yet.
    fn search(
        &mut self,
        constraints: &SlotConstraints,
        excluded: u64,
        mut limit: u64,
    ) -> Option<Cover> {
        let mut best = None;
        for candidate in self.candidates(constraints, excluded) {
            if candidate.cost_min >= limit {
                continue;
            }
            if let Some(cover) = self.complete(candidate, constraints, excluded, limit) {
                limit = cover.cost;
                best = Some(cover);
            }
        }
        best
    }

    /// Returns the candidates. Candidates that need no replacement come first, because they win
    /// against equals and bound the search for the rest. The others follow by the least possible
    /// cost.
    fn candidates(&mut self, constraints: &SlotConstraints, excluded: u64) -> Vec<Candidate> {
        let costs = self.costs;
        let cheapest = costs.sorted.min(costs.local_index).min(costs.scan);
        assert!(cheapest > 0, "free accesses would make every cover equal");
        let mut candidates = Vec::new();
        let copies = self.layout.copy_numbers();
        for replex in copies.filter(|it| excluded >> it & 1 == 0) {
            let partitions = self.layout.partitions(constraints, replex);
            let steps = partitions.len() as u32 + 1;
            let Some(steps_left) = self.steps_left.checked_sub(steps) else {
                break;
            };
            self.steps_left = steps_left;
            let access = access(self.layout, self.lookup, replex);
            let is_available = |partition: &u32| (self.available)(replex, *partition);
            let (available, lost): (Vec<u32>, Vec<u32>) =
                partitions.into_iter().partition(is_available);
            if self.layout.is_ranged(replex) && !lost.is_empty() {
                // Constraints cannot name a range, so that its cover would have rows of others,
                // too. A placement is proven for rows of any range, so other copies have them.
                continue;
            }
            let cost_min = available.len() as u64 * costs.of(access) + lost.len() as u64 * cheapest;
            candidates.push(Candidate {
                replex,
                access,
                available,
                lost,
                cost_min,
            });
        }
        candidates.sort_by_key(|it| (!it.lost.is_empty(), it.cost_min, it.replex));
        candidates
    }

    /// Replaces each lost member by its own cheapest cover.
    fn complete(
        &mut self,
        candidate: Candidate,
        constraints: &SlotConstraints,
        excluded: u64,
        limit: u64,
    ) -> Option<Cover> {
        let Candidate {
            replex,
            access,
            available,
            lost,
            cost_min,
        } = candidate;
        let cost = available.len() as u64 * self.costs.of(access);
        let cheapest_replacement = (cost_min - cost)
            .checked_div(lost.len() as u64)
            .unwrap_or(0);
        let member = |partition| CoverMember {
            replex,
            partition,
            access,
            constraints: constraints.clone(),
        };
        let members = available.into_iter().map(member).collect();
        let mut cover = Cover { members, cost };
        for (index, partition) in lost.iter().enumerate() {
            let others_min = (lost.len() - index - 1) as u64 * cheapest_replacement;
            let limit_left = limit.checked_sub(cover.cost + others_min)?;
            let both = constraints.and(&self.layout.constraints_of_partition(replex, *partition));
            let replacement = self.cheapest(&both, excluded | 1 << replex, limit_left)?;
            cover.cost += replacement.cost;
            cover.members.extend(replacement.members);
        }
        Some(cover)
    }
}
