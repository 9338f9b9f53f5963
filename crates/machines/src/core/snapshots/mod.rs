//! Snapshots: the state of some tables at one version T (R36-R39).
//!
//! ```text
//! opener (openings)                 every core of the tables (participation)
//!   Hold        ───────────────────▶ begins no operation of them as head, keeps history
//!               ◀─────────────────── Held(clock), once nothing of them is under way here
//!   T = highest clock
//!   Close(T)    ───────────────────▶ moves its clock to T, knows the snapshot, goes on
//!               ◀─────────────────── Closed
//!   gives T to the statements, once all have closed
//! ```
//!
//! A pause expires. A core that has not been paused without interruption rejects `Close`, and the
//! opening is void. A core answers reads at T from rows with a version up to T and from its
//! `history`. The reasons for each step are in `docs/design/2026-11-26-drained-cuts.md`.
//!
//! Nothing of this is logged. A restarted core knows no snapshot, and its restart begins a new
//! epoch of its tables.

mod history;
mod openings;
mod participation;

pub(crate) use openings::Openings;
pub(crate) use participation::Participation;
