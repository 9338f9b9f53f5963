//! Whether local entries are what the rows imply.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use placement::tables::Tables;
use placement::{RowView, encode_key};
use protocol::configuration::PlacedTable;
use protocol::identity::PartitionId;

use super::Cluster;

impl Cluster {
    /// Looks at all partitions: each order is marked as complete, and each row has its entry there.
    pub fn check_entries(&self) -> Result<(), String> {
        let table = &self.configuration.tables[0];
        for (replex, places) in table.placement.iter().enumerate() {
            for (number, place) in places.iter().enumerate() {
                let id = PartitionId {
                    table: table.id,
                    replex: replex as u8,
                    number: number as u32,
                };
                let tables = self.tables(place.core.server.0);
                for order in table.layout.entry_orders(replex) {
                    check_order(table, id, order, tables)?;
                }
            }
        }
        Ok(())
    }
}

fn check_order(
    table: &PlacedTable,
    id: PartitionId,
    order: usize,
    tables: &impl Tables,
) -> Result<(), String> {
    let columns = table.layout.order_columns(order);
    let primary_key = &table.schema.primary_key;
    let mut implied = BTreeMap::new();
    let rows = &mut |key: &[u8], value: &[u8]| {
        let row = RowView::parse(&table.schema.columns, &value[8..]).expect("rows decode");
        let entry = encode_key(columns.iter().map(|column| row.column(*column)));
        let pk = encode_key(primary_key.iter().map(|column| row.column(*column)));
        let places = [entry.len() - pk.len(), entry.len()];
        let places = places.map(|place| (place as u16).to_le_bytes());
        let sort_key = &key[..key.len() - pk.len()];
        implied.insert([&entry, sort_key].concat(), places.concat());
        ControlFlow::Continue(())
    };
    let mut found = BTreeMap::new();
    let entries = &mut |entry: &[u8], places: &[u8]| {
        found.insert(entry.to_vec(), places.to_vec());
        ControlFlow::Continue(())
    };
    let order = order as u8;
    let read = [
        (id.rows_table(), rows as _),
        (id.entries_table(order), entries as _),
    ];
    for (table, visit) in read {
        let scanned = tables.scan(table, b"", None, visit);
        scanned.expect("memory is read");
    }
    let mark = tables.value(id.marks_table(), &[order]);
    // Its first byte holds whether each row has an entry.
    let mark = mark.expect("memory is read");
    if mark.is_none_or(|mark| mark[0] == 0) {
        return Err(format!("{id} does not know its entries in order {order}"));
    }
    if implied != found {
        return Err(format!(
            "{id} has the entries {found:02x?} in order {order}, its rows imply {implied:02x?}"
        ));
    }
    Ok(())
}
