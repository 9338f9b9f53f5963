//! Changes of definitions in the store in memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use placement::{Alteration, Value};
use protocol::configuration::{Configuration, PlacedTable};
use protocol::identity::Epoch;

use crate::model::{Model, refused};
use crate::store::StoreError;

impl Model {
    pub(crate) fn alter(
        &self,
        table: &str,
        alterations: Vec<Alteration>,
    ) -> Result<(), StoreError> {
        self.change_table(table, |table| table.altered(&alterations))?;
        let mut state = self.state.lock().unwrap();
        for alteration in alterations {
            if let Alteration::AddColumn { column } = alteration {
                let missing = column.missing.unwrap_or(Value::Null);
                let configuration = Arc::clone(&state.configuration);
                let table = configuration.table_named(table).expect("it was altered");
                let rows = state.rows.entry(table.id).or_default().values_mut();
                rows.for_each(|(_, row)| row.push(missing.clone()));
            }
        }
        Ok(())
    }

    pub(crate) fn empty(&self, tables: &[String]) -> Result<(), StoreError> {
        let mut state = self.state.lock().unwrap();
        let configuration = Arc::clone(&state.configuration);
        for name in tables {
            let table = configuration.table_named(name).expect("it was planned");
            state.rows.insert(table.id, BTreeMap::new());
        }
        Ok(())
    }

    pub(crate) fn change_table(
        &self,
        name: &str,
        change: impl FnOnce(&PlacedTable) -> Result<PlacedTable, String>,
    ) -> Result<(), StoreError> {
        let mut state = self.state.lock().unwrap();
        let mut configuration = (*state.configuration).clone();
        let table = configuration.table_named(name);
        let table = table.ok_or_else(|| refused(&format!("there is no table {name}")))?;
        let mut changed = change(table).map_err(|message| refused(&message))?;
        let next = Epoch(configuration.epoch.0 + 1);
        if changed.schema.columns != table.schema.columns {
            changed.columns_since = next;
        }
        let before = table.schema.clone();
        let tables: Vec<PlacedTable> = configuration.tables.iter().cloned().collect();
        for mut table in tables {
            table.schema.follow_owner(&before, &changed.schema);
            let (old, new) = (&before.name, &changed.schema.name);
            table.schema.rename_referred(old, new);
            configuration.tables.put(table);
        }
        configuration.tables.put(changed);
        note_children(&mut configuration);
        configuration.epoch = next;
        state.configuration = Arc::new(configuration);
        state.known = state.configuration.clone();
        Ok(())
    }
}

/// Lists in each table the tables that refer to it.
fn note_children(configuration: &mut Configuration) {
    let tables: Vec<PlacedTable> = configuration.tables.iter().cloned().collect();
    for mut table in tables.clone() {
        let refers = |child: &&PlacedTable| {
            let mut keys = child.schema.constraints.foreign_keys.iter();
            keys.any(|key| key.parent == table.schema.name)
        };
        let children = tables.iter().filter(refers);
        let mut children: Vec<String> = children.map(|it| it.schema.name.clone()).collect();
        children.sort_unstable();
        table.schema.constraints.referenced_by = children;
        configuration.tables.put(table);
    }
}
