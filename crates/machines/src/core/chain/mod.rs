//! The life of an operation: `head` evaluates the request and begins the operation. `relay` passes
//! it down the chain, and its decision back up. `settle` makes the outcome visible. `confirm`
//! forgets the operation once its outcome is durable at all members. `sides` serves thin indexes,
//! whose partitions take part beside the chain.

mod confirm;
pub(crate) mod evaluate;
mod head;
pub(crate) mod operations;
mod relay;
pub(crate) mod requests;
pub(crate) mod sessions;
mod settle;
pub(crate) mod sides;
mod unavailable_rows;
pub(crate) mod votes;

pub(crate) use head::primary_partition;
