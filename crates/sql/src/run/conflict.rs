//! Executes `INSERT … ON CONFLICT DO NOTHING` on tables with unique indexes: decides which
//! duplicates leave a row out.
//!
//! If a row is a duplicate in several keys, one of them refuses it. If the statement's target is
//! another key, a lookup finds whether the row is a duplicate in the target, too. Then the row is
//! left out, as in PostgreSQL, which checks the target first.

use placement::{RowView, encode_sorted, key_has_null, prefix_end};
use protocol::codec::Bytes;
use protocol::identity::PartitionId;
use protocol::message::Consistency;
use protocol::operation::{Action, Mutation, RequestResult};
use session::gather::{GatherPlan, RowOrder};

use super::sender::Sender;
use super::{Attempt, Flow, gather};
use crate::plan::SkippedDuplicates;
use crate::store::Store;

/// Sends an insert. Returns whether the row is new.
pub(super) async fn send<S: Store>(
    sender: &Sender<'_, S>,
    mutation: Mutation,
    left_out: SkippedDuplicates,
) -> Result<bool, Attempt> {
    let row = match (&mutation.action, left_out) {
        (Action::Insert { row }, SkippedDuplicates::By(target)) => Some((row.clone(), target)),
        _ => None,
    };
    let result = sender.result(mutation).await?;
    if let RequestResult::Duplicate { replex, .. } = &result {
        let replex = usize::from(*replex);
        if left_out.covers(replex) {
            return Ok(false);
        }
        if let Some((row, target)) = row
            && is_there(sender, &row, target).await?
        {
            return Ok(false);
        }
    }
    sender.changed(result)
}

/// Returns whether a row has the key of this one in a unique index.
async fn is_there<S: Store>(
    sender: &Sender<'_, S>,
    row: &[u8],
    replex: usize,
) -> Result<bool, Attempt> {
    let table = sender.table;
    let columns = &table.layout.replexes[replex].sort_columns;
    let view = RowView::parse(&table.schema.columns, row).expect("the planner encoded it");
    if key_has_null(columns.iter().map(|it| view.column(it.column))) {
        return Ok(false);
    }
    let start = encode_sorted(columns, |column| view.column(column));
    let number = table
        .layout
        .partition_of_values(replex, |column| view.column(column));
    let plan = GatherPlan {
        partitions: vec![PartitionId {
            table: table.id,
            replex: u8::try_from(replex).expect("a table has few replexes"),
            number,
        }],
        end: prefix_end(&start).map(Bytes),
        start: Bytes(start),
        filter: None,
        projection: None,
        limit: Some(1),
        order: RowOrder::Any,
        count_only: true,
        epoch: sender.store.configuration().epoch,
        consistency: Consistency::Linearizable,
        snapshot: None,
    };
    let found = gather(sender.store, table, plan, None, |_| Ok(Flow::Continue(()))).await?;
    Ok(found > 0)
}
