//! The program `replex` as its users run it, one module per subject. All are one program, so that
//! the code they share is built and linked once:
//!
//! ```sh
//! cargo test -p replex --features proxy --test all restart::      # one module
//! ```

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod admin;
mod bench;
#[cfg(feature = "proxy")]
mod buffer;
mod chaos;
mod client;
#[cfg(feature = "proxy")]
mod constraints_postgres;
mod covers;
mod degraded;
mod demo;
mod entries;
mod estimates;
mod etcd;
mod folders;
mod foreign_keys;
mod frames;
#[cfg(feature = "proxy")]
mod front_door;
mod full_disk;
mod index;
mod kept_entries;
mod large_index;
mod local_entries;
mod lost_coordinator;
mod moves;
mod old_copies;
mod old_disk;
mod one_state;
mod partitions;
mod pause;
mod pipes;
#[cfg(feature = "proxy")]
mod proxy;
#[cfg(feature = "proxy")]
mod proxy_demo;
mod ranges;
#[cfg(feature = "proxy")]
mod ranges_postgres;
mod repair;
mod replacement;
mod restart;
mod scoped_changes;
mod sixty_writers;
mod snapshots;
mod sql_scripts;
mod sql_transactions;
mod stopped_server;
mod support;
mod transactions;
#[cfg(feature = "proxy")]
mod transactions_postgres;
mod unique_thin;
