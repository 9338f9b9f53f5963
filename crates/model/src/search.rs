//! The search: every state that can be reached, breadth first, so that the first violation found
//! has the shortest story.
//!
//! Of a state that has been met only a hash of 64 bits and its predecessor's number are kept: two
//! states with one hash would be taken for the same. Among 10^8 states that happens with a
//! probability below 0.0003 (n² / 2^65).

use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher;
use std::time::Instant;

use crate::action::ModelStep;
use crate::chain::CaseRules;
use crate::state::{ModelState, PACKED_MAX};

/// How far to search, and whether to print the progress.
#[derive(Clone, Copy, Debug)]
pub struct SearchLimits {
    /// Stop after so many states.
    pub states_max: usize,
    /// Stop before the search needs more bytes.
    pub bytes_max: usize,
    /// Print progress.
    pub progress: bool,
}

/// The result of a search.
#[derive(Debug)]
pub struct SearchResult {
    /// Distinct states.
    pub states: usize,
    /// Steps from the beginning to the farthest of them.
    pub depth: usize,
    /// Whether these are all states that there are.
    pub complete: bool,
    /// Bytes of memory at the end.
    pub bytes: usize,
    /// What is wrong, and the steps that lead there.
    pub violation: Option<(String, Vec<ModelStep>)>,
}

/// States met so far.
struct Met {
    /// By number, in the order of discovery.
    hashes: Vec<u64>,
    /// By number: the state that led there first.
    predecessors: Vec<u32>,
    /// Numbers of states plus one, by hash; 0 is a free slot. A power of two of them.
    slots: Vec<u32>,
}

/// States still to be looked at, packed: each after its length.
#[derive(Default)]
struct Queue {
    bytes: Vec<u8>,
    count: usize,
}

impl Met {
    fn new() -> Met {
        Met {
            hashes: Vec::new(),
            predecessors: Vec::new(),
            slots: vec![0; 1 << 16],
        }
    }

    /// Adds a state; false if it has been met.
    fn insert(&mut self, hash: u64, predecessor: u32) -> bool {
        if (self.hashes.len() + 1) * 3 > self.slots.len() * 2 {
            self.grow();
        }
        let slot = self.slot(hash);
        if self.slots[slot] != 0 {
            return false;
        }
        self.hashes.push(hash);
        self.predecessors.push(predecessor);
        self.slots[slot] = u32::try_from(self.hashes.len()).expect("states_max is below 2^32");
        true
    }

    /// Returns where a hash is, or goes.
    fn slot(&self, hash: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        while self.slots[slot] != 0 && self.hashes[self.slots[slot] as usize - 1] != hash {
            slot = (slot + 1) & mask;
        }
        slot
    }

    fn grow(&mut self) {
        self.slots = vec![0; self.slots.len() * 2];
        for number in 0..self.hashes.len() {
            let slot = self.slot(self.hashes[number]);
            self.slots[slot] = number as u32 + 1;
        }
    }

    fn bytes(&self) -> usize {
        8 * self.hashes.capacity() + 4 * (self.predecessors.capacity() + self.slots.capacity())
    }
}

impl Queue {
    fn push(&mut self, packed: &[u8]) {
        self.bytes.push(packed.len() as u8);
        self.bytes.extend_from_slice(packed);
        self.count += 1;
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.bytes[..];
        std::iter::from_fn(move || {
            let (length, behind) = rest.split_first()?;
            let (packed, behind) = behind.split_at(usize::from(*length));
            rest = behind;
            Some(packed)
        })
    }
}

fn hash(packed: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(packed);
    hasher.finish()
}

/// Searches a case.
pub fn search(world: &CaseRules<'_>, limits: SearchLimits) -> SearchResult {
    let mut search = Search {
        world,
        limits,
        met: Met::new(),
        next: Queue::default(),
        violation: None,
    };
    let start = ModelState::start(world.case);
    search.meet(&start, 0);
    let (mut depth, mut first) = (0, 0);
    let started = Instant::now();
    let mut printed = started;
    while search.next.count > 0 && search.violation.is_none() && !search.is_full() {
        let level = std::mem::take(&mut search.next);
        search.level(&level, first);
        first += level.count;
        depth += 1;
        if limits.progress && printed.elapsed().as_secs() >= 2 {
            printed = Instant::now();
            let states = search.met.hashes.len();
            let rate = states as f64 / started.elapsed().as_secs_f64() / 1e3;
            eprint!(
                "\r  depth {depth}, {states} states, {} of them new, {rate:.0} thousand/s  ",
                search.next.count
            );
        }
    }
    if limits.progress {
        eprintln!();
    }
    search.found(depth)
}

struct Search<'a> {
    world: &'a CaseRules<'a>,
    limits: SearchLimits,
    met: Met,
    next: Queue,
    /// What is wrong, with the number of the state where it shows.
    violation: Option<(String, usize)>,
}

impl Search<'_> {
    fn is_full(&self) -> bool {
        // A list that grows is there twice for a moment.
        let bytes = 2 * self.met.bytes() + 3 * self.next.bytes.capacity();
        self.met.hashes.len() >= self.limits.states_max || bytes > self.limits.bytes_max
    }

    /// Notes a state, unless it has been met.
    fn meet(&mut self, state: &ModelState, predecessor: usize) {
        let mut packed = [0; PACKED_MAX];
        let length = state.pack(self.world.case, &mut packed);
        if !self.met.insert(hash(&packed[..length]), predecessor as u32) {
            return;
        }
        self.next.push(&packed[..length]);
        if self.violation.is_none()
            && let Some(wrong) = self.world.violation(state)
        {
            self.violation = Some((wrong, self.met.hashes.len() - 1));
        }
    }

    /// Meets all successors of the states of one level, the first of which has number `first`.
    fn level(&mut self, level: &Queue, first: usize) {
        let world = self.world;
        for (number, packed) in level.iter().enumerate() {
            let state = ModelState::unpack(world.case, packed);
            let mut rests = true;
            world.successors(&state, &mut |action, next| {
                rests &= action.is_fault();
                self.meet(next, first + number);
            });
            if rests && self.violation.is_none() {
                let wrong = world.violation_at_rest(&state);
                self.violation = wrong.map(|wrong| (wrong, first + number));
            }
            if self.violation.is_some() || self.is_full() {
                return;
            }
        }
    }

    fn found(self, depth: usize) -> SearchResult {
        let complete = self.violation.is_none() && self.next.count == 0;
        let violation = self.violation.as_ref().map(|(wrong, number)| {
            let (steps, state) = self.steps_to(*number);
            // Symmetry may have renamed what the story names as it began.
            let again = self.world.violation(&state);
            let again = again.or_else(|| self.world.violation_at_rest(&state));
            (again.unwrap_or_else(|| wrong.clone()), steps)
        });
        SearchResult {
            states: self.met.hashes.len(),
            depth,
            complete,
            bytes: self.met.bytes() + self.next.bytes.capacity(),
            violation,
        }
    }

    /// Returns the steps from the beginning to a state.
    fn steps_to(&self, number: usize) -> (Vec<ModelStep>, ModelState) {
        let mut path = vec![number];
        while let Some(&last) = path.last().filter(|last| **last != 0) {
            path.push(self.met.predecessors[last] as usize);
        }
        let mut state = ModelState::start(self.world.case);
        let mut steps = Vec::new();
        for number in path.iter().rev().skip(1) {
            let mut step = None;
            self.world.successors(&state, &mut |action, next| {
                let mut packed = [0; PACKED_MAX];
                let length = next.pack(self.world.case, &mut packed);
                if hash(&packed[..length]) == self.met.hashes[*number] {
                    step.get_or_insert((action, *next));
                }
            });
            let (action, next) = step.expect("each state on the way leads to the next");
            steps.push(action);
            state = next;
        }
        (steps, state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_met_once() {
        let mut met = Met::new();
        // More than the first table holds, many of them in one slot of it.
        let hashes = (0..100_000u64).map(|number| number % 7 + (number << 40));
        for hash in hashes.clone().take(2_000) {
            assert!(met.insert(hash, 0));
        }
        let spread = (0..100_000u64).map(|number| (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        for hash in spread.clone() {
            assert!(met.insert(hash, 0));
        }
        for hash in hashes.take(2_000).chain(spread) {
            assert!(!met.insert(hash, 0));
        }
        assert_eq!(met.hashes.len(), 102_000);
    }

    #[test]
    fn a_search_ends_at_its_limit_and_reports_it() {
        let case = crate::case::named("pair").expect("it is listed");
        let limits = SearchLimits {
            states_max: 1_000,
            bytes_max: usize::MAX,
            progress: false,
        };
        let found = search(&CaseRules::new(&case, None), limits);
        assert!(!found.complete);
        assert!(found.states >= 1_000);
        let bounded = SearchLimits {
            states_max: usize::MAX,
            bytes_max: 4 << 20,
            ..limits
        };
        let found = search(&CaseRules::new(&case, None), bounded);
        assert!(!found.complete);
        assert!(found.bytes <= bounded.bytes_max);
    }
}
