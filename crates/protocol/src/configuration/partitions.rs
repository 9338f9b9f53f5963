//! Changes the number of partitions of a table: successors of its copies are added, and replace the
//! earlier copies or are given up (R53).

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use placement::{Layout, Schema};

use super::PlacedTable;
use crate::identity::{CoreId, Epoch};
use crate::planted::{self, Bug};

/// Returns the name under which the progress and the failure of a change of the number of
/// partitions are reported. No copy has this name.
pub fn resize_name(partitions: u32) -> String {
    format!("partitions = {partitions}")
}

impl PlacedTable {
    /// Returns the table with a successor of each copy that gets another number of partitions.
    /// Successors are filled from epoch `since` on. `place` chooses a core for each replex and
    /// partition.
    ///
    /// # Errors
    /// For people: there can be no such copies, or there is no place for one.
    pub fn with_successors(
        &self,
        partitions: u32,
        since: Epoch,
        place: &dyn Fn(&PlacedTable, usize, u32) -> Option<CoreId>,
    ) -> Result<PlacedTable, String> {
        let mut table = self.clone();
        let added = table.layout.add_successors(&self.schema, partitions);
        let numbers = added.map_err(|error| error.message)?;
        table.begin_building(&numbers, since, place)?;
        Ok(table)
    }

    /// Returns whether the table has successors, and all of their partitions serve.
    pub fn has_filled_successors(&self) -> bool {
        let is_early = planted::is(Bug::SuccessorPromotedEarly);
        let mut successors = self.layout.successors();
        self.layout.next_partitions().is_some()
            && successors.all(|(number, _)| is_early || self.is_filled(number))
    }

    /// Returns the numbers of the copies that successors will replace, ascending.
    pub fn superseded(&self) -> Vec<u8> {
        let before = self.layout.successors().map(|(_, of)| of);
        let number = |of: usize| u8::try_from(of).expect("a table has at most 63 replexes");
        let mut before: Vec<u8> = before.map(number).collect();
        before.sort_unstable();
        before
    }

    /// Returns the table after its successors have replaced the earlier copies. The table then has
    /// the successors' number of partitions.
    pub fn with_promoted(&self) -> PlacedTable {
        let mut table = self.clone();
        if let Some(partitions) = self.layout.next_partitions() {
            table.schema.partitions = partitions;
        }
        let successors: Vec<usize> = self.layout.successors().map(|(number, _)| number).collect();
        let building = &mut table.building;
        building.retain(|number| !successors.contains(&usize::from(*number)));
        table.layout.promote_successors();
        table.drop_vacant();
        table
    }

    /// Returns the table without its successors.
    pub fn without_successors(&self) -> PlacedTable {
        let mut table = self.clone();
        table.layout.drop_successors();
        table.drop_vacant();
        table
    }

    /// Returns the table's layout with another number of partitions, and the numbers of the new
    /// copies. All copies have the numbers that they will have then.
    ///
    /// # Errors
    /// For people: there can be no such copies.
    pub fn layout_with(&self, partitions: u32) -> Result<(Layout, Vec<usize>), String> {
        let wanted = Schema {
            partitions,
            ..self.schema.clone()
        };
        let mut layout = self.layout.clone();
        let added = layout.add_successors(&self.schema, partitions);
        let added = added.map_err(|error| error.message)?;
        wanted.validate().map_err(|error| error.message)?;
        layout.promote_successors();
        Ok((layout, added))
    }
}
