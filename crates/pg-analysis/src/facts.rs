//! Collects facts about a statement: its tables, columns, functions and operators.
//!
//! It makes one pass over the parse tree without recursion, so that no deeply nested text exhausts
//! the stack. The module lists the kinds of nodes that it understands. A node of any other kind
//! makes the statement unknown.

use std::collections::BTreeSet;

use pg_raw_parse::list::NodeList;
use pg_raw_parse::nodes::{FuncCall, RangeVar, SelectStmt, TypeName};
use pg_raw_parse::raw::SQLValueFunctionOp as ValueOp;
use pg_raw_parse::{ConstValue, Node};

use super::catalogue::Catalogue;
use super::functions;

/// A table's name in a statement.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QualifiedName {
    pub schema: Option<String>,
    pub name: String,
}

impl QualifiedName {
    /// Returns the name; none if it belongs to another database.
    pub fn of(range: &RangeVar) -> Option<QualifiedName> {
        range.catalogname().is_none().then(|| QualifiedName {
            schema: range.schemaname().map(str::to_owned),
            name: range.relname().unwrap_or_default().to_owned(),
        })
    }
}

/// The tables, columns, functions and operators of one statement, from one pass over its parse
/// tree.
#[derive(Debug, Default)]
pub struct StatementFacts<'a> {
    /// The reason why the statement needs the primary; none if it does not.
    pub primary: Option<&'static str>,
    /// Whether the statement may touch tables that it does not name.
    pub unknown: bool,
    /// The tables that the statement reads.
    pub reads: BTreeSet<QualifiedName>,
    /// The number of reads of tables. Two reads of one table count as two.
    pub read_count: usize,
    /// The tables that an inner statement writes.
    pub inner_writes: BTreeSet<QualifiedName>,
    /// All names that may be columns, without their tables.
    pub names: BTreeSet<String>,
    /// The names of these that stand alone in a place where the type of a whole row would be
    /// visible.
    pub bare_names: BTreeSet<String>,
    /// The tables whose whole rows are used where their type is visible: `coalesce(t.*)`.
    pub whole_rows: BTreeSet<String>,
    /// The names of the tables that it reads, within the statement.
    pub called: BTreeSet<String>,
    /// Whether the statement uses all columns of a table, or gives columns other names.
    pub star: bool,
    /// Names of WITH queries.
    pub with_names: BTreeSet<String>,
    /// The number of queries.
    pub query_count: usize,
    /// Whether the statement depends on the time or on settings.
    pub stable: bool,
    /// Whether the statement reads the time at which its transaction began.
    pub transaction_time: bool,
    /// The numbers of the statement's parameters.
    pub parameters: BTreeSet<i32>,
    /// Whether the statement locks the rows that it reads.
    pub locks: bool,
    /// Parameters that occur more than once.
    pub repeated_parameters: BTreeSet<i32>,
    /// The functions that the statement calls, by name and number of arguments.
    pub calls: BTreeSet<(String, usize)>,
    /// The types to which the statement casts values.
    pub casts: Vec<&'a TypeName>,
    /// The statement's string literals.
    pub texts: Vec<&'a str>,
    /// Whether the statement has operators.
    pub has_operators: bool,
    /// Whether the statement uses an SQL keyword for the time, or for the current user.
    pub asks_for_time: bool,
}

impl<'a> StatementFacts<'a> {
    /// Returns the facts about these nodes and everything below them.
    pub fn of(
        catalogue: &Catalogue,
        roots: impl IntoIterator<Item = Node<'a>>,
    ) -> StatementFacts<'a> {
        let mut walk = FactsWalk {
            catalogue,
            facts: StatementFacts::default(),
            work: roots.into_iter().collect(),
        };
        while let Some(node) = walk.work.pop() {
            walk.see(node);
        }
        walk.facts
    }

    fn only_primary(&mut self, why: &'static str) {
        self.primary.get_or_insert(why);
    }

    fn not_understood(&mut self, why: &'static str) {
        if !self.unknown {
            self.primary = Some(why);
        }
        self.unknown = true;
    }
}

/// The expression for a whole row, if a name in a column's place is a table's.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WholeRow {
    /// One value, whose type has another OID on each server.
    Shows,
    /// One value, of which only the fields' values are visible.
    Hides,
    /// Its fields, if `*` follows.
    Expands,
}

struct FactsWalk<'a, 'c> {
    catalogue: &'c Catalogue,
    facts: StatementFacts<'a>,
    work: Vec<Node<'a>>,
}

impl<'a> FactsWalk<'a, '_> {
    fn add(&mut self, node: Node<'a>) {
        self.work.push(node);
    }

    fn list(&mut self, nodes: impl IntoIterator<Item = Node<'a>>) {
        self.work.extend(nodes);
    }

    fn see(&mut self, node: Node<'a>) {
        match node {
            Node::None | Node::SetToDefault(_) => {}
            Node::A_Const(constant) => {
                if let Some(ConstValue::String(text)) = constant.val() {
                    self.facts.texts.push(text);
                    let is = |time: &&str| text.trim().eq_ignore_ascii_case(time);
                    self.facts.transaction_time |= functions::TIMES.iter().any(is);
                }
            }
            Node::ParamRef(parameter) => {
                if !self.facts.parameters.insert(parameter.number) {
                    self.facts.repeated_parameters.insert(parameter.number);
                }
            }
            Node::Integer(_) | Node::String(_) => {}
            Node::NodeList(nodes) => self.list(nodes),
            Node::ColumnRef(column) => self.column(column.fields(), WholeRow::Shows),
            Node::RangeVar(range) => self.table(range),
            Node::SelectStmt(select) => {
                self.facts.query_count += 1;
                self.select(select);
            }
            Node::InsertStmt(_) | Node::UpdateStmt(_) | Node::DeleteStmt(_) => self.write(node),
            Node::FuncCall(call) => self.call(call),
            Node::TypeCast(cast) => {
                self.cast(cast.type_name());
                self.operand(cast.arg(), WholeRow::Hides);
            }
            Node::SQLValueFunction(function) => {
                self.facts.stable = true;
                self.facts.asks_for_time = true;
                self.facts.transaction_time |= function.op < ValueOp::SVFOP_CURRENT_ROLE;
                if function.op >= ValueOp::SVFOP_CURRENT_ROLE {
                    self.facts
                        .only_primary("it depends on its user or its server");
                }
            }
            _ => self.see_clause(node),
        }
    }

    fn see_clause(&mut self, node: Node<'a>) {
        match node {
            Node::ResTarget(target) => {
                self.list(target.indirection());
                self.operand(target.val(), WholeRow::Expands);
            }
            Node::SortBy(sort) => {
                self.operator(sort.use_op());
                self.add(sort.node());
            }
            Node::JoinExpr(join) => {
                if join.is_natural {
                    self.facts.star = true;
                }
                if join.alias().is_some() {
                    self.facts.star = true;
                }
                let using = join.using_clause().iter();
                for name in using.filter_map(|name| name.sval()) {
                    self.name(name);
                }
                self.list([join.larg(), join.rarg(), join.quals()]);
            }
            Node::RangeSubselect(range) => self.add(range.subquery()),
            Node::RangeFunction(range) if range.coldeflist().is_empty() => {
                self.list(range.functions());
            }
            Node::WithClause(with) => self.list(with.ctes().iter().map(Node::CommonTableExpr)),
            Node::CommonTableExpr(with) => {
                if with.search_clause().is_some() || with.cycle_clause().is_some() {
                    self.facts.not_understood("it has SEARCH or CYCLE");
                }
                let name = with.ctename().unwrap_or_default();
                self.facts.with_names.insert(name.to_owned());
                self.add(with.ctequery());
            }
            Node::GroupingSet(set) => self.list(set.content()),
            Node::GroupingFunc(grouping) => self.list(grouping.args()),
            Node::WindowDef(window) => {
                self.list(window.partition_clause());
                self.list(window.order_clause().iter().map(Node::SortBy));
                self.list([window.start_offset(), window.end_offset()]);
            }
            _ => self.see_expression(node),
        }
    }

    fn see_expression(&mut self, node: Node<'a>) {
        match node {
            Node::A_Expr(expression) => {
                self.operator(expression.name());
                self.list([expression.lexpr(), expression.rexpr()]);
            }
            Node::BoolExpr(expression) => self.list(expression.args()),
            Node::SubLink(link) => {
                self.operator(link.oper_name());
                self.list([link.testexpr(), link.subselect()]);
            }
            Node::NullTest(test) => self.operand(test.arg(), WholeRow::Hides),
            Node::BooleanTest(test) => self.add(test.arg()),
            Node::CaseExpr(case) => {
                self.list(case.args());
                self.list([case.arg(), case.defresult()]);
            }
            Node::CaseWhen(when) => self.list([when.expr(), when.result()]),
            Node::CoalesceExpr(coalesce) => self.list(coalesce.args()),
            Node::MinMaxExpr(extreme) => self.list(extreme.args()),
            Node::RowExpr(row) => {
                for field in row.args() {
                    self.operand(field, WholeRow::Expands);
                }
            }
            Node::A_ArrayExpr(array) => self.list(array.elements()),
            Node::A_Indirection(indirection) => {
                // `(t).f` may be a system column of t, or a call of f.
                for name in indirection.indirection().iter().filter_map(Node::as_str) {
                    self.facts.only_primary("it takes a field of a value");
                    if self.catalogue.user_functions.contains(name) {
                        self.facts
                            .not_understood("it may call a function that users have made");
                    }
                }
                self.facts.star = true;
                self.add(indirection.arg());
                self.list(indirection.indirection());
            }
            Node::A_Indices(indices) => self.list([indices.lidx(), indices.uidx()]),
            Node::A_Star(_) => self.facts.star = true,
            Node::MultiAssignRef(assign) => self.add(assign.source()),
            _ => self.facts.not_understood("it has a part that is not known"),
        }
    }

    fn select(&mut self, select: &'a SelectStmt) {
        if select.into_clause().is_some() {
            self.facts.not_understood("it makes a table");
        }
        if !select.locking_clause().is_empty() {
            self.facts.locks = true;
            self.facts.only_primary("it locks rows");
        }
        self.list(select.target_list().iter().map(Node::ResTarget));
        self.list(select.distinct_clause());
        self.list(select.from_clause());
        self.list(select.group_clause());
        self.list(select.window_clause());
        self.list(select.values_lists());
        self.list(select.sort_clause().iter().map(Node::SortBy));
        self.list([
            select.where_clause(),
            select.having_clause(),
            select.limit_offset(),
            select.limit_count(),
        ]);
        self.list(select.with_clause().map(Node::WithClause));
        self.list(
            [select.larg(), select.rarg()]
                .into_iter()
                .flatten()
                .map(Node::SelectStmt),
        );
    }

    /// Adds a statement inside another that writes.
    fn write(&mut self, node: Node<'a>) {
        self.facts.query_count += 1;
        self.facts.only_primary("it writes");
        let target = match node {
            Node::InsertStmt(insert) => insert.relation(),
            Node::UpdateStmt(update) => update.relation(),
            Node::DeleteStmt(delete) => delete.relation(),
            _ => None,
        };
        match target.and_then(QualifiedName::of) {
            Some(name) => {
                self.facts.inner_writes.insert(name);
            }
            None => self.facts.not_understood("it names another database"),
        }
        self.list(parts_of_write(node));
    }

    fn table(&mut self, range: &RangeVar) {
        self.facts.read_count += 1;
        let renames = range
            .alias()
            .is_some_and(|alias| !alias.colnames().is_empty());
        self.facts.star |= renames;
        let alias = range.alias().and_then(|alias| alias.aliasname());
        let called = alias.or(range.relname()).unwrap_or_default();
        self.facts.called.insert(called.to_owned());
        match QualifiedName::of(range) {
            Some(name) => {
                self.facts.reads.insert(name);
            }
            None => self.facts.not_understood("it names another database"),
        }
    }

    /// Adds the parts of an expression. A column may be a whole row instead.
    fn operand(&mut self, node: Node<'a>, whole_row: WholeRow) {
        match node {
            Node::ColumnRef(column) => self.column(column.fields(), whole_row),
            _ => self.add(node),
        }
    }

    fn column(&mut self, fields: &'a NodeList, whole_row: WholeRow) {
        let mut from_last = fields.iter().rev();
        match from_last.next() {
            Some(Node::String(name)) => {
                let name = name.sval().unwrap_or_default();
                if fields.len() == 1 && whole_row != WholeRow::Hides {
                    self.facts.bare_names.insert(name.to_owned());
                }
                // `t.f` may be a call of f.
                if self.catalogue.user_functions.contains(name) {
                    self.facts
                        .not_understood("it may call a function that users have made");
                }
                self.name(name);
            }
            _ => {
                self.facts.star = true;
                if whole_row == WholeRow::Shows {
                    let of = from_last.next().and_then(|name| name.as_str());
                    self.facts.whole_rows.extend(of.map(str::to_owned));
                }
            }
        }
    }

    /// Adds a name in a column's place.
    fn name(&mut self, name: &str) {
        if functions::OF_ANY_VALUE.contains(&name) {
            self.facts.only_primary("it asks how a node keeps a value");
        }
        if functions::SYSTEM_COLUMNS.contains(&name) {
            self.facts
                .only_primary("it reads a system column, which differs between nodes");
        }
        self.facts.names.insert(name.to_owned());
    }

    fn call(&mut self, call: &'a FuncCall) {
        let names: Vec<&str> = call.funcname().iter().filter_map(Node::as_str).collect();
        let name = match names[..] {
            [name] | ["pg_catalog", name] => name,
            _ => "",
        };
        let count = call.args().len();
        self.facts.calls.insert((name.to_owned(), count));
        if !functions::touches_no_table(self.catalogue, name) {
            self.facts
                .not_understood("it calls a function that is not known to be the same everywhere");
        } else if !functions::is_same_everywhere(self.catalogue, name) {
            self.facts.only_primary("it calls a volatile function");
        } else if functions::may_name_by_oid(name, call.args()) {
            self.facts.only_primary(functions::BY_NUMBER);
        }
        self.facts.stable |= !self.catalogue.immutable_functions.contains(name);
        self.facts.transaction_time |= functions::OF_TRANSACTION_TIME.contains(&name);
        let whole_row = match functions::HIDES_TYPE.contains(&name) {
            true => WholeRow::Hides,
            false => WholeRow::Shows,
        };
        for argument in call.args() {
            self.operand(argument, whole_row);
        }
        self.list(call.agg_order().iter().map(Node::SortBy));
        self.add(call.agg_filter());
        self.list(call.over().map(Node::WindowDef));
    }

    fn operator(&mut self, name: &NodeList) {
        self.facts.has_operators |= !name.is_empty();
        let names: Vec<&str> = name.iter().filter_map(Node::as_str).collect();
        let plain = match names[..] {
            [] => true,
            [name] | ["pg_catalog", name] => !self.catalogue.user_operators.contains(name),
            _ => false,
        };
        if !plain {
            self.facts
                .not_understood("it has an operator that users have made");
        }
    }

    fn cast(&mut self, target: Option<&'a TypeName>) {
        self.facts.casts.extend(target);
        let names = target.map(|target| target.names().iter());
        let names: Vec<&str> = names
            .into_iter()
            .flatten()
            .filter_map(|name| name.sval())
            .collect();
        let (plain, own) = match names[..] {
            [name] | ["pg_catalog", name] => (
                functions::is_plain_type(self.catalogue, name),
                functions::is_own_type(self.catalogue, name),
            ),
            _ => (false, false),
        };
        if own {
            self.facts
                .only_primary("it casts to a type whose values may differ between nodes");
        }
        if !(plain || own) || target.is_some_and(|target| target.setof || target.pct_type) {
            self.facts
                .not_understood("it casts to a type that is not PostgreSQL's own");
        }
    }
}

/// Returns the syntax nodes inside a write, except its target table.
pub fn parts_of_write(node: Node<'_>) -> Vec<Node<'_>> {
    let mut parts = Vec::new();
    let (with, returning) = match node {
        Node::InsertStmt(insert) => {
            parts.extend(insert.cols());
            parts.push(insert.select_stmt());
            if let Some(conflict) = insert.on_conflict_clause() {
                parts.extend(conflict.target_list().iter().map(Node::ResTarget));
                parts.push(conflict.where_clause());
            }
            (insert.with_clause(), insert.returning_clause())
        }
        Node::UpdateStmt(update) => {
            parts.extend(update.target_list().iter().map(Node::ResTarget));
            parts.extend(update.from_clause());
            parts.push(update.where_clause());
            (update.with_clause(), update.returning_clause())
        }
        Node::DeleteStmt(delete) => {
            parts.extend(delete.using_clause());
            parts.push(delete.where_clause());
            (delete.with_clause(), delete.returning_clause())
        }
        other => return vec![other],
    };
    parts.extend(with.map(Node::WithClause));
    if let Some(returning) = returning {
        parts.extend(returning.exprs());
    }
    parts
}
