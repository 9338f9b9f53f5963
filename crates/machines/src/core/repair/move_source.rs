//! The giver's part in a move: the core answers its taker with differing rows and with changes.
//!
//! From the first epoch of the move on, the giver lists the keys of every change that it settles. A
//! taker has an exact copy once it has compared everything after that, and has the present rows of
//! all listed keys. The list is in memory. If the giver restarts or the list grows too long,
//! another list begins, and the taker compares everything again.
//!
//! A partition that receives ranges from others (R49) has no rows at its giver. There the rows are
//! in the partitions that give parts of their ranges, and their changes are listed.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::ops::ControlFlow;

use placement::KeyInterval;
use placement::tables::{Tables, TablesError};
use protocol::codec::Bytes;
use protocol::configuration::PlacedTable;
use protocol::identity::{CoreId, PartitionId, Position};
use protocol::message::{PeerMessage, RowPage};
use protocol::planted::{self, Bug};

use crate::core::CoreMachine;
use crate::core::contract::PeerSend;
use crate::core::member::MemberKey;
use crate::core::partition::rows::stored_row;
use crate::core::repair::sums::RangeSum;
use crate::core::step::Step;
use crate::core::table::TableInfo;

/// Bytes of the keys in one list.
const LIST_BYTES_MAX: usize = 16 << 20;

/// Keys that have changed, in the order of their changes.
#[derive(Debug)]
struct ChangeList {
    number: u64,
    /// How many changes were taken off the front.
    taken: u64,
    keys: VecDeque<Vec<u8>>,
    bytes: usize,
}

impl ChangeList {
    fn new(number: u64) -> ChangeList {
        ChangeList {
            number,
            taken: 0,
            keys: VecDeque::new(),
            bytes: 0,
        }
    }

    /// Returns the number of all changes of the list, including those taken off the front.
    fn count(&self) -> u64 {
        self.taken + self.keys.len() as u64
    }

    fn push(&mut self, key: &[u8]) {
        self.bytes += key.len();
        self.keys.push_back(key.to_vec());
    }

    /// Forgets the changes before `since`: the taker has them.
    fn take_off(&mut self, since: u64) {
        while self.taken < since
            && let Some(key) = self.keys.pop_front()
        {
            self.bytes -= key.len();
            self.taken += 1;
        }
    }
}

/// The lists of changes of the partitions that this core gives to others.
#[derive(Debug, Default)]
pub(crate) struct ChangeLists(BTreeMap<PartitionId, ChangeList>);

impl CoreMachine {
    /// Reviews the lists when the configuration is new or the core has started: it keeps one for
    /// each partition that it gives now.
    pub(crate) fn review_lists(&mut self) {
        let own = Some(self.identity.core);
        let unsettled = self.view.configuration().tables.unsettled();
        let places = unsettled.flat_map(PlacedTable::places);
        let given = places.filter(|(_, place)| place.giver() == own);
        let given: BTreeSet<PartitionId> = given.map(|(id, _)| id).collect();
        self.lists.0.retain(|id, _| given.contains(id));
        for id in given {
            let number = self.numbers.next();
            let list = self.lists.0.entry(id);
            list.or_insert_with(|| ChangeList::new(number));
        }
    }

    /// Records the keys that a member has changed, if its partition is being given.
    pub(crate) fn list_changes(&mut self, key: MemberKey) {
        if self.lists.0.is_empty() || planted::is(Bug::ChangesNotListed) {
            return;
        }
        // The member may have begun before the transfer.
        let Some(table) = self.view.table(key.1.table) else {
            return;
        };
        let effects = self.members[&key].effects.iter();
        let changed = effects.flat_map(|effect| effect.remove.iter().chain(&effect.put));
        let mut full = Vec::new();
        for entry in changed {
            let given = given_to(table, key.1, entry);
            let given = given.filter(|_| !planted::is(Bug::RangeChangesNotListed));
            for id in [key.1].into_iter().chain(given) {
                if let Some(list) = self.lists.0.get_mut(&id) {
                    list.push(entry);
                    if list.bytes > LIST_BYTES_MAX {
                        full.push(id);
                    }
                }
            }
        }
        for id in full {
            let list = ChangeList::new(self.numbers.next());
            self.lists.0.insert(id, list);
        }
    }

    /// Returns the parts of a range of keys that this core gives to a partition, in the order of
    /// the keys. Each is in one of this core's partitions.
    fn given_parts(&self, to: PartitionId, (start, end): KeyInterval<'_>) -> Vec<GivenPart> {
        let table = self.view.table(to.table);
        let transfers = table.map_or(&[][..], |table| table.transfers(to.replex));
        let Some(transfer) = transfers.iter().find(|transfer| transfer.to == to.number) else {
            return Vec::from([GivenPart {
                from: to,
                start: start.to_vec(),
                end: end.map(<[u8]>::to_vec),
            }]);
        };
        let parts = transfer.parts.iter().map(|part| {
            let ends = [part.end.as_deref(), end].into_iter().flatten();
            GivenPart {
                from: PartitionId {
                    number: part.from,
                    ..to
                },
                start: start.max(&part.start).to_vec(),
                end: ends.min().map(<[u8]>::to_vec),
            }
        });
        parts.filter(|part| !part.is_empty()).collect()
    }

    /// Returns the list of changed keys of a partition that this core gives to the core `asker`.
    fn given_to(&mut self, asker: CoreId, of: PartitionId) -> Option<&mut ChangeList> {
        let place = self.view.place(of)?;
        let list = self.lists.0.get_mut(&of)?;
        (place.taker() == Some(asker)).then_some(list)
    }

    /// Answers a taker that has sent hashes of its rows.
    pub(crate) fn on_compare<T: Tables>(
        &mut self,
        asker: CoreId,
        of: PartitionId,
        question: u64,
        (start, ranges): (Bytes, Vec<(Option<Bytes>, u64)>),
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let Some(list) = self.given_to(asker, of) else {
            return Ok(());
        };
        let (list, changes) = (list.number, list.count());
        let mut comparison = Comparison {
            keys_left: self.limits.fill_page_keys_max,
            bytes_max: self.limits.fill_page_bytes_max,
            differing: Vec::new(),
            page: RowPage::default(),
            looked_at_bytes: 0,
        };
        let mut first = start;
        for (end, sum) in ranges {
            let given = self.given_parts(of, (&first, end.as_deref()));
            comparison.compare(&given, (&first, end.as_ref()), sum, step.tables)?;
            if comparison.page.next.is_some() {
                break;
            }
            let Some(end) = end else {
                // That was all.
                first = Bytes::default();
                break;
            };
            first = end;
            if comparison.is_full() {
                break;
            }
        }
        let page = &mut comparison.page;
        let goes_on = !first.is_empty();
        page.next = page.next.take().or(goes_on.then_some(first));
        let Comparison {
            differing,
            page,
            looked_at_bytes,
            ..
        } = comparison;
        step.output.sends.push(PeerSend {
            to: asker,
            after: Position(0),
            message: PeerMessage::Compared {
                of,
                question,
                list,
                changes,
                differing,
                page,
                looked_at_bytes,
            },
        });
        Ok(())
    }

    /// Answers a taker that requests changes.
    pub(crate) fn on_changes<T: Tables>(
        &mut self,
        asker: CoreId,
        of: PartitionId,
        question: u64,
        (number, since): (u64, u64),
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let keys_max = self.limits.fill_page_keys_max;
        let bytes_max = self.limits.fill_page_bytes_max;
        let Some(list) = self.given_to(asker, of) else {
            return Ok(());
        };
        let mut changed = Vec::new();
        if list.number == number && list.taken <= since {
            list.take_off(since);
            changed.extend(list.keys.iter().take(keys_max).cloned());
        }
        let (number, count) = (list.number, list.count());
        let mut page = RowPage::default();
        let mut gone: Vec<Bytes> = Vec::new();
        let mut until = since;
        let mut sent = BTreeSet::new();
        for key in &changed {
            if page.rows.len() >= bytes_max {
                break;
            }
            until += 1;
            if !sent.insert(key) {
                continue;
            }
            let after = [&key[..], &[0]].concat();
            let mut is_there = false;
            for part in self.given_parts(of, (key, Some(&after))) {
                is_there |= step
                    .tables
                    .read(part.from.rows_table(), key, &mut |value| {
                        let (version, row) = stored_row(value);
                        page.push(version, row);
                    })?;
            }
            if !is_there {
                gone.push(Bytes::from(&key[..]));
            }
        }
        let message = PeerMessage::Changed {
            of,
            question,
            list: number,
            page,
            gone,
            until,
            is_all: until == count,
        };
        step.output.sends.push(PeerSend {
            to: asker,
            after: Position(0),
            message,
        });
        Ok(())
    }
}

/// Rows that this core gives to another one.
struct GivenPart {
    /// The partition of this core that has the rows.
    from: PartitionId,
    start: Vec<u8>,
    end: Option<Vec<u8>>,
}

impl GivenPart {
    fn is_empty(&self) -> bool {
        self.end.as_ref().is_some_and(|end| *end <= self.start)
    }
}

/// Returns the partition to which another one gives the range that has a key, if it does.
fn given_to(table: &TableInfo, from: PartitionId, key: &[u8]) -> Option<PartitionId> {
    let mut transfers = table.transfers(from.replex).iter();
    let transfer = transfers.find(|transfer| {
        let mut parts = transfer.parts.iter();
        parts.any(|part| part.from == from.number && part.contains(key))
    })?;
    Some(PartitionId {
        number: transfer.to,
        ..from
    })
}

/// An answer to what the taker has.
struct Comparison {
    keys_left: usize,
    bytes_max: usize,
    differing: Vec<(Bytes, Option<Bytes>)>,
    page: RowPage,
    looked_at_bytes: u64,
}

impl Comparison {
    fn is_full(&self) -> bool {
        self.keys_left == 0 || self.page.rows.len() >= self.bytes_max
    }

    /// Adds the rows of one range, unless they have the sum. Sets where to continue if they do not
    /// fit.
    fn compare<T: Tables>(
        &mut self,
        given: &[GivenPart],
        (first, end): (&Bytes, Option<&Bytes>),
        sum: u64,
        tables: &T,
    ) -> Result<(), TablesError> {
        let before = (self.page.rows.len(), self.page.count);
        let mut own = RangeSum::default();
        for part in given {
            let rows = part.from.rows_table();
            tables.scan(rows, &part.start, part.end.as_deref(), &mut |key, value| {
                if self.is_full() {
                    self.page.next = Some(key.into());
                    return ControlFlow::Break(());
                }
                self.keys_left -= 1;
                self.looked_at_bytes += value.len() as u64;
                own.add(key, value);
                let (version, row) = stored_row(value);
                self.page.push(version, row);
                ControlFlow::Continue(())
            })?;
            if self.page.next.is_some() {
                break;
            }
        }
        let is_same = own.value() == sum || planted::is(Bug::ComparisonSkipped);
        if self.page.next.is_none() && is_same {
            self.page.rows.0.truncate(before.0);
            self.page.count = before.1;
            return Ok(());
        }
        let end = self.page.next.clone().or_else(|| end.cloned());
        self.differing.push((first.clone(), end));
        Ok(())
    }
}
