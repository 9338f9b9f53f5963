//! Knows which of PostgreSQL's settings concern only the session that has them, and how
//! `set_config` sets them.
//!
//! A session that changes one of these settings can continue on any server with the same value. All
//! other settings bind the session to its server: settings that decide its user and rights, that
//! make objects for other sessions, or that extensions and functions of users read.

/// The names of these settings, in addition to those that begin as [`OF_PLANNER`]. They are
/// compared without regard to case.
const OWN: &[&str] = &[
    "application_name",
    "bytea_output",
    "client_encoding",
    "client_min_messages",
    "constraint_exclusion",
    "cpu_index_tuple_cost",
    "cpu_operator_cost",
    "cpu_tuple_cost",
    "cursor_tuple_fraction",
    "datestyle",
    "default_text_search_config",
    "default_transaction_isolation",
    "effective_cache_size",
    "effective_io_concurrency",
    "extra_float_digits",
    "from_collapse_limit",
    "geqo",
    "geqo_effort",
    "geqo_generations",
    "geqo_pool_size",
    "geqo_seed",
    "geqo_selection_bias",
    "geqo_threshold",
    "hash_mem_multiplier",
    "idle_in_transaction_session_timeout",
    "intervalstyle",
    "jit",
    "jit_above_cost",
    "jit_inline_above_cost",
    "jit_optimize_above_cost",
    "join_collapse_limit",
    "lc_monetary",
    "lc_numeric",
    "lc_time",
    "lock_timeout",
    "max_parallel_workers_per_gather",
    "min_parallel_index_scan_size",
    "min_parallel_table_scan_size",
    "parallel_leader_participation",
    "parallel_setup_cost",
    "parallel_tuple_cost",
    "plan_cache_mode",
    "random_page_cost",
    "recursive_worktable_factor",
    "search_path",
    "seq_page_cost",
    "standard_conforming_strings",
    "statement_timeout",
    "timezone",
    "work_mem",
    "xmloption",
];
/// Switches of the planner.
const OF_PLANNER: &str = "enable_";

/// The settings among them that change the meaning of texts or the format of values, except
/// `search_path`.
const OF_TEXTS: &[&str] = &[
    "bytea_output",
    "client_encoding",
    "datestyle",
    "default_text_search_config",
    "intervalstyle",
    "lc_monetary",
    "lc_numeric",
    "lc_time",
    "standard_conforming_strings",
    "timezone",
    "xmloption",
];

/// Returns whether a setting affects only the session that has it.
pub fn is_own(name: &[u8]) -> bool {
    let is = |known: &&str| known.as_bytes().eq_ignore_ascii_case(name);
    let start = name.get(..OF_PLANNER.len());
    OWN.iter().any(is) || start.is_some_and(|start| is_word(start, OF_PLANNER))
}

/// Returns whether a setting may change the meaning of a query string, other than by the schemas in
/// which names are looked up.
pub fn is_of_texts(name: &str) -> bool {
    OF_TEXTS
        .iter()
        .any(|known| known.eq_ignore_ascii_case(name))
}

/// Returns whether a query string only changes settings that affect only its session, by `SELECT
/// set_config('name', value, false), …`. The string must contain their names, and `false`, which
/// makes the settings last beyond the transaction.
pub fn is_set_config(text: &[u8]) -> bool {
    // A backslash may be an escape, by `standard_conforming_strings`.
    let is_plain = text.is_ascii() && !text.contains(&b'\\');
    is_plain && set_configs(&mut { text }).is_some()
}

fn is_word(word: &[u8], known: &str) -> bool {
    word.eq_ignore_ascii_case(known.as_bytes())
}

fn set_configs(rest: &mut &[u8]) -> Option<()> {
    word(rest, "select")?;
    loop {
        if word(rest, "pg_catalog").is_some() {
            sign(rest, b'.')?;
        }
        word(rest, "set_config")?;
        sign(rest, b'(')?;
        let name = literal(rest)?;
        is_own(name).then_some(())?;
        sign(rest, b',')?;
        match parameter(rest) {
            Some(()) => {}
            None => drop(literal(rest)?),
        }
        sign(rest, b',')?;
        word(rest, "false").or_else(|| is_no(literal(rest)?).then_some(()))?;
        sign(rest, b')')?;
        if word(rest, "as").is_some() {
            let length = crate::quoting::name_length(rest.trim_ascii_start());
            *rest = rest
                .trim_ascii_start()
                .get(length..)
                .filter(|_| length > 0)?;
        }
        if sign(rest, b',').is_none() {
            break;
        }
    }
    // Further ones may follow, but no other statement.
    sign(rest, b';');
    rest.trim_ascii_start().is_empty().then_some(())
}

fn is_no(literal: &[u8]) -> bool {
    ["f", "false", "off", "no", "0"]
        .iter()
        .any(|no| is_word(literal, no))
}

/// Takes this word, whole.
fn word(rest: &mut &[u8], known: &str) -> Option<()> {
    let text = rest.trim_ascii_start();
    let (word, after) = text.split_at(crate::quoting::name_length(text));
    *rest = Some(after).filter(|_| is_word(word, known))?;
    Some(())
}

fn sign(rest: &mut &[u8], sign: u8) -> Option<()> {
    *rest = rest.trim_ascii_start().strip_prefix(&[sign])?;
    Some(())
}

/// Takes a literal, which may be cast to `text`.
fn literal<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let text = rest.trim_ascii_start().strip_prefix(b"'")?;
    let mut end = 0;
    loop {
        end += text[end..].iter().position(|byte| *byte == b'\'')?;
        if text.get(end + 1) != Some(&b'\'') {
            break;
        }
        end += 2;
    }
    *rest = &text[end + 1..];
    cast(rest)?;
    Some(&text[..end])
}

/// Takes a parameter, `$1`, which may be cast to `text`.
fn parameter(rest: &mut &[u8]) -> Option<()> {
    let text = rest.trim_ascii_start().strip_prefix(b"$")?;
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    *rest = text.get(digits..).filter(|_| digits > 0)?;
    cast(rest)
}

fn cast(rest: &mut &[u8]) -> Option<()> {
    match rest.trim_ascii_start().strip_prefix(b"::") {
        Some(after) => {
            *rest = after;
            word(rest, "text")
        }
        None => Some(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_only_set() {
        for text in [
            "SELECT set_config('TimeZone', 'UTC', false)",
            "select pg_catalog.Set_Config('work_mem', '1MB', 'off') ;",
            "SELECT set_config('search_path', '\"it''s\", public', false) AS a, set_config('jit', $1, false)",
            "SELECT set_config('enable_seqscan'::text, $2::text, 'false')",
        ] {
            assert!(is_set_config(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn texts_that_may_do_more() {
        for text in [
            "SELECT set_config('TimeZone', 'UTC', true)",
            "SELECT set_config('a.b', 'UTC', false)",
            "SELECT set_config('role', 'ann', false)",
            "SELECT set_config($1, 'UTC', false)",
            "SELECT set_config('TimeZone', f(), false)",
            "SELECT set_config('TimeZone', 'UTC', false), f()",
            "SELECT set_config('TimeZone', 'UTC', false) FROM t",
            "SELECT set_config('TimeZone', 'UTC', false); SELECT 1",
            "SELECT set_config('Time' 'Zone', 'UTC', false)",
            "SELECT set_config('TimeZone\\'', 'UTC', false)",
            "SELECT s.set_config('TimeZone', 'UTC', false)",
            "SELECT set_config('TimeZone', 'UTC', false",
            "SELECT set_config('TimeZone",
            "SELECT 1",
        ] {
            assert!(!is_set_config(text.as_bytes()), "{text}");
        }
    }
}
