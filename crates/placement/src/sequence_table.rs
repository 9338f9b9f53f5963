//! The table of a sequence.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use crate::constraints::TableConstraints;
use crate::schema::{Column, Durability, Schema};
use crate::sequence::Sequence;
use crate::value::ColumnType;

impl Sequence {
    /// Returns the table of the sequence.
    pub fn into_schema(self, name: String, failures_tolerated: u8) -> Schema {
        let column = |name: &str, column_type| Column {
            name: name.into(),
            column_type,
            nullable: false,
            default: None,
            missing: None,
        };
        Schema {
            name,
            columns: vec![
                column("last_value", ColumnType::Int64),
                column("log_cnt", ColumnType::Int64),
                column("is_called", ColumnType::Bool),
                column("resets", ColumnType::Int64),
            ],
            primary_key: vec![1],
            indexes: Vec::new(),
            further: Vec::new(),
            thin: Vec::new(),
            partitions: 1,
            failures_tolerated,
            failures_wanted: 0,
            local_entries: false,
            durability: Durability::Sync,
            primary_partition_columns: None,
            sequence: Some(self),
            constraints: TableConstraints::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sequence::SequenceState;

    #[test]
    fn a_state_is_a_row_of_the_table() {
        let sequence = Sequence {
            value_type: ColumnType::Int64,
            increment: 1,
            min: 1,
            max: 10,
            start: 1,
            cache: 1,
            cycles: false,
            owner: None,
        };
        let state = sequence.initial();
        assert_eq!(SequenceState::of_row(&state.to_row()), Some(state));
        assert_eq!(SequenceState::of_row(&[]), None);
        let schema = sequence.into_schema("s".into(), 1);
        schema.validate().unwrap();
        let encoded = crate::row::encode_row(&schema.columns, &state.to_row());
        assert!(encoded.is_ok());
        let other = Schema {
            columns: schema.columns[..3].to_vec(),
            ..schema
        };
        assert!(other.validate().is_err());
    }
}
