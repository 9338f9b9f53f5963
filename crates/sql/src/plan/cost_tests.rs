//! Checks that estimates choose between indexes, and what `EXPLAIN` shows of them.

use protocol::message::PartitionStatistics;

use super::*;
use crate::fixture::{add_table, schema, servers};
use crate::parse::parse;

/// A table with copies and thin indexes over columns that statements name together.
const ORDERS: &str = "
    CREATE TABLE orders (id bigint PRIMARY KEY, customer bigint NOT NULL, state text NOT NULL,
        day bigint NOT NULL, note text,
        INDEX by_customer (customer), INDEX by_state USING btree (state) INCLUDE (day),
        INDEX by_day USING btree (day)) WITH (partitions = 4);";

/// The estimates about one table, whichever it is.
#[derive(Debug)]
struct Fixed(Arc<TableStatistics>);

impl StatisticsSource for Fixed {
    fn of(&self, _: TableId) -> Option<Arc<TableStatistics>> {
        Some(Arc::clone(&self.0))
    }
}

/// Returns estimates about 40,000 orders: by replex, the rows for each value of its first column.
/// Days are the numbers from 0 to 999.
fn orders(per_key: [u64; 4]) -> Fixed {
    let mut known = TableStatistics::default();
    for (replex, per_key) in per_key.into_iter().enumerate() {
        let day = |day: i64| placement::encode_key([Value::Int64(day).as_ref()]);
        let statistics = PartitionStatistics {
            rows: Some(if replex < 2 { 10_000 } else { 40_000 }),
            rows_per_key: vec![per_key, 1],
            first: day(0).into(),
            last: day(999).into(),
        };
        known.add(replex, if replex < 2 { 4 } else { 1 }, statistics);
    }
    Fixed(Arc::new(known))
}

fn planned(text: &str, statistics: &dyn StatisticsSource) -> StatementPlan {
    let mut configuration = servers();
    add_table(&mut configuration, schema(ORDERS));
    let context = Context {
        configuration: &configuration,
        settings: SessionSettings::default(),
        parameters: &[],
        now_us: 0,
        statistics,
        explains: false,
    };
    let statements = parse(text).unwrap();
    plan(&statements[0].statement, &context).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Returns the name of the index that a statement reads by.
fn index(text: &str, statistics: &dyn StatisticsSource) -> String {
    let read = match planned(text, statistics) {
        StatementPlan::Select(plan) => plan.read.expect("it reads a table"),
        StatementPlan::Aggregate(plan) => plan.reads[0].read.clone(),
        StatementPlan::Change(ChangePlan {
            target: ChangeTarget::Rows(read),
            ..
        }) => *read,
        other => panic!("{text}: {other:?}"),
    };
    let mut configuration = servers();
    add_table(&mut configuration, schema(ORDERS));
    let table = configuration.table_named("orders").unwrap();
    table.layout.replexes[read.access.replex].name.clone()
}

const FEW_CUSTOMERS: [u64; 4] = [1, 5_000, 20, 40];
const FEW_STATES: [u64; 4] = [1, 5, 10_000, 40];

#[test]
fn the_index_with_the_fewest_rows_is_chosen() {
    let both = "SELECT * FROM orders WHERE customer = 7 AND state = 'open'";
    assert_eq!(index(both, &WithoutStatistics), "by_customer");
    assert_eq!(index(both, &orders(FEW_CUSTOMERS)), "by_state");
    assert_eq!(index(both, &orders(FEW_STATES)), "by_customer");
    let deleted = "DELETE FROM orders WHERE customer = 7 AND state = 'open'";
    assert_eq!(index(deleted, &orders(FEW_CUSTOMERS)), "by_state");
    let counted = "SELECT count(*) FROM orders WHERE customer = 7 AND state = 'open'";
    assert_eq!(index(counted, &orders(FEW_CUSTOMERS)), "by_state");
    // One row is looked up, whatever else could be read.
    let one = "SELECT * FROM orders WHERE id = 3 AND state = 'open'";
    assert_eq!(index(one, &orders(FEW_CUSTOMERS)), "orders");
}

#[test]
fn a_range_is_as_wide_as_its_part_of_the_keys() {
    let with_range = |range: &str| format!("SELECT * FROM orders WHERE customer = 7 AND {range}");
    let known = orders([1, 2_000, 20, 40]);
    let wide = with_range("day BETWEEN 100 AND 800");
    assert_eq!(index(&wide, &known), "by_customer");
    let narrow = with_range("day BETWEEN 100 AND 101");
    assert_eq!(index(&narrow, &known), "by_day");
    assert_eq!(index(&narrow, &WithoutStatistics), "by_customer");
}

#[test]
fn entries_that_have_all_columns_cost_less() {
    let known = orders([1, 60, 50, 40]);
    let condition = "FROM orders WHERE customer = 7 AND state = 'open'";
    let all = format!("SELECT note {condition}");
    assert_eq!(index(&all, &known), "by_customer");
    // The customer is not in an entry, so the row decides.
    let known = orders([1, 200, 50, 40]);
    let covered = "SELECT day FROM orders WHERE state = 'open' AND day > 5";
    assert_eq!(index(covered, &known), "by_state");
}

#[test]
fn a_limit_in_the_order_of_an_index_counts() {
    let ordered = "SELECT * FROM orders WHERE state = 'open' AND day > 5 ORDER BY day LIMIT 3";
    assert_eq!(index(ordered, &orders(FEW_STATES)), "by_day");
    let all = "SELECT * FROM orders WHERE state = 'open' AND day > 5 ORDER BY day";
    assert_eq!(index(all, &orders([1, 5, 10, 40])), "by_state");
}

#[test]
fn explain_shows_what_is_expected() {
    let text = "EXPLAIN SELECT * FROM orders WHERE customer = 7 AND state = 'open'";
    let lines = |statistics: &dyn StatisticsSource| match planned(text, statistics) {
        StatementPlan::Explain(lines) => lines,
        other => panic!("{other:?}"),
    };
    let known = lines(&orders(FEW_CUSTOMERS));
    let expected = known.iter().filter(|line| {
        let line = line.trim_start();
        line.starts_with("expected") || line.starts_with("instead of")
    });
    let expected: Vec<&str> = expected.map(|line| line.trim_start()).collect();
    assert_eq!(
        expected,
        [
            "expected: partitions read 20 of 40,000 rows and return 3; cost 330",
            "instead of: by_customer, 5,000 rows; cost 5,100",
        ]
    );
    let unknown = lines(&WithoutStatistics).join("\n");
    assert!(!unknown.contains("expected"), "{unknown}");
}

#[test]
fn an_index_without_estimates_leaves_the_choice_to_the_rules() {
    let known = orders(FEW_CUSTOMERS);
    let mut without = TableStatistics::clone(&known.0);
    let unknown = PartitionStatistics::default();
    without.add(2, 1, unknown);
    let text = "SELECT * FROM orders WHERE customer = 7 AND state = 'open'";
    assert_eq!(index(text, &Fixed(Arc::new(without))), "by_customer");
}
