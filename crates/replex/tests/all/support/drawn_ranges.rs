//! Random tables and random statements about ranges of them, the same for the store and for
//! PostgreSQL. One seed is one table, its rows and its statements.

use std::fmt::Write as _;

/// Statements of one seed.
pub const STATEMENTS: usize = 60;
/// The most rows of a table; values come from small domains, so that they meet.
const ROWS_MAX: usize = 80;

/// A table and statements, as one seed draws them.
pub struct Case {
    /// Creates and fills the table in the store.
    pub store: Vec<String>,
    /// The same for PostgreSQL.
    pub postgres: Vec<String>,
    /// The statements for both, in this order.
    pub statements: Vec<Statement>,
}

/// A statement that both understand.
pub struct Statement {
    /// Its text.
    pub text: String,
    /// Whether its rows come in one order only.
    pub is_ordered: bool,
    /// Whether its result may have 0 instead of -0: they are equal, so either is the smallest.
    pub ignores_sign_of_zero: bool,
}

/// Types of columns, and literals of theirs.
const TYPES: &[(&str, &[&str])] = &[
    (
        "bigint",
        &[
            "-9223372036854775808",
            "-7",
            "-1",
            "0",
            "1",
            "2",
            "3",
            "9007199254740993",
            "9223372036854775807",
        ],
    ),
    (
        "text",
        &[
            "''",
            "' '",
            "'A'",
            "'a'",
            "'a '",
            "'ab'",
            "'b'",
            "'ä'",
            "'é'",
            "'\u{ffff}'",
            "'😀'",
            "E'a\\x01'",
            "'a%'",
            "'Z'",
        ],
    ),
    (
        "timestamp",
        &[
            "'-infinity'",
            "'infinity'",
            "'2024-01-01'",
            "'2024-01-01 00:00:00.000001'",
            "'1969-12-31 23:59:59'",
            "'0044-03-15 BC'",
            "'2024-02-29 12:00:00'",
        ],
    ),
    (
        "uuid",
        &[
            "'00000000-0000-0000-0000-000000000000'",
            "'00000000-0000-0000-0000-000000000001'",
            "'7fffffff-ffff-ffff-ffff-ffffffffffff'",
            "'80000000-0000-0000-0000-000000000000'",
            "'ffffffff-ffff-ffff-ffff-ffffffffffff'",
        ],
    ),
    ("boolean", &["true", "false"]),
    (
        "double precision",
        &[
            "'NaN'",
            "'-Infinity'",
            "'Infinity'",
            "0",
            "'-0'",
            "0.5",
            "-0.5",
            "1",
            "2",
            "1e300",
            "9007199254740992",
            "9007199254740994",
        ],
    ),
    (
        "bytea",
        &[
            "'\\x'",
            "'\\x00'",
            "'\\x0000'",
            "'\\x00ff'",
            "'\\x61'",
            "'\\xff'",
            "'\\xffff'",
        ],
    ),
];

/// Numbers beside a column of numbers that it may not hold.
const NUMBERS: &[&str] = &[
    "1.5",
    "-0.5",
    "0.0",
    "2.0",
    "1e30",
    "-1e30",
    "9007199254740992.0",
    "9223372036854775807.5",
    "'2'",
    "-9223372036854775809",
    "9223372036854775808",
    "9007199254740993",
    "'1.5'::float8",
    "'9007199254740992'::float8",
    "'NaN'::float8",
    "'-Infinity'::float8",
    "'-0'::float8",
];

/// A source of random numbers: the same for the same seed.
pub struct Draw(pub u64);

impl Draw {
    /// Returns a number below `count`.
    pub fn below(&mut self, count: usize) -> usize {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as usize % count
    }

    /// Returns true once in `count` times.
    pub fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn of<'t>(&mut self, texts: &[&'t str]) -> &'t str {
        texts[self.below(texts.len())]
    }

    /// Returns so many of these numbers, in any order.
    fn some_of(&mut self, from: usize, count: usize) -> Vec<usize> {
        let mut left: Vec<usize> = (0..from).collect();
        let count = count.min(from);
        (0..count)
            .map(|_| left.swap_remove(self.below(left.len())))
            .collect()
    }
}

struct Table {
    /// By column: the position in `TYPES`, and whether NULL is allowed.
    columns: Vec<(usize, bool)>,
    primary_key: Vec<usize>,
    indexes: Vec<Vec<usize>>,
    /// By index: the direction of each column, for the thin ones.
    directions: Vec<Vec<Direction>>,
    /// The indexes that are made by a statement of their own, thin.
    thin: Vec<usize>,
}

/// Whether large values come first, and whether NULLs do.
type Direction = (bool, bool);

/// Returns a column with its direction. Defaults may be left out.
fn sorted(draw: &mut Draw, column: usize, (descending, nulls_first): Direction) -> String {
    let way = match descending {
        true => " DESC",
        false => draw.of(&["", " ASC"]),
    };
    let nulls = match nulls_first {
        first if first == descending && draw.one_in(2) => "",
        true => " NULLS FIRST",
        false => " NULLS LAST",
    };
    format!("c{column}{way}{nulls}")
}

/// Returns what a seed draws.
pub fn case(seed: u64) -> Case {
    let mut draw = Draw(seed);
    let (table, store, postgres) = create(&mut draw);
    let rows = insert(&mut draw, &table);
    let mut of_store = [&[store][..], &rows].concat();
    for index in thin(&mut draw, &table) {
        let place = 1 + draw.below(of_store.len());
        of_store.insert(place, index);
    }
    let statements = (0..STATEMENTS)
        .map(|_| statement(&mut draw, &table))
        .collect();
    Case {
        store: of_store,
        postgres: [&[postgres][..], &rows].concat(),
        statements,
    }
}

/// Returns a direction for each column of each index.
fn directions(draw: &mut Draw, indexes: &[Vec<usize>]) -> Vec<Vec<Direction>> {
    let directions = indexes.iter().map(|index| {
        let direction = |_: &usize| {
            let descending = draw.one_in(2);
            (descending, descending != draw.one_in(4))
        };
        index.iter().map(direction).collect()
    });
    directions.collect()
}

/// Returns the options that divide the copy of an index.
fn division(draw: &mut Draw, index: &[usize]) -> String {
    let cut = draw.below(index.len()) + 1;
    match draw.below(3) {
        0 => String::new(),
        1 => " WITH (ranges = on)".to_owned(),
        _ => format!(" WITH (partition_by = '{}')", list(&index[..cut])),
    }
}

fn create(draw: &mut Draw) -> (Table, String, String) {
    let key = 1 + draw.below(3);
    let others = 1 + draw.below(4);
    let columns: Vec<(usize, bool)> = (0..key + others)
        .map(|column| {
            let of_type = match draw.one_in(3) {
                true => 0,
                false => draw.below(TYPES.len()),
            };
            (of_type, column >= key && !draw.one_in(4))
        })
        .collect();
    let primary_key: Vec<usize> = draw.some_of(key, key);
    let indexes: Vec<Vec<usize>> = (0..draw.below(4))
        .map(|_| {
            let count = 1 + draw.below(3);
            draw.some_of(columns.len(), count)
        })
        .collect();
    let thin: Vec<usize> = (0..indexes.len()).filter(|_| draw.one_in(2)).collect();
    let directions = directions(draw, &indexes);
    let (mut store, mut postgres) = (String::new(), String::new());
    for (column, (of_type, nullable)) in columns.iter().enumerate() {
        let null = if *nullable { "" } else { " NOT NULL" };
        let name = TYPES[*of_type].0;
        write!(store, "c{column} {name}{null}, ").unwrap();
        write!(postgres, "c{column} {name}{null}, ").unwrap();
    }
    let key = list(&primary_key);
    write!(store, "PRIMARY KEY ({key})").unwrap();
    write!(postgres, "PRIMARY KEY ({key})").unwrap();
    for (number, index) in indexes.iter().enumerate() {
        if thin.contains(&number) {
            continue;
        }
        write!(store, ", INDEX i{number} ({})", list(index)).unwrap();
        store.push_str(&division(draw, index));
    }
    if draw.one_in(4) {
        let axes = draw.some_of(columns.len(), 2);
        let divisions = if axes.len() == 2 { "2,2" } else { "3" };
        let names = list(&axes);
        write!(
            store,
            ", INDEX h USING hyperspace ({names}) WITH (divisions = '{divisions}')"
        )
        .unwrap();
    }
    let mut options = format!("partitions = {}", 1 + draw.below(5));
    if draw.one_in(2) {
        let cut = draw.below(primary_key.len()) + 1;
        write!(options, ", partition_by = '{}'", list(&primary_key[..cut])).unwrap();
    }
    let table = Table {
        columns,
        primary_key,
        indexes,
        directions,
        thin,
    };
    (
        table,
        format!("CREATE TABLE t ({store}) WITH ({options})"),
        format!("CREATE TABLE t ({postgres})"),
    )
}

fn list(columns: &[usize]) -> String {
    let names: Vec<String> = columns.iter().map(|it| format!("c{it}")).collect();
    names.join(", ")
}

/// Returns the statements that make the thin indexes, at any time between the rows.
fn thin(draw: &mut Draw, table: &Table) -> Vec<String> {
    let index = |number: &usize| {
        let columns = &table.indexes[*number];
        let mut left: Vec<usize> = (0..table.columns.len()).collect();
        left.retain(|column| !columns.contains(column));
        let count = draw.below(left.len() + 1);
        let places = draw.some_of(left.len(), count);
        let included: Vec<usize> = places.into_iter().map(|place| left[place]).collect();
        let include = match included.is_empty() {
            true => String::new(),
            false => format!(" INCLUDE ({})", list(&included)),
        };
        let directions = columns.iter().zip(&table.directions[*number]);
        let columns: Vec<String> = directions
            .map(|(column, direction)| sorted(draw, *column, *direction))
            .collect();
        format!(
            "CREATE INDEX i{number} ON t ({}){include}",
            columns.join(", ")
        )
    };
    table.thin.iter().map(index).collect()
}

/// Returns one statement for each row: one that is there already is left out.
fn insert(draw: &mut Draw, table: &Table) -> Vec<String> {
    let count = draw.below(ROWS_MAX + 1);
    let row = |draw: &mut Draw| -> String {
        let values = table
            .columns
            .iter()
            .map(|(of_type, nullable)| match nullable {
                true if draw.one_in(4) => "NULL",
                _ => draw.of(TYPES[*of_type].1),
            });
        let values: Vec<&str> = values.collect();
        format!(
            "INSERT INTO t VALUES ({}) ON CONFLICT DO NOTHING",
            values.join(", ")
        )
    };
    (0..count).map(|_| row(draw)).collect()
}

/// Returns a literal for a comparison with a column, mostly of its type.
fn literal(draw: &mut Draw, table: &Table, column: usize) -> String {
    let (name, values) = TYPES[table.columns[column].0];
    match draw.below(16) {
        0 => "NULL".to_string(),
        1 | 2 if name == "bigint" || name == "double precision" => draw.of(NUMBERS).to_string(),
        3 => format!("{}::{name}", draw.of(values)),
        _ => draw.of(values).to_string(),
    }
}

fn bound(draw: &mut Draw, table: &Table, column: usize) -> String {
    let value = literal(draw, table, column);
    let operator = draw.of(&["<", "<=", ">", ">=", "<", "<=", ">", ">=", "="]);
    match draw.below(8) {
        0 => format!("{value} {operator} c{column}"),
        1 | 2 => {
            let not = if draw.one_in(4) { "NOT " } else { "" };
            let other = literal(draw, table, column);
            format!("c{column} {not}BETWEEN {value} AND {other}")
        }
        _ => format!("c{column} {operator} {value}"),
    }
}

fn equality(draw: &mut Draw, table: &Table, column: usize) -> String {
    match draw.below(6) {
        0 if table.columns[column].1 => format!("c{column} IS NULL"),
        1 | 2 => {
            let values = (0..=draw.below(3)).map(|_| literal(draw, table, column));
            let values: Vec<String> = values.collect();
            format!("c{column} IN ({})", values.join(", "))
        }
        _ => format!("c{column} = {}", literal(draw, table, column)),
    }
}

/// Returns a comparison of the columns of an index with as many values.
fn row_comparison(draw: &mut Draw, table: &Table, columns: &[usize]) -> String {
    let names: Vec<String> = columns.iter().map(|it| format!("c{it}")).collect();
    let values = columns.iter().map(|it| literal(draw, table, *it));
    let values: Vec<String> = values.collect();
    format!("({}) = ({})", names.join(", "), values.join(", "))
}

/// Returns conjuncts that narrow an index: its first columns are equated, the next one has a range.
fn condition(draw: &mut Draw, table: &Table) -> String {
    let keys: Vec<&Vec<usize>> = table.indexes.iter().chain([&table.primary_key]).collect();
    let key = keys[draw.below(keys.len())];
    let mut conjuncts = Vec::new();
    let equated = draw.below(key.len() + 1);
    for column in &key[..equated] {
        conjuncts.push(equality(draw, table, *column));
    }
    if let Some(column) = key.get(equated) {
        for _ in 0..draw.below(4) {
            conjuncts.push(bound(draw, table, *column));
        }
    }
    match draw.below(8) {
        0 => conjuncts.push(row_comparison(draw, table, key)),
        1 => {
            let column = draw.below(table.columns.len());
            conjuncts.push(bound(draw, table, column));
        }
        2 => {
            let column = draw.below(table.columns.len());
            let not = if draw.one_in(2) { "NOT " } else { "" };
            conjuncts.push(format!("c{column} IS {not}NULL"));
        }
        3 => {
            let columns = [
                draw.below(table.columns.len()),
                draw.below(table.columns.len()),
            ];
            let [one, other] = columns.map(|it| bound(draw, table, it));
            conjuncts.push(format!("({one} OR {other})"));
        }
        4 => {
            let column = draw.below(table.columns.len());
            let inner = bound(draw, table, column);
            conjuncts.push(format!("NOT ({inner})"));
        }
        _ => {}
    }
    match conjuncts.is_empty() {
        true => String::new(),
        false => format!(" WHERE {}", conjuncts.join(" AND ")),
    }
}

fn statement(draw: &mut Draw, table: &Table) -> Statement {
    let condition = condition(draw, table);
    let number = draw.below(table.columns.len());
    // The second and the third change what later statements read.
    match draw.below(28) {
        0..3 => {
            return Statement {
                text: format!("SELECT count(*) FROM t{condition}"),
                is_ordered: true,
                ignores_sign_of_zero: false,
            };
        }
        3 => {
            return Statement {
                text: format!("DELETE FROM t{condition}"),
                is_ordered: true,
                ignores_sign_of_zero: false,
            };
        }
        4 if !table.primary_key.contains(&number) => {
            let value = draw.of(TYPES[table.columns[number].0].1);
            let text = format!("UPDATE t SET c{number} = {value}{condition}");
            return Statement {
                text,
                is_ordered: true,
                ignores_sign_of_zero: false,
            };
        }
        5 | 6 => {
            return Statement {
                text: format!("SELECT * FROM t{condition}"),
                is_ordered: false,
                ignores_sign_of_zero: false,
            };
        }
        24..28 => return aggregates(draw, table, &condition),
        _ => {}
    }
    ordered(draw, table, &condition)
}

/// Returns a statement of aggregates, mostly of the columns of an index.
fn aggregates(draw: &mut Draw, table: &Table, condition: &str) -> Statement {
    let keys: Vec<&Vec<usize>> = table.indexes.iter().chain([&table.primary_key]).collect();
    let key = keys[draw.below(keys.len())];
    let aggregate = |draw: &mut Draw| {
        let column = match draw.one_in(4) {
            true => draw.below(table.columns.len()),
            false => key[draw.below(key.len())],
        };
        // PostgreSQL has no smallest value of the other types.
        match TYPES[table.columns[column].0].0 {
            _ if draw.one_in(8) => "count(*)".to_string(),
            _ if draw.one_in(8) => format!("count(c{column})"),
            "bigint" | "double precision" | "text" | "timestamp" => {
                format!("{}(c{column})", draw.of(&["min", "max"]))
            }
            _ => format!("count(c{column})"),
        }
    };
    let items: Vec<String> = (0..=draw.below(3)).map(|_| aggregate(draw)).collect();
    Statement {
        text: format!("SELECT {} FROM t{condition}", items.join(", ")),
        is_ordered: true,
        ignores_sign_of_zero: true,
    }
}

/// Returns a statement whose rows come in one order only: a whole primary key is the end of it.
fn ordered(draw: &mut Draw, table: &Table, condition: &str) -> Statement {
    let number = draw.below(table.columns.len());
    let items = match draw.below(3) {
        0 => "*".to_string(),
        1 => format!("c{number}"),
        _ => format!("c{number}, c{}", draw.below(table.columns.len())),
    };
    let number_of_key = draw.below(table.indexes.len() + 1);
    let key = table.indexes.get(number_of_key);
    let key = key.unwrap_or(&table.primary_key);
    let skipped = if draw.one_in(4) {
        draw.below(key.len())
    } else {
        0
    };
    let mut order: Vec<usize> = key[skipped..].to_vec();
    let rest = table.primary_key.iter();
    order.extend(rest.filter(|it| !key[skipped..].contains(*it)));
    // Half of the orders are those of the index, forwards or backwards; the primary key ascends.
    let of_index = table.directions.get(number_of_key);
    let of_index = of_index.filter(|_| draw.one_in(2));
    let (backwards, way) = (draw.one_in(2), draw.one_in(2));
    let nulls_are_turned = draw.one_in(3);
    let order: Vec<String> = order
        .iter()
        .enumerate()
        .map(|(position, column)| {
            let direction = match of_index {
                Some(directions) => {
                    let own = directions.get(position + skipped);
                    let (descending, nulls_first) = own.copied().unwrap_or((false, false));
                    (descending != backwards, nulls_first != backwards)
                }
                None => {
                    let descending = way != draw.one_in(12);
                    (descending, descending != nulls_are_turned)
                }
            };
            sorted(draw, *column, direction)
        })
        .collect();
    let limit = match draw.below(6) {
        0 => format!(" LIMIT {}", draw.below(5)),
        1 => format!(" LIMIT {} OFFSET {}", 1 + draw.below(9), draw.below(9)),
        2 => format!(" OFFSET {}", draw.below(9)),
        3 => " LIMIT 5000000".to_string(),
        _ => String::new(),
    };
    Statement {
        text: format!(
            "SELECT {items} FROM t{condition} ORDER BY {}{limit}",
            order.join(", ")
        ),
        is_ordered: true,
        ignores_sign_of_zero: false,
    }
}
