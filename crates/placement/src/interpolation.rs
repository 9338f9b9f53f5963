//! Positions between two encoded keys, as if keys were spread evenly between them. Estimates use
//! them; nothing depends on their being right.

use alloc::vec::Vec;

/// The bytes after the common prefix of two keys that are looked at.
const DIGITS: usize = 8;

/// Returns a key that divides the keys from `first` to `last`: `part` of `of` equal parts are
/// before it. The key need not exist.
pub fn key_between((first, last): (&[u8], &[u8]), part: u32, of: u32) -> Vec<u8> {
    if part == 0 {
        return first.to_vec();
    }
    let common = common_prefix(first, last);
    let (low, high) = (digits(first, common), digits(last, common));
    let span = u128::from(high.saturating_sub(low));
    let offset = span * u128::from(part) / u128::from(of.max(1));
    let digits = low + u64::try_from(offset).expect("it is at most the span");
    let mut key = first[..common].to_vec();
    key.extend_from_slice(&digits.to_be_bytes());
    key.max(first.to_vec())
}

/// Returns the part of the keys from `first` to `last` that is before a key, from 0 to 1.
pub fn part_before((first, last): (&[u8], &[u8]), key: &[u8]) -> f64 {
    if key <= first {
        return 0.0;
    }
    if key > last {
        return 1.0;
    }
    let common = common_prefix(first, last);
    let [low, high, at] = [first, last, key].map(|key| digits(key, common));
    let (span, before) = (high.saturating_sub(low), at.saturating_sub(low));
    match span {
        0 => 0.5,
        span => (before as f64 / span as f64).min(1.0),
    }
}

fn common_prefix(one: &[u8], other: &[u8]) -> usize {
    let pairs = one.iter().zip(other);
    pairs.take_while(|(one, other)| one == other).count()
}

/// Returns the first bytes after a prefix as a number; missing bytes are 0.
fn digits(key: &[u8], prefix: usize) -> u64 {
    let mut digits = [0; DIGITS];
    let rest = key.get(prefix..).unwrap_or_default();
    let count = rest.len().min(DIGITS);
    digits[..count].copy_from_slice(&rest[..count]);
    u64::from_be_bytes(digits)
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::{Value, encode_key};

    fn key(number: i64, text: &str) -> Vec<u8> {
        let values = [Value::Int64(number), Value::Text(text.into())];
        encode_key(values.iter().map(Value::as_ref))
    }

    #[test]
    fn keys_between_rise_and_are_where_they_should_be() {
        for (first, last) in [
            (key(0, "a"), key(1_000_000, "z")),
            (key(-5, ""), key(5, "")),
            (key(7, "alpha"), key(7, "omega")),
            (key(3, "same"), key(3, "same")),
            (Vec::new(), vec![0xff; 20]),
        ] {
            let ends = (&first[..], &last[..]);
            let keys: Vec<_> = (0..=4).map(|part| key_between(ends, part, 4)).collect();
            assert!(keys.is_sorted(), "{keys:?}");
            assert_eq!(keys[0], first);
            for (part, key) in keys.iter().enumerate().skip(1).take(3) {
                let before = part_before(ends, key);
                let expected = part as f64 / 4.0;
                let is_near = (before - expected).abs() < 0.06;
                assert!(is_near || first == last, "{part}: {before}");
            }
        }
    }

    #[test]
    fn a_part_is_within_its_bounds() {
        let (first, last) = (key(10, "a"), key(20, "b"));
        let ends = (&first[..], &last[..]);
        assert_eq!(part_before(ends, &key(9, "x")), 0.0);
        assert_eq!(part_before(ends, &first), 0.0);
        assert_eq!(part_before(ends, &key(21, "")), 1.0);
        assert_eq!(part_before(ends, b""), 0.0);
        let middle = part_before(ends, &key(15, "m"));
        assert!((0.4..0.6).contains(&middle), "{middle}");
    }
}
