//! The searches that the command runs: each case and each planted bug of every model, whatever its
//! states are.

use crate::search::{SearchLimits, StateSpace, search, story};

/// The findings of a search of a case.
#[derive(Debug)]
pub struct Findings {
    /// Distinct states.
    pub states: usize,
    /// Steps from the beginning to the farthest of them.
    pub depth: usize,
    /// Whether these are all states that there are.
    pub complete: bool,
    /// Bytes of memory at the end.
    pub bytes: usize,
    /// The violation, and the story that leads there.
    pub violation: Option<(String, String)>,
}

/// A case that can be searched.
pub struct StudiedCase {
    /// For the command line.
    pub name: &'static str,
    /// The course of the case, in words.
    pub about: String,
    /// Searches it.
    pub search: Box<dyn Fn(SearchLimits) -> Findings>,
}

/// A planted bug that can be searched for.
pub struct StudiedBug {
    /// For the command line.
    pub name: &'static str,
    /// The rule that it breaks.
    pub rule: &'static str,
    /// The effect of the bug, in words.
    pub description: &'static str,
    /// The case in which it shows.
    pub case: &'static str,
    /// Searches that case with the bug.
    pub search: Box<dyn Fn(SearchLimits) -> Findings>,
}

/// Searches a model, and tells the story of a violation.
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
