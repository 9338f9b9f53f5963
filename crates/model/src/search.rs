//! Visits every reachable state of a model, breadth first. So the first violation that it finds has
//! the shortest counterexample. It knows no rule of any protocol.
//!
//! Of each visited state the search keeps only a hash of 64 bits and the number of its predecessor.
//! Two states with the same hash would count as one state. Among 10^8 states that happens with a
//! probability below 0.0003 (n² / 2^65).

use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher;
use std::time::Instant;

/// A model: its states, the steps between them and the properties of each state.
pub trait StateSpace {
    /// Everything that there is at one moment.
    type State: Copy + PartialEq;
    /// One thing that happens.
    type Step: Copy + std::fmt::Debug;

    /// Returns the initial state.
    fn start(&self) -> Self::State;

    /// Applies a step to a state. Returns false if the step is impossible in this state.
    fn apply(&self, state: &mut Self::State, step: Self::Step) -> bool;

    /// Passes every step to `attempt` that may be possible in a state.
    fn steps(&self, state: &Self::State, attempt: &mut dyn FnMut(Self::Step));

    /// Returns whether a step is a fault, which need not happen.
    fn is_fault(&self, step: Self::Step) -> bool;

    /// Returns a description of the violation in a state; none if the state is correct.
    fn violation(&self, state: &Self::State) -> Option<String>;

    /// Returns a description of the violation in a state in which only faults can still happen;
    /// none if the state is correct.
    fn violation_at_rest(&self, state: &Self::State) -> Option<String>;

    /// Appends the state as bytes. States that symmetry makes equal have the same bytes.
    fn pack(&self, state: &Self::State, bytes: &mut Vec<u8>);

    /// Returns the state from the bytes of [`StateSpace::pack`].
    fn unpack(&self, bytes: &[u8]) -> Self::State;

    /// Returns a step in words.
    fn words(&self, state: &Self::State, step: Self::Step) -> String;

    /// Returns the changes of a step, in words.
    fn changes(&self, before: &Self::State, after: &Self::State) -> Vec<String>;
}

/// The limits of a search, and whether it prints its progress.
#[derive(Clone, Copy, Debug)]
pub struct SearchLimits {
    /// The number of states after which the search stops.
    pub states_max: usize,
    /// The most memory that the search may use, in bytes.
    pub bytes_max: usize,
    /// Whether the search prints its progress.
    pub progress: bool,
}

/// The result of a search.
#[derive(Debug)]
pub struct SearchResult<S> {
    /// The number of distinct states.
    pub states: usize,
    /// The number of steps from the initial state to the farthest state.
    pub depth: usize,
    /// Whether the search has visited all reachable states.
    pub complete: bool,
    /// The memory of the search at its end, in bytes.
    pub bytes: usize,
    /// The violation, and the steps that lead to it.
    pub violation: Option<(String, Vec<S>)>,
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

/// The packed states that the search has yet to visit, each after its length.
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

    /// Returns the slot of a hash, or the free slot for it.
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
        let length = u16::try_from(packed.len()).expect("a state has less than 64 KiB");
        self.bytes.extend_from_slice(&length.to_le_bytes());
        self.bytes.extend_from_slice(packed);
        self.count += 1;
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.bytes[..];
        std::iter::from_fn(move || {
            let (length, behind) = rest.split_first_chunk()?;
            let (packed, behind) = behind.split_at(usize::from(u16::from_le_bytes(*length)));
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

/// Passes all successors of a state to `each`, with the step that leads there.
fn successors<W: StateSpace>(
    world: &W,
    state: &W::State,
    each: &mut dyn FnMut(W::Step, &W::State),
) {
    world.steps(state, &mut |step| {
        let mut next = *state;
        if world.apply(&mut next, step) && next != *state {
            each(step, &next);
        }
    });
}

/// Searches a model.
pub fn search<W: StateSpace>(world: &W, limits: SearchLimits) -> SearchResult<W::Step> {
    let mut search = Search {
        world,
        limits,
        met: Met::new(),
        next: Queue::default(),
        packed: Vec::new(),
        violation: None,
    };
    let start = world.start();
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

struct Search<'a, W> {
    world: &'a W,
    limits: SearchLimits,
    met: Met,
    next: Queue,
    /// The bytes of the state that is being met: kept, because there are many.
    packed: Vec<u8>,
    /// The violation, with the number of the state where it shows.
    violation: Option<(String, usize)>,
}

impl<W: StateSpace> Search<'_, W> {
    fn is_full(&self) -> bool {
        // A list that grows is there twice for a moment.
        let bytes = 2 * self.met.bytes() + 3 * self.next.bytes.capacity();
        self.met.hashes.len() >= self.limits.states_max || bytes > self.limits.bytes_max
    }

    /// Notes a state, unless it has been met.
    fn meet(&mut self, state: &W::State, predecessor: usize) {
        self.packed.clear();
        self.world.pack(state, &mut self.packed);
        if !self.met.insert(hash(&self.packed), predecessor as u32) {
            return;
        }
        self.next.push(&self.packed);
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
            let state = world.unpack(packed);
            let mut rests = true;
            successors(world, &state, &mut |step, next| {
                rests &= world.is_fault(step);
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

    fn found(self, depth: usize) -> SearchResult<W::Step> {
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
    fn steps_to(&self, number: usize) -> (Vec<W::Step>, W::State) {
        let mut path = vec![number];
        while let Some(&last) = path.last().filter(|last| **last != 0) {
            path.push(self.met.predecessors[last] as usize);
        }
        let mut state = self.world.start();
        let mut steps = Vec::new();
        let mut packed = Vec::new();
        for number in path.iter().rev().skip(1) {
            let mut step = None;
            successors(self.world, &state, &mut |action, next| {
                packed.clear();
                self.world.pack(next, &mut packed);
                if hash(&packed) == self.met.hashes[*number] {
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

/// Returns a description of the steps from the initial state: each step, and its changes.
pub fn story<W: StateSpace>(world: &W, steps: &[W::Step]) -> String {
    let mut state = world.start();
    let mut text = String::new();
    for (number, step) in steps.iter().enumerate() {
        let before = state;
        world.apply(&mut state, *step);
        text += &format!("{:>4}. {}\n", number + 1, world.words(&before, *step));
        for change in world.changes(&before, &state) {
            text += &format!("      - {change}\n");
        }
    }
    text
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

    /// Two counters that rise to a limit: a state is wrong where both are at theirs.
    struct Counters {
        limit: u8,
        both: bool,
    }

    impl StateSpace for Counters {
        type State = [u8; 2];
        type Step = usize;

        fn start(&self) -> [u8; 2] {
            [0, 0]
        }

        fn apply(&self, state: &mut [u8; 2], step: usize) -> bool {
            state[step] += 1;
            state[step] <= self.limit
        }

        fn steps(&self, _: &[u8; 2], attempt: &mut dyn FnMut(usize)) {
            (0..2).for_each(attempt);
        }

        fn is_fault(&self, _: usize) -> bool {
            false
        }

        fn violation(&self, state: &[u8; 2]) -> Option<String> {
            (self.both && *state == [self.limit; 2]).then(|| "both are at their limit".into())
        }

        fn violation_at_rest(&self, state: &[u8; 2]) -> Option<String> {
            (*state != [self.limit; 2]).then(|| "it rests early".into())
        }

        fn pack(&self, state: &[u8; 2], bytes: &mut Vec<u8>) {
            bytes.extend_from_slice(state);
        }

        fn unpack(&self, bytes: &[u8]) -> [u8; 2] {
            [bytes[0], bytes[1]]
        }

        fn words(&self, _: &[u8; 2], step: usize) -> String {
            format!("Counter {step} rises.")
        }

        fn changes(&self, _: &[u8; 2], after: &[u8; 2]) -> Vec<String> {
            vec![format!("the counters are at {after:?}")]
        }
    }

    #[test]
    fn all_states_are_visited_and_the_story_is_the_shortest() {
        let limits = SearchLimits {
            states_max: usize::MAX,
            bytes_max: usize::MAX,
            progress: false,
        };
        let mut counters = Counters {
            limit: 9,
            both: false,
        };
        let found = search(&counters, limits);
        assert!(found.complete);
        assert_eq!((found.states, found.depth), (100, 19));
        assert!(found.violation.is_none());
        counters.both = true;
        let (wrong, steps) = search(&counters, limits).violation.expect("it is reached");
        assert_eq!((&*wrong, steps.len()), ("both are at their limit", 18));
        assert!(story(&counters, &steps).ends_with("[9, 9]\n"));
    }

    #[test]
    fn a_search_ends_at_its_limit_and_reports_it() {
        let counters = Counters {
            limit: 200,
            both: false,
        };
        let limits = SearchLimits {
            states_max: 1_000,
            bytes_max: usize::MAX,
            progress: false,
        };
        let found = search(&counters, limits);
        assert!(!found.complete);
        assert!(found.states >= 1_000);
        let bounded = SearchLimits {
            states_max: usize::MAX,
            bytes_max: 1 << 20,
            ..limits
        };
        let found = search(&counters, bounded);
        assert!(!found.complete);
        assert!(found.bytes <= bounded.bytes_max);
    }
}
