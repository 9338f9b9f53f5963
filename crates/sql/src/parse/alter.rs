//! Parses `ALTER TABLE … SET (partitions = …)` and `ALTER INDEX … SET USING …`.

use sqlparser::ast;
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::create_index::{self, IndexPlace};
use super::indexes::keyword;
use super::{object_name, parse_tokens, text_of};
use crate::error::SqlError;
use crate::script::is_space;
use crate::spelling::name;
use crate::statement::{SetUsing, Statement};

/// Parses `ALTER TABLE`.
pub(super) fn table(alter: ast::AlterTable) -> Result<Statement, SqlError> {
    let table = object_name(&alter.name)?;
    let operation = match &alter.operations[..] {
        [ast::AlterTableOperation::SetOptionsParens { options }] if is_plain(&alter) => options,
        _ => {
            return Err(SqlError::unsupported(
                "this form of ALTER TABLE",
                "write ALTER TABLE name SET (partitions = number); for other changes create a new \
                 table, then export and import the rows",
            ));
        }
    };
    let [ast::SqlOption::KeyValue { key, value }] = &operation[..] else {
        return Err(SqlError::statement(
            "ALTER TABLE … SET changes one option: write SET (partitions = number)",
        ));
    };
    let (key, text) = (name(key), text_of(value));
    if key != "partitions" {
        return Err(SqlError::statement(format!(
            "option {key} of a table cannot be changed, only partitions can: create a new table, \
             then export and import the rows"
        )));
    }
    let max = placement::PARTITIONS_MAX;
    let partitions = text.parse::<u32>().ok();
    let partitions = partitions.filter(|it| (1..=max).contains(it));
    let partitions = partitions.ok_or_else(|| {
        SqlError::statement(format!(
            "{text} is no value of option partitions: write a whole number from 1 to {max}"
        ))
    })?;
    Ok(Statement::SetPartitions { table, partitions })
}

/// Returns whether nothing but the operation is given.
fn is_plain(alter: &ast::AlterTable) -> bool {
    !alter.if_exists
        && !alter.only
        && alter.location.is_none()
        && alter.on_cluster.is_none()
        && alter.table_type.is_none()
}

/// Parses `ALTER INDEX`. PostgreSQL's grammar has no `SET USING`, so the tokens become those of a
/// `CREATE INDEX` with the same name, kind, `INCLUDE` and `WITH`.
pub(super) fn index(text: &str, tokens: &[TokenWithSpan]) -> Result<Statement, SqlError> {
    let tokens = tokens.iter().filter(|it| !is_space(&it.token)).cloned();
    let tokens: Vec<TokenWithSpan> = tokens.collect();
    let is = |token: &TokenWithSpan, wanted: Keyword| keyword(token) == Some(wanted);
    let set = tokens
        .windows(2)
        .position(|pair| is(&pair[0], Keyword::SET) && is(&pair[1], Keyword::USING));
    let (Some(set), false) = (set, tokens.iter().any(|it| is(it, Keyword::IF))) else {
        return Err(SqlError::unsupported(
            "this form of ALTER INDEX",
            "write ALTER INDEX name [ON table] SET USING btree or replex [INCLUDE (columns)] \
             [WITH (options)]",
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
