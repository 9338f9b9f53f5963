//! Converts `CREATE INDEX` from syntax trees to the indexes and further copies of a schema.
//!
//! Names become positions here. A missing option is reported with numbers that would be valid.
//! `Schema::validate` checks whether the copies are possible.

use placement::{
    Constraint, Cut, Dimension, FurtherCopy, Index, Schema, Share, SortColumn, ThinIndex,
    ascending, even_factors,
};
use sqlparser::ast::{self, Expr};

use super::{made_up_name, object_name, template, text_of};
use crate::bind;
use crate::error::SqlError;
use crate::spelling::name;
use crate::statement::{CreateIndex, Direction, IndexKind};

/// The place of the definition of an index. It determines the kind, unless the definition says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IndexPlace {
    /// A clause of `CREATE TABLE`: a copy of the table.
    Clause,
    /// A `CREATE INDEX`: a thin index, or a copy if it is unique.
    Statement,
}

/// Parses `CREATE INDEX`, alone, after its table or from a clause inside it.
pub(super) fn index(
    mut create: ast::CreateIndex,
    place: IndexPlace,
) -> Result<CreateIndex, SqlError> {
    let table = object_name(&create.table_name)?;
    let (names, directions) = index_columns(&std::mem::take(&mut create.columns))?;
    let given = create.name.take().as_ref().map(object_name).transpose()?;
    let unique = std::mem::take(&mut create.unique);
    // Every index is made while its table is in use.
    create.concurrently = false;
    let if_not_exists = std::mem::take(&mut create.if_not_exists);
    let options = std::mem::take(&mut create.with);
    let using = create.using.take().map(|it| it.to_string());
    let included: Vec<String> = std::mem::take(&mut create.include)
        .iter()
        .map(name)
        .collect();
    let ast::Statement::CreateIndex(mut blank) = template("CREATE INDEX ON t (c)") else {
        unreachable!("the template creates an index");
    };
    blank.table_name = create.table_name.clone();
    blank.columns.clear();
    if create != blank {
        return Err(SqlError::unsupported(
            "this form of CREATE INDEX",
            "write CREATE [UNIQUE] INDEX name ON table [USING kind] (columns) [INCLUDE (columns)] \
             [WITH (options)]",
        ));
    }
    let columns = DefinedColumns {
        unique,
        included,
        directions,
    };
    let mut kind = kind_of(using.as_deref(), place, &columns, &table)?;
    for option in &options {
        set_option(&mut kind, option)?;
    }
    let suffix = match &kind {
        IndexKind::Sorted {
            constraint: Some(Constraint::Unique),
            ..
        }
        | IndexKind::Thin { unique: true, .. } => "key",
        IndexKind::Sorted { .. } | IndexKind::Thin { .. } => "idx",
        further => further.using(),
    };
    Ok(CreateIndex {
        name: given.unwrap_or_else(|| made_up_name(&table, &names, suffix)),
        table,
        names,
        kind,
        if_not_exists,
    })
}

/// The parts of a definition that depend on the kind of the index.
struct DefinedColumns {
    unique: bool,
    included: Vec<String>,
    directions: Vec<Direction>,
}

/// Returns the kind that a definition says or implies.
fn kind_of(
    using: Option<&str>,
    place: IndexPlace,
    DefinedColumns {
        unique,
        included,
        directions: defined,
    }: &DefinedColumns,
    table: &str,
) -> Result<IndexKind, SqlError> {
    let is_thin = place == IndexPlace::Statement && !unique;
    let by_default = if is_thin { "btree" } else { "replex" };
    let mut kind = kind(using.unwrap_or(by_default))?;
    match &mut kind {
        IndexKind::Thin {
            directions,
            included: columns,
            unique: is_unique,
            ..
        } => {
            directions.clone_from(defined);
            columns.clone_from(included);
            *is_unique = *unique;
        }
        IndexKind::Sorted { constraint, .. } => {
            *constraint = unique.then_some(Constraint::Unique);
        }
        kind if *unique => {
            return Err(SqlError::statement(format!(
                "a {} cannot be unique: it demands nothing of the rows; make another index UNIQUE",
                kind.using()
            )));
        }
        _ => {}
    }
    if matches!(kind, IndexKind::Thin { .. }) {
        return Ok(kind);
    }
    check_ascending(defined, table)?;
    if !included.is_empty() {
        let words = if *unique { "UNIQUE INDEX" } else { "INDEX" };
        return Err(SqlError::statement(format!(
            "a copy of the table has all columns: leave out INCLUDE, or make a thin index with \
             CREATE {words} … ON {table} USING btree (…) INCLUDE ({})",
            included.join(", ")
        )));
    }
    Ok(kind)
}

fn kind(using: &str) -> Result<IndexKind, SqlError> {
    let numbers = Vec::new;
    Ok(match using.to_lowercase().as_str() {
        "btree" => IndexKind::Thin {
            directions: Vec::new(),
            included: Vec::new(),
            by_range: None,
            unique: false,
            copies: None,
        },
        "replex" => IndexKind::Sorted {
            constraint: None,
            partition_by: Vec::new(),
            by_range: false,
        },
        "hybrid" => IndexKind::Hybrid {
            divisions: numbers(),
        },
        "hybrids_between" => IndexKind::HybridsBetween { factors: numbers() },
        "replica" => IndexKind::Replica,
        "hyperspace" => IndexKind::Hyperspace {
            divisions: numbers(),
        },
        _ => {
            return Err(SqlError::unsupported(
                format!("an index USING {using}"),
                "leave USING out for a thin index, or write USING replex for a copy of the table \
                 that is sorted by the columns, or USING hybrid, hybrids_between, replica or \
                 hyperspace",
            ));
        }
    })
}

/// Takes one option of `WITH (…)`.
fn set_option(kind: &mut IndexKind, option: &Expr) -> Result<(), SqlError> {
    let Expr::BinaryOp {
        left,
        op: ast::BinaryOperator::Eq,
        right,
    } = option
    else {
        return Err(SqlError::statement(format!(
            "{option} is no option of an index: write WITH (constraint = 'dense') or WITH \
             (divisions = '3,4')"
        )));
    };
    let (option, value) = (left.to_string().to_lowercase(), text_of(right));
    match (&mut *kind, option.as_str()) {
        (
            IndexKind::Thin {
                by_range, unique, ..
            },
            "ranges",
        ) => {
            *by_range = Some(is_on(&value)?);
            check_division(*unique, *by_range)?;
        }
        (IndexKind::Sorted { by_range, .. }, "ranges") => *by_range = is_on(&value)?,
        (IndexKind::Thin { copies, .. }, "copies") => {
            let number = value.parse().ok().filter(|copies| *copies > 0);
            let number = number.ok_or_else(|| {
                SqlError::statement(format!(
                    "{value} is no value of option copies: write how often entries are kept, as in \
                     copies = 2"
                ))
            })?;
            *copies = Some(number);
        }
        (IndexKind::Sorted { partition_by, .. }, "partition_by") => {
            *partition_by = partition_columns(&value);
        }
        (IndexKind::Sorted { constraint, .. }, "constraint") => {
            *constraint = Some(match value.to_lowercase().as_str() {
                "unique" => Constraint::Unique,
                "dense" => Constraint::Dense,
                _ => {
                    return Err(SqlError::statement(format!(
                        "{value} is no constraint of an index: write 'unique' or 'dense'"
                    )));
                }
            });
        }
        (IndexKind::Hybrid { divisions } | IndexKind::Hyperspace { divisions }, "divisions") => {
            *divisions = numbers(&option, &value)?;
        }
        (IndexKind::HybridsBetween { factors }, "factors") => *factors = numbers(&option, &value)?,
        _ => {
            let (what, remedy) = options_of(kind);
            return Err(SqlError::statement(format!(
                "{what} has no option {option}: {remedy}"
            )));
        }
    }
    Ok(())
}

/// Parses the value of option `ranges`.
fn is_on(value: &str) -> Result<bool, SqlError> {
    match value.to_lowercase().as_str() {
        "on" | "true" => Ok(true),
        "off" | "false" => Ok(false),
        _ => Err(SqlError::statement(format!(
            "{value} is no value of option ranges: write on or off"
        ))),
    }
}

/// Returns the name of a kind in errors, and its options.
fn options_of(kind: &IndexKind) -> (&'static str, &'static str) {
    match kind {
        IndexKind::Thin { .. } => (
            "a thin index",
            "there are ranges (on or off) and copies (a number); write USING replex for a copy of \
             the table, which has constraint, partition_by and ranges",
        ),
        IndexKind::Sorted { .. } => (
            "an index",
            "there are constraint, partition_by and ranges (on or off)",
        ),
        IndexKind::Replica => ("a replica", "leave WITH out"),
        IndexKind::HybridsBetween { .. } => ("hybrids_between", "the one there is is factors"),
        IndexKind::Hybrid { .. } => ("a hybrid", "the one there is is divisions"),
        IndexKind::Hyperspace { .. } => ("a hyperspace", "the one there is is divisions"),
    }
}

/// Parses the numbers of an option, such as `'3,4'`.
fn numbers(option: &str, value: &str) -> Result<Vec<u32>, SqlError> {
    let numbers = value.split(',').map(|number| number.trim().parse());
    numbers.collect::<Result<_, _>>().map_err(|_| {
        SqlError::statement(format!(
            "{value:?} is no value of option {option}: write whole numbers, as in {option} = '3,4'"
        ))
    })
}

/// Returns the schema of an existing table with another index.
pub(crate) fn with_index(schema: &Schema, create: &CreateIndex) -> Result<Schema, SqlError> {
    let mut wanted = schema.clone();
    push_index(&mut wanted, create.clone())?;
    wanted.validate()?;
    Ok(wanted)
}

/// Returns the definition of an existing index with another kind, under the name `next`. Returns
/// none if the index has this kind already.
///
/// # Errors
/// The table has no such index, or the index cannot have the kind.
pub(crate) fn as_using(
    schema: &Schema,
    name: &str,
    (kind, next): (&IndexKind, &str),
) -> Result<Option<CreateIndex>, SqlError> {
    let table = &schema.name;
    let index = schema.indexes.iter().find(|it| it.name == name);
    let thin = schema.thin.iter().find(|it| it.name == name);
    let columns: Vec<SortColumn> = match (index, thin) {
        (Some(index), _) => ascending(&index.columns),
        (None, Some(thin)) => thin.columns.clone(),
        (None, None) => {
            return Err(SqlError::statement(format!(
                "{name} of table {table} is not an index with columns of its own: drop it, and \
                 make another one with CREATE INDEX"
            )));
        }
    };
    let constraint = match (index, thin) {
        (Some(index), _) => index.constraint,
        (None, thin) => thin.and_then(|it| it.unique.then_some(Constraint::Unique)),
    };
    let mut kind = kind.clone();
    if let (IndexKind::Thin { copies, .. }, Some(thin)) = (&mut kind, thin) {
        copies.get_or_insert(thin.copies);
    }
    let kind = adapted((name, table), kind, (&columns, constraint))?;
    let names = columns
        .iter()
        .map(|it| schema.columns[it.column].name.clone());
    let create = CreateIndex {
        name: next.to_owned(),
        table: table.clone(),
        names: names.collect(),
        kind,
        if_not_exists: false,
    };
    let same = CreateIndex {
        name: name.to_owned(),
        ..create.clone()
    };
    Ok((!has_index(schema, &same)?).then_some(create))
}

/// Returns whether a table has an index of this name with just this definition.
pub(crate) fn has_index(schema: &Schema, create: &CreateIndex) -> Result<bool, SqlError> {
    let name = &create.name;
    let mut wanted = schema.clone();
    wanted.indexes.retain(|it| it.name != *name);
    wanted.thin.retain(|it| it.name != *name);
    push_index(&mut wanted, create.clone())?;
    let defined = |of: &Schema| {
        let index = of.indexes.iter().find(|it| it.name == *name).cloned();
        let thin = of.thin.iter().find(|it| it.name == *name).cloned();
        (index, thin)
    };
    Ok(defined(schema) == defined(&wanted))
}

/// Returns a kind with the columns' directions and the condition of an existing index.
fn adapted(
    (name, table): (&str, &str),
    mut kind: IndexKind,
    (columns, constraint): (&[SortColumn], Option<Constraint>),
) -> Result<IndexKind, SqlError> {
    let direction = |column: &SortColumn| Direction {
        descending: column.descending,
        nulls_first: column.nulls_first,
    };
    let defined: Vec<Direction> = columns.iter().map(direction).collect();
    match &mut kind {
        IndexKind::Thin { .. } if constraint == Some(Constraint::Dense) => {
            return Err(SqlError::statement(format!(
                "index {name} of table {table} is dense, so it stays a copy of the table"
            )));
        }
        IndexKind::Thin {
            directions,
            unique,
            by_range,
            ..
        } => {
            *directions = defined;
            *unique = constraint.is_some();
            check_division(*unique, *by_range)?;
        }
        IndexKind::Sorted {
            constraint: wanted,
            by_range,
            ..
        } => {
            check_ascending(&defined, table)?;
            if *by_range && constraint.is_some() {
                return Err(SqlError::statement(format!(
                    "index {name} of table {table} demands something of the rows, so ranges cannot \
                     divide it: leave ranges out"
                )));
            }
            if wanted.is_some() && *wanted != constraint {
                return Err(SqlError::statement(format!(
                    "SET USING does not change what index {name} of table {table} demands of the \
                     rows: leave the option constraint out, or drop the index and make another one"
                )));
            }
            *wanted = constraint;
        }
        other => {
            return Err(SqlError::statement(format!(
                "index {name} cannot become a {}: write SET USING btree for a thin index, or SET \
                 USING replex for a copy of the table",
                other.using()
            )));
        }
    }
    Ok(kind)
}

/// Adds an index to a table.
pub(super) fn push_index(schema: &mut Schema, create: CreateIndex) -> Result<(), SqlError> {
    let indexes = schema.indexes.iter().map(|it| &it.name);
    let further = schema.further.iter().map(|it| &it.name);
    let thin = schema.thin.iter().map(|it| &it.name);
    let mut names = indexes.chain(further).chain(thin);
    if create.if_not_exists && names.any(|it| *it == create.name) {
        return Ok(());
    }
    if let IndexKind::Sorted {
        constraint,
        partition_by,
        by_range,
    } = &create.kind
    {
        let (constraint, by_range) = (*constraint, *by_range);
        let columns = positions(schema, &create.names)?;
        let what = format!("index {create} of table {}", schema.name);
        let partition_columns = prefix(&what, &create.names, partition_by)?;
        if constraint == Some(Constraint::Unique) {
            check_is_not_primary(schema, &create, &columns)?;
        }
        schema.indexes.push(Index {
            name: create.name,
            columns,
            constraint,
            partition_columns,
            by_range,
        });
        return Ok(());
    }
    if let IndexKind::Thin {
        directions,
        included,
        unique,
        by_range,
        copies,
    } = &create.kind
    {
        let columns = positions(schema, &create.names)?;
        if *unique {
            check_is_not_primary(schema, &create, &columns)?;
        }
        let columns = columns
            .into_iter()
            .zip(directions)
            .map(|(column, direction)| SortColumn {
                column,
                descending: direction.descending,
                nulls_first: direction.nulls_first,
            });
        schema.thin.push(ThinIndex {
            // Two rows with the same key must be in the same partition.
            by_range: by_range.unwrap_or(!*unique),
            columns: columns.collect(),
            included: positions(schema, included)?,
            unique: *unique,
            copies: copies.unwrap_or(1),
            name: create.name,
        });
        return Ok(());
    }
    let cut = cut(schema, &create)?;
    schema.further.push(FurtherCopy {
        name: create.name,
        cut,
    });
    Ok(())
}

/// Checks that the hash of the key divides an index if it is unique.
fn check_division(unique: bool, by_range: Option<bool>) -> Result<(), SqlError> {
    match unique && by_range == Some(true) {
        false => Ok(()),
        true => Err(SqlError::unsupported(
            "a unique index that is divided into ranges",
            "leave the option out: the hash of the key divides a unique thin index",
        )),
    }
}

/// Checks that a unique index demands more than the primary key.
fn check_is_not_primary(
    schema: &Schema,
    create: &CreateIndex,
    columns: &[usize],
) -> Result<(), SqlError> {
    match *columns == schema.primary_key {
        false => Ok(()),
        true => Err(SqlError::statement(format!(
            "index {create} of table {} has the columns of the primary key, which is unique \
             already: leave it out",
            schema.name
        ))),
    }
}

/// Returns the columns in the option `partition_by`: `'a, b'`.
pub(super) fn partition_columns(value: &str) -> Vec<String> {
    let names = value.split(',').map(|name| name.trim().to_lowercase());
    names.filter(|name| !name.is_empty()).collect()
}

/// Returns the number of these columns, which must be the first ones of the key; none if there are
/// none.
pub(super) fn prefix(
    what: &str,
    key: &[String],
    partition_by: &[String],
) -> Result<Option<u8>, SqlError> {
    if !key.starts_with(partition_by) {
        return Err(SqlError::statement(format!(
            "{what} cannot be partitioned by ({}): name the first columns of ({}), in their order",
            partition_by.join(", "),
            key.join(", ")
        )));
    }
    let count = u8::try_from(partition_by.len()).expect("a key has few columns");
    Ok((count > 0).then_some(count))
}

/// Returns the cut of a further copy of the schema.
fn cut(schema: &Schema, create: &CreateIndex) -> Result<Cut, SqlError> {
    let index = |name: &String| index_position(schema, create, name);
    Ok(match &create.kind {
        IndexKind::Sorted { .. } | IndexKind::Thin { .. } => {
            unreachable!("an index is no further copy")
        }
        IndexKind::Hybrid { divisions } => {
            check_numbers(schema, create, divisions)?;
            let indexes: Vec<_> = create.names.iter().map(index).collect::<Result<_, _>>()?;
            let shares = indexes.into_iter().zip(divisions);
            let shares = shares.map(|(index, &divisions)| Share { index, divisions });
            Cut::Hybrid {
                shares: shares.collect(),
            }
        }
        IndexKind::HybridsBetween { factors } => {
            check_count(schema, create, 2, "the two that they are between")?;
            check_factors(schema, create, factors)?;
            Cut::HybridsBetween {
                first: index(&create.names[0])?,
                last: index(&create.names[1])?,
                factors: factors.clone(),
            }
        }
        IndexKind::Replica => {
            check_count(schema, create, 1, "the one to copy")?;
            Cut::Replica {
                of: index(&create.names[0])?,
            }
        }
        IndexKind::Hyperspace { divisions } => {
            check_numbers(schema, create, divisions)?;
            let dimensions = positions(schema, &create.names)?.into_iter().zip(divisions);
            let dimensions = dimensions.map(|(column, &divisions)| Dimension { column, divisions });
            Cut::Hyperspace {
                dimensions: dimensions.collect(),
            }
        }
    })
}

/// Checks that the statement names `count` indexes. `which` says in the error which ones to name.
fn check_count(
    schema: &Schema,
    create: &CreateIndex,
    count: usize,
    which: &str,
) -> Result<(), SqlError> {
    match create.names.len() {
        named if named == count => Ok(()),
        named => Err(SqlError::statement(format!(
            "{create} of table {} names {named} indexes: name {which}",
            schema.name
        ))),
    }
}

fn check_factors(schema: &Schema, create: &CreateIndex, factors: &[u32]) -> Result<(), SqlError> {
    if !factors.is_empty() {
        return Ok(());
    }
    let (one, two) = (example(schema, 2), example(schema, 3));
    Err(SqlError::statement(format!(
        "{create} of table {} does not specify how many hybrids there are: write WITH (factors = \
         '{one}') for one, (factors = '{two}') for two",
        schema.name
    )))
}

/// Checks that there is one number for each name.
fn check_numbers(schema: &Schema, create: &CreateIndex, numbers: &[u32]) -> Result<(), SqlError> {
    let names = create.names.len();
    if numbers.len() == names {
        return Ok(());
    }
    let fault = match numbers.len() {
        0 => "does not specify how it is cut".to_string(),
        count => format!("has {count} divisions for {names} names"),
    };
    Err(SqlError::statement(format!(
        "{create} of table {} {fault}: write WITH (divisions = '{}')",
        schema.name,
        example(schema, names)
    )))
}

/// Returns numbers that multiply to the table's partitions: `4,3`.
fn example(schema: &Schema, count: usize) -> String {
    let factors = even_factors(schema.partitions.max(1), count);
    let factors: Vec<String> = factors.iter().map(u32::to_string).collect();
    factors.join(",")
}

/// Returns the position of an index; the table's own name is its primary key, which has none.
fn index_position(
    schema: &Schema,
    create: &CreateIndex,
    name: &String,
) -> Result<Option<usize>, SqlError> {
    if *name == schema.name {
        return Ok(None);
    }
    let position = schema.indexes.iter().position(|it| it.name == *name);
    position.map(Some).ok_or_else(|| {
        let known = schema.indexes.iter().map(|it| it.name.as_str());
        let known: Vec<&str> = std::iter::once(schema.name.as_str()).chain(known).collect();
        SqlError::statement(format!(
            "{create} names {name}, which is no index of table {}: name some of {} ({} is the \
             primary key), and put indexes before the copies that name them",
            schema.name,
            known.join(", "),
            schema.name
        ))
    })
}

/// Returns the names of an index's columns, and their directions.
fn index_columns(columns: &[ast::IndexColumn]) -> Result<(Vec<String>, Vec<Direction>), SqlError> {
    let columns = columns.iter().map(|it| {
        let ast::OrderByExpr {
            expr: Expr::Identifier(column),
            options: ast::OrderByOptions { sort, nulls_first },
            with_fill: None,
        } = &it.column
        else {
            return Err(unsupported_column(it));
        };
        let descending = match sort {
            None | Some(ast::OrderBySort::Asc) => false,
            Some(ast::OrderBySort::Desc) => true,
            Some(ast::OrderBySort::Using(_)) => return Err(unsupported_column(it)),
        };
        let class = it.operator_class.as_ref().map(object_name).transpose()?;
        if class.is_some_and(|class| !ORDERS.contains(&&*class)) {
            return Err(unsupported_column(it));
        }
        let direction = Direction {
            descending,
            // As PostgreSQL: NULL is larger than everything.
            nulls_first: nulls_first.unwrap_or(descending),
        };
        Ok((name(column), direction))
    });
    columns.collect()
}

/// PostgreSQL's operator classes that mean the order of the store. The store sorts texts by their
/// bytes, so patterns need no other order.
const ORDERS: &[&str] = &[
    "text_pattern_ops",
    "varchar_pattern_ops",
    "bpchar_pattern_ops",
    "text_ops",
    "varchar_ops",
    "bpchar_ops",
    "bool_ops",
    "bytea_ops",
    "int2_ops",
    "int4_ops",
    "int8_ops",
    "float4_ops",
    "float8_ops",
    "numeric_ops",
    "date_ops",
    "timestamp_ops",
    "timestamptz_ops",
    "uuid_ops",
];

fn unsupported_column(column: &ast::IndexColumn) -> SqlError {
    SqlError::unsupported(
        format!("{column} in an index"),
        "name columns, each with ASC or DESC and NULLS FIRST or NULLS LAST if you like",
    )
}

/// Returns the names of the columns of a primary key or of a unique index.
pub(super) fn key_columns(
    columns: &[ast::IndexColumn],
    table: &str,
) -> Result<Vec<String>, SqlError> {
    let (names, directions) = index_columns(columns)?;
    check_ascending(&directions, table)?;
    Ok(names)
}

/// Refuses directions of the columns of a copy.
fn check_ascending(directions: &[Direction], table: &str) -> Result<(), SqlError> {
    match directions.iter().all(|it| *it == Direction::default()) {
        true => Ok(()),
        false => Err(SqlError::unsupported(
            "DESC or NULLS FIRST in a primary key, a copy or a unique index",
            format!(
                "leave it out, because copies can be read both ways, or make a thin index with \
                 CREATE INDEX … ON {table} (… DESC)"
            ),
        )),
    }
}

/// Returns the positions of columns in the table.
pub(super) fn positions(schema: &Schema, columns: &[String]) -> Result<Vec<usize>, SqlError> {
    let positions = columns.iter().map(|column| {
        schema
            .column_index(column)
            .ok_or_else(|| bind::unknown_column(schema, column))
    });
    positions.collect()
}
