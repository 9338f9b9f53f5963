//! Parses `ALTER TABLE`, `ALTER INDEX` and `TRUNCATE`.

use sqlparser::ast;
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::create_index::{self, IndexPlace};
use super::indexes::keyword;
use super::{constraints, create, object_name, parse_tokens, text_of};
use crate::error::{SqlError, sqlstate};
use crate::script::is_space;
use crate::spelling::{column_type, name};
use crate::statement::{AlterAction, AlterTable, NewCheck, SetUsing, Statement, Truncate};

/// Parses `TRUNCATE`.
pub(super) fn truncate(truncate: ast::Truncate) -> Result<Statement, SqlError> {
    let text = truncate.to_string();
    let unsupported = |remedy: &str| Err(SqlError::unsupported(format!("\"{text}\""), remedy));
    let is_plain = truncate.partitions.is_none()
        && truncate.on_cluster.is_none()
        && !truncate.if_exists
        && truncate.table_names.iter().all(|it| !it.has_asterisk);
    if !is_plain {
        return unsupported("write TRUNCATE name, … [RESTART IDENTITY] [CASCADE]");
    }
    let tables = truncate.table_names.iter().map(|it| object_name(&it.name));
    Ok(Statement::Truncate(Truncate {
        tables: tables.collect::<Result<_, _>>()?,
        cascade: truncate.cascade == Some(ast::CascadeOption::Cascade),
        restarts: truncate.identity == Some(ast::TruncateIdentityOption::Restart),
    }))
}

/// Parses `ALTER TABLE`.
pub(super) fn table(alter: ast::AlterTable) -> Result<Statement, SqlError> {
    let table = object_name(&alter.name)?;
    let is_plain =
        alter.location.is_none() && alter.on_cluster.is_none() && alter.table_type.is_none();
    if !is_plain {
        return Err(SqlError::unsupported(
            format!("\"{alter}\""),
            "write ALTER TABLE name and one or more changes",
        ));
    }
    if let [ast::AlterTableOperation::SetOptionsParens { options }] = &alter.operations[..]
        && !alter.if_exists
    {
        return set_option(table, options);
    }
    let count = alter.operations.len();
    let mut actions = Vec::with_capacity(count);
    for operation in alter.operations {
        let is_alone = count == 1;
        actions.push(action(&table, operation, is_alone)?);
    }
    Ok(Statement::AlterTable(AlterTable {
        table: Some(table),
        if_exists: alter.if_exists,
        actions,
    }))
}

// tidy: long — one arm per change of a table
/// Converts one change of a table.
fn action(
    table: &str,
    operation: ast::AlterTableOperation,
    is_alone: bool,
) -> Result<AlterAction, SqlError> {
    use ast::AlterTableOperation::{
        AddColumn, AddConstraint, AlterColumn, DropColumn, DropConstraint, RenameColumn,
        RenameConstraint, RenameTable, ValidateConstraint,
    };
    let text = operation.to_string();
    let unsupported = |remedy: &str| {
        Err(SqlError::unsupported(
            format!("\"{text}\" of ALTER TABLE"),
            remedy,
        ))
    };
    let renames = matches!(
        operation,
        RenameColumn { .. } | RenameConstraint { .. } | RenameTable { .. }
    );
    if renames && !is_alone {
        return Err(SqlError::with_state(
            sqlstate::SYNTAX,
            "RENAME stands alone in its ALTER TABLE: write a statement for it",
        ));
    }
    Ok(match operation {
        RenameTable {
            table_name: ast::RenameTableNameKind::To(to),
        } => AlterAction::Rename(object_name(&to)?),
        RenameColumn {
            old_column_name,
            new_column_name,
        } => AlterAction::RenameColumn {
            column: name(&old_column_name),
            name: name(&new_column_name),
        },
        RenameConstraint { old_name, new_name } => AlterAction::RenameConstraint {
            constraint: name(&old_name),
            name: name(&new_name),
        },
        AlterColumn { column_name, op } => {
            let column = name(&column_name);
            match op {
                ast::AlterColumnOperation::SetNotNull => AlterAction::SetNullable {
                    column,
                    nullable: false,
                },
                ast::AlterColumnOperation::DropNotNull => AlterAction::SetNullable {
                    column,
                    nullable: true,
                },
                ast::AlterColumnOperation::SetDefault { value } => AlterAction::SetDefault {
                    column,
                    default: Some(value),
                },
                ast::AlterColumnOperation::DropDefault => AlterAction::SetDefault {
                    column,
                    default: None,
                },
                ast::AlterColumnOperation::SetDataType {
                    data_type, using, ..
                } if using
                    .as_ref()
                    .is_none_or(|it| casts_only(it, &column, &data_type)) =>
                {
                    AlterAction::SetType {
                        column,
                        column_type: column_type(&data_type)?,
                    }
                }
                _ => {
                    return unsupported(
                        "add a column of the new type, and copy the values with UPDATE",
                    );
                }
            }
        }
        AddColumn {
            if_not_exists,
            column_def,
            column_position: None,
            ..
        } => AlterAction::AddColumn {
            definition: column_def,
            if_not_exists,
        },
        AddConstraint {
            constraint,
            not_valid,
        } => return constraint_action(table, (constraint, not_valid)),
        DropConstraint {
            if_exists,
            name: constraint,
            // Nothing depends on a constraint that can be dropped.
            drop_behavior: _,
        } => AlterAction::DropConstraint {
            constraint: name(&constraint),
            if_exists,
        },
        ValidateConstraint { name: constraint } => AlterAction::Validate(name(&constraint)),
        DropColumn {
            column_names,
            if_exists,
            // Indexes and constraints go with the column anyway.
            drop_behavior,
            has_column_keyword: _,
        } if column_names.len() == 1 => AlterAction::DropColumn {
            column: name(&column_names[0]),
            if_exists,
            cascade: drop_behavior == Some(ast::DropBehavior::Cascade),
        },
        _ => {
            return unsupported(
                "docs/reference/sql.md lists the changes; for others create a new table, then \
                 export and import the rows",
            );
        }
    })
}

/// Converts `ADD CONSTRAINT`.
fn constraint_action(
    table: &str,
    (constraint, not_valid): (ast::TableConstraint, bool),
) -> Result<AlterAction, SqlError> {
    let text = constraint.to_string();
    let unsupported = |remedy: &str| Err(SqlError::unsupported(format!("ADD \"{text}\""), remedy));
    match constraint {
        ast::TableConstraint::Check(check) => {
            if check.no_inherit || check.enforced == Some(false) {
                return unsupported("write CHECK (condition) and nothing behind it");
            }
            Ok(AlterAction::AddCheck(NewCheck {
                name: check.name.as_ref().map(name),
                condition: *check.expr,
                validates: !not_valid,
            }))
        }
        ast::TableConstraint::Unique(key) if create::is_plain_unique(&key) => {
            create::unique(table, key).map(AlterAction::AddUnique)
        }
        ast::TableConstraint::ForeignKey(key) => Ok(AlterAction::AddReference {
            reference: constraints::reference(key)?,
            validates: !not_valid,
        }),
        ast::TableConstraint::PrimaryKey(_) => {
            unsupported("create a table with this primary key, then export and import the rows")
        }
        _ => unsupported(
            "a table takes CHECK (condition), UNIQUE (columns) and FOREIGN KEY (columns) \
             REFERENCES table",
        ),
    }
}

/// Returns whether the expression after `USING` is the cast that `TYPE` makes without it.
fn casts_only(using: &ast::Expr, column: &str, data_type: &ast::DataType) -> bool {
    match using {
        ast::Expr::Identifier(named) => name(named) == column,
        ast::Expr::Nested(inner) => casts_only(inner, column, data_type),
        ast::Expr::Cast {
            expr,
            data_type: wanted,
            ..
        } => wanted == data_type && casts_only(expr, column, data_type),
        _ => false,
    }
}

/// Parses `ALTER TABLE … SET (option = …)`.
fn set_option(table: String, options: &[ast::SqlOption]) -> Result<Statement, SqlError> {
    let [ast::SqlOption::KeyValue { key, value }] = options else {
        return Err(SqlError::statement(
            "ALTER TABLE … SET changes one option: write SET (partitions = number) or SET \
             (failures_tolerated = number)",
        ));
    };
    let (key, text) = (name(key), text_of(value));
    let number = |min: u32, max: u32| {
        let number = text.parse::<u32>().ok();
        number.filter(|it| (min..=max).contains(it)).ok_or_else(|| {
            SqlError::statement(format!(
                "{text} is no value of option {key}: write a whole number from {min} to {max}"
            ))
        })
    };
    match key.as_str() {
        "partitions" => {
            let partitions = number(1, placement::PARTITIONS_MAX)?;
            Ok(Statement::SetPartitions { table, partitions })
        }
        "failures_tolerated" => {
            let max = u32::try_from(placement::REPLEXES_MAX - 1).unwrap_or(u32::MAX);
            let failures = u8::try_from(number(0, max)?).unwrap_or(u8::MAX);
            Ok(Statement::SetFailures { table, failures })
        }
        _ => Err(SqlError::statement(format!(
            "option {key} of a table cannot be changed, only partitions and failures_tolerated can: \
             create a new table, then export and import the rows"
        ))),
    }
}

/// Parses `ALTER INDEX [IF EXISTS] name [ON table] RENAME TO name`. Returns none for any other
/// statement.
fn renamed_index(tokens: &[TokenWithSpan]) -> Option<Statement> {
    let word = |at: usize| match &tokens.get(at)?.token {
        Token::Word(word) => Some(word),
        _ => None,
    };
    let is = |at: usize, wanted: Keyword| word(at).is_some_and(|it| it.keyword == wanted);
    let ident = |at: usize| {
        let word = word(at)?;
        Some(name(&ast::Ident {
            value: word.value.clone(),
            quote_style: word.quote_style,
            span: tokens[at].span,
        }))
    };
    let if_exists = is(2, Keyword::IF) && is(3, Keyword::EXISTS);
    let at = if if_exists { 4 } else { 2 };
    let index = ident(at)?;
    let on = is(at + 1, Keyword::ON);
    let table = if on { Some(ident(at + 2)?) } else { None };
    let at = if on { at + 3 } else { at + 1 };
    let to = is(at, Keyword::RENAME) && is(at + 1, Keyword::TO) && tokens.len() == at + 3;
    let name = ident(at + 2).filter(|_| to)?;
    Some(Statement::AlterTable(AlterTable {
        table,
        if_exists,
        actions: vec![AlterAction::RenameIndex { index, name }],
    }))
}

/// Parses `ALTER INDEX`. PostgreSQL's grammar has no `SET USING`, so the tokens become those of a
/// `CREATE INDEX` with the same name, kind, `INCLUDE` and `WITH`.
pub(super) fn index(text: &str, tokens: &[TokenWithSpan]) -> Result<Statement, SqlError> {
    let tokens = tokens.iter().filter(|it| !is_space(&it.token)).cloned();
    let tokens: Vec<TokenWithSpan> = tokens.collect();
    if let Some(renamed) = renamed_index(&tokens) {
        return Ok(renamed);
    }
    let is = |token: &TokenWithSpan, wanted: Keyword| keyword(token) == Some(wanted);
    let set = tokens
        .windows(2)
        .position(|pair| is(&pair[0], Keyword::SET) && is(&pair[1], Keyword::USING));
    let (Some(set), false) = (set, tokens.iter().any(|it| is(it, Keyword::IF))) else {
        return Err(SqlError::unsupported(
            "this form of ALTER INDEX",
            "write ALTER INDEX name [ON table] RENAME TO name, or ALTER INDEX name [ON table] SET \
             USING btree or replex [INCLUDE (columns)] [WITH (options)]",
        ));
    };
    let at = tokens[set].span;
    let word = |text: &str| TokenWithSpan::new(Token::make_keyword(text), at);
    let names_table = tokens[..set].iter().any(|it| is(it, Keyword::ON));
    let mut create = vec![word("CREATE")];
    create.extend_from_slice(&tokens[1..set]);
    if !names_table {
        create.extend([
            word("ON"),
            TokenWithSpan::new(Token::make_word("t", None), at),
        ]);
    }
    let (using, rest) = tokens[set + 1..].split_at(2.min(tokens.len() - set - 1));
    create.extend_from_slice(using);
    // The columns stay as they are.
    let column = TokenWithSpan::new(Token::make_word("c", None), at);
    create.extend([TokenWithSpan::new(Token::LParen, at), column]);
    create.push(TokenWithSpan::new(Token::RParen, at));
    create.extend_from_slice(rest);
    let ast::Statement::CreateIndex(create) = parse_tokens(text, create)? else {
        unreachable!("the tokens begin with CREATE INDEX");
    };
    let index = create_index::index(create, IndexPlace::Statement)?;
    Ok(Statement::SetUsing(SetUsing {
        table: names_table.then_some(index.table),
        name: index.name,
        kind: index.kind,
    }))
}
