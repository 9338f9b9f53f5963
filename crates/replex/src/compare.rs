//! Compares the copies of a table row by row, and returns the rows that differ, with the partitions
//! that have them, and the values that most copies have. `compare_snapshot` does this at one
//! snapshot. This module reads the present rows, for tables of which no snapshot is possible.
//!
//! Goes through the primary copy range by range and asks every other copy for the same rows, as
//! redirected reads do (Replex section 4). Reads of several copies are of no single moment: a row
//! counts as different only if it is found different twice, the same way, with a pause between.
//! Partitions that cannot be read now are left out: of a row, copies that would have it there are
//! not compared.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use placement::{RowView, SlotConstraints, encode_key};
use protocol::codec::{Bytes, Reader, Wire};
use protocol::configuration::{PartitionState, PlacedTable};
use protocol::identity::{PartitionId, Version};
use protocol::message::{CoordinatorReply, CoordinatorRequest, Read, Redirect};

use crate::inspect::{InspectError, Inspector, read};

/// Rows of a range, about.
const RANGE_ROWS: u32 = 1_000;
/// Different rows are compared again after this.
pub(crate) const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(200);
/// The most reads of a range. Rows that still differ after them count as concurrently written.
pub(crate) const LOOKS_MAX: u32 = 4;
/// The most differences that one comparison finds.
pub(crate) const DIFFERENCES_MAX: usize = 10_000;

/// A row that the copies do not agree on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyDifference {
    /// The values of the primary key, as SQL writes them.
    pub key: Vec<String>,
    /// Of each copy, its name and the versions of the row that it holds: none, one, or wrongly
    /// more.
    pub copies: Vec<(String, Vec<Version>)>,
    /// The wrong partitions, by number of the replex and of the partition; none if no row has a
    /// majority.
    pub wrong: Option<BTreeSet<(u8, u32)>>,
}

impl fmt::Display for CopyDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({}): ", self.key.join(", "))?;
        for (index, (name, versions)) in self.copies.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            let versions: Vec<String> = versions.iter().map(|it| it.0.to_string()).collect();
            match versions.is_empty() {
                true => write!(f, "{separator}{name} has none")?,
                false => write!(
                    f,
                    "{separator}{name} has version {}",
                    versions.join(" and ")
                )?,
            }
        }
        Ok(())
    }
}

/// A part of a table that is compared in one go.
#[derive(Default)]
struct ComparedRange {
    /// The primary copy's partition.
    number: u32,
    /// First key.
    start: Bytes,
}

/// A row as a partition holds it.
pub(crate) type HeldRow = (u32, Version, Vec<u8>);

/// The rows of a copy in a range.
#[derive(Default)]
pub(crate) struct ComparedCopy {
    replex: usize,
    /// By primary key.
    rows: BTreeMap<Vec<u8>, Vec<HeldRow>>,
    /// Its partitions that were left out.
    absent: BTreeSet<u32>,
}

impl ComparedCopy {
    /// Returns a copy of which no partition was left out.
    pub(crate) fn whole(replex: usize, rows: BTreeMap<Vec<u8>, Vec<HeldRow>>) -> ComparedCopy {
        ComparedCopy {
            replex,
            rows,
            absent: BTreeSet::new(),
        }
    }
}

impl Inspector {
    /// Compares the present rows of a table. `trust` names the copy that is right, where there is
    /// no majority.
    ///
    /// # Errors
    /// As [`Inspector::sums`].
    pub(crate) async fn present_differences(
        &mut self,
        table: &str,
        trust: Option<&str>,
    ) -> Result<Vec<CopyDifference>, InspectError> {
        let mut differences = Vec::new();
        let mut next = Some(ComparedRange::default());
        while let Some(range) = next.filter(|_| differences.len() < DIFFERENCES_MAX) {
            let found;
            (found, next) = self.compare(table, &range, trust).await?;
            differences.extend(found);
        }
        Ok(differences)
    }

    /// Compares a range of a table. Returns the differences, and the range after it, if any.
    async fn compare(
        &mut self,
        name: &str,
        range: &ComparedRange,
        trust: Option<&str>,
    ) -> Result<(Vec<CopyDifference>, Option<ComparedRange>), InspectError> {
        let table = self.table(name)?;
        let end = self.end_of(&table, range).await?;
        let mut before = self.look(&table, range, &end).await?;
        let mut open = different(&table, &before);
        let mut found = BTreeSet::new();
        for _ in 1..LOOKS_MAX {
            if open.is_empty() {
                break;
            }
            tokio::time::sleep(LOOK_AGAIN_AFTER).await;
            let now = self.look(&table, range, &end).await?;
            let still = different(&table, &now);
            let stands = |key: &&Vec<u8>| {
                let mut copies = before.iter().zip(&now);
                copies.all(|(before, now)| before.rows.get(*key) == now.rows.get(*key))
            };
            found = open.intersection(&still).filter(stands).cloned().collect();
            let is_settled = found.len() == still.len();
            (before, open) = (now, still);
            if is_settled {
                break;
            }
        }
        let differences = found
            .iter()
            .map(|key| difference(&table, key, &before, trust))
            .collect();
        let next = match end {
            Some(start) => Some(ComparedRange {
                number: range.number,
                start,
            }),
            None => Some(ComparedRange {
                number: range.number + 1,
                start: Bytes::default(),
            })
            .filter(|next| next.number < table.layout.partition_count(table.layout.primary())),
        };
        Ok((differences, next))
    }

    /// Returns names of a table's copies.
    ///
    /// # Errors
    /// There is no such table.
    pub fn copies(&self, name: &str) -> Result<Vec<String>, InspectError> {
        let table = self.table(name)?;
        let name = |replex: usize| table.layout.replexes[replex].name.clone();
        Ok(table.readable().map(name).collect())
    }

    /// Makes partitions of a table void, and waits until they are filled again and serve.
    /// `on_progress` receives the number of partitions that do not serve yet.
    ///
    /// # Errors
    /// The coordinator refuses, or time is up.
    pub async fn renew(
        &mut self,
        name: &str,
        cells: &BTreeSet<(u8, u32)>,
        mut on_progress: impl FnMut(usize),
    ) -> Result<(), InspectError> {
        let since = self.configuration().epoch;
        let request = CoordinatorRequest::Renew {
            table: name.to_owned(),
            cells: cells.iter().copied().collect(),
        };
        match self.coordinate(request).await? {
            CoordinatorReply::Done { .. } => {}
            CoordinatorReply::Refused { message, .. } => return Err(InspectError::Core(message)),
            other => return Err(InspectError::Core(format!("not done: {other:?}"))),
        }
        loop {
            self.refresh().await?;
            let table = self.table(name)?;
            let open = cells.iter().filter(|(replex, number)| {
                let place = table.placement[usize::from(*replex)][*number as usize];
                place.since <= since || place.state != PartitionState::Serving
            });
            let open = open.count();
            if open == 0 {
                return Ok(());
            }
            on_progress(open);
            if self.is_over() {
                return Err(InspectError::Core(format!(
                    "{open} partitions of table {name} are still being filled: see \
                     `replex admin status`"
                )));
            }
        }
    }

    /// Returns the key at which a range ends; none if the range ends with the partition.
    async fn end_of(
        &mut self,
        table: &PlacedTable,
        range: &ComparedRange,
    ) -> Result<Option<Bytes>, InspectError> {
        let mut read = read(table.primary_partition(range.number), &range.start);
        read.limit = RANGE_ROWS;
        read.count_only = true;
        match self.page(&read).await {
            Ok(page) => Ok(page.next),
            // The others are asked for all that it would have.
            Err(InspectError::Absent(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns every copy's rows of a range, by copy.
    async fn look(
        &mut self,
        table: &PlacedTable,
        range: &ComparedRange,
        end: &Option<Bytes>,
    ) -> Result<Vec<ComparedCopy>, InspectError> {
        let primary = table.layout.primary();
        let constraints = table.layout.constraints_of_partition(primary, range.number);
        let mut copies = Vec::new();
        for replex in table.readable() {
            let mut copy = ComparedCopy {
                replex,
                ..ComparedCopy::default()
            };
            for number in table.layout.partitions(&constraints, replex) {
                let mut read = read(table.partition(replex, number), &range.start);
                read.end.clone_from(end);
                if replex != primary {
                    read.redirect = Some(redirect(table.primary_partition(0), &constraints));
                }
                let collect = &mut |key, held| copy.rows.entry(key).or_default().push(held);
                match self.each_row(table, read, collect).await {
                    Err(InspectError::Absent(_)) => {
                        copy.absent.insert(number);
                    }
                    other => other?,
                }
            }
            // The rows that were read of it before it was lost are not all of its rows.
            let ComparedCopy { rows, absent, .. } = &mut copy;
            for held in rows.values_mut() {
                held.retain(|(number, ..)| !absent.contains(number));
            }
            rows.retain(|_, held| !held.is_empty());
            copies.push(copy);
        }
        Ok(copies)
    }

    /// Gives out all rows of a read with their primary keys, page by page.
    pub(crate) async fn each_row(
        &mut self,
        table: &PlacedTable,
        mut read: Read,
        each: &mut dyn FnMut(Vec<u8>, HeldRow),
    ) -> Result<(), InspectError> {
        loop {
            let page = self.page(&read).await?;
            let damaged =
                |error: String| InspectError::Core(format!("a row of {}: {error}", read.partition));
            let mut reader = Reader::new(&page.rows.0);
            while reader.remaining() > 0 {
                let version = Version::decode(&mut reader).map_err(|it| damaged(it.to_string()))?;
                let row = reader.bytes().map_err(|it| damaged(it.to_string()))?;
                let view = RowView::parse(&table.schema.columns, row);
                let view = view.map_err(|it| damaged(it.to_string()))?;
                let key = encode_key(table.schema.primary_key.iter().map(|it| view.column(*it)));
                each(key, (read.partition.number, version, row.to_vec()));
            }
            let Some(next) = page.next else {
                return Ok(());
            };
            match &mut read.redirect {
                Some(redirect) if page.own_order => redirect.scan_from = Some(next),
                _ => read.start = next,
            }
        }
    }
}

fn redirect(primary: PartitionId, constraints: &SlotConstraints) -> Redirect {
    Redirect {
        replex: primary.replex,
        constraints: constraints.clone(),
        scan_from: None,
    }
}

/// Returns the copies that can be compared of a key, with the rows of each: without those that
/// would have its row, as any other copy has it, in a partition that was left out.
fn compared<'a>(
    table: &PlacedTable,
    key: &[u8],
    copies: &'a [ComparedCopy],
) -> Vec<(usize, &'a [HeldRow])> {
    let held = |copy: &'a ComparedCopy| copy.rows.get(key).map_or(&[][..], Vec::as_slice);
    let could_be_absent = |copy: &ComparedCopy| {
        let mut rows = copies.iter().flat_map(held);
        rows.any(|(_, _, row)| {
            let cell = cell_of(table, copy.replex, row);
            cell.is_some_and(|cell| copy.absent.contains(&cell))
        })
    };
    let known = copies.iter();
    let known = known.filter(|copy| copy.absent.is_empty() || !could_be_absent(copy));
    known.map(|copy| (copy.replex, held(copy))).collect()
}

/// Returns keys that not all copies hold alike, or that one holds twice or where it should not.
pub(crate) fn different(table: &PlacedTable, copies: &[ComparedCopy]) -> BTreeSet<Vec<u8>> {
    let keys: BTreeSet<&Vec<u8>> = copies.iter().flat_map(|copy| copy.rows.keys()).collect();
    let alike = |key: &Vec<u8>| {
        let mut held = compared(table, key, copies)
            .into_iter()
            .map(|(replex, held)| {
                let [held] = held else {
                    return None;
                };
                belongs(table, replex, held).then_some((held.1, &held.2))
            });
        match held.next() {
            None => true,
            Some(first) => first.is_some() && held.all(|other| other == first),
        }
    };
    keys.into_iter()
        .filter(|key| !alike(key))
        .cloned()
        .collect()
}

/// Returns whether a row is in the partition where a lookup would find it.
pub(crate) fn belongs(table: &PlacedTable, replex: usize, (number, _, row): &HeldRow) -> bool {
    cell_of(table, replex, row) == Some(*number)
}

fn cell_of(table: &PlacedTable, replex: usize, row: &[u8]) -> Option<u32> {
    let view = RowView::parse(&table.schema.columns, row).ok()?;
    Some(table.layout.partition_of_row(replex, &view))
}

/// A copy's state of a key: the row where it belongs, or nothing; none if the copy contradicts
/// itself.
type CopyOpinion<'a> = Option<Option<(Version, &'a Vec<u8>)>>;

fn opinion<'a>(table: &PlacedTable, replex: usize, held: &'a [HeldRow]) -> CopyOpinion<'a> {
    match held {
        [] => Some(None),
        [one] if belongs(table, replex, one) => Some(Some((one.1, &one.2))),
        _ => None,
    }
}

pub(crate) fn difference(
    table: &PlacedTable,
    key: &[u8],
    copies: &[ComparedCopy],
    trust: Option<&str>,
) -> CopyDifference {
    let held = compared(table, key, copies);
    let name = |replex: usize| table.layout.replexes[replex].name.clone();
    let opinions: Vec<(usize, CopyOpinion<'_>)> = held
        .iter()
        .map(|(replex, held)| (*replex, opinion(table, *replex, held)))
        .collect();
    let right = match trust {
        Some(trust) => opinions
            .iter()
            .find(|(replex, _)| name(*replex) == trust)
            .and_then(|(_, opinion)| *opinion),
        None => opinions.iter().find_map(|(_, opinion)| {
            let same = opinions.iter().filter(|(_, other)| other == opinion);
            opinion.filter(|_| 2 * same.count() > opinions.len())
        }),
    };
    let wrong = right.map(|right| {
        let wrong = held.iter().zip(&opinions);
        let wrong = wrong.filter(|(_, (_, opinion))| *opinion != Some(right));
        let cells = wrong.flat_map(|((replex, held), _)| {
            let missing = right.and_then(|(_, row)| cell_of(table, *replex, row));
            let found = held.iter().map(|(number, ..)| *number);
            let number = *replex as u8;
            found.chain(missing).map(move |cell| (number, cell))
        });
        cells.collect()
    });
    let row = held.iter().flat_map(|(_, held)| held.iter()).next();
    let view = row.and_then(|(_, _, row)| RowView::parse(&table.schema.columns, row).ok());
    let values = |view: RowView<'_>| {
        table
            .schema
            .primary_key
            .iter()
            .map(|it| view.column(*it).to_string())
            .collect()
    };
    CopyDifference {
        key: view.map(values).unwrap_or_default(),
        copies: held
            .iter()
            .map(|(replex, held)| (name(*replex), held.iter().map(|it| it.1).collect()))
            .collect(),
        wrong,
    }
}
