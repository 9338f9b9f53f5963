//! A core's restart: `checkpoint` saves and restores the state that is not in rows, `replay` reads
//! the log, `recovery` asks the peers what this core may have forgotten.

pub(crate) mod checkpoint;
pub(crate) mod inquiry;
pub(crate) mod recovery;
mod replay;
