//! Takes a core from one epoch to the next: `succession` adopts a new configuration, `seal` ends
//! the epochs whose members are replaced, by the rules of `resolution`. `early` keeps messages of
//! peers that already have a later epoch.

pub(crate) mod early;
mod leftovers;
mod resolution;
pub(crate) mod seal;
mod succession;
