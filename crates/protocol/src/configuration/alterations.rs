//! Changes the definition of a table, or empties it, as the epoch after a sealed one may do (R50).

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;

use placement::Alteration;

use super::{Place, PlacedTable};
use crate::expression::check_constraints;
use crate::identity::{Epoch, TableId};

/// The name under which the progress and the failure of `ALTER TABLE` are reported. No copy has it.
pub const ALTERATION_NAME: &str = "ALTER TABLE";
/// The name under which the progress and the failure of `TRUNCATE` are reported. No copy has it.
pub const TRUNCATION_NAME: &str = "TRUNCATE";

impl PlacedTable {
    /// Returns the table with an altered definition. Its rows and places stay as they are.
    ///
    /// # Errors
    /// A message for people: something that a change names is not there, or the definition would be
    /// invalid.
    pub fn altered(&self, alterations: &[Alteration]) -> Result<PlacedTable, String> {
        let mut table = self.clone();
        let schema = self.schema.altered(alterations);
        table.schema = schema.map_err(|error| error.message)?;
        check_constraints(&table.schema)?;
        for alteration in alterations {
            match alteration {
                Alteration::RenameTable { name } => {
                    let primary = table.layout.primary();
                    table.layout.replexes[primary].name.clone_from(name);
                    let after = table.schema.primary_key_name();
                    if let Some((before, after)) = self.schema.primary_key_name().zip(after) {
                        table.comments.rename(&before, &after);
                    }
                }
                Alteration::RenameIndex { index, name } => {
                    table.rename_replexes(index, name);
                    table.comments.rename(index, name);
                }
                Alteration::RenameConstraint { constraint, name } => {
                    table.comments.rename(constraint, name);
                }
                Alteration::Comment { object, text } => {
                    let set = table.comments.set(object, text.as_deref());
                    set.map_err(|error| error.message)?;
                }
                _ => {}
            }
        }
        table.comments.retain_of(&table.schema);
        let replexes = table.layout.numbers();
        let mut names = BTreeSet::new();
        for number in replexes {
            let name = &table.layout.replexes[number].name;
            if !names.insert(name) {
                return Err(format!(
                    "the name {name} is taken within table {}: choose another one",
                    table.schema.name
                ));
            }
        }
        Ok(table)
    }

    /// Returns an empty table with another number, in place of this one: with the same definition
    /// and the same places. Its earlier epochs must have ended, so that no operation of this table
    /// can still have an effect.
    pub fn truncated(&self, id: TableId, epoch: Epoch) -> PlacedTable {
        let mut table = self.clone();
        table.id = id;
        table.epoch = epoch;
        // No request can be planned with earlier columns of a new table.
        table.columns_since = Epoch(0);
        table.sealing = None;
        for place in table.placement.iter_mut().flatten() {
            *place = Place::serving(place.core, epoch);
        }
        for replex in &mut table.layout.replexes {
            if let Some(ranges) = &mut replex.ranges {
                ranges.transfers.clear();
            }
        }
        table
    }
}
