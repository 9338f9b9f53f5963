//! Runs the searches of the command: each case and each planted bug of every model, for any type of
//! state.

use crate::search::{SearchLimits, StateSpace, search, story};

/// The findings of a search of a case.
#[derive(Debug)]
pub struct Findings {
    /// The number of distinct states.
    pub states: usize,
    /// The number of steps from the initial state to the farthest state.
    pub depth: usize,
    /// Whether the search has visited all reachable states.
    pub complete: bool,
    /// The memory of the search at its end, in bytes.
    pub bytes: usize,
    /// The violation, and the steps that lead to it.
    pub violation: Option<(String, String)>,
}

/// A case that can be searched.
pub struct StudiedCase {
    /// The name on the command line.
    pub name: &'static str,
    /// The course of the case, in words.
    pub about: String,
    /// A function that searches the case.
    pub search: Box<dyn Fn(SearchLimits) -> Findings>,
}

/// A planted bug that can be searched for.
pub struct StudiedBug {
    /// The name on the command line.
    pub name: &'static str,
    /// The rule that the bug breaks.
    pub rule: &'static str,
    /// The effect of the bug, in words.
    pub description: &'static str,
    /// The case in which the search finds the bug.
    pub case: &'static str,
    /// A function that searches the case with the bug planted.
    pub search: Box<dyn Fn(SearchLimits) -> Findings>,
}

/// Searches a model, and returns the steps that lead to a violation, if there is one.
pub fn examine<W: StateSpace>(world: &W, limits: SearchLimits) -> Findings {
    let found = search(world, limits);
    Findings {
        states: found.states,
        depth: found.depth,
        complete: found.complete,
        bytes: found.bytes,
        violation: found
            .violation
            .map(|(wrong, steps)| (wrong, story(world, &steps))),
    }
}
