//! What must hold: one property per file (SAFETY, invariants).

pub mod budget;
pub mod constraints;
pub mod copies;
pub mod durable;
pub mod earlier_life;
pub mod entries;
pub mod lease;
pub mod leftovers;
pub mod linearizable;
pub mod outcomes;
pub mod places;
pub mod prepared;
pub mod rest;
pub mod results;
pub mod sealed;
pub mod versions;
pub mod waits;

/// A property that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which, as SAFETY calls it.
    pub property: &'static str,
    /// What was seen.
    pub text: String,
}
