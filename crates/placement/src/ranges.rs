//! The ranges of a thin index or a copy that is divided by its order, and the transfers that change
//! them.
//!
//! A range belongs to one partition. A partition without a range is *empty*: it has no entries or
//! rows, and no operation visits it. Ranges change by transfers only. A transfer gives parts of the
//! ranges of some partitions to an empty partition. A split gives it the upper part of one range,
//! and a merge gives it two whole neighbours. Between two transfers the range of a partition never
//! grows.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// The most partitions of one index, empty ones included.
pub const RANGES_MAX: u32 = 4096;

/// The ranges of one thin index. The keys are memcomparable, in the order of the index with the
/// primary key at the end.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ranges {
    /// The ranges by ascending first key. The first range starts at the empty key. A range ends
    /// where the next one starts.
    pub starts: Vec<RangeStart>,
    /// The number of partitions.
    pub count: u32,
    /// The transfers that have begun and not ended.
    pub transfers: Vec<RangeTransfer>,
}

/// The start of a range.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RangeStart {
    /// The first key of the range.
    pub key: Vec<u8>,
    /// The partition that has the range.
    pub partition: u32,
}

/// Parts of ranges that one partition receives from others.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RangeTransfer {
    /// The receiving partition. It is empty until the parts are handed over.
    pub to: u32,
    /// The parts by ascending first key, without gaps.
    pub parts: Vec<RangePart>,
}

/// A part of a partition's range.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RangePart {
    /// The partition that gives the part.
    pub from: u32,
    /// The first key.
    pub start: Vec<u8>,
    /// The first key after the part; none extends to the last key.
    pub end: Option<Vec<u8>>,
}

/// A range of keys: the first key, and the first key after the range. None extends to the last key.
pub type KeyInterval<'a> = (&'a [u8], Option<&'a [u8]>);

impl RangePart {
    /// Returns whether the part includes a key.
    pub fn contains(&self, key: &[u8]) -> bool {
        *key >= *self.start && self.end.as_ref().is_none_or(|end| *key < **end)
    }
}

impl RangeTransfer {
    /// Returns whether the transfer includes a key.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.parts.iter().any(|part| part.contains(key))
    }
}

impl Ranges {
    /// Returns one range with all keys.
    pub fn whole() -> Ranges {
        let whole = RangeStart {
            key: Vec::new(),
            partition: 0,
        };
        Ranges {
            starts: Vec::from([whole]),
            count: 1,
            transfers: Vec::new(),
        }
    }

    /// Returns the partition whose range has a key.
    pub fn owner(&self, key: &[u8]) -> u32 {
        self.starts[self.place_of(key)].partition
    }

    /// Returns the place in `starts` of the range that has a key.
    fn place_of(&self, key: &[u8]) -> usize {
        let after = self.starts.partition_point(|start| *start.key <= *key);
        after.saturating_sub(1)
    }

    /// Returns the range of a partition; none if the partition is empty.
    pub fn of(&self, partition: u32) -> Option<KeyInterval<'_>> {
        let mut starts = self.starts.iter();
        let place = starts.position(|start| start.partition == partition)?;
        Some(self.interval(place))
    }

    /// Returns the keys that a partition has, and those that a transfer gives to it.
    pub fn keys_of(&self, partition: u32) -> Vec<KeyInterval<'_>> {
        let transfer = self.transfer_to(partition);
        let parts = transfer.iter().flat_map(|transfer| &transfer.parts);
        let received = parts.map(|part| (&part.start[..], part.end.as_deref()));
        self.of(partition).into_iter().chain(received).collect()
    }

    fn interval(&self, place: usize) -> KeyInterval<'_> {
        let end = self.starts.get(place + 1).map(|next| &next.key[..]);
        (&self.starts[place].key, end)
    }

    /// Returns the partitions with keys from `start` up to `end`, which is excluded, in the order
    /// of their ranges.
    pub fn overlapping(&self, (start, end): KeyInterval<'_>) -> Vec<u32> {
        if end.is_some_and(|end| end <= start) {
            return Vec::new();
        }
        let from = self.place_of(start);
        let ranges = self.starts[from..].iter();
        let wanted =
            ranges.take_while(|it| it.key.is_empty() || end.is_none_or(|end| *it.key < *end));
        wanted.map(|it| it.partition).collect()
    }

    /// Returns the empty partition with the lowest number among those that suit. It is a new one if
    /// there is none.
    pub fn vacant(&self, suits: impl Fn(u32) -> bool) -> u32 {
        let is_used = |number: &u32| {
            let mut transfers = self.transfers.iter();
            self.of(*number).is_some() || transfers.any(|it| it.concerns(*number))
        };
        (0..self.count)
            .find(|number| !is_used(number) && suits(*number))
            .unwrap_or(self.count)
    }

    /// Returns whether rows with this key belong into a partition: its range has the key, or a
    /// transfer takes the key from or to the partition.
    pub fn has(&self, partition: u32, key: &[u8]) -> bool {
        self.owner(key) == partition
            || self.transfers.iter().any(|transfer| {
                let of_part = |part: &RangePart| part.from == partition || transfer.to == partition;
                let mut parts = transfer.parts.iter();
                parts.any(|part| part.contains(key) && of_part(part))
            })
    }

    /// Returns the transfer to a partition.
    pub fn transfer_to(&self, partition: u32) -> Option<&RangeTransfer> {
        self.transfers.iter().find(|it| it.to == partition)
    }

    /// Returns whether a transfer takes keys from a partition, or gives it some.
    pub fn is_transferring(&self, partition: u32) -> bool {
        self.transfers.iter().any(|it| it.concerns(partition))
    }

    /// Begins to split the range of a partition at a key: the upper part goes to the empty
    /// partition `to`. Returns false and changes nothing if that is impossible.
    pub fn begin_split(&mut self, partition: u32, key: &[u8], to: u32) -> bool {
        let Some((start, end)) = self.of(partition) else {
            return false;
        };
        let is_within = start < key && end.is_none_or(|end| key < end);
        let part = RangePart {
            from: partition,
            start: key.to_vec(),
            end: end.map(<[u8]>::to_vec),
        };
        is_within && self.begin(to, Vec::from([part]))
    }

    /// Begins to merge the range of a partition with the next one: both go to the empty partition
    /// `to`. Returns false and changes nothing if that is impossible.
    pub fn begin_merge(&mut self, partition: u32, to: u32) -> bool {
        let mut starts = self.starts.iter();
        let place = starts.position(|start| start.partition == partition);
        let Some(place) = place.filter(|place| place + 1 < self.starts.len()) else {
            return false;
        };
        let parts = [place, place + 1].map(|place| {
            let (start, end) = self.interval(place);
            RangePart {
                from: self.starts[place].partition,
                start: start.to_vec(),
                end: end.map(<[u8]>::to_vec),
            }
        });
        self.begin(to, parts.into())
    }

    fn begin(&mut self, to: u32, parts: Vec<RangePart>) -> bool {
        let is_free = |partition| !self.is_transferring(partition);
        let all_free = is_free(to) && parts.iter().all(|part| is_free(part.from));
        if !all_free || self.of(to).is_some() || to > self.count || to >= RANGES_MAX {
            return false;
        }
        self.count = self.count.max(to + 1);
        self.transfers.push(RangeTransfer { to, parts });
        true
    }

    /// Gives the keys of a transfer to its partition.
    pub fn hand_over(&mut self, to: u32) {
        let Some(transfer) = self.transfers.iter().find(|it| it.to == to) else {
            return;
        };
        let (first, last) = (
            &transfer.parts[0],
            &transfer.parts[transfer.parts.len() - 1],
        );
        let received = RangeStart {
            key: first.start.clone(),
            partition: to,
        };
        // The rest of a range after the last part stays with its partition.
        let after = last.end.as_ref().map(|end| RangeStart {
            key: end.clone(),
            partition: self.owner(end),
        });
        self.starts.retain(|start| !transfer.contains(&start.key));
        let known = |key: &Vec<u8>| self.starts.iter().any(|start| start.key == *key);
        let after = after.filter(|after| !known(&after.key));
        self.starts.extend(after);
        self.starts.push(received);
        self.starts.sort_by(|one, other| one.key.cmp(&other.key));
    }

    /// Ends a transfer, whether its keys were handed over or not. Returns false if there is none.
    pub fn end_transfer(&mut self, to: u32) -> bool {
        let before = self.transfers.len();
        self.transfers.retain(|it| it.to != to);
        self.transfers.len() < before
    }

    /// Returns whether the keys of a transfer belong to its partition.
    pub fn is_handed_over(&self, transfer: &RangeTransfer) -> bool {
        self.of(transfer.to).is_some()
    }

    /// Returns the first inconsistency, if there is one.
    ///
    /// # Errors
    /// A message for the operator.
    pub fn validate(&self) -> Result<(), String> {
        let fault = |what: &str| Err(String::from(what));
        if !self
            .starts
            .first()
            .is_some_and(|first| first.key.is_empty())
        {
            return fault("the first range does not start at the first key");
        }
        if !self.starts.is_sorted_by(|one, other| one.key < other.key) {
            return fault("ranges are out of order");
        }
        let mut owners: Vec<u32> = self.starts.iter().map(|start| start.partition).collect();
        owners.sort_unstable();
        if !owners.is_sorted_by(|one, other| one < other) {
            return fault("a partition has two ranges");
        }
        let mut transfers: Vec<u32> = Vec::new();
        for transfer in &self.transfers {
            if transfer.parts.is_empty() {
                return fault("a transfer has no parts");
            }
            let follows = |pair: &[RangePart]| pair[0].end.as_ref() == Some(&pair[1].start);
            if !transfer.parts.windows(2).all(follows) {
                return fault("the parts of a transfer have gaps");
            }
            let is_empty =
                |part: &RangePart| part.end.as_ref().is_some_and(|end| *end <= part.start);
            if transfer.parts.iter().any(is_empty) {
                return fault("a part of a transfer has no keys");
            }
            let handed_over = self.is_handed_over(transfer);
            for part in &transfer.parts {
                let owner = if handed_over { transfer.to } else { part.from };
                let end = part.end.as_deref();
                if self.overlapping((&part.start, end)) != [owner] {
                    return fault("a transfer concerns keys of other partitions");
                }
            }
            transfers.extend(transfer.parts.iter().map(|part| part.from));
            transfers.push(transfer.to);
        }
        let used = owners.iter().chain(&transfers);
        if self.count > RANGES_MAX || used.clone().any(|partition| *partition >= self.count) {
            return Err(format!(
                "a range belongs to a partition that does not exist, or there are more than \
                 {RANGES_MAX}"
            ));
        }
        transfers.sort_unstable();
        match transfers.is_sorted_by(|one, other| one < other) {
            true => Ok(()),
            false => fault("a partition takes part in two transfers"),
        }
    }
}

impl RangeTransfer {
    /// Returns whether the transfer takes keys from a partition, or gives it some.
    fn concerns(&self, partition: u32) -> bool {
        self.to == partition || self.parts.iter().any(|part| part.from == partition)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the ranges as `start→partition`, in order.
    fn text(ranges: &Ranges) -> String {
        let starts = ranges.starts.iter();
        let starts = starts.map(|it| format!("{:?}→{}", it.key, it.partition));
        starts.collect::<Vec<String>>().join(" ")
    }

    fn split(ranges: &mut Ranges, partition: u32, key: u8) -> u32 {
        let to = ranges.vacant(|_| true);
        assert!(ranges.begin_split(partition, &[key], to));
        ranges.validate().unwrap();
        ranges.hand_over(to);
        ranges.validate().unwrap();
        assert!(ranges.end_transfer(to));
        ranges.validate().unwrap();
        to
    }

    #[test]
    fn a_split_gives_the_upper_part_to_an_empty_partition() {
        let mut ranges = Ranges::whole();
        assert_eq!(split(&mut ranges, 0, 50), 1);
        assert_eq!(split(&mut ranges, 0, 20), 2);
        assert_eq!(split(&mut ranges, 1, 70), 3);
        assert_eq!(text(&ranges), "[]→0 [20]→2 [50]→1 [70]→3");
        assert_eq!(ranges.owner(&[19, 255]), 0);
        assert_eq!(ranges.owner(&[20]), 2);
        assert_eq!(ranges.owner(&[255]), 3);
        assert_eq!(ranges.of(2), Some((&[20][..], Some(&[50][..]))));
        assert_eq!(ranges.of(3), Some((&[70][..], None)));
        assert_eq!(ranges.overlapping((&[20], Some(&[70]))), [2, 1]);
        assert_eq!(ranges.overlapping((&[19], Some(&[70, 0]))), [0, 2, 1, 3]);
        assert_eq!(ranges.overlapping((&[60], None)), [1, 3]);
        assert_eq!(ranges.overlapping((&[60], Some(&[60]))), [] as [u32; 0]);
    }

    #[test]
    fn a_merge_empties_two_partitions_that_later_splits_use() {
        let mut ranges = Ranges::whole();
        split(&mut ranges, 0, 50);
        split(&mut ranges, 0, 20);
        assert!(ranges.begin_merge(2, 3));
        ranges.validate().unwrap();
        for partition in [2, 3, 1] {
            assert!(
                ranges.has(partition, &[50]) == (partition != 2),
                "{partition}"
            );
        }
        ranges.hand_over(3);
        ranges.validate().unwrap();
        assert_eq!(text(&ranges), "[]→0 [20]→3");
        assert_eq!(
            ranges.vacant(|_| true),
            4,
            "the givers have their keys still"
        );
        assert!(ranges.has(1, &[50]) && ranges.has(3, &[50]) && !ranges.has(2, &[50]));
        ranges.end_transfer(3);
        assert_eq!(ranges.vacant(|_| true), 1);
        assert_eq!(ranges.vacant(|number| number > 1), 2);
        assert_eq!(ranges.vacant(|number| number > 2), 4, "it is a new one");
        assert!(!ranges.has(1, &[50]));
        assert!(ranges.begin_merge(0, 1));
        ranges.hand_over(1);
        assert_eq!(text(&ranges), "[]→1");
        ranges.validate().unwrap();
    }

    #[test]
    fn impossible_transfers_are_refused() {
        let mut ranges = Ranges::whole();
        assert!(!ranges.begin_split(0, &[], 1), "nothing would be left");
        assert!(!ranges.begin_split(1, &[5], 2), "there is no partition 1");
        assert!(!ranges.begin_merge(0, 1), "there is one range");
        assert!(!ranges.begin_split(0, &[5], 2), "numbers have no gaps");
        assert!(ranges.begin_split(0, &[5], 1));
        assert!(!ranges.begin_split(0, &[9], 2), "it gives keys already");
        ranges.end_transfer(1);
        assert_eq!(text(&ranges), "[]→0");
        ranges.count = 1;
        split(&mut ranges, 0, 9);
        assert!(
            !ranges.begin_split(0, &[9], 2),
            "the key is of another range"
        );
        assert!(!ranges.begin_split(0, &[5], 1), "partition 1 is not empty");
    }

    #[test]
    fn any_sequence_of_transfers_keeps_one_owner_per_key() {
        for seed in 0..200_u64 {
            let mut random = seed;
            let mut next = |below: u64| {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                (random >> 33) % below
            };
            let mut ranges = Ranges::whole();
            for _ in 0..40 {
                let before = ranges.clone();
                let place = next(before.starts.len() as u64) as usize;
                let partition = before.starts[place].partition;
                let to = ranges.vacant(|_| true);
                let key = [next(256) as u8];
                let has_begun = match next(2) {
                    0 => ranges.begin_split(partition, &key, to),
                    _ => ranges.begin_merge(partition, to),
                };
                ranges.validate().unwrap();
                if !has_begun {
                    assert_eq!(ranges, before);
                    continue;
                }
                let transfer = ranges.transfer_to(to).cloned().unwrap();
                if next(4) > 0 {
                    ranges.hand_over(to);
                    ranges.validate().unwrap();
                }
                let is_handed_over = ranges.is_handed_over(&transfer);
                ranges.end_transfer(to);
                ranges.validate().unwrap();
                for key in 0..=255 {
                    let is_moved = is_handed_over && transfer.contains(&[key]);
                    let expected = if is_moved { to } else { before.owner(&[key]) };
                    assert_eq!(ranges.owner(&[key]), expected, "seed {seed}");
                }
            }
        }
    }
}
