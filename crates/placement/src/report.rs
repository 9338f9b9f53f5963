//! The report about a table's copies, as plain data. `replex admin table show` formats and prints
//! it.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::advisor::{Spread, amplification};
use crate::grid::{Axis, Layout, Replex, ReplexKind};
use crate::places::{PartitionHost, Placement};
use crate::proof::{decision_position, members_at_risk, prove};
use crate::schema::{Constraint, Durability, Schema};

/// A table's copies, the failures that they survive, and the cost of failures.
#[derive(Clone, Debug, PartialEq)]
pub struct TableReport {
    /// The table's name.
    pub table: String,
    /// The number of copies of every row, n.
    pub copies: usize,
    /// The number of failures that the table must tolerate, f.
    pub failures_tolerated: u32,
    /// The number of failures that every possible row survives with the present placement, by
    /// `prove`; none without a placement.
    pub failures_proven: Option<u32>,
    /// The number of failures that every possible row survives with the copies that can be read
    /// now. None if some rows have no such copy, or without a placement.
    pub failures_survived: Option<u32>,
    /// The reason why that differs from `failures_proven`, for people; empty if it does not.
    pub shortfall: String,
    /// k of R3: the last position in the chain that can vote no, counted from 1.
    pub last_voter: usize,
    /// x of R3: the position where a decision is durable before any client sees it, counted from 1.
    pub decision_position: usize,
    /// Whether copies keep local entries; see [`Schema::local_entries`].
    pub local_entries: bool,
    /// The durability of the table, which determines when a write is acknowledged.
    pub durability: Durability,
    /// The copies, by number.
    pub replexes: Vec<ReplexReport>,
}

/// One copy of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplexReport {
    /// The replex's name.
    pub name: String,
    /// `primary`, `index`, `unique index`, `dense index`, `hybrid`, `hyperspace`,
    /// `exact replica of …`, or for a successor `to take the place of …`.
    pub kind: String,
    /// For each axis, how a row's coordinate is computed, as `hash(origin, destination) mod 12`.
    pub axes: Vec<String>,
    /// The product of the axes' divisions.
    pub partitions: u32,
    /// The columns that sort rows within a partition, with their directions.
    pub sorted_by: Vec<String>,
    /// The servers that hold the copy's partitions, ascending; empty without a placement.
    pub servers: Vec<u32>,
    /// The number of partitions that a read by this replex visits after the loss of its own
    /// partition.
    pub after_one_failure: Spread,
    /// The number of partitions that a lookup visits after a second failure.
    pub after_two_failures: Spread,
}

impl TableReport {
    /// Creates the report. `placed` has the placement and the servers.
    ///
    /// # Panics
    /// If the layout or the placement are not of this schema.
    pub fn new(
        schema: &Schema,
        layout: &Layout,
        placed: Option<(&Placement, &[PartitionHost])>,
    ) -> TableReport {
        let copies = layout.copies();
        let members = layout.chain(schema).len();
        let last_voter = layout.voters(schema);
        let proof = placed.map(|(placement, servers)| prove(layout, placement, servers));
        let failures = usize::from(schema.failures_tolerated);
        let at_risk = placed.map_or(failures, |(placement, servers)| {
            members_at_risk((schema, layout), placement, servers, failures)
        });
        let amplification = amplification(layout);
        let replexes = amplification.into_iter().map(|amplification| {
            let index = amplification.replex;
            let replex = &layout.replexes[index];
            let numbers = layout.partitions_with_rows(index);
            let servers: BTreeSet<u32> = match placed {
                Some((placement, _)) => {
                    let places = &placement.replexes[index];
                    let holders = numbers.iter().map(|number| places[*number as usize].server);
                    holders.collect()
                }
                None => BTreeSet::new(),
            };
            let sorted_by = replex.sort_columns.iter();
            let sorted_by: Vec<String> = sorted_by.map(|it| schema.sorted_name(it)).collect();
            ReplexReport {
                name: replex.name.clone(),
                kind: kind(schema, layout, replex),
                axes: match replex.ranges {
                    Some(_) => [format!("ranges of {}", sorted_by.join(", "))].into(),
                    None => {
                        let axes = replex.axes.iter();
                        axes.map(|axis| axis_text(schema, layout, axis)).collect()
                    }
                },
                partitions: numbers.len() as u32,
                sorted_by,
                servers: servers.into_iter().collect(),
                after_one_failure: amplification.after_one,
                after_two_failures: amplification.after_two,
            }
        });
        TableReport {
            table: schema.name.clone(),
            copies,
            failures_tolerated: schema.failures_tolerated.into(),
            failures_proven: proof.as_ref().map(|proof| proof.failures_tolerated()),
            failures_survived: proof.map(|proof| proof.failures_tolerated()),
            shortfall: String::new(),
            last_voter,
            decision_position: decision_position(members, at_risk, last_voter),
            local_entries: schema.local_entries,
            durability: schema.durability,
            replexes: replexes.collect(),
        }
    }
}

impl TableReport {
    /// Returns whether every possible row survives the table's requested failures now.
    pub fn holds_now(&self) -> bool {
        self.failures_survived >= Some(self.failures_tolerated)
    }

    /// Returns the number of failures that every possible row survives, now and after the changes
    /// in progress, for people.
    pub fn survival(&self) -> String {
        let proven = self.failures_proven.unwrap_or(0);
        let missing = match proven < self.failures_tolerated {
            true => ", FEWER than requested: start another server",
            false => "",
        };
        if self.failures_survived == self.failures_proven {
            return format!("{proven} proven for every possible row{missing}");
        }
        let now = match self.failures_survived {
            Some(now) => format!("{now} survived now"),
            None => {
                "NONE survived now, and some rows may have no copy that can be read".to_string()
            }
        };
        let why = &self.shortfall;
        format!("{now} ({why}); {proven} proven for every possible row once that is over{missing}")
    }
}

fn kind(schema: &Schema, layout: &Layout, replex: &Replex) -> String {
    match replex.kind {
        ReplexKind::Primary => "primary".to_string(),
        ReplexKind::Index { index } => match schema.indexes[index].constraint {
            None => "index".to_string(),
            Some(Constraint::Unique) => "unique index".to_string(),
            Some(Constraint::Dense) => "dense index".to_string(),
        },
        ReplexKind::Thin { index, copy: 1.. } => format!("copy of {}", schema.thin[index].name),
        ReplexKind::Thin { index, .. } => match schema.thin[index].unique {
            false => "thin index".to_string(),
            true => "unique thin index".to_string(),
        },
        ReplexKind::Hybrid => "hybrid".to_string(),
        ReplexKind::Exact { of } => format!("exact replica of {}", layout.replexes[of].name),
        ReplexKind::Hyperspace => "hyperspace".to_string(),
        ReplexKind::Successor { of } => {
            format!("to take the place of {}", layout.replexes[of].name)
        }
        ReplexKind::Vacant => unreachable!("only copies are reported"),
    }
}

fn axis_text(schema: &Schema, layout: &Layout, axis: &Axis) -> String {
    let Axis {
        key_space,
        stride,
        divisions,
    } = *axis;
    let key_space = &layout.key_spaces[key_space];
    if key_space.columns.is_empty() {
        return "everything".to_string();
    }
    let hash = format!("hash({})", names(schema, &key_space.columns).join(", "));
    if stride == 1 && key_space.slots.is_multiple_of(divisions) {
        // The outer remainder swallows the inner one.
        return format!("{hash} mod {divisions}");
    }
    format!("{hash} mod {} / {stride} mod {divisions}", key_space.slots)
}

fn names(schema: &Schema, columns: &[usize]) -> Vec<String> {
    columns
        .iter()
        .map(|column| schema.columns[*column].name.clone())
        .collect()
}
