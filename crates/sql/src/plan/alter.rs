//! Plans `ALTER TABLE`: finds what its names mean, and what all rows of the table must satisfy
//! before the change.

mod columns;
mod comment;

use std::collections::BTreeSet;

use client::default_value;
use placement::{
    Alteration, CheckConstraint, Column, ColumnDefault, ComputedDefault, Constraint, Expression,
    ForeignKey, HIDDEN_KEY, RowView, Schema, UnaryOperator, Value,
};
use protocol::configuration::PlacedTable;
use protocol::expression::failed_check;
use sqlparser::ast::Expr;

use super::reference::{foreign_key, index_for_reference};
use super::{Context, StatementPlan, holder, no_such_index, whole_table};
use super::{OutputItem, ReadPlan, SelectPlan, sequence_named};
use crate::bind::unknown_column;
use crate::error::{SqlError, sqlstate};
use crate::parse::{
    AddedColumn, added_check, added_column, column_default, constraint_exists, constraint_names,
    with_index,
};
use crate::statement::{AlterAction, AlterTable, CreateIndex, NewCheck, Reference, Truncate};

pub(super) use comment::comment;

/// The tag of a statement that changes a table.
pub(crate) const ALTER_TABLE: &str = "ALTER TABLE";
const ALTER_INDEX: &str = "ALTER INDEX";

/// A change of the definition of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct AlterPlan {
    /// The table.
    pub table: String,
    /// psql's command tag.
    pub tag: &'static str,
    /// The changes before all others: foreign keys go whose index goes.
    pub first: Vec<Alteration>,
    /// The indexes and further copies that go then.
    pub dropped_copies: Vec<String>,
    /// The constraints that all rows must satisfy before the change.
    pub requirements: Vec<Requirement>,
    /// The change.
    pub alterations: Vec<Alteration>,
    /// The steps after the change, one after the other.
    pub further: Vec<FurtherStep>,
    /// The sequences that go last, because their columns have gone.
    pub dropped_sequences: Vec<String>,
    /// For people: parts of the statement that had nothing to do.
    pub notices: Vec<String>,
}

/// A part of `ALTER TABLE` that takes its own time, because it reads all rows.
#[derive(Clone, Debug, PartialEq)]
pub enum FurtherStep {
    /// A unique index.
    Unique(CreateIndex),
    /// A foreign key.
    Reference(AddedReference),
    /// The proof that all rows satisfy a foreign key of the table.
    Validated(String),
}

/// A foreign key that a table gets.
#[derive(Clone, Debug, PartialEq)]
pub struct AddedReference {
    /// The foreign key.
    pub key: ForeignKey,
    /// Whether all rows must satisfy it.
    pub validates: bool,
}

/// A constraint that all rows of a table must satisfy before it is changed.
#[derive(Clone, Debug, PartialEq)]
pub struct Requirement {
    /// The constraint. Until the table is changed it binds new rows. The table may have it before.
    pub check: CheckConstraint,
    /// Whether the table has the constraint.
    pub is_known: bool,
    /// The error if a row does not satisfy it.
    pub error: SqlError,
}

impl AlterPlan {
    fn new(table: &str, tag: &'static str) -> AlterPlan {
        AlterPlan {
            table: table.to_owned(),
            tag,
            first: Vec::new(),
            dropped_copies: Vec::new(),
            requirements: Vec::new(),
            alterations: Vec::new(),
            further: Vec::new(),
            dropped_sequences: Vec::new(),
            notices: Vec::new(),
        }
    }
}

impl Requirement {
    /// Returns the read that finds a row which does not satisfy the constraint.
    pub(crate) fn search(&self, table: &PlacedTable) -> SelectPlan {
        let condition = Box::new(self.check.condition.clone());
        let read = ReadPlan {
            filter: Some(Expression::Unary(UnaryOperator::Not, condition)),
            projection: Some(table.schema.key_projection()),
            ..whole_table(table)
        };
        SelectPlan {
            read: Some(read),
            items: vec![OutputItem {
                name: String::new(),
                expression: Expression::Literal(Value::Bool(true)),
                column_type: None,
            }],
            order: Vec::new(),
            ordered_by_index: false,
            limit: Some(1),
            offset: 0,
        }
    }
}

/// Plans `ALTER TABLE` and `ALTER INDEX … RENAME`.
pub(super) fn plan(
    statement: &AlterTable,
    context: &Context<'_>,
) -> Result<StatementPlan, SqlError> {
    if let [AlterAction::RenameIndex { index, name }] = &statement.actions[..] {
        return rename_index(statement, (index, name), context);
    }
    let name = statement.table.as_deref().unwrap_or_default();
    let table = match context.table(name) {
        Err(SqlError::UnknownTable { .. }) if statement.if_exists => {
            return Ok(StatementPlan::Already(format!("there is no table {name}")));
        }
        table => table?,
    };
    let mut change = Change {
        context,
        first: table,
        schema: table.schema.clone(),
        plan: AlterPlan::new(name, ALTER_TABLE),
    };
    for action in &statement.actions {
        change.add(action)?;
    }
    let mut plan = change.plan;
    let is_empty =
        plan.alterations.is_empty() && plan.dropped_copies.is_empty() && plan.further.is_empty();
    if is_empty && plan.notices.len() == 1 {
        return Ok(StatementPlan::Already(plan.notices.remove(0)));
    }
    Ok(StatementPlan::Alter(plan))
}

/// Plans `TRUNCATE`.
pub(super) fn truncate(
    statement: &Truncate,
    context: &Context<'_>,
) -> Result<StatementPlan, SqlError> {
    let named = &statement.tables;
    let mut open = named.clone();
    let (mut seen, mut notices) = (BTreeSet::new(), Vec::new());
    while let Some(name) = open.pop() {
        let table = context.table(&name)?;
        if !seen.insert(name.clone()) {
            continue;
        }
        let children = &table.schema.constraints.referenced_by;
        for child in children.iter().filter(|child| !named.contains(child)) {
            if !statement.cascade {
                return Err(SqlError::with_state(
                    sqlstate::UNSUPPORTED,
                    format!(
                        "cannot truncate a table referenced in a foreign key constraint: table \
                         \"{child}\" references \"{name}\"; truncate table \"{child}\" at the same \
                         time, or use TRUNCATE ... CASCADE"
                    ),
                ));
            }
            if !seen.contains(child) && !open.contains(child) {
                notices.push(format!("truncate cascades to table \"{child}\""));
                open.push(child.clone());
            }
        }
    }
    let all = context.configuration.tables.iter();
    let restarted = all.filter(|_| statement.restarts).filter_map(|table| {
        let sequence = table.schema.sequence.as_ref()?;
        let owner = sequence.owner.as_ref()?;
        seen.contains(&owner.table)
            .then_some((table.id, sequence.start))
    });
    Ok(StatementPlan::Truncate {
        plan: statement.clone(),
        restarted: restarted.collect(),
        notices,
    })
}

/// Returns whether a constraint of a table is a unique index.
fn is_unique(schema: &Schema, constraint: &str) -> bool {
    let mut copies = schema.indexes.iter();
    let mut thin = schema.thin.iter().filter(|index| index.unique);
    copies.any(|it| it.name == constraint && it.constraint == Some(Constraint::Unique))
        || thin.any(|it| it.name == constraint)
}

fn rename_index(
    statement: &AlterTable,
    (index, name): (&str, &str),
    context: &Context<'_>,
) -> Result<StatementPlan, SqlError> {
    let spelt = format!("ALTER INDEX {index} ON table RENAME TO {name}");
    let Some(table) = holder((statement.table.as_deref(), index), &spelt, context)? else {
        return match statement.if_exists {
            true => Ok(StatementPlan::Already(format!("there is no index {index}"))),
            false => Err(no_such_index(index)),
        };
    };
    let schema = &table.schema;
    let copies = schema.indexes.iter().map(|it| &it.name);
    let mut indexes = copies.chain(schema.thin.iter().map(|it| &it.name));
    if !indexes.any(|it| it == index) {
        return Err(SqlError::unsupported(
            format!("another name for {index} of table {}", schema.name),
            "drop it and make it again under the new name",
        ));
    }
    let mut replexes = table.layout.replexes.iter();
    if replexes.any(|it| it.name == name) || constraint_names(schema).contains(name) {
        return Err(relation_exists(name));
    }
    Ok(StatementPlan::Alter(AlterPlan {
        alterations: vec![Alteration::RenameIndex {
            index: index.to_owned(),
            name: name.to_owned(),
        }],
        ..AlterPlan::new(&schema.name, ALTER_INDEX)
    }))
}

/// The changes of one statement so far.
struct Change<'a, 'c> {
    context: &'a Context<'c>,
    /// The table before the statement.
    first: &'a PlacedTable,
    /// The table after the changes so far.
    schema: Schema,
    plan: AlterPlan,
}

impl Change<'_, '_> {
    fn add(&mut self, action: &AlterAction) -> Result<(), SqlError> {
        match action {
            AlterAction::Rename(name) => self.rename(name),
            AlterAction::RenameColumn { column, name } => {
                self.column(column)?;
                check_is_free(name)?;
                if self.schema.column_index(name).is_some() {
                    return Err(self.column_exists(name));
                }
                self.alter(Alteration::RenameColumn {
                    column: column.clone(),
                    name: name.clone(),
                })
            }
            AlterAction::RenameConstraint { constraint, name } => {
                self.rename_constraint(constraint, name)
            }
            AlterAction::SetDefault { column, default } => {
                self.set_default(column, default.as_ref())
            }
            AlterAction::SetNullable { column, nullable } => self.set_nullable(column, *nullable),
            AlterAction::AddColumn {
                definition,
                if_not_exists,
            } => {
                let name = crate::spelling::name(&definition.name);
                check_is_free(&name)?;
                if self.schema.column_index(&name).is_none() {
                    return self.add_column(definition.clone());
                }
                if !if_not_exists {
                    return Err(self.column_exists(&name));
                }
                let table = &self.schema.name;
                let notice = format!("column \"{name}\" of relation \"{table}\" already exists");
                self.plan.notices.push(notice);
                Ok(())
            }
            AlterAction::AddCheck(check) => self.add_check(check),
            AlterAction::DropConstraint {
                constraint,
                if_exists,
            } => self.drop_constraint(constraint, *if_exists),
            AlterAction::Validate(constraint) => self.validate(constraint),
            AlterAction::AddUnique(index) => self.add_unique(index),
            AlterAction::AddReference {
                reference,
                validates,
            } => self.add_reference(reference, *validates),
            AlterAction::DropColumn {
                column,
                if_exists,
                cascade,
            } => self.drop_column(column, *if_exists, *cascade),
            AlterAction::SetType {
                column,
                column_type,
            } => self.set_type(column, *column_type),
            AlterAction::RenameIndex { .. } => {
                unreachable!("the parser lets it stand alone")
            }
        }
    }

    /// Adds a change, and checks that the table can have it after those before.
    fn alter(&mut self, alteration: Alteration) -> Result<(), SqlError> {
        self.schema = self.schema.altered(std::slice::from_ref(&alteration))?;
        self.plan.alterations.push(alteration);
        Ok(())
    }

    fn rename(&mut self, name: &str) -> Result<(), SqlError> {
        if self.context.configuration.table_named(name).is_some() {
            return Err(relation_exists(name));
        }
        let name = name.to_owned();
        self.alter(Alteration::RenameTable { name })
    }

    fn rename_constraint(&mut self, constraint: &str, name: &str) -> Result<(), SqlError> {
        let names = constraint_names(&self.schema);
        if !names.contains(constraint) {
            let table = &self.schema.name;
            return Err(SqlError::with_state(
                sqlstate::UNDEFINED_OBJECT,
                format!("constraint \"{constraint}\" for table \"{table}\" does not exist"),
            ));
        }
        if names.contains(name) {
            return Err(constraint_exists(&self.schema, name));
        }
        let (constraint, name) = (constraint.to_owned(), name.to_owned());
        self.alter(match is_unique(&self.schema, &constraint) {
            true => Alteration::RenameIndex {
                index: constraint,
                name,
            },
            false => Alteration::RenameConstraint { constraint, name },
        })
    }

    fn set_default(&mut self, column: &str, default: Option<&Expr>) -> Result<(), SqlError> {
        let found = self.column(column)?;
        self.check_is_no_identity(found)?;
        if found.generation().is_some() {
            let table = &self.schema.name;
            return Err(SqlError::with_state(
                sqlstate::SYNTAX,
                format!("column \"{column}\" of relation \"{table}\" is a generated column"),
            ));
        }
        let named = (column, found.column_type);
        let default =
            default.map(|expression| column_default(named, expression, self.context.settings.zone));
        let default = default.transpose()?;
        if let Some(ColumnDefault::Sequence(default)) = &default {
            sequence_named(self.context.configuration, &default.sequence)?;
        }
        self.alter(Alteration::SetDefault {
            column: column.to_owned(),
            default: default.filter(|it| *it != ColumnDefault::Constant(Value::Null)),
        })
    }

    fn check_is_no_identity(&self, column: &Column) -> Result<(), SqlError> {
        match &column.default {
            Some(ColumnDefault::Sequence(default)) if default.identity.is_some() => {
                let (column, table) = (&column.name, &self.schema.name);
                Err(SqlError::with_state(
                    sqlstate::SYNTAX,
                    format!("column \"{column}\" of relation \"{table}\" is an identity column"),
                ))
            }
            _ => Ok(()),
        }
    }

    fn set_nullable(&mut self, column: &str, nullable: bool) -> Result<(), SqlError> {
        let position = self.schema.column_index(column);
        let found = self.column(column)?;
        let is_nullable = found.nullable;
        if nullable {
            self.check_is_no_identity(found)?;
        }
        if nullable && position.is_some_and(|it| self.schema.primary_key.contains(&it)) {
            return Err(SqlError::with_state(
                sqlstate::INVALID_DEFINITION,
                format!("column \"{column}\" is in a primary key"),
            ));
        }
        if is_nullable == nullable {
            return Ok(());
        }
        if !nullable {
            let table = &self.schema.name;
            let error = null_values(table, column);
            let own = Box::new(self.value_of(column));
            let condition = Expression::Unary(UnaryOperator::IsNotNull, own);
            self.require(format!("{table}_{column}_not_null"), condition, error)?;
        }
        self.alter(Alteration::SetNullable {
            column: column.to_owned(),
            nullable,
        })
    }

    fn add_column(&mut self, definition: sqlparser::ast::ColumnDef) -> Result<(), SqlError> {
        let zone = self.context.settings.zone;
        let AddedColumn {
            mut column,
            checks,
            unique,
            references,
        } = added_column(&self.schema, definition, zone)?;
        let name = column.name.clone();
        column.missing = match &column.default {
            Some(ColumnDefault::Constant(Value::Null)) | None => None,
            Some(ColumnDefault::Constant(value)) => Some(value.clone()),
            // As in PostgreSQL, it is the time of the statement.
            Some(ColumnDefault::Computed(ComputedDefault::Now | ComputedDefault::Today)) => Some(
                default_value(&column, self.context.now_us, &self.context.settings.zone),
            ),
            Some(_) => {
                return Err(SqlError::unsupported(
                    format!("ADD COLUMN {name} with a default that is another value in each row"),
                    "add the column without a default, then SET DEFAULT, then UPDATE the rows",
                ));
            }
        };
        if !column.nullable && column.missing.is_none() {
            let table = &self.schema.name;
            let error = null_values(table, &name);
            self.require_no_rows(format!("{table}_{name}_not_null"), error)?;
        }
        self.alter(Alteration::AddColumn { column })?;
        checks.iter().try_for_each(|check| self.add_check(check))?;
        unique.iter().try_for_each(|index| self.add_unique(index))?;
        let mut references = references.iter();
        references.try_for_each(|reference| self.add_reference(reference, true))
    }

    fn add_unique(&mut self, index: &CreateIndex) -> Result<(), SqlError> {
        let mut replexes = self.first.layout.replexes.iter();
        let is_taken = replexes.any(|it| it.name == index.name);
        if is_taken || constraint_names(&self.schema).contains(&index.name) {
            return Err(relation_exists(&index.name));
        }
        self.schema = with_index(&self.schema, index)?;
        self.plan.further.push(FurtherStep::Unique(index.clone()));
        Ok(())
    }

    fn add_reference(&mut self, reference: &Reference, validates: bool) -> Result<(), SqlError> {
        let parent = match reference.parent == self.schema.name {
            true => self.schema.clone(),
            false => self.context.table(&reference.parent)?.schema.clone(),
        };
        let key = foreign_key(&self.schema, reference, &parent)?;
        if constraint_names(&self.schema).contains(&key.name) {
            return Err(constraint_exists(&self.schema, &key.name));
        }
        if !self.schema.serves(&key) {
            let (index, _) = index_for_reference(&self.schema, &key);
            self.schema.indexes.push(index);
        }
        let added = Alteration::AddForeignKey { key: key.clone() };
        self.schema = self.schema.altered(&[added])?;
        let added = AddedReference { key, validates };
        self.plan.further.push(FurtherStep::Reference(added));
        Ok(())
    }

    fn add_check(&mut self, check: &NewCheck) -> Result<(), SqlError> {
        let mut added = added_check(&self.schema, check, self.context.settings.zone)?;
        if !check.validates {
            return self.alter(Alteration::AddCheck { check: added });
        }
        let error = self.violated(&added);
        let before = self.first.schema.columns.len();
        let is_old = |column: u16| usize::from(column) < before;
        let is_added = |column: u16| !is_old(column);
        if added.condition.all_columns(&is_old) {
            self.plan.requirements.push(Requirement {
                check: added.clone(),
                is_known: false,
                error,
            });
            self.schema = self.schema.altered(&[Alteration::AddCheck {
                check: added.clone(),
            }])?;
            let constraint = added.name;
            return self.alter(Alteration::Validate { constraint });
        }
        if !added.condition.all_columns(&is_added) {
            return Err(SqlError::unsupported(
                format!("constraint {} over an added column and others", added.name),
                "add the column first, and the constraint with another statement",
            ));
        }
        // All rows have the same values in the added columns.
        if !self.holds_for_missing(&added)? {
            let name = format!("{}_unadded", added.name);
            self.require_no_rows(name, error)?;
        }
        added.is_valid = true;
        self.alter(Alteration::AddCheck { check: added })
    }

    /// Returns whether a row that was written without any column satisfies a constraint.
    fn holds_for_missing(&self, check: &CheckConstraint) -> Result<bool, SqlError> {
        let mut schema = self.schema.clone();
        schema.constraints.checks = vec![check.clone()];
        // The header of a row without columns.
        let row = RowView::parse(&schema.columns, &[0, 0]).expect("a row may lack columns");
        let failed = failed_check(&schema, &row).map_err(|error| SqlError::Expression {
            text: format!("constraint {}", check.name),
            error,
        })?;
        Ok(failed.is_none())
    }

    fn drop_constraint(&mut self, constraint: &str, if_exists: bool) -> Result<(), SqlError> {
        let table = &self.schema.name;
        if is_unique(&self.schema, constraint) {
            self.schema.remove(constraint);
            self.plan.dropped_copies.push(constraint.to_owned());
            return Ok(());
        }
        if constraint_names(&self.schema).contains(constraint) {
            let constraint = constraint.to_owned();
            return self.alter(Alteration::DropConstraint { constraint });
        }
        let missing = format!("constraint \"{constraint}\" of relation \"{table}\" does not exist");
        if if_exists {
            self.plan.notices.push(missing);
            return Ok(());
        }
        if constraint == format!("{table}_pkey") {
            return Err(SqlError::unsupported(
                format!("DROP CONSTRAINT of the primary key of table {table}"),
                "create a table with another primary key, then export and import the rows",
            ));
        }
        Err(SqlError::with_state(sqlstate::UNDEFINED_OBJECT, missing))
    }

    fn validate(&mut self, constraint: &str) -> Result<(), SqlError> {
        let table = &self.schema.name;
        let mut checks = self.schema.constraints.checks.iter();
        let Some(check) = checks.find(|check| check.name == constraint) else {
            let mut keys = self.first.schema.constraints.foreign_keys.iter();
            if keys.any(|key| key.name == constraint && !key.is_valid) {
                let step = FurtherStep::Validated(constraint.to_owned());
                self.plan.further.push(step);
                return Ok(());
            }
            if constraint_names(&self.schema).contains(constraint) {
                // Unique indexes are always valid.
                return Ok(());
            }
            return Err(SqlError::with_state(
                sqlstate::UNDEFINED_OBJECT,
                format!("constraint \"{constraint}\" of relation \"{table}\" does not exist"),
            ));
        };
        if check.is_valid {
            return Ok(());
        }
        let known = &self.first.schema.constraints.checks;
        if !known.contains(check) {
            return Err(SqlError::unsupported(
                format!("VALIDATE CONSTRAINT {constraint} in the statement that adds it"),
                "leave NOT VALID out",
            ));
        }
        let (check, error) = (check.clone(), self.violated(check));
        self.plan.requirements.push(Requirement {
            check,
            is_known: true,
            error,
        });
        let constraint = constraint.to_owned();
        self.alter(Alteration::Validate { constraint })
    }

    /// Requires that the table has no rows.
    fn require_no_rows(&mut self, name: String, error: SqlError) -> Result<(), SqlError> {
        self.require(name, Expression::Literal(Value::Bool(false)), error)
    }

    /// Requires a condition of all rows, by a constraint that goes when the table changes.
    fn require(
        &mut self,
        name: String,
        condition: Expression,
        error: SqlError,
    ) -> Result<(), SqlError> {
        let check = CheckConstraint {
            name: self.free_name(name),
            condition,
            is_valid: false,
        };
        let constraint = check.name.clone();
        let first = self.first.schema.altered(&[Alteration::AddCheck {
            check: check.clone(),
        }]);
        first?;
        self.plan.requirements.push(Requirement {
            check,
            is_known: false,
            error,
        });
        self.plan
            .alterations
            .push(Alteration::DropConstraint { constraint });
        Ok(())
    }

    /// Returns a name for a constraint that only this statement has.
    fn free_name(&self, name: String) -> String {
        let mut taken = constraint_names(&self.schema);
        let required = self.plan.requirements.iter();
        taken.extend(required.map(|it| it.check.name.clone()));
        let short: String = name.chars().take(placement::NAME_BYTES_MAX - 4).collect();
        let numbered = (1..).map(|number| format!("{short}{number}"));
        let mut names = std::iter::once(short.clone()).chain(numbered);
        let free = names.find(|name| !taken.contains(name));
        free.expect("there are more numbers than constraints")
    }

    /// Returns a column of the table.
    fn column(&self, name: &str) -> Result<&Column, SqlError> {
        let mut columns = self.schema.visible_columns();
        let found = columns.find(|(_, column)| column.name == name);
        let (_, column) = found.ok_or_else(|| unknown_column(&self.schema, name))?;
        Ok(column)
    }

    /// Returns the value of a column of the table in its row.
    fn value_of(&self, column: &str) -> Expression {
        let position = self.schema.column_index(column);
        let number = position.and_then(|it| u16::try_from(it).ok());
        Expression::Column(number.expect("a table has at most 1,600 columns"))
    }

    fn violated(&self, check: &CheckConstraint) -> SqlError {
        SqlError::RowsViolateCheck {
            table: self.schema.name.clone(),
            constraint: check.name.clone(),
        }
    }

    fn column_exists(&self, name: &str) -> SqlError {
        let table = &self.schema.name;
        SqlError::with_state(
            sqlstate::DUPLICATE_COLUMN,
            format!("column \"{name}\" of relation \"{table}\" already exists"),
        )
    }
}

/// Checks that a column may have a name.
fn check_is_free(name: &str) -> Result<(), SqlError> {
    if name != HIDDEN_KEY && !placement::is_dropped_name(name) {
        return Ok(());
    }
    Err(SqlError::with_state(
        sqlstate::DUPLICATE_COLUMN,
        format!("column name \"{name}\" conflicts with a system column name"),
    ))
}

fn null_values(table: &str, column: &str) -> SqlError {
    SqlError::with_state(
        sqlstate::NOT_NULL,
        format!("column \"{column}\" of relation \"{table}\" contains null values"),
    )
}

fn relation_exists(name: &str) -> SqlError {
    SqlError::with_state(
        sqlstate::DUPLICATE_TABLE,
        format!("relation \"{name}\" already exists"),
    )
}
