//! Adds a foreign key to a table in use (R57).
//!
//! The foreign key binds new rows first, and new values of its columns. Then all rows are read, and
//! then it counts as valid. If a row refers to no row, the foreign key is removed again.

use std::collections::BTreeSet;

use futures_util::stream::{self, StreamExt};
use placement::{Alteration, ForeignKey, Schema, encode_key, key_has_null};
use protocol::configuration::{Configuration, PlacedTable};
use protocol::transaction::ReferenceFault;

use super::block::read_of_row;
use super::children::children;
use super::copies::CopyProgressBar;
use super::read::Flow;
use super::sender::reference_violated;
use super::{Attempt, ReadContext, SNAPSHOT_ATTEMPTS_MAX};
use crate::error::{SqlError, sqlstate};
use crate::plan::{AddedReference, index_for_reference, rows_of_columns};
use crate::store::Store;

/// How many parents are sought at a time.
const READS_MAX: usize = 64;

/// Adds a foreign key to a table, and an index for it if none serves it.
pub(super) async fn add<S: Store>(
    reading: &ReadContext<'_, S>,
    table: &str,
    added: &AddedReference,
) -> Result<(), Attempt> {
    let store = reading.store;
    let configuration = store.refresh().await?;
    let schema = &named(&configuration, table)?.schema;
    let made = match schema.serves(&added.key) {
        true => None,
        false => Some(make_index(store, schema, &added.key).await?),
    };
    let bound = async {
        let key = ForeignKey {
            is_valid: false,
            ..added.key.clone()
        };
        let changed = store.alter_table(table, vec![Alteration::AddForeignKey { key }]);
        changed.await.map_err(Attempt::of_definition)?;
        if !added.validates {
            return Ok(());
        }
        let checked = validate(reading, table, &added.key.name).await;
        if checked.is_err() {
            let constraint = added.key.name.clone();
            let removed = store.alter_table(table, vec![Alteration::DropConstraint { constraint }]);
            removed.await.map_err(Attempt::of_definition)?;
        }
        checked
    };
    if let Err(failed) = bound.await {
        if let Some((index, _)) = made {
            let dropped = store.drop_copy(table, &index, true).await;
            dropped.map_err(Attempt::of_definition)?;
        }
        // It is not run again: it is no longer certain that nothing was done.
        return Err(SqlError::from(failed).into());
    }
    let notices = reading.notices.lock();
    notices
        .expect("nothing panics while it is held")
        .extend(made.map(|(_, notice)| notice));
    Ok(())
}

/// Proves that all rows of a table satisfy a foreign key, which then counts as valid.
pub(super) async fn validate<S: Store>(
    reading: &ReadContext<'_, S>,
    table: &str,
    constraint: &str,
) -> Result<(), Attempt> {
    let store = reading.store;
    let configuration = store.refresh().await?;
    let child = named(&configuration, table)?;
    let keys = &child.schema.constraints.foreign_keys;
    let key = keys.iter().find(|key| key.name == constraint);
    let key = key.ok_or_else(|| {
        let text = format!("constraint \"{constraint}\" of relation \"{table}\" does not exist");
        SqlError::with_state(sqlstate::UNDEFINED_OBJECT, text)
    })?;
    // A removal of a parent may be in progress that began before the foreign key bound it. It ends
    // with this change of the definition, which changes nothing.
    let settled = store.alter_table(&key.parent, Vec::new()).await;
    settled.map_err(Attempt::of_definition)?;
    let mut attempts = 0;
    loop {
        attempts += 1;
        let configuration = store.refresh().await?;
        match check(reading, &configuration, (table, key)).await {
            Err(Attempt::SnapshotEnded(_) | Attempt::Stale(_))
                if attempts < SNAPSHOT_ATTEMPTS_MAX => {}
            Err(failed) => return Err(failed),
            Ok(()) => break,
        }
    }
    let constraint = constraint.to_owned();
    let changed = store.alter_table(table, vec![Alteration::Validate { constraint }]);
    changed.await.map_err(Attempt::of_definition)
}

/// Checks that each row of a table refers to a row.
async fn check<S: Store>(
    reading: &ReadContext<'_, S>,
    configuration: &Configuration,
    (table, key): (&str, &ForeignKey),
) -> Result<(), Attempt> {
    let child = named(configuration, table)?;
    let parent = named(configuration, &key.parent)?;
    let reading = ReadContext {
        configuration,
        ..*reading
    };
    let read = rows_of_columns(child, &key.columns);
    let columns = read.projection.clone().unwrap_or_default();
    let places = key.columns.iter().map(|column| {
        let place = columns.iter().position(|it| usize::from(*it) == *column);
        place.expect("the read returns the columns")
    });
    let places: Vec<usize> = places.collect();
    let mut named_parents = BTreeSet::new();
    let plans = reading.gather_plans(&read, child, None, false);
    let each = |row: Vec<placement::Value>| {
        let values = || places.iter().map(|place| row[*place].as_ref());
        if !key_has_null(values()) {
            named_parents.insert(encode_key(values()));
        }
        Ok(Flow::Continue(()))
    };
    reading.each(child, plans, None, each).await?;

    let store = reading.store;
    let exists = |pk: Vec<u8>| async move {
        let page = store.page(read_of_row(configuration, parent.id, &pk)?);
        Ok::<_, Attempt>((page.await?.rows().next().is_some(), pk))
    };
    let mut reads = stream::iter(named_parents)
        .map(exists)
        .buffer_unordered(READS_MAX);
    while let Some(found) = reads.next().await {
        let (is_there, pk) = found?;
        if is_there {
            continue;
        }
        // The row that referred to it may have been changed or removed since, and may not.
        let left = children(store, (parent, &pk), (child, key), Some(1)).await?;
        if !left.is_empty() && !exists(pk.clone()).await?.0 {
            let fault = ReferenceFault::NoParent;
            return Err(reference_violated(store, (child, key), pk, fault));
        }
    }
    Ok(())
}

/// Makes an index for a foreign key. Returns its name and a notice.
async fn make_index<S: Store>(
    store: &S,
    schema: &Schema,
    key: &ForeignKey,
) -> Result<(String, String), Attempt> {
    let (index, notice) = index_for_reference(schema, key);
    let name = index.name.clone();
    let mut wanted = schema.clone();
    wanted.indexes.push(index);
    let bar = CopyProgressBar::new(&name);
    let made = store.add_copy(wanted, &|fill| bar.show(fill)).await;
    made.map_err(Attempt::of_definition)?;
    Ok((name, notice))
}

fn named<'c>(configuration: &'c Configuration, table: &str) -> Result<&'c PlacedTable, Attempt> {
    let found = configuration.table_named(table);
    found.ok_or_else(|| SqlError::dropped_meanwhile(table).into())
}
