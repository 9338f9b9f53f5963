//! An operation from its request to its end: `head` evaluates the request and begins the operation,
//! `relay` takes it down the chain and its decision up again, `settle` makes the outcome visible,
//! `confirm` forgets it once it is durable everywhere.

mod confirm;
mod evaluate;
mod head;
pub(crate) mod operations;
mod relay;
pub(crate) mod requests;
pub(crate) mod sessions;
mod settle;
mod unavailable_rows;
mod votes;
