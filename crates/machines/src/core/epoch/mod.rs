//! From one epoch to the next: `succession` follows a new configuration, `seal` ends the epochs
//! whose members are replaced, by the rules of `resolution`. `early` keeps messages of
//! peers that are ahead.

pub(crate) mod early;
mod leftovers;
mod resolution;
pub(crate) mod seal;
mod succession;
