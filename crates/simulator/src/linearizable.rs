//! Lookups by every index see one object (R9 to R12): a history is accepted if its operations can
//! be put into an order that the model allows and that respects real time.
//!
//! Wing and Gong's search with Lowe's memory of what was tried: (set of operations done, state). An
//! operation whose outcome its client never learnt may take effect at any time after it began, or
//! never. An operation that changed nothing is ordered as soon as it can be, without a look at
//! other ways: whatever order exists, it can come first in it. The search is bounded: a history
//! that takes longer is counted, not judged.

use std::hash::Hash;

use hashbrown::HashSet;

/// The specification of an object: its states, and the effect and the observation of each
/// operation.
pub trait Object {
    /// A state.
    type State: Clone + Eq + Hash;
    /// An operation.
    type Operation;
    /// The observation that an operation showed.
    type Observation;

    /// Returns the state after the operation, if it can show `seen` in `state`; `None` of `seen` is
    /// a client that never learnt it.
    fn step(
        &self,
        state: &Self::State,
        operation: &Self::Operation,
        seen: Option<&Self::Observation>,
    ) -> Option<Self::State>;

    /// Returns whether an operation that showed this has changed nothing, whatever the state was.
    fn only_looks(&self, operation: &Self::Operation, seen: &Self::Observation) -> bool;
}

/// One operation of a history. Only the order of the times matters, and no two times are equal.
#[derive(Clone, Debug)]
pub struct Call<O, S> {
    /// The time at which the operation began.
    pub begun: u64,
    /// The time at which the outcome was known, and the outcome; none if it never was.
    pub ended: Option<(u64, S)>,
    /// The operation.
    pub operation: O,
}

/// The verdict of the search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// An order exists.
    Linearizable,
    /// No order exists. Contains the largest number of operations that could be ordered, and the
    /// indexes in the history of the operations that could not follow.
    Violated {
        /// How many could.
        ordered: usize,
        /// Which blocked.
        stuck: Vec<usize>,
    },
    /// The search ended at its limit of steps.
    Undecided,
}

/// Searches for an order, with at most `steps` steps of the model.
pub fn check<M: Object>(
    object: &M,
    initial: M::State,
    history: &[Call<M::Operation, M::Observation>],
    steps: u64,
) -> Verdict {
    Search::new(object, initial, history).run(steps)
}

const HEAD: usize = 0;

struct Search<'a, M: Object> {
    object: &'a M,
    history: &'a [Call<M::Operation, M::Observation>],
    /// Entry 0 is the head, the last one the end, those between are calls and returns by time.
    entries: Vec<Entry>,
    next: Vec<usize>,
    previous: Vec<usize>,
    /// By operation: its call's entry and its return's.
    places: Vec<(usize, Option<usize>)>,
    state: M::State,
    done: Vec<u64>,
    /// Operations with known outcomes that are not ordered yet.
    remaining: usize,
    stack: Vec<Frame<M::State>>,
    tried: HashSet<(Vec<u64>, M::State)>,
    deepest: (usize, Vec<usize>),
}

/// A step of the search: the operations that could be ordered next, and the next one to try.
struct Frame<S> {
    choices: Vec<usize>,
    next: usize,
    /// The operation that was ordered last, and the state before it; none at the root.
    ordered: Option<(usize, S)>,
}

#[derive(Clone, Copy)]
enum Entry {
    Head,
    Call(usize),
    Return(usize),
    End,
}

impl<'a, M: Object> Search<'a, M> {
    fn new(
        object: &'a M,
        state: M::State,
        history: &'a [Call<M::Operation, M::Observation>],
    ) -> Self {
        let mut timed: Vec<(u64, Entry)> = Vec::new();
        for (index, call) in history.iter().enumerate() {
            timed.push((call.begun, Entry::Call(index)));
            if let Some((ended, _)) = call.ended {
                assert!(call.begun < ended, "an operation ends after it begins");
                timed.push((ended, Entry::Return(index)));
            }
        }
        timed.sort_by_key(|(time, _)| *time);
        let mut entries = vec![Entry::Head];
        entries.extend(timed.into_iter().map(|(_, entry)| entry));
        entries.push(Entry::End);
        let mut places = vec![(0, None); history.len()];
        for (place, entry) in entries.iter().enumerate() {
            match *entry {
                Entry::Call(index) => places[index].0 = place,
                Entry::Return(index) => places[index].1 = Some(place),
                Entry::Head | Entry::End => {}
            }
        }
        let count = entries.len();
        Search {
            object,
            history,
            entries,
            next: (1..=count).collect(),
            previous: (0..count).map(|place| place.saturating_sub(1)).collect(),
            places,
            state,
            done: vec![0; history.len().div_ceil(64)],
            remaining: history.iter().filter(|call| call.ended.is_some()).count(),
            stack: Vec::new(),
            tried: HashSet::new(),
            deepest: (0, Vec::new()),
        }
    }

    fn run(mut self, steps: u64) -> Verdict {
        let mut taken = 0;
        let choices = self.choices(&mut taken);
        self.stack.push(Frame {
            choices,
            next: 0,
            ordered: None,
        });
        while self.remaining > 0 {
            if taken > steps {
                return Verdict::Undecided;
            }
            let depth = self.stack.len() - 1;
            let frame = self.stack.last_mut().expect("the root is popped last");
            let Some(&index) = frame.choices.get(frame.next) else {
                self.note_depth(depth);
                let frame = self.stack.pop().expect("it was there");
                let Some((undone, state)) = frame.ordered else {
                    let (ordered, stuck) = self.deepest;
                    return Verdict::Violated { ordered, stuck };
                };
                self.state = state;
                self.put_back(undone);
                continue;
            };
            frame.next += 1;
            taken += 1;
            let Some(state) = self.step(index) else {
                continue;
            };
            // An unknown operation that changes nothing need not have happened.
            if self.history[index].ended.is_none() && state == self.state {
                continue;
            }
            let mut done = self.done.clone();
            done[index / 64] |= 1 << (index % 64);
            if !self.tried.insert((done.clone(), state.clone())) {
                continue;
            }
            self.done = done;
            let before = std::mem::replace(&mut self.state, state);
            self.take_out(index);
            let choices = self.choices(&mut taken);
            self.stack.push(Frame {
                choices,
                next: 0,
                ordered: Some((index, before)),
            });
        }
        Verdict::Linearizable
    }

    fn step(&self, index: usize) -> Option<M::State> {
        let call = &self.history[index];
        let seen = call.ended.as_ref().map(|(_, seen)| seen);
        self.object.step(&self.state, &call.operation, seen)
    }

    /// Returns the operations that could be ordered next: those that began before the first end of
    /// an unordered operation. Operations with unknown outcomes come last.
    fn choices(&self, taken: &mut u64) -> Vec<usize> {
        let (mut known, mut unknown) = (Vec::new(), Vec::new());
        let mut place = self.next[HEAD];
        while let Entry::Call(index) = self.entries[place] {
            place = self.next[place];
            let call = &self.history[index];
            let Some((_, seen)) = &call.ended else {
                unknown.push(index);
                continue;
            };
            if self.object.only_looks(&call.operation, seen) {
                *taken += 1;
                if self.step(index).is_some() {
                    return vec![index];
                }
            }
            known.push(index);
        }
        known.extend(unknown);
        known
    }

    fn take_out(&mut self, index: usize) {
        let (call, end) = self.places[index];
        for place in [Some(call), end].into_iter().flatten() {
            let (previous, next) = (self.previous[place], self.next[place]);
            self.next[previous] = next;
            self.previous[next] = previous;
        }
        self.remaining -= usize::from(end.is_some());
    }

    fn put_back(&mut self, index: usize) {
        let (call, end) = self.places[index];
        // In the reverse order of taking out, so that the neighbours are right again.
        for place in [end, Some(call)].into_iter().flatten() {
            let (previous, next) = (self.previous[place], self.next[place]);
            self.next[previous] = place;
            self.previous[next] = place;
        }
        self.done[index / 64] &= !(1 << (index % 64));
        self.remaining += usize::from(end.is_some());
    }

    /// Remembers where the search got furthest, to report it when all fails.
    fn note_depth(&mut self, depth: usize) {
        if self.deepest.1.is_empty() || depth > self.deepest.0 {
            let choices = &self.stack.last().expect("callers have one").choices;
            self.deepest = (depth, choices.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A register: writes show nothing, reads show its value.
    struct Register;

    #[derive(Clone, Copy, Debug)]
    enum Do {
        Write(u32),
        Read,
    }

    impl Object for Register {
        type State = u32;
        type Operation = Do;
        type Observation = u32;

        fn step(&self, state: &u32, operation: &Do, seen: Option<&u32>) -> Option<u32> {
            match operation {
                Do::Write(value) => Some(*value),
                Do::Read => seen.is_none_or(|seen| seen == state).then_some(*state),
            }
        }

        fn only_looks(&self, operation: &Do, _: &u32) -> bool {
            matches!(operation, Do::Read)
        }
    }

    fn verdict(history: &[(u64, Option<u64>, Do, u32)]) -> Verdict {
        let calls: Vec<_> = history
            .iter()
            .map(|(begun, ended, operation, seen)| Call {
                begun: *begun,
                ended: ended.map(|ended| (ended, *seen)),
                operation: *operation,
            })
            .collect();
        check(&Register, 0, &calls, 1_000_000)
    }

    #[test]
    fn overlapping_reads_may_see_either() {
        let history = [
            (1, Some(10), Do::Write(7), 0),
            (2, Some(4), Do::Read, 0),
            (5, Some(6), Do::Read, 7),
        ];
        assert_eq!(verdict(&history), Verdict::Linearizable);
    }

    #[test]
    fn a_seen_value_is_not_unseen() {
        let history = [
            (1, Some(10), Do::Write(7), 0),
            (2, Some(4), Do::Read, 7),
            (5, Some(6), Do::Read, 0),
        ];
        assert!(matches!(verdict(&history), Verdict::Violated { .. }));
    }

    #[test]
    fn an_acknowledged_write_is_seen() {
        let history = [(1, Some(2), Do::Write(7), 0), (3, Some(4), Do::Read, 0)];
        let Verdict::Violated { ordered, stuck } = verdict(&history) else {
            panic!("the read is stale")
        };
        assert_eq!((ordered, stuck), (1, vec![1]));
    }

    #[test]
    fn an_unknown_write_may_come_late_or_never_but_not_early() {
        let write = (3, None, Do::Write(7), 0);
        let late = [write, (4, Some(5), Do::Read, 0), (6, Some(7), Do::Read, 7)];
        assert_eq!(verdict(&late), Verdict::Linearizable);
        let never = [write, (4, Some(5), Do::Read, 0)];
        assert_eq!(verdict(&never), Verdict::Linearizable);
        let early = [write, (1, Some(2), Do::Read, 7)];
        assert!(matches!(verdict(&early), Verdict::Violated { .. }));
        let twice = [
            write,
            (4, Some(5), Do::Read, 7),
            (6, Some(7), Do::Write(8), 0),
            (8, Some(9), Do::Read, 7),
        ];
        assert!(matches!(verdict(&twice), Verdict::Violated { .. }));
    }

    /// Against brute force: every order of every subset is tried on short random histories.
    #[test]
    fn agrees_with_brute_force() {
        let mut random = crate::random::Random::new(11);
        let mut violated = 0;
        for _ in 0..3_000 {
            let mut history = Vec::new();
            let mut times: Vec<u64> = (1..=10).collect();
            for _ in 0..5 {
                let mut draw = || times.remove(random.below(times.len() as u64) as usize);
                let (x, y) = (draw(), draw());
                let value = random.below(2) as u32 + 1;
                let operation = *random.pick(&[Do::Read, Do::Read, Do::Write(value)]);
                let ended = (!random.chance(0.2)).then_some(x.max(y));
                history.push((x.min(y), ended, operation, random.below(3) as u32));
            }
            let expected = brute_force(&history, 0, 0);
            violated += u32::from(!expected);
            assert_eq!(
                verdict(&history) == Verdict::Linearizable,
                expected,
                "{history:?}"
            );
        }
        assert!(
            (300..2_700).contains(&violated),
            "{violated} of 3000 show nothing"
        );
    }

    fn brute_force(history: &[(u64, Option<u64>, Do, u32)], done: u32, state: u32) -> bool {
        let open = |index: &usize| done & (1 << index) == 0;
        let left: Vec<usize> = (0..history.len()).filter(open).collect();
        if left.iter().all(|index| history[*index].1.is_none()) {
            return true;
        }
        let first_end = left.iter().filter_map(|index| history[*index].1).min();
        left.iter().any(|index| {
            let (begun, ended, operation, seen) = history[*index];
            if first_end.is_some_and(|end| begun > end) {
                return false;
            }
            let after = match operation {
                Do::Write(value) => value,
                Do::Read if ended.is_none() || seen == state => state,
                Do::Read => return false,
            };
            brute_force(history, done | 1 << index, after)
        })
    }
}
