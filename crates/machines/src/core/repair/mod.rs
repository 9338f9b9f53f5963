//! How a partition gets missing data: `fill` copies a rebuilding partition's rows from a cover,
//! `moves` receives a partition from another core, `entry_making` adds local entries.

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
