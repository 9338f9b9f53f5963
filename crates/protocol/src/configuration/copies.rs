//! Adds a copy to a table or removes one, as the epoch after a sealed one may do.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use placement::{ReplexKind, Schema};

use super::{PartitionState, Place, PlacedTable};
use crate::identity::{CoreId, Epoch};

impl PlacedTable {
    /// Returns the table with the last copy of the valid schema `wanted`, which has one copy more
    /// than the table. The copy is filled from epoch `since` on. `place` chooses a core for each
    /// replex and partition.
    ///
    /// # Errors
    /// A message for people: the schema is not the table's with one copy more, or no core can hold
    /// a partition.
    pub fn with_copy(
        &self,
        wanted: &Schema,
        since: Epoch,
        place: &dyn Fn(&PlacedTable, usize, u32) -> Option<CoreId>,
    ) -> Result<PlacedTable, String> {
        if !self.schema.is_extended_by(wanted) {
            return Err("the table has changed meanwhile: try again".into());
        }
        let mut table = self.clone();
        let extended = table.layout.extend(&self.schema, wanted);
        let numbers = extended.map_err(|error| error.message)?;
        table.schema = wanted.clone();
        table.begin_building(&numbers, since, place)?;
        Ok(table)
    }

    /// Assigns places to copies that the layout already has. They are filled from epoch `since` on.
    pub(super) fn begin_building(
        &mut self,
        numbers: &[usize],
        since: Epoch,
        place: &dyn Fn(&PlacedTable, usize, u32) -> Option<CoreId>,
    ) -> Result<(), String> {
        let replexes = self.layout.replexes.len();
        self.placement.resize(replexes, Vec::new());
        for &number in numbers {
            for partition in 0..self.layout.partition_count(number) {
                let core = place(self, number, partition);
                self.placement[number].push(Place {
                    core: core.ok_or("no server is up that could take it")?,
                    state: PartitionState::Rebuilding,
                    since,
                    moving: None,
                    former: None,
                });
            }
            let number = u8::try_from(number).expect("a table has at most 63 replexes");
            self.building.push(number);
        }
        self.building.sort_unstable();
        Ok(())
    }

    /// Returns the table without the copy of this name.
    ///
    /// # Errors
    /// A message for people: the table has no such copy, or the copy cannot be dropped.
    pub fn without_copy(&self, name: &str) -> Result<PlacedTable, String> {
        let mut table = self.clone();
        let removed = table.layout.remove(&mut table.schema, name);
        removed.map_err(|error| error.message)?;
        table.drop_vacant();
        table.comments.retain_of(&table.schema);
        Ok(table)
    }

    /// Returns the table without an index, whose name another index then has.
    ///
    /// # Errors
    /// There is no such index, or another copy is made of the first one.
    pub fn with_replaced(&self, name: &str, by: &str) -> Result<PlacedTable, String> {
        let mut table = self.without_copy(name)?.with_renamed(by, name)?;
        table.comments = self.comments.clone();
        table.comments.retain_of(&table.schema);
        Ok(table)
    }

    /// Returns the table with another name of an index.
    ///
    /// # Errors
    /// There is no such index.
    pub fn with_renamed(mut self, index: &str, name: &str) -> Result<PlacedTable, String> {
        let indexes = self.schema.indexes.iter_mut().map(|it| &mut it.name);
        let thin = self.schema.thin.iter_mut().map(|it| &mut it.name);
        let defined = indexes.chain(thin).find(|it| *it == index);
        let missing = || format!("there is no index {index}");
        *defined.ok_or_else(missing)? = name.into();
        self.rename_replexes(index, name);
        Ok(self)
    }

    /// Gives the copies of an index, which has another name now, their names.
    pub(super) fn rename_replexes(&mut self, index: &str, name: &str) {
        let schema = &self.schema;
        let replexes = self.layout.replexes.iter_mut();
        for replex in replexes.filter(|replex| replex.kind != ReplexKind::Vacant) {
            match replex.kind {
                ReplexKind::Thin { index, copy } => {
                    replex.name = schema.thin[index].replex_name(copy);
                }
                _ if replex.name == index => replex.name = name.into(),
                _ => {}
            }
        }
    }

    /// Drops the places of copies that the layout does not have any more.
    pub(super) fn drop_vacant(&mut self) {
        let layout = &self.layout;
        self.placement.truncate(layout.replexes.len());
        for (replex, places) in self.placement.iter_mut().enumerate() {
            places.truncate(layout.partition_count(replex) as usize);
        }
        let copies: Vec<usize> = layout.numbers().collect();
        let building = &mut self.building;
        building.retain(|number| copies.contains(&usize::from(*number)));
    }

    /// Returns the table with these partitions void, to be refilled from epoch `since` on. Their
    /// copies must serve.
    pub fn renewed(&self, cells: &[(u8, u32)], since: Epoch) -> PlacedTable {
        let mut table = self.clone();
        for (replex, number) in cells {
            let places = table.placement.get_mut(usize::from(*replex));
            if let Some(place) = places.and_then(|places| places.get_mut(*number as usize)) {
                place.state = PartitionState::Rebuilding;
                place.since = since;
                place.moving = None;
            }
        }
        table
    }

    /// Makes the copies readable whose last partition serves now, and returns the names of these
    /// copies. Successors are left out, because they first have to replace other copies.
    pub fn finish_building(&mut self) -> Vec<String> {
        let successors: Vec<usize> = self.layout.successors().map(|(number, _)| number).collect();
        let serves = |number: &u8| {
            let number = usize::from(*number);
            !successors.contains(&number) && self.is_filled(number)
        };
        let (done, building): (Vec<u8>, Vec<u8>) = self.building.iter().partition(|it| serves(it));
        self.building = building;
        let name = |number: u8| self.layout.replexes[usize::from(number)].name.clone();
        done.into_iter().map(name).collect()
    }
}
