//! Proves that a placement keeps every possible row in enough failure domains (I17), and computes
//! the chain positions that follow from n, f and k (R3).
//!
//! Co-location breaks tolerance: hashes of different columns are independent, so any partition
//! of one index shares rows with any partition of another. The proof goes through combinations
//! of slots, not rows: key spaces are taken as independent, so it can be too strict (the same
//! columns cut in two ways) but never too lenient. The ranges of a copy are taken as independent of
//! all slots.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;

use crate::grid::Layout;
use crate::places::{HostCore, PartitionHost, Placement};
use crate::schema::Schema;

/// The most combinations that one proof examines before it returns its lower bound. For a placement
/// by `assign` the lower bound is the proof, so it never reaches this.
pub const PROOF_STEPS_MAX: u32 = 1 << 22;

/// The guarantees of a placement for every row of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacementProof {
    /// Every possible row has copies in at least this many failure domains.
    pub copies_guaranteed: u32,
    /// Whether some row has exactly that many. If not, the search stopped at [`PROOF_STEPS_MAX`].
    pub exact: bool,
    /// The slots of the worst row found, one per key space.
    pub worst_row: Vec<u32>,
}

impl PlacementProof {
    /// Returns the number of failure domains that can be lost without losing a row.
    pub fn failures_tolerated(&self) -> u32 {
        self.copies_guaranteed.saturating_sub(1)
    }
}

/// Returns the largest number of members of a chain that `failures` lost failure domains can
/// destroy: at least `failures`, and fewer than all, because a copy of the row remains. A domain
/// can destroy more than one if it has several replexes. R3 calls this number f: these members can
/// be missing in a resolution. A server that is not in the list fails alone.
pub fn members_at_risk(
    (schema, layout): (&Schema, &Layout),
    placement: &Placement,
    servers: &[PartitionHost],
    failures: usize,
) -> usize {
    let domains: BTreeMap<u32, &str> = servers
        .iter()
        .map(|server| (server.id, server.domain.as_str()))
        .collect();
    let mut replexes: BTreeMap<Result<&str, u32>, BTreeSet<usize>> = BTreeMap::new();
    let chain = layout.chain(schema);
    for &replex in &chain {
        // Empty partitions are members of no chain. They come and go without a seal.
        for number in layout.partitions_with_rows(replex) {
            let place = placement.replexes[replex][number as usize];
            let domain = domains.get(&place.server).copied().ok_or(place.server);
            replexes.entry(domain).or_default().insert(replex);
        }
    }
    let mut counts: Vec<usize> = replexes.values().map(BTreeSet::len).collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let taken: usize = counts.iter().take(failures).sum();
    taken.max(failures).min(chain.len() - 1)
}

/// Returns x of R3: the position in the chain (1 is the head, n the decider) where a decision must
/// be durable before any client may see it. n is the number of replexes in the chain, f the number
/// of their members that can be missing ([`members_at_risk`]), and k the last position that can
/// vote no.
/// min(k, x) ≤ n − f holds.
///
/// # Panics
/// Unless f < n and 1 ≤ k ≤ n.
pub fn decision_position(n: usize, f: usize, k: usize) -> usize {
    assert!(f < n, "f failures take f + 1 copies");
    assert!((1..=n).contains(&k), "k is a position in the chain");
    if k <= n - f { n } else { n - f }
}

/// Returns the smallest number of failure domains in which a possible row has a copy. Servers of
/// the placement that are not in the list count as lost, and so as no domain.
///
/// # Panics
/// If the placement does not have one place per partition of the layout.
pub fn prove(layout: &Layout, placement: &Placement, servers: &[PartitionHost]) -> PlacementProof {
    let domains = Domains::new(layout, placement, servers);
    let bound = lower_bound(layout, &domains);
    let mut search = Search {
        layout,
        domains: &domains,
        classes: (0..layout.key_spaces.len())
            .map(|key_space| classes(layout, &domains, key_space))
            .collect(),
        ranged: domains_of_ranges(layout, &domains),
        bound,
        best: u32::MAX,
        worst_row: Vec::new(),
        steps_left: PROOF_STEPS_MAX,
    };
    let mut row = RowSoFar {
        slots: Vec::with_capacity(layout.key_spaces.len()),
        copies: vec![0; domains.count],
        distinct: 0,
    };
    let whole =
        |replex: &usize| layout.replexes[*replex].axes.is_empty() && !layout.is_ranged(*replex);
    for replex in layout.numbers().filter(whole) {
        row.add(domains.of[replex][0]);
    }
    search.descend(&mut row);
    let exact = search.steps_left > 0 || search.best == bound;
    let copies_guaranteed = if exact { search.best } else { bound };
    PlacementProof {
        copies_guaranteed,
        exact,
        worst_row: search.worst_row,
    }
}

/// The failure domain of each partition, numbered.
struct Domains {
    /// Per replex and partition; `None` is a lost server.
    of: Vec<Vec<Option<usize>>>,
    count: usize,
}

impl Domains {
    fn new(layout: &Layout, placement: &Placement, servers: &[PartitionHost]) -> Domains {
        let names: BTreeSet<&str> = servers
            .iter()
            .map(|server| server.domain.as_str())
            .collect();
        let numbers: BTreeMap<&str, usize> = names.into_iter().zip(0..).collect();
        let of_server: BTreeMap<u32, usize> = servers
            .iter()
            .map(|server| (server.id, numbers[server.domain.as_str()]))
            .collect();
        assert_eq!(
            placement.replexes.len(),
            layout.replexes.len(),
            "one entry per replex"
        );
        let domain = |place: &HostCore| of_server.get(&place.server).copied();
        let replexes = placement.replexes.iter().enumerate();
        let of = replexes.map(|(replex, places)| {
            // A thin index has no copies of rows, wherever it is.
            let copies = places.iter().map(domain);
            copies
                .map(|it| it.filter(|_| !layout.is_thin(replex)))
                .collect()
        });
        let of: Vec<Vec<Option<usize>>> = of.collect();
        for (replex, domains) in of.iter().enumerate() {
            let partitions = layout.partition_count(replex) as usize;
            assert_eq!(domains.len(), partitions, "one place per partition");
        }
        Domains {
            of,
            count: numbers.len(),
        }
    }
}

/// Returns a count that is surely reached. Families of replexes that are cut alike are packed so
/// that no two share a domain. Each then adds the least spread of its partitions.
fn lower_bound(layout: &Layout, domains: &Domains) -> u32 {
    let mut families: Vec<(u32, BTreeSet<usize>)> = layout
        .families()
        .iter()
        .map(|family| {
            let copies = |partition: u32| {
                family
                    .iter()
                    .filter_map(|replex| domains.of[*replex][partition as usize])
                    .collect()
            };
            let partitions = layout.partitions_with_rows(family[0]).into_iter();
            let spread: Vec<BTreeSet<usize>> = partitions.map(copies).collect();
            let least = spread
                .iter()
                .map(|copies| copies.len() as u32)
                .min()
                .unwrap_or(0);
            (least, spread.into_iter().flatten().collect())
        })
        .collect();
    families.sort_by_key(|(least, used)| (u32::MAX - least, used.len()));
    let mut taken = BTreeSet::new();
    let mut bound = 0;
    for (least, used) in families {
        if taken.is_disjoint(&used) {
            taken.extend(used);
            bound += least;
        }
    }
    bound
}

/// Returns one slot for each class of slots of a key space that no grid separates by domain.
fn classes(layout: &Layout, domains: &Domains, key_space: usize) -> Vec<u32> {
    let mut classes = BTreeMap::new();
    for slot in 0..layout.key_spaces[key_space].slots {
        // Where only this key space decides, the set of domains is all that matters.
        let mut decided = BTreeSet::new();
        let mut shared = Vec::new();
        for (replex, definition) in layout.replexes.iter().enumerate() {
            let axes = &definition.axes;
            if !axes.is_empty() && axes.iter().all(|axis| axis.key_space == key_space) {
                let partition = layout.partition_by(replex, |_| slot) as usize;
                decided.extend(domains.of[replex][partition]);
                continue;
            }
            let here = axes.iter().filter(|axis| axis.key_space == key_space);
            shared.extend(here.map(|axis| axis.coordinate(slot)));
        }
        classes.entry((decided, shared)).or_insert(slot);
    }
    classes.into_values().collect()
}

/// Returns the failure domains of each copy that ranges divide. Slots say nothing about ranges, so
/// a row can be in any of them.
fn domains_of_ranges(layout: &Layout, domains: &Domains) -> Vec<BTreeSet<Option<usize>>> {
    let ranged = layout.copy_numbers().filter(|it| layout.is_ranged(*it));
    let of_copy = ranged.map(|replex| {
        let partitions = layout.partitions_with_rows(replex).into_iter();
        partitions.map(move |number| domains.of[replex][number as usize])
    });
    of_copy.map(Iterator::collect).collect()
}

struct Search<'a> {
    layout: &'a Layout,
    domains: &'a Domains,
    /// Per key space, the slots to try.
    classes: Vec<Vec<u32>>,
    /// Per copy that ranges divide, the domains to try.
    ranged: Vec<BTreeSet<Option<usize>>>,
    bound: u32,
    best: u32,
    worst_row: Vec<u32>,
    steps_left: u32,
}

/// A row whose first key spaces have their slots.
struct RowSoFar {
    slots: Vec<u32>,
    /// Copies per domain.
    copies: Vec<u32>,
    /// Domains with a copy.
    distinct: u32,
}

impl RowSoFar {
    fn add(&mut self, domain: Option<usize>) {
        let Some(domain) = domain else { return };
        self.copies[domain] += 1;
        self.distinct += u32::from(self.copies[domain] == 1);
    }

    fn remove(&mut self, domain: Option<usize>) {
        let Some(domain) = domain else { return };
        self.copies[domain] -= 1;
        self.distinct -= u32::from(self.copies[domain] == 0);
    }
}

impl Search<'_> {
    /// Tries every class for the next key space, first the class that adds least. The depth is the
    /// number of key spaces.
    fn descend(&mut self, row: &mut RowSoFar) {
        let key_space = row.slots.len();
        if key_space == self.classes.len() {
            self.descend_ranges(row, 0);
            return;
        }
        let steps = self.classes[key_space].len() as u32;
        self.steps_left = self.steps_left.saturating_sub(steps);
        let mut choices: Vec<(u32, u32, Vec<Option<usize>>)> = Vec::new();
        for slot in &self.classes[key_space] {
            row.slots.push(*slot);
            let added = self.domains_decided(&row.slots);
            row.slots.pop();
            added.iter().for_each(|domain| row.add(*domain));
            choices.push((row.distinct, *slot, added.clone()));
            added.iter().for_each(|domain| row.remove(*domain));
        }
        choices.sort();
        for (distinct, slot, added) in choices {
            if self.best == self.bound || distinct >= self.best || self.steps_left == 0 {
                return;
            }
            row.slots.push(slot);
            added.iter().for_each(|domain| row.add(*domain));
            self.descend(row);
            added.iter().for_each(|domain| row.remove(*domain));
            row.slots.pop();
        }
    }

    /// Tries every domain for the copies that ranges divide, from this one on. The depth is the
    /// number of these copies.
    fn descend_ranges(&mut self, row: &mut RowSoFar, copy: usize) {
        let Some(domains) = self.ranged.get(copy) else {
            if row.distinct < self.best {
                self.best = row.distinct;
                self.worst_row.clone_from(&row.slots);
            }
            return;
        };
        let adds_none = |domain: &Option<usize>| domain.is_none_or(|it| row.copies[it] > 0);
        if domains.iter().any(adds_none) {
            // No other choice leads to fewer domains.
            return self.descend_ranges(row, copy + 1);
        }
        for domain in domains.clone() {
            if self.best == self.bound || row.distinct + 1 >= self.best || self.steps_left == 0 {
                return;
            }
            self.steps_left -= 1;
            row.add(domain);
            self.descend_ranges(row, copy + 1);
            row.remove(domain);
        }
    }

    /// Domains of the replexes that the last of these slots was the last to decide.
    fn domains_decided(&self, slots: &[u32]) -> Vec<Option<usize>> {
        let replexes = self.layout.replexes.iter().enumerate();
        let decided = replexes.filter(|(_, replex)| {
            let last = replex.axes.iter().map(|axis| axis.key_space).max();
            last.is_some_and(|last| last + 1 == slots.len())
        });
        let domain = |(replex, _)| {
            let partition = self
                .layout
                .partition_by(replex, |key_space| slots[key_space]);
            self.domains.of[replex][partition as usize]
        };
        decided.map(domain).collect()
    }
}
