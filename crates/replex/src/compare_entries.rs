//! Compares the entries of thin indexes with the rows of the primary copy, both ways: each row must
//! have its entry in each index, and each entry must have its row.
//!
//! Checksums come first: the cores sum the entries of an index, and the entries that their rows
//! should have. Only where these differ, this module reads the entries with their rows, and the
//! rows with their entries, page by page. Without a snapshot, an entry counts as different only if
//! it is found different twice, the same way, with a pause between. An entry that an unsettled
//! operation changes never counts (R28). Partitions that cannot be read now are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use placement::{
    Column, RowView, SortColumn, ValueRef, encode_key, encode_row_refs, encode_sorted,
};
use protocol::codec::Bytes;
use protocol::configuration::PlacedTable;
use protocol::configuration::routes::primary_partition;
use protocol::identity::{PartitionId, Version};
use protocol::message::RowPage;

use crate::compare::{DIFFERENCES_MAX, LOOK_AGAIN_AFTER, LOOKS_MAX};
use crate::inspect::{CopySum, InspectError, Inspector, are_equal, read};

/// Keys that one read looks up.
const KEYS_AT_ONCE: usize = 256;
/// Rows whose entries may differ, before they are looked at again.
const SUSPECTS_MAX: usize = 1_000;

/// A thin index of a table, and how its entries differ from the rows.
#[derive(Clone, Debug)]
pub struct EntryComparison {
    /// The entries of the index, counted and summed.
    pub entries: CopySum,
    /// The number of the index's replex.
    pub replex: u8,
    /// A difference for each row, or primary key without a row, whose entries are wrong.
    pub differences: Vec<EntryDifference>,
}

/// A row that has not exactly its entry in a thin index, or a primary key that has an entry and no
/// row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryDifference {
    /// The name of the index.
    pub index: String,
    /// The values of the primary key, as SQL writes them.
    pub key: Vec<String>,
    /// The row's version, and the values of the entry that it should have; none without a row.
    pub wanted: Option<(Version, Vec<String>)>,
    /// The entries with this primary key that were found: their versions and values.
    pub found: Vec<(Version, Vec<String>)>,
    /// The partitions of the index that are wrong.
    pub wrong: BTreeSet<u32>,
}

impl fmt::Display for EntryDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "index {}, row ({}): ", self.index, self.key.join(", "))?;
        match &self.wanted {
            Some((Version(version), entry)) => {
                let entry = entry.join(", ");
                write!(f, "version {version} of the row needs the entry ({entry})")?;
            }
            None => f.write_str("there is no row")?,
        }
        f.write_str("; the index has ")?;
        for (position, (Version(version), entry)) in self.found.iter().enumerate() {
            let separator = if position == 0 { "" } else { " and " };
            let entry = entry.join(", ");
            write!(f, "{separator}({entry}) of version {version}")?;
        }
        match self.found.is_empty() {
            true => f.write_str("none"),
            false => Ok(()),
        }
    }
}

/// Where an entry is: the number of its partition, and its key there.
type EntryPlace = (u32, Vec<u8>);

/// An entry as a row implies it, or as a partition has it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    /// Of the row, or of the entry.
    version: Version,
    bytes: Vec<u8>,
}

/// All that is known of one primary key at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
struct EntryState {
    /// The entry that the row should have; none without a row.
    wanted: Option<(EntryPlace, Entry)>,
    found: BTreeMap<EntryPlace, Entry>,
}

impl EntryState {
    /// Returns the wrong partitions.
    fn wrong(&self) -> BTreeSet<u32> {
        let is_right = |place: &EntryPlace, entry: &Entry| {
            let wanted = self.wanted.as_ref();
            wanted.is_some_and(|(at, wanted)| {
                at == place && wanted.bytes == entry.bytes && entry.version <= wanted.version
            })
        };
        let found = self.found.iter();
        let mut wrong: BTreeSet<u32> = found
            .filter(|(place, entry)| !is_right(place, entry))
            .map(|((number, _), _)| *number)
            .collect();
        if let Some((place, _)) = &self.wanted
            && !self.found.contains_key(place)
        {
            wrong.insert(place.0);
        }
        wrong
    }
}

/// Primary keys whose entries may be wrong, each with the places where entries of it were seen.
type Suspects = BTreeMap<Vec<u8>, BTreeSet<EntryPlace>>;

/// The entries of one thin index: how they are stored, and what a row implies.
struct EntryForm {
    table: PlacedTable,
    replex: usize,
    name: String,
    /// The columns as entries are stored: any of them may be NULL.
    stored: Vec<Column>,
    /// The columns that entries have.
    has: Vec<usize>,
    /// The columns by which entries are ordered.
    order: Vec<SortColumn>,
}

impl EntryForm {
    fn of(table: &PlacedTable, replex: usize) -> EntryForm {
        let mut stored = table.schema.columns.clone();
        stored.iter_mut().for_each(|column| column.nullable = true);
        let has = table.layout.entry_columns(&table.schema, replex);
        EntryForm {
            replex,
            name: table.layout.replexes[replex].name.clone(),
            stored,
            has: has.expect("callers name a thin index"),
            order: table.layout.order(replex),
            table: table.clone(),
        }
    }

    fn partition(&self, number: u32) -> PartitionId {
        self.table.partition(self.replex, number)
    }

    /// Returns the primary key of a row or an entry, and the place and the bytes of the entry that
    /// its values imply.
    fn implied(&self, view: &RowView<'_>) -> (Vec<u8>, EntryPlace, Vec<u8>) {
        let number = self.table.layout.partition_of_row(self.replex, view);
        let values: Vec<ValueRef<'_>> = (0..self.stored.len())
            .map(|column| match self.has.contains(&column) {
                true => view.column(column),
                false => ValueRef::Null,
            })
            .collect();
        let bytes = encode_row_refs(&self.stored, &values).expect("a part of a row is a row");
        let pk = self.table.schema.primary_key.iter();
        let pk = encode_key(pk.map(|column| view.column(*column)));
        let key = encode_sorted(&self.order, |column| view.column(column));
        (pk, (number, key), bytes)
    }

    /// Returns the values of an entry, as SQL writes them.
    fn values(&self, columns: &[usize], entry: &[u8]) -> Vec<String> {
        let view = RowView::parse(&self.stored, entry).expect("it was parsed before");
        let columns = columns.iter();
        columns.map(|it| view.column(*it).to_string()).collect()
    }

    fn difference(&self, state: &EntryState) -> EntryDifference {
        let wanted = state.wanted.iter().map(|(_, entry)| entry);
        let any = wanted.chain(state.found.values()).next();
        let any = any.expect("a key without a row and without entries is no difference");
        let named = |entry: &Entry| (entry.version, self.values(&self.has, &entry.bytes));
        EntryDifference {
            index: self.name.clone(),
            key: self.values(&self.table.schema.primary_key, &any.bytes),
            wanted: state.wanted.as_ref().map(|(_, entry)| named(entry)),
            found: state.found.values().map(named).collect(),
            wrong: state.wrong(),
        }
    }
}

/// The differences of one index so far, and what is still to be looked at.
#[derive(Default)]
struct EntryFindings {
    suspects: Suspects,
    /// By primary key.
    differences: BTreeMap<Vec<u8>, EntryDifference>,
}

impl Inspector {
    /// Compares the thin indexes of a table with its rows, at a snapshot if that is possible.
    ///
    /// # Errors
    /// As [`Inspector::sums`].
    pub async fn entry_comparisons(
        &mut self,
        table: &str,
    ) -> Result<Vec<EntryComparison>, InspectError> {
        self.in_attempts(table, async |inspector| {
            inspector.entry_comparisons_once(table).await
        })
        .await
    }

    pub(crate) async fn entry_comparisons_once(
        &mut self,
        name: &str,
    ) -> Result<Vec<EntryComparison>, InspectError> {
        let table = self.table(name)?;
        let mut comparisons = Vec::new();
        let complete = |replex: &usize| !table.is_building(*replex);
        for replex in table.layout.thin_numbers().filter(complete) {
            let number = u8::try_from(replex).expect("a table has at most 63 replexes");
            let wanted = self.sum(name, table.layout.primary(), Some(number)).await?;
            let entries = self.sum(name, replex, Some(number)).await?;
            let sums = [wanted, entries];
            let differences = match are_equal(&sums) {
                true => Vec::new(),
                false => {
                    self.different_entries(&EntryForm::of(&table, replex))
                        .await?
                }
            };
            let [_, entries] = sums;
            comparisons.push(EntryComparison {
                entries,
                replex: number,
                differences,
            });
        }
        Ok(comparisons)
    }

    /// Reads an index and the rows, and returns the differences.
    async fn different_entries(
        &mut self,
        form: &EntryForm,
    ) -> Result<Vec<EntryDifference>, InspectError> {
        let mut findings = EntryFindings::default();
        let layout = &form.table.layout;
        let entries = (0..layout.partition_count(form.replex)).map(|it| form.partition(it));
        let rows = layout.partition_count(layout.primary());
        let rows = (0..rows).map(|it| form.table.primary_partition(it));
        for partition in entries.chain(rows) {
            let mut start = Some(Bytes::default());
            while let Some(from) = start.take()
                && findings.differences.len() < DIFFERENCES_MAX
            {
                let page = match self.page(&read(partition, &from)).await {
                    Err(InspectError::Absent(_)) => break,
                    page => page?,
                };
                self.suspect(form, partition, &page, &mut findings).await?;
                if findings.suspects.len() > SUSPECTS_MAX {
                    self.look_at(form, &mut findings).await?;
                }
                start = page.next;
            }
        }
        self.look_at(form, &mut findings).await?;
        Ok(findings.differences.into_values().collect())
    }

    /// Suspects the rows or entries of a page of a partition that differ from each other.
    async fn suspect(
        &mut self,
        form: &EntryForm,
        partition: PartitionId,
        page: &RowPage,
        findings: &mut EntryFindings,
    ) -> Result<(), InspectError> {
        let is_index = usize::from(partition.replex) == form.replex;
        let columns = match is_index {
            true => &form.stored,
            false => &form.table.schema.columns,
        };
        let mut seen = Suspects::new();
        for (position, (_, row)) in (0..).zip(page.rows()) {
            let view = RowView::parse(columns, row).map_err(|it| damaged(partition, it))?;
            let (pk, mut place, _) = form.implied(&view);
            if is_index {
                place.0 = partition.number;
            }
            if !page.marked.contains(&position) && !findings.differences.contains_key(&pk) {
                seen.entry(pk).or_default().insert(place);
            }
        }
        for (pk, state) in self.states(form, &seen).await? {
            if !state.wrong().is_empty() {
                let places = seen.remove(&pk).expect("states are of what was seen");
                findings.suspects.entry(pk).or_default().extend(places);
            }
        }
        Ok(())
    }

    /// Looks at the suspects again, and keeps those that are different. Without a snapshot, the
    /// difference must be the same after a pause.
    async fn look_at(
        &mut self,
        form: &EntryForm,
        findings: &mut EntryFindings,
    ) -> Result<(), InspectError> {
        let mut suspects = std::mem::take(&mut findings.suspects);
        let looks = if self.reads_snapshot() { 1 } else { LOOKS_MAX };
        let mut before = BTreeMap::new();
        let mut found = BTreeMap::new();
        for look in 0..looks {
            if suspects.is_empty() {
                break;
            }
            if look > 0 {
                tokio::time::sleep(LOOK_AGAIN_AFTER).await;
            }
            let mut now = self.states(form, &suspects).await?;
            now.retain(|_, state| !state.wrong().is_empty());
            suspects.retain(|pk, _| now.contains_key(pk));
            found = now.clone();
            if looks > 1 {
                found.retain(|pk, state| before.get(pk) == Some(state));
            }
            if found.len() == now.len() {
                break;
            }
            before = now;
        }
        for (pk, state) in found {
            findings.differences.insert(pk, form.difference(&state));
        }
        Ok(())
    }

    /// Returns what is known of some primary keys. Keys of which a part cannot be read now, or is
    /// being changed, are left out.
    async fn states(
        &mut self,
        form: &EntryForm,
        seen: &Suspects,
    ) -> Result<BTreeMap<Vec<u8>, EntryState>, InspectError> {
        let mut states = BTreeMap::new();
        let mut wanted: BTreeMap<PartitionId, BTreeSet<Vec<u8>>> = BTreeMap::new();
        for pk in seen.keys() {
            let partition = primary_partition(&form.table, pk);
            let partition = partition.expect("a pk that was encoded decodes");
            wanted.entry(partition).or_default().insert(pk.clone());
        }
        for (partition, keys) in wanted {
            let Some(pages) = self.look_up(partition, &keys).await? else {
                continue;
            };
            for pk in keys {
                let (wanted, found) = (None, BTreeMap::new());
                states.insert(pk, EntryState { wanted, found });
            }
            for (version, row) in pages.iter().flat_map(RowPage::rows) {
                let view = RowView::parse(&form.table.schema.columns, row);
                let view = view.map_err(|it| damaged(partition, it))?;
                let (pk, place, bytes) = form.implied(&view);
                if let Some(state) = states.get_mut(&pk) {
                    state.wanted = Some((place, Entry { version, bytes }));
                }
            }
        }
        self.find_entries(form, seen, &mut states).await?;
        Ok(states)
    }

    /// Adds the entries to what is known of some primary keys.
    async fn find_entries(
        &mut self,
        form: &EntryForm,
        seen: &Suspects,
        states: &mut BTreeMap<Vec<u8>, EntryState>,
    ) -> Result<(), InspectError> {
        let mut wanted: BTreeMap<u32, BTreeMap<Vec<u8>, Vec<u8>>> = BTreeMap::new();
        for (pk, state) in &*states {
            let implied = state.wanted.iter().map(|(place, _)| place);
            for (number, key) in seen[pk].iter().chain(implied) {
                let of_partition = wanted.entry(*number).or_default();
                of_partition.insert(key.clone(), pk.clone());
            }
        }
        for (number, of_keys) in wanted {
            let partition = form.partition(number);
            let keys = of_keys.keys().cloned().collect();
            let Some(pages) = self.look_up(partition, &keys).await? else {
                of_keys.values().for_each(|pk| drop(states.remove(pk)));
                continue;
            };
            for page in &pages {
                for (position, (version, entry)) in (0..).zip(page.rows()) {
                    let view = RowView::parse(&form.stored, entry);
                    let view = view.map_err(|it| damaged(partition, it))?;
                    let (pk, (_, key), _) = form.implied(&view);
                    if page.marked.contains(&position) {
                        states.remove(&pk);
                    } else if let Some(state) = states.get_mut(&pk) {
                        let bytes = entry.to_vec();
                        state.found.insert((number, key), Entry { version, bytes });
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the rows or entries of a partition that have these keys; none if the partition
    /// cannot be read now.
    async fn look_up(
        &mut self,
        partition: PartitionId,
        keys: &BTreeSet<Vec<u8>>,
    ) -> Result<Option<Vec<RowPage>>, InspectError> {
        let keys: Vec<Bytes> = keys.iter().cloned().map(Bytes).collect();
        let mut pages = Vec::new();
        for keys in keys.chunks(KEYS_AT_ONCE) {
            let mut start = keys.first().cloned();
            while let Some(from) = start.take() {
                let mut read = read(partition, &from);
                read.keys = keys.to_vec();
                let page = match self.page(&read).await {
                    Err(InspectError::Absent(_)) => return Ok(None),
                    page => page?,
                };
                start.clone_from(&page.next);
                pages.push(page);
            }
        }
        Ok(Some(pages))
    }
}

fn damaged(partition: PartitionId, error: placement::RowError) -> InspectError {
    InspectError::Core(format!("a row of {partition}: {error}"))
}
