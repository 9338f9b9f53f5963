//! Compares the combined pages of many partitions with a plain list of the rows.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use placement::{RowView, Value};
use proptest::prelude::*;
use protocol::codec::Bytes;
use protocol::configuration::routes::{partitions, primary_partition, replex_of_index};
use protocol::identity::{Epoch, PartitionId, Version};
use protocol::message::{Consistency, Read, RowPage};

use super::{configuration, key, partition, row, schema};
use crate::gather::{Gather, GatherError, GatherPlan, GatherStep, RowOrder};

fn plan(order: RowOrder, limit: Option<u64>) -> GatherPlan {
    GatherPlan {
        partitions: (0..4).map(|number| partition(0, number)).collect(),
        start: Bytes::default(),
        end: None,
        filter: None,
        projection: None,
        limit,
        order,
        count_only: false,
        epoch: Epoch(1),
        consistency: Consistency::Linearizable,
        snapshot: None,
    }
}

/// Rows by partition and key.
type Rows = BTreeMap<PartitionId, BTreeMap<Vec<u8>, Vec<u8>>>;

fn rows(ids: &[i64]) -> Rows {
    let configuration = configuration(1);
    let mut rows = Rows::new();
    for id in ids {
        let partition = primary_partition(&configuration.tables[0], &key(*id)).unwrap();
        rows.entry(partition)
            .or_default()
            .insert(key(*id), row(*id, id * 10));
    }
    rows
}

/// Returns the page with which a core answers a read, with at most `most` rows.
fn page(rows: &Rows, read: &Read, most: usize) -> RowPage {
    let empty = BTreeMap::new();
    let all = rows.get(&read.partition).unwrap_or(&empty);
    let within = |key: &&Vec<u8>| {
        ***key >= *read.start && read.end.as_ref().is_none_or(|end| ***key < **end)
    };
    let mut keys: Vec<&Vec<u8>> = all.keys().filter(within).collect();
    if read.descending {
        keys.reverse();
    }
    let mut page = RowPage::default();
    for key in &keys {
        if page.count >= (most as u64).min(read.limit.into()) {
            let last = keys[page.count as usize - 1];
            let next = if read.descending { last } else { *key };
            page.next = Some(Bytes(next.clone()));
            break;
        }
        if read.count_only {
            page.count += 1;
        } else {
            page.push(Version(all[*key].len() as u64), &all[*key]);
        }
    }
    page
}

/// Returns the ids that a gather returns, with pages of at most `most` rows. The last request is
/// answered first.
fn gather(rows: &Rows, plan: GatherPlan, most: usize) -> Vec<i64> {
    let configuration = configuration(1);
    let mut gather = Gather::new(&configuration.tables[0], plan);
    let columns = gather.columns().to_vec();
    let place = columns.iter().position(|column| column.name == "id");
    let mut open = Vec::new();
    let mut ids = Vec::new();
    loop {
        while let Some(read) = gather.next_read() {
            open.push(read);
        }
        match gather.step() {
            GatherStep::Row(_, row) => {
                let row = RowView::parse(&columns, row).unwrap();
                match row.column(place.unwrap()).to_owned() {
                    Value::Int64(id) => ids.push(id),
                    other => panic!("{other:?}"),
                }
            }
            GatherStep::Wait => {
                let (index, read) = open.pop().expect("a waiting gather has asked");
                gather.accept(index, page(rows, &read, most)).unwrap();
            }
            GatherStep::End => return ids,
        }
    }
}

proptest! {
    #[test]
    fn rows_come_in_order_once_and_up_to_the_limit(
        ids in prop::collection::btree_set(-50_i64..50, 0..60),
        most in 1_usize..9,
        limit in prop::option::of(0_u64..70),
        descending: bool,
    ) {
        let ids: Vec<i64> = ids.into_iter().collect();
        let rows = rows(&ids);
        let count = limit.map_or(ids.len(), |limit| ids.len().min(limit as usize));
        let mut expected = ids.clone();
        let order = if descending {
            expected.reverse();
            RowOrder::Descending
        } else {
            RowOrder::Ascending
        };
        prop_assert_eq!(&gather(&rows, plan(order, limit), most), &expected[..count]);

        let mut any = gather(&rows, plan(RowOrder::Any, limit), most);
        prop_assert_eq!(any.len(), count);
        any.sort_unstable();
        any.dedup();
        prop_assert_eq!(any.len(), count, "once each");
        prop_assert!(any.iter().all(|id| ids.contains(id)));
    }

    #[test]
    fn counting_counts_up_to_the_limit(
        ids in prop::collection::btree_set(-50_i64..50, 0..60),
        most in 1_usize..9,
        limit in prop::option::of(0_u64..70),
    ) {
        let ids: Vec<i64> = ids.into_iter().collect();
        let rows = rows(&ids);
        let configuration = configuration(1);
        let mut wanted = plan(RowOrder::Any, limit);
        wanted.count_only = true;
        let mut gather = Gather::new(&configuration.tables[0], wanted);
        while let Some((index, read)) = gather.next_read() {
            gather.accept(index, page(&rows, &read, most)).unwrap();
        }
        prop_assert_eq!(gather.step(), GatherStep::End);
        let expected = limit.map_or(ids.len() as u64, |limit| limit.min(ids.len() as u64));
        prop_assert_eq!(gather.count(), expected);
    }
}

#[test]
fn a_merge_reads_its_keys_although_they_were_not_asked_for() {
    let configuration = configuration(1);
    let mut wanted = plan(RowOrder::Ascending, None);
    wanted.projection = Some(vec![1]);
    let mut gather = Gather::new(&configuration.tables[0], wanted);
    assert_eq!(gather.visible_columns(), 1);
    let (_, read) = gather.next_read().unwrap();
    assert_eq!(read.projection, Some(vec![1, 0]));
    assert_eq!(gather.columns().len(), 2);
}

#[test]
fn no_more_than_two_pages_of_a_partition_are_held() {
    let ids: Vec<i64> = (0..100).collect();
    let rows = rows(&ids);
    let configuration = configuration(1);
    let mut wanted = plan(RowOrder::Any, None);
    wanted.partitions.truncate(1);
    let mut gather = Gather::new(&configuration.tables[0], wanted);
    for _ in 0..2 {
        let (index, read) = gather.next_read().unwrap();
        assert_eq!(gather.next_read(), None, "one page at a time");
        gather.accept(index, page(&rows, &read, 3)).unwrap();
    }
    assert_eq!(gather.next_read(), None, "back-pressure");
    for _ in 0..3 {
        assert!(matches!(gather.step(), GatherStep::Row(..)));
    }
    assert!(gather.next_read().is_some(), "a page was used up");
}

#[test]
fn a_malformed_page_is_an_error() {
    let configuration = configuration(1);
    let mut gather = Gather::new(&configuration.tables[0], plan(RowOrder::Ascending, None));
    let (index, _) = gather.next_read().unwrap();
    let mut page = RowPage::default();
    page.push(Version(1), &[1, 2, 3]);
    assert!(gather.accept(index, page).is_err());
    let (index, _) = gather.next_read().unwrap();
    let mut page = RowPage::default();
    page.push(Version(1), &row(1, 2));
    page.count = 2;
    assert!(gather.accept(index, page).is_err());
}

/// Else a read would never end, or leave its range.
#[test]
fn a_page_that_does_not_lead_on_is_an_error() {
    let configuration = configuration(1);
    for order in [RowOrder::Ascending, RowOrder::Descending] {
        let bounds = (key(5), key(9));
        for forged in [bounds.0.clone(), key(4), bounds.1.clone(), key(10), vec![]] {
            let plan = GatherPlan {
                start: Bytes(bounds.0.clone()),
                end: Some(Bytes(bounds.1.clone())),
                ..plan(order, None)
            };
            let mut gather = Gather::new(&configuration.tables[0], plan);
            let (index, _) = gather.next_read().unwrap();
            let may_be_empty = order == RowOrder::Descending && forged == bounds.0;
            let page = RowPage {
                next: Some(Bytes(forged.clone())),
                ..RowPage::default()
            };
            let accepted = gather.accept(index, page);
            match may_be_empty {
                true => assert_eq!(accepted, Ok(())),
                false => assert_eq!(accepted, Err(GatherError::Next), "{order:?}, {forged:?}"),
            }
        }
    }
}

#[test]
fn an_equated_key_space_leaves_one_partition() {
    let configuration = configuration(1);
    let table = &configuration.tables[0];
    let value = Value::Int64(7);
    let by_a = replex_of_index(table, Some(0)).unwrap();
    assert_eq!(schema().indexes[0].columns, [1]);
    let all = (&[][..], None);
    let a_is_7 = |column: usize| (column == 1).then(|| value.as_ref());
    assert_eq!(partitions(table, by_a, a_is_7, all).len(), 1);
    assert_eq!(partitions(table, 0, a_is_7, all).len(), 4);
    assert_eq!(replex_of_index(table, Some(1)), None);
    let id_is_7 = |column: usize| (column == 0).then(|| value.as_ref());
    let numbers = partitions(table, 0, id_is_7, all);
    let expected = primary_partition(table, &key(7)).unwrap();
    assert_eq!(numbers, [expected.number]);
}
