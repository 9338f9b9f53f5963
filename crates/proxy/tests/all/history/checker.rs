//! Does a history of appends to lists and reads of them keep global strong snapshot isolation?
//!
//! Each transaction then has a start and a commit within its time, sees exactly the commits before
//! its start, and no two that write one list overlap. Lists make the order of writes visible
//! (Kingsbury and Alvaro, *Elle*, VLDB 2020): the whole of each is read at the end.
//!
//! With the dependencies
//!
//! | edge | from | to |
//! |---|---|---|
//! | ww | the one that appended an element | the one that appended the next |
//! | wr | the one that appended the last element that was read | its reader |
//! | rw | a reader of a list | the one that appended the first element that was not there |
//! | rt | a transaction that ended | one that began after that |
//!
//! a history is valid if (ww ∪ wr ∪ rt) ; rw? has no cycle (Cerone and Gotsman, *Analysing Snapshot
//! Isolation*, PODC 2016, with real time in the place of sessions). Commits come before
//! transactions that depend on them begin, and begins come before commits that they miss.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::time::Instant;

/// A list's number.
pub type Key = i32;
/// An element: unique in a history.
pub type Element = i64;

/// The operations of a transaction.
#[derive(Clone, Debug)]
pub enum Operation {
    /// It appended an element.
    Append(Key, Element),
    /// It read a list.
    Read(Key, Vec<Element>),
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionOutcome {
    /// Its commit was reported.
    Committed,
    /// Its rollback was reported.
    Aborted,
    /// Nothing was reported.
    Unknown,
}

/// A transaction as its client saw it.
#[derive(Clone, Debug)]
pub struct Transaction {
    /// Before it sent anything.
    pub began: Instant,
    /// After its end was reported.
    pub ended: Instant,
    /// How that was.
    pub ending: TransactionOutcome,
    /// Its operations, in order.
    pub operations: Vec<Operation>,
}

/// The fault of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Anomaly {
    /// A committed element is not in its list, or twice, or lists were in different orders.
    LostUpdate(String),
    /// A read has elements of an aborted transaction (G1a).
    AbortedRead(String),
    /// A read has an element of a transaction without its later elements (G1b).
    IntermediateRead(String),
    /// Transactions depend on each other in a circle without any read that misses a write (G1c).
    Circular(String),
    /// The same with one such read: it was too old (G-single).
    Stale(String),
    /// The same with several: readers saw writes in different orders (long fork).
    LongFork(String),
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EdgeReason {
    Order,
    Read,
    Missed,
    Time,
}

/// Checks a history, given the final contents of each list.
pub fn check(history: &[Transaction], last: &BTreeMap<Key, Vec<Element>>) -> Result<(), Anomaly> {
    let writers = writers(history);
    check_lists(history, last, &writers)?;
    let mut graph = Graph::new(history);
    for (key, list) in last {
        let of = list.iter().map(|element| writers[&(*key, *element)]);
        let of: Vec<usize> = of.collect();
        for pair in of.windows(2).filter(|pair| pair[0] != pair[1]) {
            graph.add(pair[0], EdgeReason::Order, pair[1]);
        }
    }
    for (reader, transaction) in history.iter().enumerate() {
        let mut own = HashMap::new();
        for operation in &transaction.operations {
            let (key, seen) = match operation {
                Operation::Append(key, _) => {
                    *own.entry(*key).or_insert(0) += 1;
                    continue;
                }
                Operation::Read(key, seen) => (key, seen),
            };
            let own_count: usize = own.get(key).copied().unwrap_or(0);
            let list = last.get(key).map_or(&[][..], Vec::as_slice);
            // Its own elements stand after those of its snapshot.
            let others = seen.len().saturating_sub(own_count);
            if let Some(element) = others.checked_sub(1).map(|at| seen[at]) {
                graph.add(writers[&(*key, element)], EdgeReason::Read, reader);
            }
            let next = list[others..].iter().map(|it| writers[&(*key, *it)]);
            if let Some(next) = next.into_iter().find(|next| *next != reader) {
                graph.add(reader, EdgeReason::Missed, next);
            }
        }
    }
    graph.check()
}

fn writers(history: &[Transaction]) -> HashMap<(Key, Element), usize> {
    let mut writers = HashMap::new();
    for (number, transaction) in history.iter().enumerate() {
        for operation in &transaction.operations {
            if let Operation::Append(key, element) = operation {
                writers.insert((*key, *element), number);
            }
        }
    }
    writers
}

/// Every list that was read is a prefix of the final list, and all its elements were committed.
fn check_lists(
    history: &[Transaction],
    last: &BTreeMap<Key, Vec<Element>>,
    writers: &HashMap<(Key, Element), usize>,
) -> Result<(), Anomaly> {
    for (key, list) in last {
        for (at, element) in list.iter().enumerate() {
            if list[..at].contains(element) {
                let text = format!("{element} is twice in list {key}");
                return Err(Anomaly::LostUpdate(text));
            }
            let writer = writers.get(&(*key, *element)).map(|it| &history[*it]);
            if writer.is_none_or(|writer| writer.ending == TransactionOutcome::Aborted) {
                let text = format!("{element} of list {key} was not committed");
                return Err(Anomaly::AbortedRead(text));
            }
        }
    }
    for (number, transaction) in history.iter().enumerate() {
        let mut own: HashMap<Key, Vec<Element>> = HashMap::new();
        for operation in &transaction.operations {
            match operation {
                Operation::Append(key, element) => {
                    own.entry(*key).or_default().push(*element);
                    let is_there = last.get(key).is_some_and(|list| list.contains(element));
                    if transaction.ending == TransactionOutcome::Committed && !is_there {
                        let text = format!("{element} is not in list {key}: {transaction:?}");
                        return Err(Anomaly::LostUpdate(text));
                    }
                }
                Operation::Read(key, seen) => {
                    let own = own.get(key).map_or(&[][..], Vec::as_slice);
                    let list = last.get(key).map_or(&[][..], Vec::as_slice);
                    check_read((history, writers), (number, *key), (seen, own), list)?;
                }
            }
        }
    }
    Ok(())
}

fn check_read(
    (history, writers): (&[Transaction], &HashMap<(Key, Element), usize>),
    (reader, key): (usize, Key),
    (seen, own): (&[Element], &[Element]),
    last: &[Element],
) -> Result<(), Anomaly> {
    let of = |element: &Element| writers.get(&(key, *element));
    let is_aborted = |element: &&Element| {
        of(element)
            .is_none_or(|it| *it != reader && history[*it].ending == TransactionOutcome::Aborted)
    };
    if let Some(element) = seen.iter().find(is_aborted) {
        let text = format!("{element} of list {key}: {:?}", history[reader]);
        return Err(Anomaly::AbortedRead(text));
    }
    let Some(others) = seen.strip_suffix(own) else {
        let text = format!("list {key} without what it appended: {:?}", history[reader]);
        return Err(Anomaly::LostUpdate(text));
    };
    if !last.starts_with(others) {
        let text = format!("list {key} was {seen:?}, and is {last:?}");
        return Err(Anomaly::LostUpdate(text));
    }
    let next = last.get(others.len()).and_then(of);
    if let (Some(end), Some(next)) = (others.last().and_then(of), next)
        && end == next
    {
        let text = format!("list {key} was {seen:?}: {:?}", history[*next]);
        return Err(Anomaly::IntermediateRead(text));
    }
    Ok(())
}

/// Transactions, and after them the moments at which one of them ended: each leads to the next, so
/// that time needs no edge from every transaction to every later one.
struct Graph<'a> {
    history: &'a [Transaction],
    edges: Vec<Vec<(EdgeReason, usize)>>,
}

impl<'a> Graph<'a> {
    fn new(history: &'a [Transaction]) -> Graph<'a> {
        let count = history.len();
        let mut ends: Vec<usize> = (0..count)
            .filter(|number| history[*number].ending == TransactionOutcome::Committed)
            .collect();
        ends.sort_by_key(|number| history[*number].ended);
        let mut graph = Graph {
            history,
            edges: vec![Vec::new(); count + ends.len()],
        };
        for (at, number) in ends.iter().enumerate() {
            graph.add(*number, EdgeReason::Time, count + at);
            if at > 0 {
                graph.add(count + at - 1, EdgeReason::Time, count + at);
            }
        }
        for (number, transaction) in history.iter().enumerate() {
            let before = ends.partition_point(|it| history[*it].ended < transaction.began);
            if let Some(at) = before.checked_sub(1) {
                graph.add(count + at, EdgeReason::Time, number);
            }
        }
        graph
    }

    fn add(&mut self, from: usize, why: EdgeReason, to: usize) {
        self.edges[from].push((why, to));
    }

    /// Looks for a circle in which no two reads that miss a write follow each other. Each node is
    /// there twice: reached by such a read, or not.
    fn check(&self) -> Result<(), Anomaly> {
        let next = |state: usize| {
            let (node, has_missed) = (state / 2, state % 2 == 1);
            let edges = self.edges[node].iter();
            edges.filter_map(move |(why, to)| match why {
                EdgeReason::Missed => (!has_missed).then_some((*why, 2 * to + 1)),
                _ => Some((*why, 2 * to)),
            })
        };
        let states = 2 * self.edges.len();
        // Remove nodes without incoming edges, again and again: the rest has a circle.
        let mut incoming = vec![0_usize; states];
        for state in 0..states {
            next(state).for_each(|(_, to)| incoming[to] += 1);
        }
        let mut free: Vec<usize> = (0..states).filter(|state| incoming[*state] == 0).collect();
        let mut left = states - free.len();
        while let Some(state) = free.pop() {
            for (_, to) in next(state) {
                incoming[to] -= 1;
                if incoming[to] == 0 {
                    free.push(to);
                    left -= 1;
                }
            }
        }
        if left == 0 {
            return Ok(());
        }
        let in_question = |state: &usize| incoming[*state] > 0;
        let circles = (0..states).filter(in_question).filter_map(|start| {
            let mut from: HashMap<usize, (usize, EdgeReason)> = HashMap::new();
            let mut queue = VecDeque::from([start]);
            while let Some(state) = queue.pop_front() {
                for (why, to) in next(state).filter(|(_, to)| in_question(to)) {
                    if to == start {
                        return Some(self.circle(&from, start, (state, why)));
                    }
                    from.entry(to).or_insert_with(|| {
                        queue.push_back(to);
                        (state, why)
                    });
                }
            }
            None
        });
        let shortest = circles.take(100).min_by_key(Vec::len);
        Err(self.anomaly(&shortest.expect("what is left has a circle")))
    }

    /// The circle's nodes, each with why it leads to the next one.
    fn circle(
        &self,
        from: &HashMap<usize, (usize, EdgeReason)>,
        start: usize,
        (last, why): (usize, EdgeReason),
    ) -> Vec<(usize, EdgeReason)> {
        let mut circle = vec![(last / 2, why)];
        let mut state = last;
        while state != start {
            let (before, why) = from[&state];
            circle.push((before / 2, why));
            state = before;
        }
        circle.reverse();
        circle
    }

    fn anomaly(&self, circle: &[(usize, EdgeReason)]) -> Anomaly {
        let transactions = circle.iter().filter_map(|(node, why)| {
            let transaction = self.history.get(*node)?;
            Some(format!("{transaction:?} –{why:?}→"))
        });
        let text = transactions.collect::<Vec<_>>().join("\n");
        let is_missed = |(_, why): &&(usize, EdgeReason)| *why == EdgeReason::Missed;
        match circle.iter().filter(is_missed).count() {
            0 => Anomaly::Circular(text),
            1 => Anomaly::Stale(text),
            _ => Anomaly::LongFork(text),
        }
    }
}
