//! Estimates choose the way in which rows are found, never the rows: statements over every kind of
//! index have the same answers with any estimates.

use placement::Value;
use protocol::message::PartitionStatistics;
use session::statistics::TableStatistics;

use super::tests::{done, rows};
use super::*;
use crate::model::Model;

const TABLE: &str = "
    CREATE TABLE drawn (id bigint PRIMARY KEY, a bigint NOT NULL, b bigint, c text NOT NULL,
        INDEX by_a (a), INDEX by_ab (a, b) WITH (partition_by = 'a'), INDEX by_c (c),
        INDEX cells USING hyperspace (a, b) WITH (divisions = '2,3'),
        INDEX thin_b USING btree (b), INDEX thin_bc USING btree (b, c) INCLUDE (a),
        INDEX thin_ca USING btree (c, a DESC)) WITH (partitions = 3);";
/// The replexes of the table.
const REPLEXES: usize = 8;

/// Numbers that look random and are the same in each run.
struct Draw(u64);

impl Draw {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = self.0.wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    fn of<'t>(&mut self, texts: &[&'t str]) -> &'t str {
        texts[self.below(texts.len() as u64) as usize]
    }

    fn statistics(&mut self) -> TableStatistics {
        let mut drawn = TableStatistics::default();
        for replex in 0..REPLEXES {
            let rows = self.below(1_000_000);
            let statistics = PartitionStatistics {
                rows: Some(rows),
                rows_per_key: (0..3).map(|_| self.below(rows + 1)).collect(),
                first: placement::encode_key([Value::Int64(-3).as_ref()]).into(),
                last: placement::encode_key([Value::Int64(9).as_ref()]).into(),
            };
            drawn.add(replex, 3, statistics);
        }
        drawn
    }

    fn condition(&mut self) -> String {
        let number = self.below(6);
        let of_column = self.of(&[
            "a = #",
            "a IN (#, 2)",
            "a > #",
            "b = #",
            "b BETWEEN 1 AND #",
            "b IS NULL",
            "b IS NOT NULL",
            "c = 'x'",
            "c >= 'y'",
            "id < 3#",
            "a + b = #",
        ]);
        of_column.replace('#', &number.to_string())
    }

    fn statement(&mut self) -> String {
        let conditions: Vec<String> = (0..=self.below(3)).map(|_| self.condition()).collect();
        let conditions = conditions.join(" AND ");
        let order = self.of(&[
            "ORDER BY id",
            "ORDER BY a, id",
            "ORDER BY b, c, id",
            "ORDER BY c, a DESC, id",
            "ORDER BY b DESC, id LIMIT 4",
            "ORDER BY a, b, id LIMIT 3 OFFSET 1",
        ]);
        match self.below(4) {
            0 => format!("SELECT count(*) FROM drawn WHERE {conditions}"),
            1 => format!("SELECT min(b), max(a), count(b) FROM drawn WHERE {conditions}"),
            2 => format!("SELECT a, b FROM drawn WHERE {conditions} {order}"),
            _ => format!("SELECT * FROM drawn WHERE {conditions} {order}"),
        }
    }
}

fn filled() -> SqlSession<Model> {
    let rows = (0..50).map(|id| {
        let b = match id % 7 {
            6 => "NULL".to_string(),
            b => b.to_string(),
        };
        let c = ["x", "y", "z"][id % 3];
        format!("({id}, {}, {b}, '{c}')", id % 5)
    });
    let rows: Vec<String> = rows.collect();
    Model::session(&format!(
        "{TABLE} INSERT INTO drawn VALUES {};",
        rows.join(", ")
    ))
}

#[test]
fn answers_do_not_depend_on_estimates() {
    let (mut without, mut with) = (filled(), filled());
    let mut draw = Draw(7);
    let (mut found, mut differing) = (0, 0);
    let replexes = |session: &SqlSession<Model>| {
        let reads = session.store().take_reads();
        reads.into_iter().map(|read| read.partition.replex)
    };
    for _ in 0..1_500 {
        let statement = draw.statement();
        with.store().estimate("drawn", draw.statistics());
        let expected = rows(&mut without, &statement);
        assert_eq!(rows(&mut with, &statement), expected, "{statement}");
        found += expected.len();
        differing += usize::from(!replexes(&with).eq(replexes(&without)));
    }
    assert!(differing > 300, "{differing} were read by other indexes");
    assert!(found > 3_000, "{found} rows are too few");
}

#[test]
fn changes_do_not_depend_on_estimates() {
    let (mut without, mut with) = (filled(), filled());
    let mut draw = Draw(11);
    for round in 0..200 {
        let condition = format!("{} AND {}", draw.condition(), draw.condition());
        let statement = match round % 3 {
            0 => format!("UPDATE drawn SET b = b + 1 WHERE {condition}"),
            1 => format!("UPDATE drawn SET a = {} WHERE {condition}", draw.below(5)),
            _ => format!("UPDATE drawn SET c = 'x', b = 2 WHERE {condition}"),
        };
        with.store().estimate("drawn", draw.statistics());
        let expected = done(&mut without, &statement);
        assert_eq!(done(&mut with, &statement), expected, "{statement}");
        let all = "SELECT * FROM drawn ORDER BY id";
        assert_eq!(rows(&mut with, all), rows(&mut without, all), "{statement}");
    }
}
