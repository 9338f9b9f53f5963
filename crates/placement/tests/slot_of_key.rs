//! The slot of an encoded key is the slot of its values: clients route by keys, cores by rows.

mod cases;

use cases::flights;
use placement::{Layout, Value, encode_key};

#[test]
fn key_bytes_and_values_name_the_same_slot() {
    let layout = Layout::base(&flights(12, 2));
    let long = "N".repeat(400);
    let rows = [("N14228", "EWR", "IAH"), ("", "a\0b", &long)];
    for (tail_number, origin, destination) in rows {
        let row = [
            Value::Int64(-7),
            Value::Text(tail_number.into()),
            Value::Text(origin.into()),
            Value::Text(destination.into()),
        ];
        for (number, key_space) in layout.key_spaces.iter().enumerate() {
            let columns = key_space.columns.iter();
            let key = encode_key(columns.map(|column| row[*column].as_ref()));
            assert_eq!(
                layout.slot_of_key(number, &key),
                layout.slot(number, |column| row[column].as_ref())
            );
        }
    }
}
