//! Computes the calls of sequences in a statement, and the defaults that come from sequences,
//! before the statement is planned.
//!
//! A value that was drawn is never given back, also if the statement fails or its transaction is
//! rolled back.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;

use placement::{ColumnDefault, IdentityKind, Schema, SequenceDefault, Value};
use protocol::codec::Bytes;
use protocol::configuration::PlacedTable;
use protocol::configuration::roles::Privileges;
use protocol::identity::TableId;
use protocol::operation::{Action, Mutation};
use sqlparser::ast::Expr;

use super::aggregate_calls::{aggregates, replace_aggregates};
use super::{Attempt, ReadContext, StatementOutcome};
use crate::bind::{Scope, unknown_column};
use crate::error::{SqlError, sqlstate};
use crate::plan::{Context, no_relation, plan, sequence_named};
use crate::rights::{DRAWS, READS_SEQUENCE, RoleRights};
use crate::sequence_call::{
    SequenceCall, SequenceFunction, constant, draws_values, first_call, relation_name,
    replace_first_call,
};
use crate::statement::{Insert, OnConflict, Overriding, Select, SelectItem, SetColumn, Statement};
use crate::store::Store;

/// The sequences that a session has used.
#[derive(Debug, Default)]
pub(super) struct UsedSequences {
    /// The last value of each in this session.
    current: BTreeMap<TableId, i64>,
    /// The sequence from which the session has drawn last.
    last: Option<TableId>,
}

/// Computes calls for one attempt at a statement.
pub(super) struct SequenceCalls<'a, S: Store> {
    pub reading: &'a ReadContext<'a, S>,
    pub context: &'a Context<'a>,
    pub used: &'a Mutex<UsedSequences>,
    /// Whether values are drawn. Otherwise the first values of the sequences stand for them, for
    /// `EXPLAIN`.
    pub draws: bool,
}

/// Returns whether a statement has calls of sequences, so that it does not run as it is written.
pub(super) fn has_calls(statement: &Statement) -> bool {
    let has = |expression: &Expr| first_call(expression, true).is_some();
    match statement {
        Statement::Select(select) => {
            let items = select.items.iter();
            items.filter_map(expression_of).any(has) || select.filter.as_ref().is_some_and(has)
        }
        _ => false,
    }
}

/// Returns whether a `SELECT` calls functions that change sequences.
pub(super) fn draws(select: &Select) -> bool {
    let mut items = select.items.iter().filter_map(expression_of);
    items.any(draws_values)
}

fn expression_of(item: &SelectItem) -> Option<&Expr> {
    match item {
        SelectItem::Expression { expression, .. } => Some(expression),
        SelectItem::All | SelectItem::AllOf(_) | SelectItem::AllButGenerated => None,
    }
}

/// Returns the privileges, one of which a role needs for a default. A value of an identity column
/// is a part of the table.
fn needed_for(default: &SequenceDefault) -> Option<Privileges> {
    match default.identity {
        Some(_) => None,
        None => Some(DRAWS),
    }
}

/// Returns the sequence of a column's default.
fn drawn_default(schema: &Schema, column: usize) -> Option<&SequenceDefault> {
    match &schema.columns[column].default {
        Some(ColumnDefault::Sequence(default)) => Some(default),
        _ => None,
    }
}

impl<S: Store> SequenceCalls<'_, S> {
    /// Returns the statement with values in place of calls and of defaults; none if it has none of
    /// them. An `EXPLAIN` draws no values.
    pub async fn of_statement(
        mut self,
        statement: &Statement,
    ) -> Result<Option<Statement>, Attempt> {
        Ok(match statement {
            Statement::Explain(explained) => {
                self.draws = false;
                let computed = self.computed(explained).await?;
                computed.map(|it| Statement::Explain(Box::new(it)))
            }
            Statement::ExplainAnalyze(explained) => {
                let computed = self.computed(explained).await?;
                computed.map(|it| Statement::ExplainAnalyze(Box::new(it)))
            }
            statement => self.computed(statement).await?,
        })
    }

    async fn computed(&self, statement: &Statement) -> Result<Option<Statement>, Attempt> {
        Ok(match statement {
            Statement::Insert(insert) => self.insert(insert).await?.map(Statement::Insert),
            Statement::Select(select) => {
                let select = self.select(select).await?;
                select.map(Statement::Select)
            }
            Statement::Update(update) => {
                let assigned = self.assignments(&update.assignments).await?;
                let filter = self.filter(update.filter.as_ref()).await?;
                if assigned.is_none() && filter.is_none() {
                    return Ok(None);
                }
                let mut update = update.clone();
                if let Some(assigned) = assigned {
                    update.assignments = assigned;
                }
                update.filter = filter.or(update.filter);
                Some(Statement::Update(update))
            }
            Statement::Delete(delete) => {
                let filter = self.filter(delete.filter.as_ref()).await?;
                filter.map(|filter| {
                    let mut delete = delete.clone();
                    delete.filter = Some(filter);
                    Statement::Delete(delete)
                })
            }
            _ => None,
        })
    }

    /// Returns a condition with values in place of calls that change no sequence.
    async fn filter(&self, filter: Option<&Expr>) -> Result<Option<Expr>, Attempt> {
        match filter {
            Some(filter) if first_call(filter, false).is_some() => {
                let mut filter = filter.clone();
                self.replace(&mut filter, false).await?;
                Ok(Some(filter))
            }
            _ => Ok(None),
        }
    }

    async fn assignments(
        &self,
        assignments: &[SetColumn],
    ) -> Result<Option<Vec<SetColumn>>, Attempt> {
        let mut values = assignments.iter().filter_map(|it| it.value.as_ref());
        if !values.any(|value| first_call(value, false).is_some()) {
            return Ok(None);
        }
        let mut assignments = assignments.to_vec();
        for assignment in &mut assignments {
            if let Some(value) = &mut assignment.value {
                self.replace(value, false).await?;
            }
        }
        Ok(Some(assignments))
    }

    /// Returns a `SELECT` with values in place of calls; none if it has none.
    pub async fn select(&self, select: &Select) -> Result<Option<Select>, Attempt> {
        let filter = self.filter(select.filter.as_ref()).await?;
        let mut expressions = select.items.iter().filter_map(expression_of);
        if !expressions.any(|expression| first_call(expression, true).is_some()) {
            return Ok(filter.map(|filter| Select {
                filter: Some(filter),
                ..select.clone()
            }));
        }
        let mut select = select.clone();
        select.filter = filter.or(select.filter);
        let changes = draws(&select);
        if changes && select.table.is_some() {
            self.read_aggregates(&mut select).await?;
        }
        for item in &mut select.items {
            if let SelectItem::Expression { expression, .. } = item {
                self.replace(expression, changes).await?;
            }
        }
        Ok(Some(select))
    }

    /// Puts values in place of the aggregates of a table, so that the statement has no table any
    /// more: `SELECT setval('s', max(id)) FROM t`.
    async fn read_aggregates(&self, select: &mut Select) -> Result<(), Attempt> {
        let mut items = Vec::new();
        for expression in select.items.iter().filter_map(expression_of) {
            items.extend(aggregates(expression)?);
        }
        let groups = !select.group_by.is_empty() || select.having.is_some();
        if items.is_empty() || groups {
            return Err(SqlError::unsupported(
                "a call of nextval or setval for each row of a table",
                "call it in a SELECT without a table, after VALUES, or with aggregates of the \
                 table",
            )
            .into());
        }
        let read = Statement::Select(Select {
            table: select.table.take(),
            items,
            distinct: false,
            filter: select.filter.take(),
            group_by: Vec::new(),
            having: None,
            order: Vec::new(),
            limit: None,
            offset: None,
            scan: select.scan,
            locks: false,
        });
        let plan = plan(&read, self.context).map_err(Attempt::Planned)?;
        let StatementOutcome::Rows(rows) = self.reading.run(plan).await? else {
            unreachable!("a SELECT returns rows")
        };
        let mut values = rows.rows.iter().flatten().map(constant);
        for item in &mut select.items {
            if let SelectItem::Expression { expression, .. } = item {
                replace_aggregates(expression, &mut values);
            }
        }
        Ok(())
    }

    async fn insert(&self, insert: &Insert) -> Result<Option<Insert>, Attempt> {
        // The planner reports a table that does not exist.
        let Some(table) = self.context.configuration.table_named(&insert.table.name) else {
            return Ok(None);
        };
        let schema = &table.schema;
        let has_defaults =
            (0..schema.columns.len()).any(|column| drawn_default(schema, column).is_some());
        let mut values = insert.rows.iter().flatten().flatten();
        let has_calls = values.any(|value| first_call(value, true).is_some());
        let update = insert
            .on_conflict
            .as_ref()
            .and_then(|it| it.update.as_ref());
        let assigned = match update {
            Some(update) => self.assignments(&update.assignments).await?,
            None => None,
        };
        if !has_defaults && !has_calls && assigned.is_none() {
            return Ok(None);
        }
        let mut insert = insert.clone();
        if let (
            Some(assigned),
            Some(OnConflict {
                update: Some(update),
                ..
            }),
        ) = (assigned, &mut insert.on_conflict)
        {
            update.assignments = assigned;
        }
        let columns = match has_defaults {
            true => fill(&mut insert, schema)?,
            false => None,
        };
        let mut drawn = BTreeMap::new();
        for (place, default) in columns.iter().flatten().enumerate() {
            let Some(default) = default.and_then(|column| drawn_default(schema, column)) else {
                continue;
            };
            let count = insert
                .rows
                .iter()
                .filter(|row| row[place].is_none())
                .count();
            let sequence = self.sequence(&default.sequence, needed_for(default))?;
            let values = self.draw(sequence, count).await?;
            drawn.insert(place, (sequence.id, VecDeque::from(values)));
        }
        for value_at in insert
            .rows
            .iter_mut()
            .flat_map(|row| row.iter_mut().enumerate())
        {
            match value_at {
                (_, Some(value)) => self.replace(value, true).await?,
                (place, default @ None) => {
                    let Some((sequence, values)) = drawn.get_mut(&place) else {
                        continue;
                    };
                    let value = values.pop_front().expect("one was drawn for each default");
                    self.note_drawn(*sequence, value);
                    *default = Some(constant(&Value::Int64(value)));
                }
            }
        }
        Ok(Some(insert))
    }

    /// Puts values in place of the calls in an expression.
    async fn replace(&self, expression: &mut Expr, all: bool) -> Result<(), Attempt> {
        while let Some(call) = first_call(expression, all) {
            let value = self.value(&call).await?;
            replace_first_call(expression, all, &value);
        }
        Ok(())
    }

    /// Returns the value of a call.
    async fn value(&self, call: &SequenceCall) -> Result<Value, Attempt> {
        let function = call.function;
        if !function.takes(call.arguments.len()) {
            let message = format!(
                "function {function:?} of sequences does not take {} arguments",
                call.arguments.len()
            );
            return Err(SqlError::with_state(sqlstate::UNDEFINED_FUNCTION, message).into());
        }
        let scope = Scope {
            parameters: self.context.parameters,
            now_us: Some(self.context.now_us),
            zone: self.context.settings.zone,
            ..Scope::CONSTANTS
        };
        let types = function.argument_types().iter();
        let arguments = call.arguments.iter().zip(types);
        let arguments =
            arguments.map(|(argument, wanted)| scope.value(argument, *wanted, "an argument"));
        let arguments: Vec<Value> = arguments.collect::<Result<_, _>>()?;
        if arguments.contains(&Value::Null) {
            return Ok(Value::Null);
        }
        match (function, &arguments[..]) {
            (SequenceFunction::NextValue, [name]) => {
                let sequence = self.sequence(&relation_name(&name.to_string())?, Some(DRAWS))?;
                let drawn = self.draw(sequence, 1).await?;
                self.note_drawn(sequence.id, drawn[0]);
                Ok(Value::Int64(drawn[0]))
            }
            (SequenceFunction::SetValue, [name, Value::Int64(value), rest @ ..]) => {
                let name = relation_name(&name.to_string())?;
                let sequence = self.sequence(&name, Some(Privileges::UPDATE))?;
                let is_called = rest != [Value::Bool(false)];
                self.set(sequence, *value, is_called).await?;
                Ok(Value::Int64(*value))
            }
            (SequenceFunction::CurrentValue, [name]) => {
                let name = relation_name(&name.to_string())?;
                let sequence = self.sequence(&name, Some(READS_SEQUENCE))?;
                let used = self.used.lock().expect("nothing panics while it is held");
                let current = used.current.get(&sequence.id);
                Ok(Value::Int64(*current.ok_or_else(|| {
                    let name = &sequence.schema.name;
                    let message = format!(
                        "currval of sequence \"{name}\" is not yet defined in this session"
                    );
                    SqlError::with_state(sqlstate::NOT_IN_STATE, message)
                })?))
            }
            (SequenceFunction::LastValue, []) => {
                let used = self.used.lock().expect("nothing panics while it is held");
                let last = used
                    .last
                    .filter(|it| self.context.configuration.table(*it).is_some());
                let value = last.and_then(|last| used.current.get(&last));
                Ok(Value::Int64(*value.ok_or_else(|| {
                    let message = "lastval is not yet defined in this session";
                    SqlError::with_state(sqlstate::NOT_IN_STATE, message)
                })?))
            }
            (SequenceFunction::SerialSequence, [table, column]) => {
                self.serial_sequence(&table.to_string(), &column.to_string())
            }
            _ => unreachable!("the arguments were converted to these types"),
        }
    }

    /// Returns the name of the sequence that belongs to a column; NULL if there is none.
    fn serial_sequence(&self, table: &str, column: &str) -> Result<Value, Attempt> {
        let name = relation_name(table)?;
        let found = self.context.configuration.table_named(&name);
        let found = found.ok_or_else(|| Attempt::Planned(no_relation(&name)))?;
        if found.schema.column_index(column).is_none() {
            return Err(unknown_column(&found.schema, column).into());
        }
        let belongs = |other: &&PlacedTable| {
            let sequence = other.schema.sequence.as_ref();
            let owner = sequence.and_then(|it| it.owner.as_ref());
            owner.is_some_and(|owner| owner.table == name && owner.column == column)
        };
        let owned = self.context.configuration.tables.iter().find(belongs);
        Ok(owned.map_or(Value::Null, |owned| {
            let name = &owned.schema.name;
            let is_plain = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '_';
            Value::Text(match name.chars().all(is_plain) {
                true => format!("public.{name}"),
                false => format!("public.\"{name}\""),
            })
        }))
    }

    /// Returns a sequence, if the role of the session has one of these privileges for it.
    fn sequence(&self, name: &str, needed: Option<Privileges>) -> Result<&PlacedTable, Attempt> {
        let Context {
            configuration,
            settings,
            ..
        } = self.context;
        let found = sequence_named(configuration, name).map_err(Attempt::Planned)?;
        if let Some(needed) = needed {
            let rights = RoleRights::of(configuration, settings.role);
            let checked = rights.and_then(|rights| rights.check_any(found, needed));
            checked.map_err(Attempt::Planned)?;
        }
        Ok(found)
    }

    async fn draw(&self, sequence: &PlacedTable, count: usize) -> Result<Vec<i64>, Attempt> {
        let rules = sequence.schema.sequence.as_ref();
        if !self.draws {
            let start = rules.map_or(0, |rules| rules.start);
            let values = (0..).map(|number| start.saturating_add(number));
            return Ok(values.take(count).collect());
        }
        if count == 0 {
            return Ok(Vec::new());
        }
        drawn(self.reading.store, sequence, count).await
    }

    /// Notes that the session has drawn a value.
    fn note_drawn(&self, sequence: TableId, value: i64) {
        if self.draws {
            let mut used = self.used.lock().expect("nothing panics while it is held");
            used.current.insert(sequence, value);
            used.last = Some(sequence);
        }
    }

    async fn set(
        &self,
        sequence: &PlacedTable,
        value: i64,
        is_called: bool,
    ) -> Result<(), Attempt> {
        let name = &sequence.schema.name;
        let rules = sequence.schema.sequence.as_ref();
        let rules = rules.expect("only sequences are found");
        let (min, max) = (rules.min, rules.max);
        if !(min..=max).contains(&value) {
            let message = format!(
                "setval: value {value} is out of bounds for sequence \"{name}\" ({min}..{max})"
            );
            return Err(SqlError::with_state(sqlstate::OUT_OF_RANGE, message).into());
        }
        if !self.draws {
            return Ok(());
        }
        let reset = self
            .reading
            .store
            .reset_sequence(sequence.id, value, is_called);
        reset.await?;
        if is_called {
            let mut used = self.used.lock().expect("nothing panics while it is held");
            used.current.insert(sequence.id, value);
        }
        Ok(())
    }
}

/// Draws values of a sequence.
async fn drawn<S: Store>(
    store: &S,
    sequence: &PlacedTable,
    count: usize,
) -> Result<Vec<i64>, Attempt> {
    let values = store.next_values(sequence.id, count).await?;
    Ok(values.map_err(|limit| {
        let message = limit.text(&sequence.schema.name);
        SqlError::with_state(sqlstate::SEQUENCE_LIMIT, message)
    })?)
}

/// Names all columns with drawn defaults in an `INSERT`, and leaves their values open. Returns for
/// each value of a row its column, if its default is drawn. None if the rows do not fit the
/// columns, which the planner reports.
fn fill(insert: &mut Insert, schema: &Schema) -> Result<Option<Vec<Option<usize>>>, SqlError> {
    let count = schema.columns.len();
    let mut columns: Vec<usize> = match &insert.columns {
        None => schema.visible_positions(),
        Some(names) => {
            let columns = names.iter().map(|name| schema.column_index(name));
            match columns.collect() {
                Some(columns) => columns,
                None => return Ok(None),
            }
        }
    };
    let is_all = insert.columns.is_none();
    let fits = |row: &Vec<Option<Expr>>| match is_all {
        true => row.len() <= columns.len(),
        false => row.len() == columns.len(),
    };
    if !insert.rows.iter().all(fits) {
        return Ok(None);
    }
    let missing = (0..count).filter(|it| drawn_default(schema, *it).is_some());
    let missing: Vec<usize> = missing.filter(|it| !columns.contains(it)).collect();
    columns.extend(missing);
    let names = columns.iter().map(|it| schema.columns[*it].name.clone());
    insert.columns = Some(names.collect());
    for row in &mut insert.rows {
        row.resize(columns.len(), None);
    }
    for (place, column) in columns.iter().enumerate() {
        let default = drawn_default(schema, *column);
        let Some(kind) = default.and_then(|default| default.identity) else {
            continue;
        };
        let is_refused = kind == IdentityKind::Always && insert.overriding.is_none();
        for row in &mut insert.rows {
            if insert.overriding == Some(Overriding::User) {
                row[place] = None;
            } else if is_refused && row[place].is_some() {
                let name = &schema.columns[*column].name;
                return Err(SqlError::with_state(
                    sqlstate::GENERATED_ALWAYS,
                    format!(
                        "cannot insert a non-DEFAULT value into column \"{name}\": it is an \
                         identity column defined as GENERATED ALWAYS, use OVERRIDING SYSTEM VALUE \
                         to override"
                    ),
                ));
            }
        }
    }
    let drawn = columns.into_iter().map(|column| {
        let default = drawn_default(schema, column);
        default.map(|_| column)
    });
    Ok(Some(drawn.collect()))
}

/// Inserts the first rows of new sequences, so that they can be read.
pub(super) async fn begin<S: Store>(store: &S, names: &[String]) {
    let configuration = store.configuration();
    for name in names {
        let sequence = configuration.table_named(name);
        let Some((sequence, rules)) =
            sequence.and_then(|it| Some((it, it.schema.sequence.as_ref()?)))
        else {
            continue;
        };
        let mut row = rules.initial().to_row();
        let Ok((pk, row)) = crate::plan::encode(sequence, &mut row, 1) else {
            continue;
        };
        let row = Bytes(row);
        let mutation = Mutation {
            pk: Bytes(pk),
            action: Action::InsertOrKeep { row },
        };
        // Without the row, the first client that draws a value inserts it.
        let _ = store
            .execute(configuration.epoch, sequence.id, mutation)
            .await;
    }
}
