//! Checks that the role of a session may run a statement, as PostgreSQL does.
//!
//! Each attempt at a statement is checked by the configuration by which it is planned, so that a
//! prepared statement is checked each time that it runs. Owners may do everything with their
//! tables, and superusers with all. A table that does not exist is left to the planner.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use placement::{ColumnDefault, Schema};
use protocol::configuration::roles::{GrantObject, Privileges, RoleId, Roles};
use protocol::configuration::{Configuration, PlacedTable};
use protocol::identity::TableId;
use sqlparser::ast::{Expr, Visit, Visitor};

use crate::error::{SqlError, sqlstate};
use crate::statement::{
    AlterAction, AlterTable, CommentName, Delete, FromItem, Insert, Select, SelectItem, Show,
    Statement, Truncate,
};

/// The rights of a role, by one configuration.
#[derive(Debug)]
pub struct RoleRights<'a> {
    configuration: &'a Configuration,
    /// The role and those of which it is a member; none if it may do everything.
    reach: Option<BTreeSet<RoleId>>,
}

impl<'a> RoleRights<'a> {
    /// Returns the rights of a role. No role may do everything.
    ///
    /// # Errors
    /// The role was dropped.
    pub fn of(
        configuration: &'a Configuration,
        role: Option<RoleId>,
    ) -> Result<RoleRights<'a>, SqlError> {
        let roles: &Roles = &configuration.roles;
        let reach = match role {
            None => None,
            Some(id) => {
                let role = roles.role(id).ok_or_else(|| {
                    let text = "the role of this session was dropped: log in as another one";
                    SqlError::with_state(sqlstate::UNDEFINED_OBJECT, text)
                })?;
                (!role.is_superuser).then(|| roles.reach(id))
            }
        };
        Ok(RoleRights {
            configuration,
            reach,
        })
    }

    /// Returns whether the role may do everything.
    pub fn is_superuser(&self) -> bool {
        self.reach.is_none()
    }

    /// Returns whether the role owns a table or a sequence.
    pub fn owns(&self, table: TableId) -> bool {
        let reach = self.reach.as_ref();
        reach.is_none_or(|reach| reach.contains(&self.configuration.roles.owner(table)))
    }

    /// Returns the privileges of the role for a table or a sequence.
    pub fn privileges(&self, table: &PlacedTable) -> Privileges {
        match &self.reach {
            Some(reach) if !self.owns(table.id) => {
                let object = GrantObject::Relation(table.id);
                self.configuration.roles.granted(object, reach)
            }
            _ => Privileges::OF_TABLE.with(Privileges::OF_SEQUENCE),
        }
    }

    /// Checks that the role has one of some privileges for a table or a sequence.
    ///
    /// # Errors
    /// It has none of them.
    pub fn check_any(&self, table: &PlacedTable, any: Privileges) -> Result<(), SqlError> {
        match self.privileges(table).common(any).is_empty() {
            true => Err(denied(&format!(
                "permission denied for {}",
                described(&table.schema)
            ))),
            false => Ok(()),
        }
    }

    /// Checks that the role owns a table or a sequence.
    ///
    /// # Errors
    /// Another role owns it.
    pub fn check_owner(&self, table: &PlacedTable) -> Result<(), SqlError> {
        self.check_owner_of(table, &described(&table.schema))
    }

    fn check_owner_of(&self, table: &PlacedTable, what: &str) -> Result<(), SqlError> {
        match self.owns(table.id) {
            true => Ok(()),
            false => Err(denied(&format!("must be owner of {what}"))),
        }
    }

    /// Checks that the role may create tables.
    ///
    /// # Errors
    /// It may not.
    pub fn check_creates(&self) -> Result<(), SqlError> {
        let roles = &self.configuration.roles;
        let may = |reach: &BTreeSet<RoleId>| {
            let granted = roles.granted(GrantObject::Schema, reach);
            !granted.common(Privileges::CREATE).is_empty()
        };
        match self.reach.as_ref().is_none_or(may) {
            true => Ok(()),
            false => Err(denied("permission denied for schema public")),
        }
    }

    /// Checks that the role may copy rows into columns of a table; none is all.
    ///
    /// # Errors
    /// It may not.
    pub fn check_copy_from(&self, table: &str, columns: Option<&[String]>) -> Result<(), SqlError> {
        let Some(found) = self.table(table) else {
            return Ok(());
        };
        self.check_any(found, Privileges::INSERT)?;
        let Some(named) = columns else {
            return Ok(());
        };
        let schema = &found.schema;
        for column in schema.columns.iter().filter(|it| !named.contains(&it.name)) {
            if let Some(ColumnDefault::Sequence(default)) = &column.default
                && default.identity.is_none()
                && let Some(sequence) = self.table(&default.sequence)
            {
                self.check_any(sequence, DRAWS)?;
            }
        }
        Ok(())
    }

    /// Checks that the role may run a statement. Calls of the functions of sequences are checked
    /// when they are computed.
    ///
    /// # Errors
    /// It may not.
    pub fn check(&self, statement: &Statement) -> Result<(), SqlError> {
        if self.is_superuser() {
            return Ok(());
        }
        match statement {
            Statement::CreateTable { references, .. } => {
                self.check_creates()?;
                let parents = references.iter().map(|it| &it.parent);
                self.check_named(parents, Privileges::REFERENCES)
            }
            Statement::CreateSequence { options, .. } => {
                self.check_creates()?;
                let owner = options.owner.clone().flatten();
                self.check_owners(owner.iter().map(|(table, _)| table))
            }
            Statement::RestartSequence { name, .. } => self.check_owners([name]),
            Statement::DropSequence { names, .. } | Statement::DropTable { names, .. } => {
                self.check_owners(names)
            }
            Statement::CreateIndex(index) => {
                self.check_owners([&index.table])?;
                self.check_creates()
            }
            Statement::DropIndex { table, name, .. } => self.check_index(table.as_deref(), name),
            Statement::SetUsing(change) => self.check_index(change.table.as_deref(), &change.name),
            Statement::SetPartitions { table, .. } | Statement::SetFailures { table, .. } => {
                self.check_owners([table])
            }
            Statement::AlterTable(alter) => self.check_alter(alter),
            Statement::Comment(comment) => self.check_comment(&comment.object),
            Statement::Truncate(truncate) => self.check_truncate(truncate),
            Statement::Insert(insert) => self.check_insert(insert),
            Statement::InsertRows(rows) => self.check_named([&rows.name], Privileges::INSERT),
            Statement::Select(select) => self.check_select(select),
            Statement::Update(update) => {
                let table = [&update.table.name];
                self.check_named(table, Privileges::UPDATE)?;
                self.check_from(update.from.as_ref())?;
                let values = update.assignments.iter().filter_map(|it| it.value.as_ref());
                let mut expressions = values.chain(update.filter.as_ref());
                match expressions.any(reads_columns) || returns_columns(&update.returning) {
                    true => self.check_named(table, Privileges::SELECT),
                    false => Ok(()),
                }
            }
            Statement::Delete(delete) => self.check_delete(delete),
            Statement::Explain(explained)
            | Statement::ExplainAnalyze(explained)
            | Statement::ExplainAsJson(explained) => {
                // The parser lets no EXPLAIN of an EXPLAIN through.
                self.check(explained)
            }
            // It has keys of rows.
            Statement::Show(Show::IndexRanges(table)) => {
                self.check_named([table], Privileges::SELECT)
            }
            Statement::Show(_)
            | Statement::Set(_)
            | Statement::SetAlready
            | Statement::Transaction(_) => Ok(()),
        }
    }

    fn table(&self, name: &str) -> Option<&'a PlacedTable> {
        self.configuration.table_named(name)
    }

    fn check_named<'n>(
        &self,
        names: impl IntoIterator<Item = &'n String>,
        wanted: Privileges,
    ) -> Result<(), SqlError> {
        let mut tables = names.into_iter().filter_map(|name| self.table(name));
        tables.try_for_each(|table| self.check_any(table, wanted))
    }

    fn check_owners<'n>(
        &self,
        names: impl IntoIterator<Item = &'n String>,
    ) -> Result<(), SqlError> {
        let mut tables = names.into_iter().filter_map(|name| self.table(name));
        tables.try_for_each(|table| self.check_owner(table))
    }

    /// Checks that the role owns the table of an index, which the statement need not name.
    fn check_index(&self, table: Option<&str>, index: &str) -> Result<(), SqlError> {
        let tables = self.configuration.tables.iter();
        let tables = tables.filter(|it| match table {
            Some(table) => it.schema.name == table,
            None => names_index(&it.schema, index),
        });
        for table in tables {
            self.check_owner_of(table, &format!("index {index}"))?;
        }
        Ok(())
    }

    fn check_comment(&self, object: &CommentName) -> Result<(), SqlError> {
        match object {
            CommentName::Table(table)
            | CommentName::Sequence(table)
            | CommentName::Column { table, .. }
            | CommentName::Constraint { table, .. } => self.check_owners([table]),
            CommentName::Index(index) => {
                let of_primary_key = index.strip_suffix("_pkey").map(str::to_owned);
                self.check_owners(&of_primary_key)?;
                self.check_index(None, index)
            }
        }
    }

    fn check_alter(&self, alter: &AlterTable) -> Result<(), SqlError> {
        for action in &alter.actions {
            match action {
                AlterAction::RenameIndex { index, .. } => {
                    self.check_index(alter.table.as_deref(), index)?;
                }
                _ => self.check_owners(&alter.table)?,
            }
            match action {
                AlterAction::Rename(_) => self.check_creates()?,
                AlterAction::AddReference { reference, .. } => {
                    self.check_named([&reference.parent], Privileges::REFERENCES)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn check_truncate(&self, truncate: &Truncate) -> Result<(), SqlError> {
        let mut open: Vec<&String> = truncate.tables.iter().collect();
        let mut emptied = BTreeSet::new();
        while let Some(name) = open.pop() {
            let Some(table) = self.table(name).filter(|_| emptied.insert(name)) else {
                continue;
            };
            self.check_any(table, Privileges::TRUNCATE)?;
            if truncate.cascade {
                open.extend(&table.schema.constraints.referenced_by);
            }
        }
        if !truncate.restarts {
            return Ok(());
        }
        let tables = self.configuration.tables.iter();
        for sequence in tables {
            let rules = sequence.schema.sequence.as_ref();
            let owner = rules.and_then(|rules| rules.owner.as_ref());
            if owner.is_some_and(|owner| emptied.contains(&owner.table)) {
                self.check_owner(sequence)?;
            }
        }
        Ok(())
    }

    fn check_insert(&self, insert: &Insert) -> Result<(), SqlError> {
        let table = [&insert.table.name];
        self.check_named(table, Privileges::INSERT)?;
        let conflict = insert.on_conflict.as_ref();
        if conflict.is_some_and(|it| it.update.is_some()) {
            self.check_named(table, Privileges::UPDATE)?;
        }
        // The columns of the conflict are compared.
        let compares = conflict.is_some_and(|it| it.target.is_some() || it.update.is_some());
        if compares || returns_columns(&insert.returning) {
            self.check_named(table, Privileges::SELECT)?;
        }
        match &insert.select {
            Some(select) => self.check_select(select),
            None => Ok(()),
        }
    }

    fn check_delete(&self, delete: &Delete) -> Result<(), SqlError> {
        let table = [&delete.table.name];
        self.check_named(table, Privileges::DELETE)?;
        self.check_from(delete.using.as_ref())?;
        let reads = delete.filter.as_ref().is_some_and(reads_columns);
        match reads || returns_columns(&delete.returning) {
            true => self.check_named(table, Privileges::SELECT),
            false => Ok(()),
        }
    }

    /// Checks that the role may read the further table of a change.
    fn check_from(&self, from: Option<&FromItem>) -> Result<(), SqlError> {
        match from {
            Some(FromItem::Table(table)) => self.check_named([&table.name], Privileges::SELECT),
            Some(FromItem::Values { .. } | FromItem::Unnest { .. }) | None => Ok(()),
        }
    }

    fn check_select(&self, select: &Select) -> Result<(), SqlError> {
        let table = select.table.as_ref().map(|table| &table.name);
        self.check_named(table, Privileges::SELECT)?;
        match select.locks {
            true => self.check_named(table, Privileges::UPDATE),
            false => Ok(()),
        }
    }
}

/// One of these lets a role draw values of a sequence.
pub(crate) const DRAWS: Privileges = Privileges::USAGE.with(Privileges::UPDATE);
/// One of these lets a role read the last value of a sequence.
pub(crate) const READS_SEQUENCE: Privileges = Privileges::USAGE.with(Privileges::SELECT);

/// Returns the kind and the name of a table or sequence.
fn described(schema: &Schema) -> String {
    match schema.sequence {
        Some(_) => format!("sequence {}", schema.name),
        None => format!("table {}", schema.name),
    }
}

fn names_index(schema: &Schema, name: &str) -> bool {
    let copies = schema.indexes.iter().map(|it| &it.name);
    let further = schema.further.iter().map(|it| &it.name);
    let mut names = copies
        .chain(further)
        .chain(schema.thin.iter().map(|it| &it.name));
    names.any(|known| known == name)
}

fn denied(text: &str) -> SqlError {
    SqlError::with_state(sqlstate::INSUFFICIENT_PRIVILEGE, text)
}

fn returns_columns(items: &[SelectItem]) -> bool {
    items.iter().any(|item| match item {
        SelectItem::All | SelectItem::AllOf(_) | SelectItem::AllButGenerated => true,
        SelectItem::Expression { expression, .. } => reads_columns(expression),
    })
}

/// Returns whether an expression names a column.
fn reads_columns(expression: &Expr) -> bool {
    expression.visit(&mut NamedColumn).is_break()
}

struct NamedColumn;

impl Visitor for NamedColumn {
    type Break = ();

    fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<()> {
        match expression {
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }
}

#[cfg(test)]
mod tests;
