//! The server process: event loops, sockets and timers, and the roles that run on them (core,
//! coordinator, baseline).
//!
//! One event loop per core reads frames, hands them to a [`event_loop::Handler`] and writes its
//! answers. No thread stands between the socket and the state machine. The rules of the store are
//! in `protocol`: this crate turns bytes, time and disks into its inputs and carries out its
//! outputs, and must not decide anything about data itself.

pub mod baseline;
mod blocking;
mod change_file;
pub mod clock;
mod configuration_file;
pub mod coordinator;
pub mod core;
pub mod disk_space;
mod disk_store;
mod envelope;
pub mod error;
pub mod event_loop;
pub mod folder;
pub mod identity_file;
pub mod journal;
mod limits;
mod membership;
pub mod metrics;
pub mod options;
pub mod process;
mod random;
pub mod signals;
pub mod store;

pub use coordinator::CoordinatorProcess;
pub use error::ServerError;
pub use options::{CoordinatorOptions, EtcdOptions, ServerOptions, StateOptions, StorageOptions};
pub use process::{ServerProcess, ServingServer, Stopper};
