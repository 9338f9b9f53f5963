//! I11: the graph of operations that wait for each other has no cycle (R7).

use std::collections::BTreeMap;

use protocol::identity::OperationId;

/// Looks for a cycle through the waits of all cores at one moment.
pub fn acyclic(waits: &[(OperationId, OperationId)]) -> Result<(), String> {
    let mut graph: BTreeMap<OperationId, Vec<OperationId>> = BTreeMap::new();
    for (waiter, holder) in waits.iter().filter(|(waiter, holder)| waiter != holder) {
        graph.entry(*waiter).or_default().push(*holder);
    }
    // Operations that wait for no other are removed, until none is left or all of the rest wait.
    while !graph.is_empty() {
        let waiting: Vec<OperationId> = graph.keys().copied().collect();
        for holders in graph.values_mut() {
            holders.retain(|holder| waiting.binary_search(holder).is_ok());
        }
        let before = graph.len();
        graph.retain(|_, holders| !holders.is_empty());
        if graph.len() == before {
            return Err(format!("operations wait in a circle: {graph:?}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_circle_is_found_and_a_queue_is_none() {
        let operation = |sequence| OperationId {
            sequence,
            ..OperationId::default()
        };
        let [a, b, c] = [1, 2, 3].map(operation);
        assert_eq!(acyclic(&[(a, b), (b, c), (a, c)]), Ok(()));
        assert!(acyclic(&[(a, b), (b, c), (c, a)]).is_err());
        assert_eq!(acyclic(&[(a, a)]), Ok(()));
    }
}
