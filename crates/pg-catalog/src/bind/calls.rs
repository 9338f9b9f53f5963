//! Binds calls: functions, aggregates, windows, and functions that return rows.

use sqlparser::ast::{self, Expr, FunctionArg, FunctionArgExpr, FunctionArguments};

use super::operators::{common_type, fits, no_function, only_column};
use super::select::directions;
use super::{Binder, Scope, Typed, spelling};
use crate::datum::Datum;
use crate::error::CatalogueError;
use crate::functions::{self, Function};
use crate::plan::{Aggregate, AggregateFunction, Node, Window, WindowFunction};
use crate::types::{self, Kind};

fn aggregate_function(name: &str) -> Option<AggregateFunction> {
    Some(match name {
        "count" => AggregateFunction::Count,
        "min" => AggregateFunction::Min,
        "max" => AggregateFunction::Max,
        "sum" => AggregateFunction::Sum,
        "avg" => AggregateFunction::Average,
        "bool_and" | "every" => AggregateFunction::And,
        "bool_or" => AggregateFunction::Or,
        "string_agg" => AggregateFunction::Texts,
        "array_agg" => AggregateFunction::Array,
        _ => return None,
    })
}

impl Binder<'_> {
    /// Binds a word that is a function without parentheses.
    pub(super) fn keyword(&mut self, name: &str) -> Result<Option<Typed>, CatalogueError> {
        match name {
            "current_catalog" | "current_role" | "current_user" | "session_user" | "user"
            | "current_schema" | "current_timestamp" => self.call(name, Vec::new()).map(Some),
            _ => Ok(None),
        }
    }

    pub(super) fn argument(
        &mut self,
        argument: &FunctionArg,
        scope: &Scope<'_>,
    ) -> Result<Typed, CatalogueError> {
        match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expression)) => {
                self.expression(expression, scope)
            }
            other => Err(CatalogueError::unsupported(format!("the argument {other}"))),
        }
    }

    /// Binds a function that the grammar spells in another way.
    pub(super) fn named_call<'e>(
        &mut self,
        name: &str,
        arguments: impl IntoIterator<Item = &'e Expr>,
        scope: &Scope<'_>,
    ) -> Result<Typed, CatalogueError> {
        let arguments = arguments.into_iter().map(|it| self.expression(it, scope));
        let arguments = arguments.collect::<Result<Vec<Typed>, _>>()?;
        self.call(name, arguments)
    }

    pub(super) fn function(
        &mut self,
        function: &ast::Function,
        scope: &Scope<'_>,
    ) -> Result<Typed, CatalogueError> {
        let name = spelling::function_name(&function.name)?;
        let refused = !function.within_group.is_empty() || function.null_treatment.is_some();
        if refused || !matches!(function.parameters, FunctionArguments::None) {
            return Err(CatalogueError::unsupported(format!("this form of {name}")));
        }
        let list = match &function.args {
            FunctionArguments::List(list) => list,
            FunctionArguments::None => {
                return match self.keyword(&name)? {
                    Some(found) => Ok(found),
                    None => Err(no_function(&name, &[])),
                };
            }
            FunctionArguments::Subquery(query) if name == "array" => {
                let mut query = self.query(query, Some(scope))?;
                self.settle(&mut query)?;
                let element = only_column(&query.columns)?;
                let node = Node::ArrayOf(Box::new(query));
                return Ok(Typed::new(node, types::array_of(element)));
            }
            FunctionArguments::Subquery(_) => {
                return Err(CatalogueError::unsupported(format!(
                    "a query as argument of {name}"
                )));
            }
        };
        if function.over.is_some() {
            return self.window(&name, function, list, scope);
        }
        if aggregate_function(&name).is_some() {
            let (mut aggregate, type_oid) = self.aggregate(&name, function, list, scope)?;
            let parts = self
                .selects
                .last_mut()
                .expect("aggregates are refused elsewhere");
            aggregate.slot = parts.next_slot;
            parts.next_slot += 1;
            let slot = aggregate.slot;
            parts.aggregates.push(aggregate);
            return Ok(Typed::new(Node::Column { up: 0, slot }, type_oid));
        }
        if list.duplicate_treatment.is_some()
            || !list.clauses.is_empty()
            || function.filter.is_some()
        {
            let text = format!("{name} is not an aggregate function");
            return Err(CatalogueError::new("42809", text));
        }
        let arguments = list.args.iter().map(|it| self.argument(it, scope));
        let arguments = arguments.collect::<Result<Vec<Typed>, _>>()?;
        if functions::sets(&name).next().is_some() {
            return self.set_item(&name, arguments);
        }
        self.call(&name, arguments)
    }

    /// Binds a function that returns rows, as an item of a `SELECT`.
    fn set_item(&mut self, name: &str, arguments: Vec<Typed>) -> Result<Typed, CatalogueError> {
        let place = self
            .selects
            .last()
            .map_or(Some("VALUES"), |parts| parts.forbidden);
        if let Some(place) = place {
            let text = format!("set-returning functions are not allowed in {place}");
            return Err(CatalogueError::new("0A000", text));
        }
        let (mut call, columns) = self.set_call(name, arguments)?;
        let parts = self.selects.last_mut().expect("the place is an item");
        let slot = parts.next_slot;
        parts.next_slot += 1;
        call.slot = slot;
        parts.sets.push(call);
        let node = Node::Column { up: 0, slot };
        Ok(match &columns[..] {
            [column] => Typed::new(node, column.type_oid),
            columns => Typed {
                node,
                type_oid: types::RECORD,
                fields: columns
                    .iter()
                    .map(|it| (it.name.clone(), it.type_oid))
                    .collect(),
            },
        })
    }

    // tidy: long — the aggregates differ in their arguments and results.
    fn aggregate(
        &mut self,
        name: &str,
        function: &ast::Function,
        list: &ast::FunctionArgumentList,
        scope: &Scope<'_>,
    ) -> Result<(Aggregate, u32), CatalogueError> {
        let Some(parts) = self.selects.last_mut() else {
            let text = "aggregate functions are not allowed in VALUES";
            return Err(CatalogueError::new("42803", text));
        };
        if let Some(place) = parts.forbidden {
            let text = format!("aggregate functions are not allowed in {place}");
            return Err(CatalogueError::new("42803", text));
        }
        if parts.in_aggregate {
            let text = "aggregate function calls cannot be nested";
            return Err(CatalogueError::new("42803", text));
        }
        parts.in_aggregate = true;
        let kind = aggregate_function(name).expect("it was found by its name");
        let is_all = matches!(
            &list.args[..],
            [FunctionArg::Unnamed(FunctionArgExpr::Wildcard)]
        );
        let mut arguments = Vec::new();
        if !is_all {
            for argument in &list.args {
                arguments.push(self.argument(argument, scope)?);
            }
        }
        let mut order = Vec::new();
        for clause in &list.clauses {
            let ast::FunctionArgumentClause::OrderBy(keys) = clause else {
                return Err(CatalogueError::unsupported(format!(
                    "{clause} in an aggregate"
                )));
            };
            order.extend(self.sort_keys(keys, scope)?);
        }
        let filter = match &function.filter {
            None => None,
            Some(filter) => {
                let filter = self.expression(filter, scope)?;
                Some(self.coerce(filter, types::BOOL)?)
            }
        };
        self.selects.last_mut().expect("it is bound").in_aggregate = false;
        let mut arguments = arguments.into_iter();
        let (first, second, third) = (arguments.next(), arguments.next(), arguments.next());
        let (argument, separator, result) = match (kind, first, second, third) {
            (AggregateFunction::Count, None, None, None) if is_all => (None, None, types::INT8),
            (AggregateFunction::Count, Some(value), None, None) => {
                (Some(value.node), None, types::INT8)
            }
            (AggregateFunction::Texts, Some(value), Some(separator), None) => {
                let value = self.coerce(value, types::TEXT)?;
                let separator = self.coerce(separator, types::TEXT)?;
                (Some(value), Some(separator), types::TEXT)
            }
            (AggregateFunction::Array, Some(value), None, None) => {
                let element = known_type(&value);
                if types::kind(element) == Kind::Array {
                    return Err(CatalogueError::unsupported("an array of arrays"));
                }
                let node = self.coerce(value, element)?;
                (Some(node), None, types::array_of(element))
            }
            (AggregateFunction::And | AggregateFunction::Or, Some(value), None, None) => {
                (Some(self.coerce(value, types::BOOL)?), None, types::BOOL)
            }
            (AggregateFunction::Min | AggregateFunction::Max, Some(value), None, None) => {
                let type_oid = known_type(&value);
                (Some(self.coerce(value, type_oid)?), None, type_oid)
            }
            (AggregateFunction::Sum | AggregateFunction::Average, Some(value), None, None)
                if types::is_number(value.type_oid) =>
            {
                let result = match (kind, value.type_oid) {
                    (AggregateFunction::Sum, types::INT2 | types::INT4) => types::INT8,
                    (_, types::FLOAT4 | types::FLOAT8) => types::FLOAT8,
                    _ => types::NUMERIC,
                };
                (Some(value.node), None, result)
            }
            (_, first, second, third) => {
                let given: Vec<Typed> = [first, second, third].into_iter().flatten().collect();
                return Err(no_function(name, &given));
            }
        };
        let distinct = match list.duplicate_treatment {
            Some(ast::DuplicateTreatment::Distinct) => true,
            None | Some(ast::DuplicateTreatment::All) => false,
        };
        let aggregate = Aggregate {
            function: kind,
            argument,
            separator,
            distinct,
            order,
            filter,
            slot: 0,
        };
        Ok((aggregate, result))
    }

    fn sort_keys(
        &mut self,
        keys: &[ast::OrderByExpr],
        scope: &Scope<'_>,
    ) -> Result<Vec<(Node, bool, bool)>, CatalogueError> {
        let keys = keys.iter().map(|key| {
            let bound = self.expression(&key.expr, scope)?;
            let (descending, nulls_first) = directions(&key.options)?;
            Ok((bound.node, descending, nulls_first))
        });
        keys.collect()
    }

    fn window(
        &mut self,
        name: &str,
        function: &ast::Function,
        list: &ast::FunctionArgumentList,
        scope: &Scope<'_>,
    ) -> Result<Typed, CatalogueError> {
        let named;
        let spec = match &function.over {
            Some(ast::WindowType::WindowSpec(spec)) => spec,
            Some(ast::WindowType::NamedWindow(ident)) => {
                let wanted = spelling::name(ident);
                let parts = self.selects.last();
                let mut known = parts.iter().flat_map(|parts| &parts.named);
                let found = known.find(|(name, _)| *name == wanted);
                named = found.map(|(_, spec)| spec.clone()).ok_or_else(|| {
                    let text = format!("window \"{wanted}\" does not exist");
                    CatalogueError::new("42704", text)
                })?;
                &named
            }
            None => unreachable!("the caller has seen OVER"),
        };
        let place = self
            .selects
            .last()
            .map_or(Some("VALUES"), |parts| parts.forbidden);
        if let Some(place) = place {
            let text = format!("window functions are not allowed in {place}");
            return Err(CatalogueError::new("42P20", text));
        }
        if spec.window_frame.is_some() || spec.window_name.is_some() {
            return Err(CatalogueError::unsupported("the frame of a window"));
        }
        let (function, type_oid) = match name {
            "row_number" => (WindowFunction::RowNumber, types::INT8),
            "rank" => (WindowFunction::Rank, types::INT8),
            "dense_rank" => (WindowFunction::DenseRank, types::INT8),
            name if aggregate_function(name).is_some() => {
                if !spec.order_by.is_empty() {
                    let what = "an aggregate over a window with an order";
                    return Err(CatalogueError::unsupported(what));
                }
                let (aggregate, type_oid) = self.aggregate(name, function, list, scope)?;
                (WindowFunction::Aggregate(aggregate), type_oid)
            }
            name => return Err(CatalogueError::unsupported(format!("{name} over a window"))),
        };
        let partition = spec.partition_by.iter();
        let partition = partition.map(|it| self.expression(it, scope).map(|it| it.node));
        let partition = partition.collect::<Result<Vec<Node>, _>>()?;
        let order = self.sort_keys(&spec.order_by, scope)?;
        let parts = self.selects.last_mut().expect("the place is an item");
        let slot = parts.next_slot;
        parts.next_slot += 1;
        parts.windows.push(Window {
            function,
            partition,
            order,
            slot,
        });
        Ok(Typed::new(Node::Column { up: 0, slot }, type_oid))
    }

    /// Binds a call of a function that returns one value.
    pub(super) fn call(
        &mut self,
        name: &str,
        arguments: Vec<Typed>,
    ) -> Result<Typed, CatalogueError> {
        match name {
            "coalesce" | "greatest" | "least" => return self.chosen(name, arguments),
            "nullif" => {
                let (left, right) = match <[Typed; 2]>::try_from(arguments) {
                    Ok([left, right]) => (left, right),
                    Err(arguments) => return Err(no_function(name, &arguments)),
                };
                return self.null_if(left, right);
            }
            "json_build_object" => return self.json_object(arguments),
            "pg_typeof" => {
                let [argument] = &arguments[..] else {
                    return Err(no_function(name, &arguments));
                };
                let found = Node::Constant(Datum::oid(argument.type_oid));
                return Ok(Typed::new(found, types::REGTYPE));
            }
            _ => {}
        }
        // A call with the name of a type and one argument is a cast.
        if let [_] = &arguments[..]
            && functions::named(name).next().is_none()
            && let Some(found) = types::by_name(name)
        {
            let argument = arguments.into_iter().next().expect("there is one");
            return self.cast(argument, found.oid);
        }
        let mut candidates = functions::named(name);
        let Some(function) = candidates.find(|it| takes(it, &arguments)) else {
            return Err(no_function(name, &arguments));
        };
        let result = result_type(function, &arguments);
        let mut nodes = Vec::with_capacity(arguments.len());
        for (position, argument) in arguments.into_iter().enumerate() {
            let wanted = wanted_type(function, position);
            nodes.push(match wanted {
                // Arguments of any type are passed as texts.
                types::ANY => self.cast(argument, types::TEXT)?.node,
                types::ANYARRAY if name == "array_to_string" => {
                    self.cast(argument, types::TEXT_ARRAY)?.node
                }
                types::ANYARRAY if argument.is_unknown() => {
                    self.coerce(argument, types::TEXT_ARRAY)?
                }
                types::ANYARRAY => argument.node,
                types::ANYELEMENT if argument.is_unknown() => {
                    let item = types::element(result).unwrap_or(types::TEXT);
                    self.coerce(argument, item)?
                }
                types::ANYELEMENT => argument.node,
                wanted => self.coerce(argument, wanted)?,
            });
        }
        Ok(Typed::new(Node::Call(function, nodes), result))
    }

    /// Binds a function that returns one of its arguments.
    fn chosen(&mut self, name: &str, arguments: Vec<Typed>) -> Result<Typed, CatalogueError> {
        if arguments.is_empty() {
            return Err(no_function(name, &arguments));
        }
        let place = name.to_ascii_uppercase();
        let common = common_type(arguments.iter().map(|it| it.type_oid), &place)?;
        let common = if common == types::UNKNOWN {
            types::TEXT
        } else {
            common
        };
        let fields = arguments[0].fields.clone();
        let values = arguments.into_iter().map(|it| self.coerce(it, common));
        let values = values.collect::<Result<Vec<Node>, _>>()?;
        let node = match name {
            "coalesce" => Node::Coalesce(values),
            name => Node::Extreme {
                largest: name == "greatest",
                values,
            },
        };
        Ok(Typed {
            node,
            type_oid: common,
            fields,
        })
    }

    /// Binds `json_build_object`: its arguments are written by their types.
    fn json_object(&mut self, arguments: Vec<Typed>) -> Result<Typed, CatalogueError> {
        if arguments.len() % 2 == 1 {
            let text = "argument list must have even number of elements";
            return Err(CatalogueError::new("22023", text));
        }
        let mut parts = Vec::with_capacity(arguments.len());
        for (position, argument) in arguments.into_iter().enumerate() {
            let is_bare = position % 2 == 1
                && (argument.type_oid == types::BOOL || types::is_number(argument.type_oid));
            let text = self.cast(argument, types::TEXT)?;
            parts.push(match is_bare {
                true => text,
                false => self.call("to_json", vec![text])?,
            });
        }
        let function = functions::named("json_build_object").next();
        let function = function.expect("it is in the list");
        let nodes = parts.into_iter().map(|it| it.node).collect();
        Ok(Typed::new(Node::Call(function, nodes), function.result))
    }

    fn null_if(&mut self, left: Typed, right: Typed) -> Result<Typed, CatalogueError> {
        let common = known_type(&left);
        let left = self.coerce(left, common)?;
        // The value is computed once, as the only item of a row.
        let whole = Typed::new(left, common);
        let (left, right) = self.comparable("=", whole, right)?;
        let function = functions::named("nullif")
            .next()
            .expect("it is in the list");
        Ok(Typed::new(Node::Call(function, vec![left, right]), common))
    }
}

fn known_type(typed: &Typed) -> u32 {
    match typed.type_oid {
        types::UNKNOWN => types::TEXT,
        known => known,
    }
}

/// Returns the type of a function's argument.
fn wanted_type(function: &Function, position: usize) -> u32 {
    let last = function.arguments.len().saturating_sub(1);
    function.arguments[position.min(last)]
}

/// Returns whether a function takes arguments of these types.
fn takes(function: &Function, arguments: &[Typed]) -> bool {
    let count = function.arguments.len();
    let fits_count = match function.is_variadic {
        true => arguments.len() >= count,
        false => arguments.len() == count,
    };
    fits_count
        && arguments
            .iter()
            .enumerate()
            .all(|(position, argument)| fits(argument.type_oid, wanted_type(function, position)))
}

/// Returns the type of a call's result, which may depend on its arguments.
fn result_type(function: &Function, arguments: &[Typed]) -> u32 {
    let array = || {
        let is_array = |it: &&Typed| types::kind(it.type_oid) == Kind::Array;
        let found = arguments.iter().find(is_array);
        found.map_or(types::TEXT_ARRAY, |it| match it.type_oid {
            // Functions return arrays, not vectors.
            types::INT2VECTOR => types::INT2_ARRAY,
            types::OIDVECTOR => types::OID_ARRAY,
            other => other,
        })
    };
    match function.result {
        types::ANYARRAY => array(),
        types::ANYELEMENT => {
            let first = arguments.first().map_or(types::TEXT, known_type);
            match types::kind(first) {
                Kind::Array => types::element(first).unwrap_or(types::TEXT),
                _ => first,
            }
        }
        result => result,
    }
}
