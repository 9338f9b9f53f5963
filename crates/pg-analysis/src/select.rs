//! Analyses queries, as PostgreSQL's grammar represents them.

use pg_raw_parse::Node;
use pg_raw_parse::nodes::SelectStmt;

/// Returns whether a query is a list of expressions, without clauses except INTO.
pub(crate) fn is_list_alone(select: &SelectStmt) -> bool {
    let clauses = [
        select.where_clause(),
        select.having_clause(),
        select.limit_offset(),
        select.limit_count(),
    ];
    let lists = [
        select.distinct_clause(),
        select.from_clause(),
        select.group_clause(),
        select.window_clause(),
        select.values_lists(),
    ];
    !select.target_list().is_empty()
        && clauses.iter().all(|clause| matches!(clause, Node::None))
        && lists.iter().all(|list| list.is_empty())
        && select.sort_clause().is_empty()
        && select.locking_clause().is_empty()
        && select.with_clause().is_none()
        && select.larg().is_none()
}

/// Returns the first query of a UNION or a similar operation, which has the INTO.
pub(crate) fn first_of_union(mut select: &SelectStmt) -> &SelectStmt {
    while let Some(left) = select.larg() {
        select = left;
    }
    select
}
