//! The sequences of the store in memory.

use placement::{Sequence, SequenceLimit, SequenceState, Value, encode_key};
use protocol::identity::{TableId, Version};

use crate::model::Model;
use crate::store::StoreError;

impl Model {
    pub(crate) fn sequence(&self, id: TableId) -> Result<(Sequence, SequenceState), StoreError> {
        let state = self.state.lock().unwrap();
        let table = state.configuration.table(id);
        let rules = table.and_then(|table| table.schema.sequence.clone());
        let rules = rules.ok_or_else(|| StoreError::dropped(id))?;
        let row = state.rows[&id].values().next();
        let known = row.map(|(_, row)| SequenceState::of_row(row).unwrap());
        let initial = rules.initial();
        Ok((rules, known.unwrap_or(initial)))
    }

    pub(crate) fn set_sequence(&self, id: TableId, sequence: SequenceState) {
        let mut state = self.state.lock().unwrap();
        state.version += 1;
        let version = Version(state.version);
        let key = encode_key(SequenceState::primary_key().iter().map(Value::as_ref));
        let rows = state.rows.get_mut(&id).expect("it was found");
        rows.insert(key, (version, sequence.to_row()));
    }

    /// Draws values as the cluster does.
    pub(crate) fn draw(
        &self,
        sequence: TableId,
        count: usize,
    ) -> Result<Result<Vec<i64>, SequenceLimit>, StoreError> {
        let mut values = Vec::new();
        while values.len() < count {
            let (rules, state) = self.sequence(sequence)?;
            let wanted = (count - values.len()) as u64;
            let (mut block, state) = match rules.advance(state, wanted) {
                Ok(advanced) => advanced,
                Err(limit) => return Ok(Err(limit)),
            };
            values.extend(block.take(block.count));
            self.set_sequence(sequence, state);
        }
        Ok(Ok(values))
    }
}
