//! R16: cores drop messages of a core's earlier incarnation.

use protocol::identity::Incarnation;

/// Checks the reaction of a core to a message. `records` and `sends` are the numbers of records
/// that it logged and of messages that it sent.
pub fn dropped_message(
    spoke: Incarnation,
    known: Incarnation,
    (records, sends): (usize, usize),
) -> Result<(), String> {
    if spoke >= known || records + sends == 0 {
        return Ok(());
    }
    Err(format!(
        "a message of incarnation {} made a core that knows of incarnation {} log {records} \
         records and send {sends} messages",
        spoke.0, known.0
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_earlier_life_moves_no_member() {
        let [one, two] = [1, 2].map(Incarnation);
        assert_eq!(dropped_message(one, two, (0, 0)), Ok(()));
        assert_eq!(dropped_message(two, two, (1, 1)), Ok(()));
        assert!(dropped_message(one, two, (0, 1)).is_err());
        assert!(dropped_message(one, two, (1, 0)).is_err());
    }
}
