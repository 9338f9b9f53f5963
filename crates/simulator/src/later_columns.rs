//! R50: a column that is added to a table has the same value in every row in which no client sets
//! it.

use placement::{Column, RowView};

use crate::model::COLUMNS;

/// Checks a row. Clients set only the first columns.
pub fn hold(columns: &[Column], row: &[u8]) -> Result<(), String> {
    let row = RowView::parse(columns, row);
    let row = row.map_err(|error| format!("a row does not parse: {error}"))?;
    let mut later = columns.iter().enumerate().skip(COLUMNS);
    let differs = |(at, column): &(usize, &Column)| {
        let value = row.column(*at).to_owned();
        column.missing.as_ref() != Some(&value)
    };
    match later.find(differs) {
        None => Ok(()),
        Some((at, column)) => Err(format!(
            "column {at} came later with {:?}, and a row has {:?}",
            column.missing,
            row.column(at)
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use placement::{ColumnType, Value, encode_row};

    #[test]
    fn later_columns_have_the_value_with_which_they_came() {
        let column = |missing| Column {
            name: "c".into(),
            column_type: ColumnType::Int64,
            nullable: true,
            default: None,
            missing,
        };
        let mut columns = vec![column(None); COLUMNS];
        let mut values = vec![Value::Int64(1); COLUMNS];
        let early = encode_row(&columns, &values).unwrap();
        columns.push(column(Some(Value::Int64(7))));
        assert_eq!(hold(&columns, &early), Ok(()));
        for (value, fits) in [(Value::Int64(7), true), (Value::Null, false)] {
            values.truncate(COLUMNS);
            values.push(value);
            let row = encode_row(&columns, &values).unwrap();
            assert_eq!(hold(&columns, &row).is_ok(), fits);
        }
    }
}
