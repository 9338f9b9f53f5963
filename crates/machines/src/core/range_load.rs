//! Counts the requests at a range of a thin index, and finds the key at which a range with too many
//! of them should be split.
//!
//! Time is divided into windows. The core keeps the keys of some requests of each window. If
//! several windows in a row have too many requests, a key of the window before the last is chosen
//! that has many requests of the last window on both sides. So a range whose keys grow with time is
//! not split: all new requests are above the keys of the window before, and a split would only move
//! them to another core.

use alloc::boxed::Box;
use alloc::vec::Vec;

use placement::KeyInterval;
use protocol::identity::ClockReading;

use crate::core::contract::CoreLimits;

/// The most keys that are kept of one window.
const KEYS_MAX: usize = 64;
/// A split needs at least this many kept keys.
const KEYS_MIN: usize = 16;
/// A range is split after this many windows in a row with too many requests.
const WINDOWS: u32 = 3;
/// Each side of a split has at least one part of this many of the kept keys.
const SIDE_SHARE: usize = 8;
/// Neighbours may be merged if each has less than one part of this many of the limits of entries
/// and of requests.
pub(super) const SMALL_SHARE: u64 = 4;

/// A key above those of all entries: a read from the last key on is counted there.
pub(super) const LAST_KEY: &[u8] = &[0xff];

/// The requests at one range.
#[derive(Debug)]
pub(super) struct RangeLoad {
    /// The window that is under way.
    began_us: u64,
    requests: u64,
    /// The numbers and keys of some of its requests.
    keys: Vec<(u64, Box<[u8]>)>,
    /// On average, one request of this many is kept. It is a power of two.
    distance: u64,
    /// The kept keys of the window before, ascending.
    before: Vec<Box<[u8]>>,
    /// The requests per second of the last complete window; none before it.
    rate: Option<u64>,
    /// The number of windows in a row with too many requests.
    windows: u32,
    /// The end of the last window with too many requests for a merge.
    busy_us: Option<u64>,
    /// The key at which the range should be split because of its requests.
    split_at: Option<Box<[u8]>>,
}

impl RangeLoad {
    pub fn new(now: ClockReading) -> RangeLoad {
        RangeLoad {
            began_us: now.monotonic_us,
            requests: 0,
            keys: Vec::new(),
            distance: 1,
            before: Vec::new(),
            rate: None,
            windows: 0,
            busy_us: None,
            split_at: None,
        }
    }

    /// Counts a request for a key.
    pub fn note(&mut self, key: &[u8]) {
        let number = self.requests;
        self.requests += 1;
        while self.keys.len() >= KEYS_MAX && is_kept(number, self.distance) {
            self.distance *= 2;
            let distance = self.distance;
            self.keys.retain(|(number, _)| is_kept(*number, distance));
        }
        if is_kept(number, self.distance) {
            self.keys.push((number, key.into()));
        }
    }

    /// Ends the window if it has lasted long enough. A key to split at is within the range.
    pub fn review(&mut self, now: ClockReading, limits: &CoreLimits, range: KeyInterval<'_>) {
        let passed_us = now.monotonic_us.saturating_sub(self.began_us);
        if passed_us < limits.range_window_us {
            return;
        }
        let rate = self.requests.saturating_mul(1_000_000) / passed_us.max(1);
        let keys = core::mem::take(&mut self.keys).into_iter();
        let mut keys: Vec<Box<[u8]>> = keys.map(|(_, key)| key).collect();
        keys.sort_unstable();
        self.windows = match rate >= limits.range_requests_max {
            true => self.windows.saturating_add(1),
            false => 0,
        };
        if rate >= limits.range_requests_max / SMALL_SHARE {
            self.busy_us = Some(now.monotonic_us);
        }
        self.split_at = match self.windows >= WINDOWS {
            true => balanced(&self.before, &keys, range),
            false => None,
        };
        self.before = keys;
        self.rate = Some(rate);
        (self.began_us, self.requests, self.distance) = (now.monotonic_us, 0, 1);
    }

    /// Begins to count again, because the range has changed. That it was busy remains known.
    pub fn restart(&mut self, now: ClockReading) {
        let busy_us = self.busy_us;
        *self = RangeLoad::new(now);
        self.busy_us = busy_us;
    }

    /// Returns the requests per second of the last complete window.
    pub fn rate(&self) -> u64 {
        self.rate.unwrap_or(0)
    }

    /// Returns the key at which the range should be split because of its requests.
    pub fn split_at(&self) -> Option<&[u8]> {
        self.split_at.as_deref()
    }

    /// Returns whether the range may be merged: it has had few requests for some time.
    pub fn is_calm(&self, now: ClockReading, limits: &CoreLimits) -> bool {
        let is_over = |busy_us| now.monotonic_us.saturating_sub(busy_us) >= limits.range_calm_us;
        self.rate.is_some() && self.busy_us.is_none_or(is_over)
    }
}

/// Returns whether a request is kept, by its number. The choice looks random, so that requests of
/// one kind are not left out because they alternate with others.
fn is_kept(number: u64, distance: u64) -> bool {
    // The finalizer of SplitMix64.
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)).is_multiple_of(distance)
}

/// Returns the candidate within the range that divides the keys most evenly; none if a side of each
/// one has too few of them. Both lists are ascending.
fn balanced(
    candidates: &[Box<[u8]>],
    keys: &[Box<[u8]>],
    (start, end): KeyInterval<'_>,
) -> Option<Box<[u8]>> {
    if keys.len() < KEYS_MIN {
        return None;
    }
    let smaller_side = |candidate: &[u8]| {
        let below = keys.partition_point(|key| **key < *candidate);
        below.min(keys.len() - below)
    };
    let end = end.unwrap_or(LAST_KEY);
    let within = candidates.iter();
    let within = within.filter(|it| ***it > *start && ***it < *end);
    let best = within.max_by_key(|it| smaller_side(it))?;
    (smaller_side(best) * SIDE_SHARE >= keys.len()).then(|| best.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> CoreLimits {
        CoreLimits {
            range_requests_max: 1_000,
            range_window_us: 1_000_000,
            range_calm_us: 10_000_000,
            ..CoreLimits::default()
        }
    }

    fn second(number: u64) -> ClockReading {
        ClockReading {
            monotonic_us: number * 1_000_000,
            ..ClockReading::default()
        }
    }

    /// Counts the requests of each second, given by their keys.
    fn load_of(seconds: u64, requests: u64, key: impl Fn(u64, u64) -> u64) -> RangeLoad {
        let mut load = RangeLoad::new(second(0));
        for number in 0..seconds {
            for request in 0..requests {
                load.note(&key(number, request).to_be_bytes());
            }
            load.review(second(number + 1), &limits(), RANGE);
        }
        load
    }

    const START: [u8; 8] = 100_u64.to_be_bytes();
    const END: [u8; 8] = 200_000_u64.to_be_bytes();
    const RANGE: KeyInterval<'_> = (&START, Some(&END));

    fn split_at(load: &RangeLoad) -> Option<u64> {
        let key = load.split_at()?;
        Some(u64::from_be_bytes(
            key.try_into().expect("keys have 8 bytes"),
        ))
    }

    #[test]
    fn a_busy_range_is_split_where_its_requests_are() {
        let spread = |_, request: u64| 100 + request * 7919 % 1000;
        assert_eq!(split_at(&load_of(2, 2_000, spread)), None, "not for long");
        let middle = split_at(&load_of(3, 2_000, spread)).expect("it is busy");
        assert!((450..750).contains(&middle), "{middle}");
        assert_eq!(split_at(&load_of(9, 900, spread)), None, "it is not busy");
        // Most requests are for few keys.
        let skewed = |_, request: u64| 100 + 10_000 * (request % 8 / 7) + request % 5;
        let at = split_at(&load_of(3, 2_000, skewed)).expect("it is busy");
        assert!((101..105).contains(&at), "{at}");
    }

    #[test]
    fn a_range_whose_split_relieves_nothing_is_not_split() {
        let one_key = |_, _| 500;
        assert_eq!(split_at(&load_of(5, 2_000, one_key)), None);
        let its_start = |_, _| 100;
        assert_eq!(split_at(&load_of(5, 2_000, its_start)), None);
        let growing = |second: u64, request: u64| 100 + second * 2_000 + request;
        assert_eq!(split_at(&load_of(5, 2_000, growing)), None);
        // Half of the requests read from the end, which is above all keys that grow.
        let with_newest = |second: u64, request: u64| match request % 2 {
            0 => u64::MAX,
            _ => growing(second, request),
        };
        assert_eq!(split_at(&load_of(5, 2_000, with_newest)), None);
        let falling = |second: u64, request: u64| 100_000 - second * 2_000 - request;
        assert_eq!(split_at(&load_of(5, 2_000, falling)), None);
    }

    #[test]
    fn a_key_outside_of_the_range_is_not_chosen() {
        // Reads backwards from the end, and lookups below it.
        let mixed = |_, request: u64| match request % 2 {
            0 => 200_000,
            _ => 100 + request * 7919 % 1000,
        };
        let at = split_at(&load_of(3, 2_000, mixed)).expect("it is busy");
        assert!((101..1_100).contains(&at), "{at}");
    }

    #[test]
    fn a_range_is_calm_some_time_after_its_last_busy_window() {
        let spread = |_, request: u64| 100 + request * 7919 % 1000;
        assert!(!load_of(0, 0, spread).is_calm(second(0), &limits()));
        assert!(load_of(1, 10, spread).is_calm(second(1), &limits()));
        let mut load = load_of(3, 300, spread);
        load.restart(second(3));
        load.review(second(4), &limits(), RANGE);
        assert!(!load.is_calm(second(12), &limits()));
        assert!(load.is_calm(second(13), &limits()));
    }

    #[test]
    fn few_keys_are_kept_of_many_requests() {
        let mut load = RangeLoad::new(second(0));
        for request in 0..100_000_u64 {
            load.note(&request.to_be_bytes());
        }
        assert!((KEYS_MIN..=KEYS_MAX).contains(&load.keys.len()));
        let late = load.keys.iter().filter(|(number, _)| *number >= 50_000);
        let late = late.count() * 100 / load.keys.len();
        assert!((30..=70).contains(&late), "{late}% are of the second half");
    }
}
