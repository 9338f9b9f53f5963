//! Adds copies to the layout of an existing table, and removes copies from it.
//!
//! Other copies keep their numbers, cuts and places: their stored rows stay as they are. The
//! coordinator decides how a new copy gets its rows, and proves that the table still tolerates the
//! stated failures.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::further::{Cut, FurtherCopy};
use crate::grid::{Layout, Replex, ReplexKind};
use crate::hybrid::GridError;
use crate::schema::Schema;

impl Schema {
    /// Returns whether `wanted` is this schema with one more index, thin index or further copy at
    /// its end.
    pub fn is_extended_by(&self, wanted: &Schema) -> bool {
        let mut shorter = wanted.clone();
        if shorter.indexes.len() > self.indexes.len() {
            shorter.indexes.pop();
        } else if shorter.thin.len() > self.thin.len() {
            shorter.thin.pop();
        } else {
            shorter.further.pop();
        }
        *self == shorter && *self != *wanted
    }

    /// Returns the name of the index or further copy to which a replex belongs. Several hybrids can
    /// have one name, and so can the copies of a thin index.
    pub fn copy_of<'a>(&'a self, replex: &'a str) -> &'a str {
        let further = self.further.iter();
        let further = further.map(|copy| (&copy.name, copy.replex_names()));
        let thin = self.thin.iter();
        let mut all = further.chain(thin.map(|index| (&index.name, index.replex_names())));
        let whole = all.find(|(_, names)| names.iter().any(|name| name == replex));
        whole.map_or(replex, |(name, _)| name)
    }

    /// Returns the name of the index, thin index or further copy that `wanted` has and this schema
    /// lacks; empty if there is none.
    pub fn added_name(&self, wanted: &Schema) -> String {
        let index = wanted.indexes.get(self.indexes.len());
        let thin = wanted.thin.get(self.thin.len());
        let copy = wanted.further.get(self.further.len());
        let name = index.map(|it| &it.name).or(thin.map(|it| &it.name));
        let name = name.or(copy.map(|it| &it.name));
        name.cloned().unwrap_or_default()
    }

    /// Removes an index, a thin index or a further copy. Nothing refers to it any more.
    pub fn remove(&mut self, name: &str) {
        self.thin.retain(|index| index.name != name);
        self.further.retain(|copy| copy.name != name);
        let Some(removed) = self.indexes.iter().position(|index| index.name == name) else {
            return;
        };
        self.indexes.remove(removed);
        for copy in &mut self.further {
            for index in copy.indexes_mut() {
                *index -= usize::from(*index > removed);
            }
        }
    }
}

impl FurtherCopy {
    /// Returns the indexes that it refers to, without the primary key.
    fn indexes_mut(&mut self) -> Vec<&mut usize> {
        match &mut self.cut {
            Cut::Hybrid { shares } => {
                let indexes = shares.iter_mut().map(|share| &mut share.index);
                indexes.flatten().collect()
            }
            Cut::HybridsBetween { first, last, .. } => {
                first.iter_mut().chain(last.iter_mut()).collect()
            }
            Cut::Replica { of } => of.iter_mut().collect(),
            Cut::Hyperspace { .. } => Vec::new(),
        }
    }
}

impl Layout {
    /// Adds the last index, thin index or further copy of a valid schema that the layout lacks.
    /// Returns the numbers of the new replexes.
    ///
    /// # Errors
    /// There are too many copies, or another one has the name.
    pub fn extend(&mut self, known: &Schema, wanted: &Schema) -> Result<Vec<usize>, GridError> {
        assert!(known.is_extended_by(wanted), "callers have checked it");
        if let Some(copy) = wanted.further.get(known.further.len()) {
            return self.add_copy(copy);
        }
        if wanted.thin.len() > known.thin.len() {
            return self.add_thin_index(wanted, known.thin.len());
        }
        let index = known.indexes.len();
        let replex = self.index_replex(wanted, &wanted.indexes[index].columns, Some(index));
        Ok([self.add(replex)?].into())
    }

    /// Removes an index, a thin index, a further copy or an exact replica from a table by its name.
    /// Its numbers become vacant.
    ///
    /// # Errors
    /// The name is that of the primary replex, no copy has the name, or another copy is derived
    /// from the named one.
    pub fn remove(&mut self, schema: &mut Schema, name: &str) -> Result<(), GridError> {
        let gone = self.removable(schema, name)?;
        let index = schema.indexes.iter().position(|index| index.name == name);
        let thin = schema.thin.iter().position(|index| index.name == name);
        self.vacate(&gone);
        if let Some(removed) = thin {
            for replex in &mut self.replexes {
                if let ReplexKind::Thin { index, .. } = &mut replex.kind {
                    *index -= usize::from(*index > removed);
                }
            }
        }
        if let Some(removed) = index {
            for replex in &mut self.replexes {
                if let ReplexKind::Index { index } = &mut replex.kind {
                    *index -= usize::from(*index > removed);
                }
            }
        }
        schema.remove(name);
        Ok(())
    }

    /// Makes these numbers vacant.
    pub(crate) fn vacate(&mut self, gone: &[usize]) {
        for number in gone {
            self.replexes[*number] = Replex {
                name: String::new(),
                kind: ReplexKind::Vacant,
                axes: Vec::new(),
                sort_columns: Vec::new(),
                ranges: None,
            };
        }
        while let Some(last) = self.replexes.last()
            && last.kind == ReplexKind::Vacant
        {
            self.replexes.pop();
        }
        self.drop_unused_key_spaces();
    }

    /// Returns the numbers of the copies that [`Layout::remove`] would remove, ascending.
    ///
    /// # Errors
    /// The same as for [`Layout::remove`].
    pub fn removable(&self, schema: &Schema, name: &str) -> Result<Vec<usize>, GridError> {
        let table = &schema.name;
        let refuse = |message| Err(GridError { message });
        if name == table {
            return refuse(format!(
                "{name} is the primary key of its table: drop the table instead"
            ));
        }
        let mut without = schema.clone();
        without.remove(name);
        if let Some(key) = without.unserved_reference() {
            return refuse(format!(
                "index {name} of table {table} serves foreign key {}: make another INDEX with the \
                 same first columns before",
                key.name
            ));
        }
        let index = schema.indexes.iter().position(|index| index.name == name);
        let users = schema.further.iter();
        let mut users = users.filter(|it| index.is_some() && it.indexes().contains(&index));
        if let Some(user) = users.next() {
            return refuse(format!(
                "copy {} of table {table} is made of index {name}: drop {} first",
                user.name, user.name
            ));
        }
        let copy = schema.further.iter().find(|copy| copy.name == name);
        let thin = schema.thin.iter().find(|index| index.name == name);
        let names = match (copy, thin) {
            (Some(copy), _) => copy.replex_names(),
            (None, Some(index)) => index.replex_names(),
            (None, None) => [name.into()].into(),
        };
        let named: Vec<usize> = self
            .numbers()
            .filter(|number| names.contains(&self.replexes[*number].name))
            .collect();
        let whole = schema.copy_of(name);
        if copy.is_none() && whole != name {
            return refuse(format!(
                "{name} is a part of {whole} of table {table}: drop {whole} as a whole"
            ));
        }
        match named.is_empty() {
            true => refuse(format!("table {table} has no index {name}")),
            false => Ok(named),
        }
    }

    fn drop_unused_key_spaces(&mut self) {
        let axes = self.replexes.iter().flat_map(|replex| &replex.axes);
        let used: BTreeMap<usize, usize> = axes.map(|axis| (axis.key_space, 0)).collect();
        let numbered = used.into_keys().enumerate();
        let renumbered: BTreeMap<usize, usize> = numbered.map(|(new, old)| (old, new)).collect();
        for axis in self.replexes.iter_mut().flat_map(|it| &mut it.axes) {
            axis.key_space = renumbered[&axis.key_space];
        }
        self.key_spaces = renumbered
            .keys()
            .map(|old| self.key_spaces[*old].clone())
            .collect();
    }
}
