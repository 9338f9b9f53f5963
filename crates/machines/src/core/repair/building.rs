//! Finds the rows that prevent a new copy of a table in use: rows that are older than the copy and
//! violate its constraint.
//!
//! A row is checked whenever it is stored in the partition or arrives from the cover. Of two rows
//! that collide, the later one finds the other. Members vote on all writes since the copy's first
//! epoch, so these add no collision. Only stored rows count: a row of the cover may have been
//! replaced by a newer version with another key. So the check needs no snapshot.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::ControlFlow;

use placement::tables::{Tables, TablesError};
use placement::{
    ColumnType, Constraint, KEY_BYTES_MAX, RowView, columns_of, decode_key, encode_value,
    prefix_end,
};
use protocol::identity::PartitionId;
use protocol::planted::{self, Bug};

use crate::core::member::Member;
use crate::core::table::TableInfo;

impl Member {
    /// Returns an error for each row of the operation that collides with another row in a unique
    /// index that is being added.
    pub(crate) fn collisions<T: Tables>(&self, tables: &T) -> Result<Vec<String>, TablesError> {
        let mut found = Vec::new();
        for (change, effect) in self.prepare.changes.iter().zip(&self.effects) {
            let row = change.new.as_ref().filter(|_| effect.put.is_some());
            if let Some(row) = row {
                found.extend(self.table.collision(self.partition(), row, tables)?);
            }
        }
        Ok(found)
    }
}

impl TableInfo {
    /// Returns whether a partition is one of a unique index that is being added.
    pub(crate) fn finds_collisions(&self, of: PartitionId) -> bool {
        let info = &self.replexes[usize::from(of.replex)];
        info.is_building && info.constraint == Some(Constraint::Unique)
    }

    /// Returns an error if another row has the same key in a unique index that is being added.
    pub(crate) fn collision<T: Tables>(
        &self,
        of: PartitionId,
        row: &[u8],
        tables: &T,
    ) -> Result<Option<String>, TablesError> {
        let replex = usize::from(of.replex);
        let info = &self.replexes[replex];
        if !self.finds_collisions(of) || planted::is(Bug::CollisionIgnored) {
            return Ok(None);
        }
        // The row is whole, or as the cover sends it: of a thin index, an entry.
        let Ok(row) = RowView::parse(self.stored_columns(replex), row) else {
            return Ok(None);
        };
        let Some(key) = self.constrained_key(replex, &row) else {
            return Ok(None);
        };
        let mut rows = 0;
        let end = prefix_end(&key);
        tables.scan(of.rows_table(), &key, end.as_deref(), &mut |_, _| {
            rows += 1;
            match rows {
                1 => ControlFlow::Continue(()),
                _ => ControlFlow::Break(()),
            }
        })?;
        let columns = &columns_of(&info.entry_columns[..info.sort_count]);
        Ok((rows > 1).then(|| format!("several rows have {}", self.describe(columns, &row))))
    }

    /// Returns the error for a row whose key is too long for a copy that is being added.
    pub(crate) fn long_key(&self, of: PartitionId, row: &[u8], bytes: usize) -> String {
        let name = &self.layout.replexes[usize::from(of.replex)].name;
        let row = RowView::parse(self.stored_columns(usize::from(of.replex)), row);
        let which = row.map_or_else(
            |_| String::new(),
            |row| self.describe(&self.schema.primary_key, &row),
        );
        format!(
            "the key in {name} of the row with {which} has {bytes} bytes; at most {KEY_BYTES_MAX} \
             are possible"
        )
    }

    /// Returns `(column, column) = (value, value)` for some columns of a row.
    fn describe(&self, columns: &[usize], row: &RowView<'_>) -> String {
        let mut key = Vec::new();
        for column in columns {
            encode_value(&mut key, row.column(*column));
        }
        let of = |column: &usize| &self.schema.columns[*column];
        let types: Vec<ColumnType> = columns.iter().map(|it| of(it).column_type).collect();
        let names: Vec<&str> = columns.iter().map(|it| of(it).name.as_str()).collect();
        let values = decode_key(&key, &types).unwrap_or_default();
        let values: Vec<String> = values.iter().map(ToString::to_string).collect();
        format!("({}) = ({})", names.join(", "), values.join(", "))
    }
}
