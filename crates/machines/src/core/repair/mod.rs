//! How a partition gets what it lacks: `fill` brings a rebuilding one its rows from a cover,
//! `moves` takes one over from another core, `making` gives rows their local entries.

mod building;
pub(crate) mod entry_making;
pub(crate) mod fill;
mod fill_completions;
mod fill_fetch;
mod fill_source;
pub(crate) mod move_source;
pub(crate) mod moves;
pub(crate) mod question_numbers;
mod source;
mod sums;
mod timer;
