//! The notices to a client that has set `replex.trace = on`: where its statements go and why, and
//! which tables they touch. The notice of a read that was compared with the replicas also shows the
//! TSID that the read needs.

use crate::serve::routing::RoutingReason;
use pg_analysis::Catalogue;
use pg_analysis::catalogue::Relation;
use pg_wire::report::{Report, Severity};
use proxy_core::freshness::{AccessSets, AffectingClass, ColumnNumber, TableParts, TableSets};

/// SQLSTATE: all is well.
const SUCCESS: &str = "00000";
/// The touched set of an unknown statement (R33).
const ANY_TABLE: &str = "any table as a whole (TAS)";

/// Returns the notice with the server, the reason and, if they were analysed, the touched tables
/// from [`described`].
pub fn notice(reason: &RoutingReason, touched: &str) -> Report {
    let text = format!("replex: {reason}");
    Report::new(Severity::Notice, SUCCESS, text).detail(touched)
}

/// Returns a line for each table of the sets: its affecting class (the paper's Table 2), the
/// columns, and the number of rows. The names are those of the catalogue.
pub fn described(sets: &AccessSets, catalogue: &Catalogue) -> String {
    let any = (sets.may_read_anything(), sets.may_write_anything());
    let any = match any {
        (false, false) => None,
        (true, false) => Some(format!("{ANY_TABLE}: reads all columns")),
        (_, true) => Some(format!("{ANY_TABLE}: reads and writes all columns")),
    };
    let tables = sets.tables().map(|(table, sets)| {
        let mut known = catalogue.relations.iter();
        let found = known.find(|(_, relation)| relation.table == table);
        let name = match found {
            Some(((schema, name), _)) => format!("{schema}.{name}"),
            None => format!("the table with OID {}", table.0),
        };
        line(&name, sets, found.map(|(_, relation)| relation))
    });
    let lines: Vec<String> = any.into_iter().chain(tables).collect();
    match lines.is_empty() {
        true => "no table".to_owned(),
        false => lines.join("\n"),
    }
}

fn line(name: &str, sets: &TableSets, relation: Option<&Relation>) -> String {
    let class = match sets.class() {
        AffectingClass::Rows => "by rows (RAS)",
        AffectingClass::Columns => "by columns (CAS)",
        AffectingClass::Table => "as a whole (TAS)",
    };
    let read = sets.is_read().then(|| ("reads", sets.read()));
    let written = sets.is_written().then(|| ("writes", sets.written()));
    let parts = read.into_iter().chain(written).map(|(what, parts)| {
        let columns = columns(parts, relation);
        format!("{what} {columns}{}", rows(parts, sets.class()))
    });
    let parts: Vec<String> = parts.collect();
    format!("{name} {class}: {}", parts.join("; "))
}

fn columns(parts: &TableParts, relation: Option<&Relation>) -> String {
    if parts.columns.is_all() {
        return "all columns".to_owned();
    }
    let named = parts.columns.named();
    let named = named.filter(|column| *column != ColumnNumber::EXISTENCE);
    let names = named.map(|column| {
        let known = relation.and_then(|relation| relation.column_numbered(column));
        known.map_or_else(|| format!("column {}", column.0), |it| it.name.clone())
    });
    let names: Vec<String> = names.collect();
    match names.is_empty() {
        true => "which rows there are".to_owned(),
        false => names.join(", "),
    }
}

fn rows(parts: &TableParts, class: AffectingClass) -> String {
    match parts.rows.named().count() {
        _ if class != AffectingClass::Rows || parts.rows.is_all() => String::new(),
        1 => " of 1 row".to_owned(),
        count => format!(" of {count} rows"),
    }
}

#[cfg(test)]
mod tests {
    use proxy_core::freshness::{CountedItems, TableAccess, TableOid};

    use super::*;

    #[test]
    fn unknown_names_are_numbers() {
        let mut sets = AccessSets::reads_anything();
        let reads = Some(TableParts {
            columns: CountedItems::one(ColumnNumber(2)),
            rows: CountedItems::default(),
        });
        let touch = TableAccess {
            class: AffectingClass::Columns,
            reads,
            writes: None,
        };
        sets.touch(TableOid(77), touch);
        let description = described(&sets, &Catalogue::default());
        let expected = "any table as a whole (TAS): reads all columns\n\
                        the table with OID 77 by columns (CAS): reads column 2";
        assert_eq!(description, expected);
    }
}
