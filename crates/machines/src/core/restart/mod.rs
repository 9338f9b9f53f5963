//! Restarts a core: `checkpoint` saves and restores the state that is not in rows, `replay` reads
//! the log, `recovery` asks the peers for votes and outcomes that this core may have forgotten.

pub(crate) mod checkpoint;
pub(crate) mod inquiry;
pub(crate) mod recovery;
mod replay;
