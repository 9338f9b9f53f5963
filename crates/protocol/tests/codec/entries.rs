//! One entry per decoder: any bytes may come in, and what must hold for all of them is asserted.
//! The fuzzer calls these (`fuzz/`), and so do the tests beside this file.

use placement::{
    Column, ColumnType, ElementType, KEY_BYTES_MAX, Placement, RowView, SlotConstraints, Value,
    ValueRef, decode_key, encode_key, encode_row, prove,
};
use protocol::codec::{Reader, Wire};
use protocol::configuration::Configuration;
use protocol::expression::{Expression, ExpressionError, Scope, check, evaluate, holds};
use protocol::frame;
use protocol::message::Message;
use protocol::record::{Record, SavedCompletion};

/// An entry and its name.
pub type Entry = (&'static str, fn(&[u8]));

/// All of them; each has a target of its name in `fuzz/fuzz_targets`.
pub const ENTRIES: &[Entry] = &[
    ("frame", frame),
    ("message", message),
    ("configuration", configuration),
    ("row", row),
    ("key", key),
    ("expression", expression),
    ("log_record", log_record),
];

/// Bytes of a connection, from the start of a frame.
pub fn frame(bytes: &[u8]) {
    if let Ok(Some((decoded, size))) = frame::decode(bytes) {
        let mut again = Vec::new();
        frame::encode(decoded.correlation, &decoded.message, &mut again);
        assert_eq!(again, bytes[..size], "a message has one frame");
    }
}

/// Decodes the content of a frame, which a fuzzer does not reach through the checksum.
pub fn message(bytes: &[u8]) {
    if let Some(message) = canonical::<Message>(bytes) {
        let mut buffer = Vec::new();
        frame::encode(1, &message, &mut buffer);
        let (decoded, size) = frame::decode(&buffer)
            .expect("it was encoded just now")
            .expect("it is whole");
        assert_eq!((decoded.message, size), (message, buffer.len()));
    }
}

/// A configuration that passes its check answers every question without a panic.
pub fn configuration(bytes: &[u8]) {
    let Some(configuration) = canonical::<Configuration>(bytes) else {
        return;
    };
    if configuration.check().is_err() {
        return;
    }
    let servers: Vec<_> = configuration
        .servers
        .iter()
        .map(|server| placement::PartitionHost {
            id: server.id.0,
            domain: server.domain.clone(),
            cores: server.cores.len() as u16,
        })
        .collect();
    for table in configuration.tables.iter() {
        let layout = &table.layout;
        let slots = layout.slots(&|_| ValueRef::Null);
        let any = SlotConstraints::any(layout.key_spaces.len());
        for replex in layout.numbers() {
            let places = &table.placement[replex];
            let partition = match layout.replexes[replex].ranges {
                Some(_) => layout.partition_of_values(replex, |_| ValueRef::Null),
                None => layout.partition_of_slots(replex, &slots),
            };
            assert!((partition as usize) < places.len());
            let ranges = layout.replexes[replex].ranges.as_ref();
            let with_rows = ranges.map_or(places.len(), |ranges| ranges.starts.len());
            assert_eq!(layout.partitions(&any, replex).len(), with_rows);
            let address = configuration.address(places[partition as usize].core);
            assert!(address.is_some(), "every partition is somewhere");
        }
        let bare = |place: &protocol::configuration::Place| placement::HostCore {
            server: place.core.server.0,
            core: place.core.core,
        };
        let replexes = table.placement.iter();
        let placement = Placement {
            replexes: replexes.map(|it| it.iter().map(bare).collect()).collect(),
        };
        let _ = prove(layout, &placement, &servers);
        let _ = layout.voters(&table.schema);
    }
}

/// A row of one column of each type, and of the first columns by a byte.
pub fn row(bytes: &[u8]) {
    let Some((count, bytes)) = bytes.split_first() else {
        return;
    };
    let all = columns();
    let columns = &all[..usize::from(*count) % (all.len() + 1)];
    if let Ok(row) = RowView::parse(columns, bytes) {
        let values = row.to_values();
        let again = encode_row(columns, &values).expect("what was read can be written");
        let again = RowView::parse(columns, &again).expect("what was written can be read");
        assert_eq!(again.to_values(), values);
    }
}

/// A key of up to eleven columns, whose types a byte chooses.
pub fn key(bytes: &[u8]) {
    let Some((choice, bytes)) = bytes.split_first() else {
        return;
    };
    let all = column_types();
    let count = all.len();
    let (first, length) = (
        usize::from(*choice) % count,
        usize::from(*choice) / count % count,
    );
    let types: Vec<_> = (0..length)
        .map(|index| all[(first + index) % count])
        .collect();
    if let Ok(values) = decode_key(bytes, &types) {
        assert_eq!(encode_key(values.iter().map(Value::as_ref)), bytes);
        assert_eq!(
            placement::check_key_bytes(bytes).is_ok(),
            bytes.len() <= KEY_BYTES_MAX
        );
    }
}

/// An expression, and after it a row that it is evaluated for.
pub fn expression(bytes: &[u8]) {
    let mut reader = Reader::new(bytes);
    let Ok(expression) = Expression::decode(&mut reader) else {
        return;
    };
    let columns = columns();
    let rest = &bytes[bytes.len() - reader.remaining()..];
    let nulls = encode_row(&columns, &vec![Value::Null; columns.len()]).expect("all are nullable");
    let row = RowView::parse(&columns, rest)
        .unwrap_or_else(|_| RowView::parse(&columns, &nulls).expect("it was encoded just now"));
    let result = evaluate(&expression, &row, Some(&row));
    let _ = holds(&expression, &row, None);
    let Ok(column_type) = check(&expression, &columns, Scope::RowAndExcluded) else {
        return;
    };
    match result {
        Ok(value) => assert!(value.is_null() || value.column_type() == column_type),
        Err(error) => assert!(
            matches!(
                error,
                ExpressionError::Overflow
                    | ExpressionError::Underflow
                    | ExpressionError::DivisionByZero
                    | ExpressionError::PatternEnd
                    | ExpressionError::NotOfType { .. }
                    | ExpressionError::NegativeLength
                    | ExpressionError::TooLong { .. }
                    | ExpressionError::Array(_)
                    | ExpressionError::TooCostly
            ),
            "the check let through {error}"
        ),
    }
}

/// Decodes the records that a core writes to its log, and those that a checkpoint saves.
pub fn log_record(bytes: &[u8]) {
    canonical::<Record>(bytes);
    canonical::<SavedCompletion>(bytes);
}

/// The value, if these bytes are one; then they are the only ones that are.
fn canonical<T: Wire>(bytes: &[u8]) -> Option<T> {
    let value = T::decode_all(bytes).ok()?;
    assert_eq!(value.to_bytes(), bytes, "every value has one form in bytes");
    Some(value)
}

/// A nullable column of each type.
pub fn columns() -> Vec<Column> {
    let column = |(index, column_type): (usize, &ColumnType)| Column {
        name: format!("c{index}"),
        column_type: *column_type,
        nullable: true,
        default: None,
        missing: None,
    };
    column_types().iter().enumerate().map(column).collect()
}

/// Each type, and one of arrays.
fn column_types() -> Vec<ColumnType> {
    let array = ColumnType::Array(ElementType::Text);
    ColumnType::ALL.into_iter().chain([array]).collect()
}
