//! The properties that must hold, one per file (docs/rules.md).

pub mod budget;
pub mod collisions;
pub mod constraints;
pub mod copies;
pub mod cuts;
pub mod cycles;
pub mod durable;
pub mod earlier_life;
pub mod entries;
pub mod holders;
pub mod lease;
pub mod leftovers;
pub mod newer_epoch;
pub mod outcomes;
pub mod partition_contents;
pub mod places;
pub mod prepared;
pub mod results;
pub mod sealed;
pub mod thin;
pub mod versions;
pub mod waits;

/// A property that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The property's number in docs/rules.md, and its description.
    pub property: &'static str,
    /// The observation that violates the property.
    pub text: String,
}
