//! Names, texts and queries as they stand in SQL.

use pg_raw_parse::Node;
use pg_raw_parse::nodes::SelectStmt;

/// A name.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text, with `standard_conforming_strings` on.
pub fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Which bytes stand in names and keywords: letters, digits, underscores, and whatever is no ASCII.
pub const IS_OF_NAME: [bool; 256] = {
    let mut is = [false; 256];
    let mut byte = 0_u8;
    loop {
        is[byte as usize] = byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii();
        if byte == u8::MAX {
            break is;
        }
        byte += 1;
    }
};

/// How many bytes of a name stand at the beginning.
pub fn name_length(text: &[u8]) -> usize {
    let end = text.iter().position(|byte| !IS_OF_NAME[usize::from(*byte)]);
    end.unwrap_or(text.len())
}

/// How many bytes of a name stand at the beginning, which may be in quotes.
///
/// A quote in a name is written twice: of such a name it is the first part.
pub fn identifier_length(text: &str) -> Option<usize> {
    let length = match text.strip_prefix('"') {
        Some(name) => name.find('"')? + 2,
        None => name_length(text.as_bytes()),
    };
    (length > 0).then_some(length)
}

/// Is a query a list of expressions, without a clause that says more, but INTO?
pub fn is_list_alone(select: &SelectStmt) -> bool {
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

/// Of queries that UNION and the like combine, the first one: INTO stands there.
pub fn first_of_union(mut select: &SelectStmt) -> &SelectStmt {
    while let Some(left) = select.larg() {
        select = left;
    }
    select
}
