//! R15: a core stops holding a table only when the table serves again after a seal. While it holds
//! the table, other cores count its grants, and the coordinator asks it before a server is removed.

use protocol::configuration::Configuration;

/// Checks a configuration that the coordinator makes after another one.
pub fn stay(before: &Configuration, after: &Configuration) -> Result<(), String> {
    match after.left_unsealed(before) {
        None => Ok(()),
        Some((table, core)) => Err(format!(
            "{core} holds no partition of table {} from epoch {} on, and no seal came first",
            table.0, after.epoch.0
        )),
    }
}
