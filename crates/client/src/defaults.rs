//! The values of columns that a statement does not set.

use std::time::{SystemTime, UNIX_EPOCH};

use placement::{Column, ColumnDefault, ColumnType, ComputedDefault, TimeZone, Value};
use rustix::rand::{GetRandomFlags, getrandom};

/// Returns the wall clock, in microseconds since 1970.
pub fn now_us() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |it| i64::try_from(it.as_micros()).unwrap_or(i64::MAX))
}

/// Returns the value of a column that a statement does not set. The statement began at `now_us`, in
/// microseconds since 1970 UTC, and local times are those of `zone`. The value of a sequence is
/// NULL here, because callers draw it, and so is that of a generated column.
pub fn default_value(column: &Column, now_us: i64, zone: &TimeZone<'_>) -> Value {
    let computed = match &column.default {
        None | Some(ColumnDefault::Sequence(_) | ColumnDefault::Generated(_)) => {
            return Value::Null;
        }
        Some(ColumnDefault::Constant(value)) => return value.clone(),
        Some(ColumnDefault::Computed(computed)) => computed,
    };
    let fits = "the schema was validated, and the clock is far from the ends of time";
    let local = Value::Timestamp(zone.local(now_us).expect(fits));
    match (computed, column.column_type) {
        (ComputedDefault::Now, ColumnType::TimestampTz) => Value::TimestampTz(now_us),
        (ComputedDefault::Now, to) => local.assigned(to).expect(fits),
        (ComputedDefault::Today, to) => {
            let today = local.assigned(ColumnType::Date).expect(fits);
            match (to, today.clone().assigned(ColumnType::Timestamp)) {
                (ColumnType::TimestampTz, Ok(Value::Timestamp(midnight))) => {
                    Value::TimestampTz(zone.moment(midnight).expect(fits))
                }
                _ => today.assigned(to).expect(fits),
            }
        }
        (ComputedDefault::RandomUuid, _) => Value::Uuid(random_uuid()),
    }
}

/// Returns a random UUID of version 4.
///
/// # Panics
/// The system has no random numbers.
pub fn random_uuid() -> [u8; 16] {
    let mut bytes = [0; 16];
    // The system returns so few bytes at once.
    let count = getrandom(&mut bytes, GetRandomFlags::empty());
    assert_eq!(count, Ok(bytes.len()), "the system has random numbers");
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(column_type: ColumnType, default: ComputedDefault) -> Column {
        Column {
            name: "c".into(),
            column_type,
            nullable: true,
            default: Some(ColumnDefault::Computed(default)),
            missing: None,
        }
    }

    #[test]
    fn computed_defaults_have_the_type_of_their_column() {
        const DAY_US: i64 = 86_400_000_000;
        for (column_type, default, expected) in [
            (
                ColumnType::TimestampTz,
                ComputedDefault::Now,
                Value::TimestampTz(DAY_US + 5),
            ),
            (ColumnType::Date, ComputedDefault::Now, Value::Date(1)),
            (
                ColumnType::Timestamp,
                ComputedDefault::Today,
                Value::Timestamp(DAY_US),
            ),
        ] {
            let found = default_value(&column(column_type, default), DAY_US + 5, &TimeZone::UTC);
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn computed_defaults_are_local_times() {
        let berlin = TimeZone::posix("CET-1").expect("it is valid");
        const HOUR_US: i64 = 3_600_000_000;
        for (column_type, default, expected) in [
            (
                ColumnType::Timestamp,
                ComputedDefault::Now,
                Value::Timestamp(24 * HOUR_US),
            ),
            (ColumnType::Date, ComputedDefault::Today, Value::Date(1)),
            (
                ColumnType::TimestampTz,
                ComputedDefault::Today,
                Value::TimestampTz(23 * HOUR_US),
            ),
        ] {
            let found = default_value(&column(column_type, default), 23 * HOUR_US, &berlin);
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn random_uuids_differ_and_have_their_version() {
        let uuid = column(ColumnType::Uuid, ComputedDefault::RandomUuid);
        let drawn = || default_value(&uuid, 0, &TimeZone::UTC);
        let (one, other) = (drawn(), drawn());
        assert_ne!(one, other);
        let text = one.to_string();
        assert_eq!(&text[14..15], "4", "{text}");
        assert!("89ab".contains(&text[19..20]), "{text}");
    }
}
