//! Changes the definition of a table in use.
//!
//! If all rows must satisfy a condition, it binds new rows first. Then all rows are read, and then
//! the table changes in one step. If a row violates the condition, the condition is removed.
//!
//! Indexes that go with their column go before that step. Unique indexes and foreign keys are made
//! after it, one after the other: each of them fails for itself.

use placement::Alteration;
use protocol::configuration::Configuration;
use protocol::message::FillReport;

use super::copies::CopyProgressBar;
use super::{Attempt, ReadContext, SNAPSHOT_ATTEMPTS_MAX, StatementOutcome, done, foreign_key};
use crate::error::SqlError;
use crate::parse::with_index;
use crate::plan::{AlterPlan, FurtherStep, Requirement};
use crate::store::Store;

/// Runs `ALTER TABLE`.
pub(super) async fn run<S: Store>(
    reading: &ReadContext<'_, S>,
    plan: AlterPlan,
) -> Result<StatementOutcome, Attempt> {
    let AlterPlan {
        table,
        tag,
        first,
        dropped_copies,
        requirements,
        alterations,
        further,
        dropped_sequences,
        notices,
    } = plan;
    let known = reading.notices.lock();
    known
        .expect("nothing panics while it is held")
        .extend(notices);
    let store = reading.store;
    // Before new rows are bound: a change that cannot be made should disturb no client.
    check(reading, reading.configuration, &table, &requirements).await?;
    if !first.is_empty() {
        let changed = store.alter_table(&table, first).await;
        changed.map_err(Attempt::of_definition)?;
    }
    for copy in dropped_copies {
        let dropped = store.drop_copy(&table, &copy, false).await;
        dropped.map_err(Attempt::of_definition)?;
    }
    change(reading, &table, &requirements, alterations).await?;
    for step in further {
        // It is not run again: the steps before it are done.
        let made = make(reading, &table, step).await;
        made.map_err(|failed| Attempt::from(SqlError::from(failed)))?;
    }
    for sequence in dropped_sequences {
        let dropped = store.drop_table(&sequence, true).await;
        dropped.map_err(Attempt::of_definition)?;
    }
    Ok(done(tag))
}

/// Changes the definition in one step, once all rows satisfy the requirements.
async fn change<S: Store>(
    reading: &ReadContext<'_, S>,
    table: &str,
    requirements: &[Requirement],
    alterations: Vec<Alteration>,
) -> Result<(), Attempt> {
    let store = reading.store;
    let bound = requirements.iter().filter(|it| !it.is_known);
    let bound: Vec<Alteration> = bound
        .map(|it| Alteration::AddCheck {
            check: it.check.clone(),
        })
        .collect();
    let undone: Vec<Alteration> = requirements
        .iter()
        .filter(|it| !it.is_known)
        .map(|it| Alteration::DropConstraint {
            constraint: it.check.name.clone(),
        })
        .collect();
    if !bound.is_empty() {
        let changed = store.alter_table(table, bound).await;
        changed.map_err(Attempt::of_definition)?;
    }
    let changed = async {
        if !requirements.is_empty() {
            let newest = store.configuration();
            check(reading, &newest, table, requirements).await?;
        }
        if !alterations.is_empty() {
            let changed = store.alter_table(table, alterations).await;
            changed.map_err(Attempt::of_definition)?;
        }
        Ok::<(), Attempt>(())
    };
    if let Err(failed) = changed.await {
        if !undone.is_empty() {
            let removed = store.alter_table(table, undone).await;
            removed.map_err(Attempt::of_definition)?;
        }
        // It is not run again: it is no longer certain that nothing was done.
        return Err(SqlError::from(failed).into());
    }
    Ok(())
}

async fn make<S: Store>(
    reading: &ReadContext<'_, S>,
    table: &str,
    step: FurtherStep,
) -> Result<(), Attempt> {
    match step {
        FurtherStep::Reference(added) => foreign_key::add(reading, table, &added).await,
        FurtherStep::Validated(key) => foreign_key::validate(reading, table, &key).await,
        FurtherStep::Unique(index) => {
            let newest = reading.store.refresh().await?;
            let known = newest
                .table_named(table)
                .ok_or_else(|| SqlError::dropped_meanwhile(table))?;
            let bar = CopyProgressBar::new(&index.name);
            let show = |fill: &FillReport| bar.show(fill);
            let wanted = with_index(&known.schema, &index)?;
            let made = reading.store.add_copy(wanted, &show).await;
            made.map_err(Attempt::of_definition)
        }
    }
}

/// Checks that all rows of a table satisfy the requirements.
async fn check<S: Store>(
    reading: &ReadContext<'_, S>,
    configuration: &Configuration,
    table: &str,
    requirements: &[Requirement],
) -> Result<(), Attempt> {
    for requirement in requirements {
        if violates(reading, configuration, table, requirement).await? {
            return Err(requirement.error.clone().into());
        }
    }
    Ok(())
}

/// Returns whether a row of a table does not satisfy a requirement. Reads the table again if its
/// snapshot or its copies change meanwhile.
async fn violates<S: Store>(
    reading: &ReadContext<'_, S>,
    configuration: &Configuration,
    table: &str,
    requirement: &Requirement,
) -> Result<bool, Attempt> {
    let mut newest = None;
    let mut attempts = 0;
    loop {
        attempts += 1;
        let configuration = newest.as_deref().unwrap_or(configuration);
        let reading = ReadContext {
            configuration,
            ..*reading
        };
        let Some(found) = configuration.table_named(table) else {
            return Err(SqlError::dropped_meanwhile(table).into());
        };
        match reading.select(requirement.search(found)).await {
            Err(Attempt::SnapshotEnded(_) | Attempt::Stale(_))
                if attempts < SNAPSHOT_ATTEMPTS_MAX =>
            {
                newest = Some(reading.store.refresh().await?);
            }
            found => return Ok(!found?.rows.is_empty()),
        }
    }
}
