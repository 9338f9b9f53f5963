//! A bound statement: names are resolved to slots of rows, and each expression has a type.
//!
//! A `SELECT` runs over rows of slots: first the columns of its `FROM`, then the keys of its
//! groups, its aggregates, windows and sets of rows. An expression reads a slot of its own row or,
//! in a subquery, of a row further out. [`crate::bind`] makes plans, [`crate::run`] executes them.

use crate::datum::Datum;
use crate::description::Oid;
use crate::functions::{Function, SetFunction};

/// A column of a result.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    pub name: String,
    pub type_oid: Oid,
    /// The fields of its values, if they are rows.
    pub fields: Vec<(String, Oid)>,
}

/// A query with its `WITH`, `ORDER BY` and `LIMIT`.
#[derive(Debug)]
pub(crate) struct Query {
    /// Unique in the statement.
    pub id: usize,
    pub ctes: Vec<Cte>,
    pub body: Body,
    /// The keys of the order, as positions in the body's rows.
    pub order: Vec<SortKey>,
    /// Positions of the body's rows of which only the first row of equal values is kept.
    pub distinct_on: Option<Vec<usize>>,
    pub limit: Option<Node>,
    pub offset: Option<Node>,
    /// The columns of the result. The body's rows may have further ones, for the order.
    pub columns: Vec<Output>,
    /// Whether its rows depend on a row further out.
    pub is_correlated: bool,
}

/// A query of a `WITH`.
#[derive(Debug)]
pub(crate) struct Cte {
    pub id: usize,
    pub query: Query,
    pub is_recursive: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct SortKey {
    pub position: usize,
    pub descending: bool,
    pub nulls_first: bool,
}

#[derive(Debug)]
pub(crate) enum Body {
    Select(Box<Select>),
    Values(Vec<Vec<Node>>),
    Set {
        operator: SetOperator,
        all: bool,
        left: Box<Query>,
        right: Box<Query>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SetOperator {
    Union,
    Intersect,
    Except,
}

#[derive(Debug, Default)]
pub(crate) struct Select {
    pub from: Option<From>,
    /// The number of all slots.
    pub width: usize,
    /// Conditions on each row that no part of the `FROM` tests.
    pub filters: Vec<Node>,
    pub groups: Option<Groups>,
    pub windows: Vec<Window>,
    pub sets: Vec<SetCall>,
    pub items: Vec<Node>,
    /// Whether equal rows are returned once.
    pub distinct: bool,
}

/// The groups of a `SELECT`.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    /// The keys, and the slots of their values. Without keys there is one group.
    pub keys: Vec<(Node, usize)>,
    pub has_keys: bool,
    pub aggregates: Vec<Aggregate>,
    pub having: Option<Node>,
}

#[derive(Debug)]
pub(crate) struct Aggregate {
    pub function: AggregateFunction,
    pub argument: Option<Node>,
    /// The text between the values of `string_agg`.
    pub separator: Option<Node>,
    pub distinct: bool,
    pub order: Vec<(Node, bool, bool)>,
    pub filter: Option<Node>,
    pub slot: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AggregateFunction {
    Count,
    Min,
    Max,
    Sum,
    Average,
    And,
    Or,
    Texts,
    Array,
}

#[derive(Debug)]
pub(crate) struct Window {
    pub function: WindowFunction,
    pub partition: Vec<Node>,
    pub order: Vec<(Node, bool, bool)>,
    pub slot: usize,
}

#[derive(Debug)]
pub(crate) enum WindowFunction {
    RowNumber,
    Rank,
    DenseRank,
    /// An aggregate over the whole partition.
    Aggregate(Aggregate),
}

/// A call of a function that returns rows.
#[derive(Debug)]
pub(crate) struct SetCall {
    pub function: &'static SetFunction,
    pub arguments: Vec<Node>,
    /// The slot of the value, if it is called among the items of a `SELECT`.
    pub slot: usize,
}

#[derive(Debug)]
pub(crate) enum From {
    Scan(Scan),
    /// Parts that are joined one after the other. Each tests its own conditions.
    Cross(Vec<From>),
    /// All rows of the left part. The right part tests the condition.
    Left(Box<From>, Box<From>),
    Full {
        left: Box<From>,
        right: Box<From>,
        on: Vec<Node>,
    },
    Filtered(Box<From>, Vec<Node>),
}

#[derive(Debug)]
pub(crate) struct Scan {
    pub source: Source,
    /// The first slot.
    pub offset: usize,
    pub width: usize,
    /// A column that must be equal to a value which is known before the scan.
    pub lookup: Option<(usize, Node)>,
    pub filters: Vec<Node>,
}

#[derive(Debug)]
pub(crate) enum Source {
    /// A relation of the catalogue, by its position.
    Relation(usize),
    Cte(usize),
    Derived(Box<Query>),
    Function {
        calls: Vec<SetCall>,
        with_ordinality: bool,
    },
    /// One row with the value of an expression, as of a function that returns one value.
    Value(Node),
}

/// An expression.
#[derive(Debug)]
pub(crate) enum Node {
    Constant(Datum),
    Parameter(usize),
    /// A slot of the row so many queries further out.
    Column {
        up: usize,
        slot: usize,
    },
    And(Vec<Node>),
    Or(Vec<Node>),
    Not(Box<Node>),
    IsNull(Box<Node>),
    /// Whether the value is this truth value; none is unknown.
    IsTruth(Box<Node>, Option<bool>),
    IsDistinct(Box<Node>, Box<Node>),
    Binary(Operator, Box<Node>, Box<Node>),
    Negate(Box<Node>),
    Case {
        arms: Vec<(Node, Node)>,
        otherwise: Option<Box<Node>>,
    },
    Coalesce(Vec<Node>),
    /// The largest or smallest value.
    Extreme {
        largest: bool,
        values: Vec<Node>,
    },
    Cast {
        inner: Box<Node>,
        from: Oid,
        to: Oid,
    },
    Array(Vec<Node>),
    Record(Vec<Node>),
    Field(Box<Node>, usize),
    Subscript(Box<Node>, Box<Node>),
    Slice(Box<Node>, Option<Box<Node>>, Option<Box<Node>>),
    InList(Box<Node>, Vec<Node>),
    /// A comparison with the items of an array: with all, or with any.
    Quantified {
        operator: Operator,
        all: bool,
        left: Box<Node>,
        array: Box<Node>,
    },
    /// A comparison with the rows of a query: with all, or with any.
    QuantifiedQuery {
        operator: Operator,
        all: bool,
        left: Box<Node>,
        query: Box<Query>,
    },
    Exists(Box<Query>),
    Scalar(Box<Query>),
    ArrayOf(Box<Query>),
    Call(&'static Function, Vec<Node>),
}

/// An operator with two operands, which is NULL if one of them is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Add(Oid),
    Subtract(Oid),
    Multiply(Oid),
    Divide(Oid),
    Modulo(Oid),
    BitAnd,
    BitOr,
    Concat,
    ConcatArrays,
    Append,
    Prepend,
    Contains,
    ContainedBy,
    Overlaps,
    Regex { insensitive: bool, negated: bool },
    Like { insensitive: bool, negated: bool },
}

impl Node {
    /// Passes each slot that the expression reads, with the number of queries further out.
    pub(crate) fn slots(&self, depth: usize, visit: &mut dyn FnMut(usize, usize)) {
        let mut all = |nodes: &[Node]| nodes.iter().for_each(|it| it.slots(depth, visit));
        match self {
            Node::Constant(_) | Node::Parameter(_) => {}
            Node::Column { up, slot } => {
                if let Some(further) = up.checked_sub(depth) {
                    visit(further, *slot);
                }
            }
            Node::And(nodes)
            | Node::Or(nodes)
            | Node::Coalesce(nodes)
            | Node::Array(nodes)
            | Node::Record(nodes)
            | Node::Call(_, nodes)
            | Node::Extreme { values: nodes, .. } => all(nodes),
            Node::Not(inner)
            | Node::IsNull(inner)
            | Node::IsTruth(inner, _)
            | Node::Negate(inner)
            | Node::Field(inner, _)
            | Node::Cast { inner, .. } => inner.slots(depth, visit),
            Node::IsDistinct(left, right)
            | Node::Binary(_, left, right)
            | Node::Subscript(left, right)
            | Node::Quantified {
                left, array: right, ..
            } => {
                left.slots(depth, visit);
                right.slots(depth, visit);
            }
            Node::Slice(array, lower, upper) => {
                array.slots(depth, visit);
                for bound in [lower, upper].into_iter().flatten() {
                    bound.slots(depth, visit);
                }
            }
            Node::Case { arms, otherwise } => {
                for (condition, value) in arms {
                    condition.slots(depth, visit);
                    value.slots(depth, visit);
                }
                if let Some(otherwise) = otherwise {
                    otherwise.slots(depth, visit);
                }
            }
            Node::InList(left, list) => {
                left.slots(depth, visit);
                list.iter().for_each(|it| it.slots(depth, visit));
            }
            Node::QuantifiedQuery { left, query, .. } => {
                left.slots(depth, visit);
                query.slots(depth + 1, visit);
            }
            Node::Exists(query) | Node::Scalar(query) | Node::ArrayOf(query) => {
                query.slots(depth + 1, visit);
            }
        }
    }
}

impl Query {
    /// Passes each slot that the query reads, as [`Node::slots`].
    pub(crate) fn slots(&self, depth: usize, visit: &mut dyn FnMut(usize, usize)) {
        for cte in &self.ctes {
            cte.query.slots(depth, visit);
        }
        for count in [&self.limit, &self.offset].into_iter().flatten() {
            count.slots(depth, visit);
        }
        match &self.body {
            Body::Select(select) => select.slots(depth, visit),
            Body::Values(rows) => {
                let values = rows.iter().flatten();
                values.for_each(|it| it.slots(depth, visit));
            }
            Body::Set { left, right, .. } => {
                left.slots(depth, visit);
                right.slots(depth, visit);
            }
        }
    }
}

impl Select {
    fn slots(&self, depth: usize, visit: &mut dyn FnMut(usize, usize)) {
        if let Some(from) = &self.from {
            from.slots(depth, visit);
        }
        for node in self.filters.iter().chain(&self.items) {
            node.slots(depth, visit);
        }
        if let Some(groups) = &self.groups {
            let keys = groups.keys.iter().map(|(key, _)| key);
            keys.chain(&groups.having)
                .for_each(|it| it.slots(depth, visit));
            for aggregate in &groups.aggregates {
                aggregate.slots(depth, visit);
            }
        }
        for window in &self.windows {
            let order = window.order.iter().map(|(key, ..)| key);
            window
                .partition
                .iter()
                .chain(order)
                .for_each(|it| it.slots(depth, visit));
            if let WindowFunction::Aggregate(aggregate) = &window.function {
                aggregate.slots(depth, visit);
            }
        }
        for set in &self.sets {
            set.arguments.iter().for_each(|it| it.slots(depth, visit));
        }
    }
}

impl Aggregate {
    fn slots(&self, depth: usize, visit: &mut dyn FnMut(usize, usize)) {
        let order = self.order.iter().map(|(key, ..)| key);
        let parts = self
            .argument
            .iter()
            .chain(&self.separator)
            .chain(&self.filter);
        parts.chain(order).for_each(|it| it.slots(depth, visit));
    }
}

impl From {
    fn slots(&self, depth: usize, visit: &mut dyn FnMut(usize, usize)) {
        match self {
            From::Scan(scan) => {
                let lookup = scan.lookup.iter().map(|(_, value)| value);
                for node in lookup.chain(&scan.filters) {
                    node.slots(depth, visit);
                }
                match &scan.source {
                    Source::Relation(_) | Source::Cte(_) => {}
                    Source::Derived(query) => query.slots(depth + 1, visit),
                    Source::Function { calls, .. } => {
                        let arguments = calls.iter().flat_map(|call| &call.arguments);
                        arguments.for_each(|it| it.slots(depth, visit));
                    }
                    Source::Value(node) => node.slots(depth, visit),
                }
            }
            From::Cross(parts) => parts.iter().for_each(|it| it.slots(depth, visit)),
            From::Left(left, right) => {
                left.slots(depth, visit);
                right.slots(depth, visit);
            }
            From::Full { left, right, on } => {
                left.slots(depth, visit);
                right.slots(depth, visit);
                on.iter().for_each(|it| it.slots(depth, visit));
            }
            From::Filtered(inner, filters) => {
                inner.slots(depth, visit);
                filters.iter().for_each(|it| it.slots(depth, visit));
            }
        }
    }

    /// Passes each slot that the part fills.
    pub(crate) fn fills(&self, visit: &mut dyn FnMut(usize)) {
        match self {
            From::Scan(scan) => (scan.offset..scan.offset + scan.width).for_each(visit),
            From::Cross(parts) => parts.iter().for_each(|it| it.fills(visit)),
            From::Left(left, right) | From::Full { left, right, .. } => {
                left.fills(visit);
                right.fills(visit);
            }
            From::Filtered(inner, _) => inner.fills(visit),
        }
    }
}
