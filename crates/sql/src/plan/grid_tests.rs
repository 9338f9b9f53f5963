//! Tests statements that hyperspaces serve, and what they show about further copies. Checks that
//! plans do not use hybrids and exact replicas.

use placement::ReplexKind;
use protocol::configuration::ServerState;

use super::tests::{error, explained, explained_over, read};
use crate::fixture::configuration;

/// Replex numbers of the fixture: the table, by_email, h, k_1, k_2, r, s, wide.
const S: usize = 6;
const WIDE: usize = 7;

#[test]
fn hyperspace_serves_with_the_fewest_cells() {
    for (condition, replex, cells) in [
        // Any of its columns will do; the more of them, the fewer cells.
        ("n = 1", WIDE, 4),
        ("number = 1", WIDE, 4),
        // Six cells of `s` would be read whole.
        ("region = 'eu'", 0, 12),
        ("region = 'eu' AND email IS NULL", 1, 1),
        ("n = 1 AND region = 'eu'", S, 3),
        ("n = 1 AND number = 2", WIDE, 1),
        ("n = 1 AND number > 2", WIDE, 4),
        ("n = 1 AND region = 'eu' AND email > 'a'", S, 3),
        // An index that serves is better than some of the columns.
        ("email = 'a'", 1, 1),
        ("n = 1 AND email = 'a'", 1, 1),
        ("region = 'eu' AND number = 3 AND n = 1", 0, 1),
        // All of the columns are better than an index of fewer.
        ("n = 1 AND email = 'a' AND region = 'eu'", S, 1),
    ] {
        let (_, read) = read(&format!("SELECT * FROM grids WHERE {condition}"));
        let found = (read.access.replex, read.access.segments.len());
        assert_eq!(found, (replex, cells), "{condition}");
    }
    let configuration = configuration();
    let table = configuration.table_named("grids").unwrap();
    let scan = super::UnaskedScan {
        rows_max: 5,
        rows_wanted: None,
    };
    let refused = super::too_large(table, scan).to_string();
    assert!(
        refused.contains("or equate any column of s (n, email, region) or of wide"),
        "{refused}"
    );
}

#[test]
fn lists_of_values_meet_each_cell_and_key_once() {
    let (_, two) = read("SELECT * FROM grids WHERE n IN (1, 2)");
    let mut seen: Vec<_> = two
        .access
        .segments
        .iter()
        .map(|it| (it.partition, &it.keys))
        .collect();
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), two.access.segments.len());
    // A list that would be too many ranges reads the cells and filters there.
    let list: Vec<String> = (0..600).map(|it| it.to_string()).collect();
    let text = format!("SELECT * FROM grids WHERE n IN ({})", list.join(", "));
    let (_, long) = read(&text);
    assert_eq!(long.access.fixed, 0);
    assert_eq!(long.access.segments.len(), 12);
    assert!(long.filter.is_some());
}

#[test]
fn hybrids_and_replicas_answer_no_statement() {
    let configuration = configuration();
    let table = configuration.table_named("grids").unwrap();
    for condition in [
        "email = 'a'",
        "region = 'eu' AND number = 1",
        "email = 'a' AND region = 'eu' AND number = 1",
        "email IN ('a', 'b') ORDER BY email",
    ] {
        let (_, read) = read(&format!("SELECT * FROM grids WHERE {condition}"));
        let kind = table.layout.replexes[read.access.replex].kind;
        let own = matches!(kind, ReplexKind::Primary | ReplexKind::Index { .. });
        assert!(own, "{condition}: {kind:?}");
    }
}

#[test]
fn explain_shows_where_the_rows_of_a_lost_partition_are_read() {
    let lookup = "SELECT * FROM grids WHERE email = 'a'";
    let mut configuration = configuration();
    for (down, part) in [
        (
            1,
            " of by_email is lost with server 2; read instead, 1 partition, \
             index lookup at each member:\n    replex 5 (r), \
             partition ",
        ),
        (2, "    replex 3 (k_1), partition"),
        (
            0,
            "and its rows with other servers: start one of them again",
        ),
    ] {
        configuration.servers[down].state = ServerState::Down;
        let text = explained_over(&configuration, lookup);
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

#[test]
fn explain_shows_cells_amplification_and_survival() {
    let text = explained("SELECT * FROM grids WHERE n = 1 AND region = 'eu'");
    for part in [
        "Range lookup in grids by hyperspace s\n  key (n) = (1)\n  replex 6 (s), partitions ",
        " of 12, on server 1",
        "filter, at the partition: region = 'eu'",
        "after a failure: ",
        "failures that every row survives: ",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    let lookup = explained("SELECT * FROM grids WHERE email = 'a'");
    assert!(
        lookup.contains("instead of a lost one: 1; after two: "),
        "{lookup}"
    );
    let update = explained("UPDATE grids SET email = 'b' WHERE region = 'eu' AND number = 1");
    assert!(
        update.contains("moves the row in by_email, h, k_1, k_2, r, s:"),
        "{update}"
    );
    let insert = explained("INSERT INTO grids VALUES ('eu', 1, 'a', 2)");
    assert!(insert.contains("replex 7 (wide), partition"), "{insert}");
    assert!(insert.contains("position 8 of 8"), "{insert}");
}

#[test]
fn further_copies_are_made_with_their_table() {
    let again = "CREATE INDEX k ON grids USING replica (grids)";
    assert!(error(again).contains("has an index k already"));
    let late = error("CREATE INDEX late ON grids USING hybrid (grids, by_email)");
    assert!(late.contains("does not specify how it is cut"), "{late}");
    let odd = "CREATE INDEX odd ON grids USING hybrid (grids, by_email) WITH (divisions = '3,2')";
    let odd = error(odd);
    assert!(
        odd.contains("do not multiply to the table's 12 partitions"),
        "{odd}"
    );
    let refused = error(
        "CREATE TABLE t (id bigint PRIMARY KEY, a text, INDEX by_a (a),
            INDEX h USING hybrid (t, by_a) WITH (divisions = '3,3'))",
    );
    assert_eq!(
        refused,
        "the divisions of h do not multiply to the table's 12 partitions: choose others"
    );
}
