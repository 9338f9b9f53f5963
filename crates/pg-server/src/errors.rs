//! The SQLSTATEs of errors, and the errors of the store as PostgreSQL reports its own.
//!
//! An error has the SQLSTATE that PostgreSQL's has for the same statement. Its text is the store's.

use placement::{
    ArrayError, ColumnType, FunctionError, IntervalError, JsonError, Numeric, NumericError,
    RowError, ValueError, check_violation_text,
};
use protocol::expression::ExpressionError;
use sql::{SqlError, StatementProgress, SyntaxError, TransactionFault, sqlstate};

use pg_wire::report::{Report, ReportObject, Severity};

/// SQLSTATE: the client does not follow the protocol.
pub const PROTOCOL_VIOLATION: &str = "08P01";
/// SQLSTATE: the statement changes rows in a transaction that only reads.
pub const READ_ONLY: &str = "25006";
/// SQLSTATE: a feature is not supported.
pub const NOT_SUPPORTED: &str = "0A000";
/// SQLSTATE: a message or a statement exceeds a limit of the server.
pub const MESSAGE_TOO_LONG: &str = "54000";
/// SQLSTATE: the server has as many connections as it may have.
pub const TOO_MANY_CONNECTIONS: &str = "53300";
/// SQLSTATE: the server ends.
pub const SHUTDOWN: &str = "57P01";
/// SQLSTATE: the statement was canceled, or has taken too long.
pub const QUERY_CANCELED: &str = "57014";
/// SQLSTATE: the statement may have taken effect (R14).
pub const STATEMENT_UNKNOWN: &str = "40003";
/// SQLSTATE: the transaction may have taken effect (R14).
pub const TRANSACTION_UNKNOWN: &str = "08007";
/// SQLSTATE: only a rollback is possible.
pub const FAILED_TRANSACTION: &str = "25P02";
/// SQLSTATE: a statement is invalid.
pub const SYNTAX_ERROR: &str = "42601";
/// SQLSTATE: a setting does not exist.
pub const UNDEFINED_OBJECT: &str = "42704";
/// SQLSTATE: a value is invalid for its setting or function.
pub const INVALID_PARAMETER: &str = "22023";
/// SQLSTATE: success, for notices.
pub const SUCCESS: &str = "00000";

/// The schema of all tables.
const SCHEMA: &str = "public";

/// Whether a statement ends a transaction: an unknown outcome has another SQLSTATE then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatementScope {
    /// The statement is any other one.
    Statement,
    /// The statement commits a transaction.
    Commit,
}

/// Returns an error.
pub fn error(code: &str, text: impl Into<String>) -> Report {
    Report::new(Severity::Error, code, text)
}

/// Returns the error for a feature that is not supported.
pub fn unsupported(what: impl std::fmt::Display, hint: &str) -> Report {
    error(NOT_SUPPORTED, format!("{what} is not supported")).hint(hint)
}

/// Returns the error for a fault of this program.
pub fn internal(text: &str) -> Report {
    error("XX000", text)
}

/// Returns the error for a text parameter that is not UTF-8.
pub fn not_utf8(number: usize) -> Report {
    error(
        "22021",
        format!("invalid byte sequence for encoding \"UTF8\" in bind parameter {number}"),
    )
}

/// Returns the error for an array in binary that is none.
pub fn invalid_array(fault: &ExpressionError) -> Report {
    error(of_expression(fault), fault.to_string())
}

/// Returns the error for an array in binary of elements of another type. Both are OIDs.
pub fn wrong_element_type(found: u32, expected: u32) -> Report {
    let text = format!("binary data has array element type {found} instead of expected {expected}");
    error("42804", text)
}

/// Returns the error for the bytes of a parameter in binary.
pub fn invalid_binary(number: usize) -> Report {
    error(
        "22P03",
        format!("incorrect binary data format in bind parameter {number}"),
    )
}

/// Returns the error for a text of a COPY in binary that is not UTF-8, or has a zero byte.
pub fn not_utf8_copied(bytes: &[u8]) -> Report {
    let valid = str::from_utf8(bytes).map_or_else(|error| error.valid_up_to(), |_| bytes.len());
    let zero = bytes[..valid].iter().position(|byte| *byte == 0);
    let byte = bytes
        .get(zero.unwrap_or(valid))
        .copied()
        .unwrap_or_default();
    error(
        "22021",
        format!("invalid byte sequence for encoding \"UTF8\": 0x{byte:02x}"),
    )
}

/// Returns the error for the bytes of a value of a COPY in binary.
pub fn invalid_binary_copied() -> Report {
    error("22P03", "incorrect binary data format")
}

/// Returns the error for a parameter in binary that has too few bytes.
pub fn cut_off() -> Report {
    error(PROTOCOL_VIOLATION, "insufficient data left in message")
}

/// Returns the error for a number beyond the range of its type.
pub fn out_of_range(text: &str) -> Report {
    let shown: String = text.chars().take(80).collect();
    error("22003", format!("value \"{shown}\" is out of range"))
}

/// Returns the error for a date beyond the range of its type.
pub fn date_out_of_range() -> Report {
    error("22008", "date out of range")
}

/// Returns the error for a timestamp beyond the range of its type.
pub fn timestamp_out_of_range() -> Report {
    error("22008", "timestamp out of range")
}

/// Returns the error for a time of the day beyond a day.
pub fn time_out_of_range() -> Report {
    error("22008", "time out of range")
}

/// Returns the error for an interval beyond the range of its parts.
pub fn interval_out_of_range() -> Report {
    error("22008", "interval out of range")
}

/// Returns the error for a text that is no value of its type.
pub fn invalid_value(fault: &ValueError) -> Report {
    let is_digit_or_sign = |it: char| it.is_ascii_digit() || matches!(it, '+' | '-');
    let text = fault.text.trim_ascii();
    let code = match fault.column_type {
        found if found.is_time() && text.starts_with(is_digit_or_sign) && has_date(text) => "22008",
        found if found.is_time() => "22007",
        ColumnType::Time(_) if text.starts_with(is_digit_or_sign) && text.contains(':') => "22008",
        ColumnType::Time(_) => "22007",
        ColumnType::Interval(_) => match fault.interval_fault() {
            Some(IntervalError::FieldRange) => "22015",
            Some(IntervalError::Range) => "22008",
            _ => "22007",
        },
        found if found.is_integer() && is_whole(text) => "22003",
        found if found.is_float() && text.starts_with(|it| is_digit_or_sign(it) || it == '.') => {
            match text.parse::<f64>() {
                Ok(_) => "22003",
                Err(_) => "22P02",
            }
        }
        found if found.is_numeric() && Numeric::parse(text) != Err(NumericError::Syntax) => "22003",
        _ if let Some(fault) = fault.json_fault() => of_json(fault),
        _ if let Some(fault) = fault.array_fault() => of_array(fault),
        ColumnType::Bytes if text.starts_with("\\x") => INVALID_PARAMETER,
        _ => "22P02",
    };
    error(code, fault.to_string())
}

/// Returns whether a text is a date and time by its form, so that one of its fields is out of
/// range.
fn has_date(text: &str) -> bool {
    let mut fields = text.splitn(3, '-');
    let mut is_number = || {
        let field = fields.next().unwrap_or_default();
        let digits = field.bytes().take_while(u8::is_ascii_digit).count();
        digits > 0
    };
    is_number() && is_number() && is_number()
}

fn is_whole(text: &str) -> bool {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns a syntax error with its position in the string.
pub fn syntax(fault: &SyntaxError, text: &str) -> Report {
    let before = text.split('\n').take(fault.line.saturating_sub(1));
    let before: usize = before.map(|line| line.chars().count() + 1).sum();
    let position = u32::try_from(before + fault.column).unwrap_or(u32::MAX);
    error(SYNTAX_ERROR, format!("syntax error: {}", fault.message)).at(position)
}

// tidy: long — a dispatching match over the errors.
/// Returns the report of an error. `text` is the string of the statement.
pub fn report(fault: &SqlError, text: &str, scope: StatementScope) -> Report {
    let plain = |code: &str| error(code, fault.to_string());
    let about = |table: &str, constraint: String| ReportObject {
        schema: SCHEMA.into(),
        table: table.into(),
        constraint,
        ..ReportObject::default()
    };
    match fault {
        SqlError::Syntax(fault) => syntax(fault, text),
        SqlError::Unsupported { what, remedy } => unsupported(what, remedy),
        // Clients look for these words.
        SqlError::UnknownTable { table, .. } => {
            error("42P01", format!("relation \"{table}\" does not exist")).hint(fault.to_string())
        }
        SqlError::UnknownColumn { table, column, .. } => {
            error("42703", format!("column \"{column}\" does not exist"))
                .hint(fault.to_string())
                .about(ReportObject {
                    column: column.clone(),
                    ..about(table, String::new())
                })
        }
        SqlError::Schema(_) => plain("42P16"),
        SqlError::Literal { error, .. } => Report {
            message: fault.to_string(),
            ..invalid_value(error)
        },
        SqlError::Expression { error, .. } => plain(of_expression(error)),
        SqlError::Row { table, error, .. } => match error {
            RowError::Null { column } => error_of_null(table, column),
            RowError::TooLong { .. } => plain(MESSAGE_TOO_LONG),
            RowError::ValueCount { .. } => plain(SYNTAX_ERROR),
            RowError::WrongType { .. } => plain("42804"),
            RowError::BeyondLimit { column_type, .. } => plain(match column_type.is_numeric() {
                true => sqlstate::OUT_OF_RANGE,
                false => sqlstate::TRUNCATION,
            }),
            RowError::Length | RowError::Newer | RowError::Malformed { .. } => plain("XX001"),
        },
        SqlError::Key { .. } => plain(MESSAGE_TOO_LONG),
        SqlError::NoIndex { .. } => plain("53400"),
        SqlError::PrimaryKeyChange { table, column } => plain(NOT_SUPPORTED).about(ReportObject {
            column: column.clone(),
            ..about(table, String::new())
        }),
        SqlError::Duplicate { table, key, done } => {
            let (constraint, key) = constraint(table, key);
            let text = format!("duplicate key value violates unique constraint \"{constraint}\"");
            error("23505", text)
                .detail(format!("Key {key} already exists.{done}"))
                .about(about(table, constraint))
        }
        SqlError::CheckFailed {
            table,
            constraint,
            done,
        } => {
            let text = check_violation_text(table, constraint);
            let report = error("23514", text).about(about(table, constraint.clone()));
            match done.of > 1 {
                true => report.detail(done.to_string().trim_start()),
                false => report,
            }
        }
        SqlError::RowsViolateCheck { table, constraint } => {
            plain("23514").about(about(table, constraint.clone()))
        }
        SqlError::ForeignKey { violation, done } => error("23503", violation.message.clone())
            .detail(format!("{}{done}", violation.detail))
            .about(about(&violation.table, violation.constraint.clone())),
        SqlError::NotDense { table, index, .. } => {
            plain("23514").about(about(table, index.clone()))
        }
        SqlError::Invalid { table, message, .. } => {
            plain(fault_in(message).unwrap_or("22000")).about(about(table, String::new()))
        }
        SqlError::Conflict { done, .. } => plain(match done {
            StatementProgress { done: 0, .. } => "40001",
            // A repetition would change some rows twice.
            _ => STATEMENT_UNKNOWN,
        }),
        SqlError::Serialization { .. } => plain("40001"),
        SqlError::Transaction { fault, .. } => plain(match fault {
            TransactionFault::Failed => FAILED_TRANSACTION,
            TransactionFault::ReadOnly => READ_ONLY,
            TransactionFault::NotOpen => "25P01",
            TransactionFault::NoSavepoint => "3B001",
            TransactionFault::Open => "25001",
            TransactionFault::Limit => MESSAGE_TOO_LONG,
        }),
        SqlError::Statement { sqlstate, .. } => plain(sqlstate),
        SqlError::Store { unknown: true, .. } => plain(match scope {
            StatementScope::Statement => STATEMENT_UNKNOWN,
            StatementScope::Commit => TRANSACTION_UNKNOWN,
        })
        .hint("Read what it would have changed before you repeat it."),
        // A server that evaluates a condition answers with the text of its fault.
        SqlError::Store { message, .. } => plain(fault_in(message).unwrap_or("58000")),
    }
}

fn of_expression(fault: &ExpressionError) -> &'static str {
    match fault {
        ExpressionError::UnknownColumn { .. } => "42703",
        ExpressionError::NoExcluded => "42P01",
        ExpressionError::WrongTypes { .. }
        | ExpressionError::NotNumeric { .. }
        | ExpressionError::WrongOperands { .. } => "42883",
        ExpressionError::NegativeLength => "22011",
        ExpressionError::NotBoolean { .. } | ExpressionError::NotAssignable { .. } => "42804",
        ExpressionError::NotCastable { .. } => sqlstate::CANNOT_CAST,
        ExpressionError::NotOfType { .. } => "22P02",
        ExpressionError::Json(error) => of_json(*error),
        ExpressionError::Function(error) => error.sqlstate(),
        ExpressionError::Array(error) => of_array(*error),
        ExpressionError::TooManyCharacters { .. } => sqlstate::TRUNCATION,
        ExpressionError::Overflow
        | ExpressionError::Underflow
        | ExpressionError::NumericOverflow
        | ExpressionError::TooManyDigits { .. } => sqlstate::OUT_OF_RANGE,
        ExpressionError::NotFinite { .. } | ExpressionError::FieldOfOtherType => NOT_SUPPORTED,
        ExpressionError::TimeRange => sqlstate::DATETIME_RANGE,
        ExpressionError::DivisionByZero => "22012",
        ExpressionError::PatternEnd => "22025",
        ExpressionError::TooLong { .. } => MESSAGE_TOO_LONG,
        ExpressionError::NoZone | ExpressionError::UnknownField => INVALID_PARAMETER,
        ExpressionError::TooDeep | ExpressionError::TooCostly => "54001",
    }
}

fn of_json(fault: JsonError) -> &'static str {
    match fault {
        JsonError::Syntax | JsonError::NoPosition => "22P02",
        JsonError::ZeroCharacter => "22P05",
        JsonError::NumberRange => sqlstate::OUT_OF_RANGE,
        JsonError::TooDeep => "54001",
        JsonError::NullStep => "22004",
        JsonError::OtherKind
        | JsonError::NoArray
        | JsonError::NotRemovable
        | JsonError::NotSettable
        | JsonError::KeyAlone
        | JsonError::NoKey => INVALID_PARAMETER,
    }
}

fn of_array(fault: ArrayError) -> &'static str {
    match fault {
        ArrayError::Malformed => "22P02",
        ArrayError::TooManyDimensions { .. }
        | ArrayError::TooManyElements
        | ArrayError::BoundTooLarge { .. } => sqlstate::LIMIT,
        ArrayError::BoundsReversed
        | ArrayError::OtherDimensions
        | ArrayError::NotConcatenable
        | ArrayError::SubscriptOutOfRange
        | ArrayError::TrimOutOfRange => "2202E",
        ArrayError::NotOneDimension => "22000",
        ArrayError::SearchInDimensions | ArrayError::RemovalFromDimensions => NOT_SUPPORTED,
        ArrayError::NullStart => "22004",
    }
}

/// Returns the SQLSTATE of a server's refusal to read or change a row; none if its text has no
/// fault of an expression or a value.
fn fault_in(message: &str) -> Option<&'static str> {
    let faults = [
        ExpressionError::DivisionByZero,
        ExpressionError::Overflow,
        ExpressionError::TimeRange,
        ExpressionError::Underflow,
        ExpressionError::NumericOverflow,
        ExpressionError::PatternEnd,
        ExpressionError::NegativeLength,
    ];
    let about_types = ColumnType::ALL.map(|column_type| ExpressionError::NotOfType { column_type });
    let not_finite = ColumnType::ALL.map(|column_type| ExpressionError::NotFinite { column_type });
    let of_json = JsonError::ALL.map(ExpressionError::Json);
    let faults = faults.into_iter().chain(about_types).chain(not_finite);
    let of_functions = FunctionError::ALL.map(ExpressionError::Function);
    let of_arrays = ArrayError::ALL.map(ExpressionError::Array);
    let faults = faults.chain(of_json).chain(of_functions);
    let mut faults = faults.chain(of_arrays);
    let fault = faults.find(|fault| message.contains(&fault.to_string()));
    let texts = [
        ("may not be null", sqlstate::NOT_NULL),
        ("is NOT NULL: give it a value", sqlstate::NOT_NULL),
        ("is too long for the type", sqlstate::TRUNCATION),
        ("numeric field overflow", sqlstate::OUT_OF_RANGE),
    ];
    let known = || texts.iter().find(|(text, _)| message.contains(text));
    fault
        .map(|fault| of_expression(&fault))
        .or_else(|| known().map(|(_, sqlstate)| *sqlstate))
}

fn error_of_null(table: &str, column: &str) -> Report {
    let text = format!(
        "null value in column \"{column}\" of relation \"{table}\" violates not-null constraint"
    );
    error("23502", text).about(ReportObject {
        schema: SCHEMA.into(),
        table: table.into(),
        column: column.into(),
        ..ReportObject::default()
    })
}

/// Returns the name of a unique constraint as PostgreSQL names it, and the key with its values. The
/// store describes a duplicate as `primary key (id) = (1)` or `index i (a, b) = (1, 2)`.
fn constraint(table: &str, described: &str) -> (String, String) {
    if let Some(key) = described.strip_prefix("primary key ") {
        return (format!("{table}_pkey"), key.replacen(") = (", ")=(", 1));
    }
    let described = described.strip_prefix("index ").unwrap_or(described);
    match described.split_once(" (") {
        Some((name, key)) => (
            name.to_owned(),
            format!("({}", key.replacen(") = (", ")=(", 1)),
        ),
        None => (described.to_owned(), described.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_characters_over_lines() {
        let text = "SELECT 'ä',\n  FROM t";
        let parsed = sql::parse(text).unwrap_err().error;
        let found = report(&parsed, text, StatementScope::Statement);
        assert_eq!((&*found.code, found.position), (SYNTAX_ERROR, Some(15)));
    }

    #[test]
    fn faults_that_servers_find_while_they_read_have_their_states() {
        let state = |message: &str| {
            let fault = SqlError::Store {
                message: message.into(),
                unknown: false,
                done: StatementProgress::default(),
            };
            report(&fault, "", StatementScope::Statement).code
        };
        let division = ExpressionError::DivisionByZero.to_string();
        assert_eq!(&*state(&format!("a read: {division}")), "22012");
        let pattern = FunctionError::Pattern(placement::PatternError::Invalid).to_string();
        assert_eq!(&*state(&pattern), "2201B");
        assert_eq!(&*state("the disk is full"), "58000");
    }

    #[test]
    fn constraints_are_named_as_in_postgresql() {
        for (described, name, key) in [
            ("primary key (id) = (1)", "t_pkey", "(id)=(1)"),
            (
                "index t_email_key (email) = ('a = b')",
                "t_email_key",
                "(email)=('a = b')",
            ),
            ("index broken", "broken", "broken"),
        ] {
            assert_eq!(constraint("t", described), (name.into(), key.into()));
        }
    }

    #[test]
    fn invalid_values_have_the_codes_of_postgresql() {
        for (column_type, text, code) in [
            (ColumnType::Int64, "abc", "22P02"),
            (ColumnType::Int64, "9223372036854775808", "22003"),
            (ColumnType::Float64, "1e999", "22003"),
            (ColumnType::Float64, "1x", "22P02"),
            (ColumnType::Numeric, "1x", "22P02"),
            (ColumnType::Numeric, "1e200000", "22003"),
            (ColumnType::Bool, "maybe", "22P02"),
            (ColumnType::Uuid, "1", "22P02"),
            (ColumnType::Bytes, "\\x1", "22023"),
            (ColumnType::Timestamp, "soon", "22007"),
            (ColumnType::Timestamp, "2024-02-31", "22008"),
            (ColumnType::TIME, "noon", "22007"),
            (ColumnType::TIME, "25:00", "22008"),
            (ColumnType::INTERVAL, "1 fortnight", "22007"),
            (ColumnType::INTERVAL, "99999999999 days", "22015"),
            (ColumnType::INTERVAL, "178956971 years", "22008"),
        ] {
            let text = text.to_owned();
            let fault = ValueError { column_type, text };
            assert_eq!(invalid_value(&fault).code, code, "{fault}");
        }
    }

    #[test]
    fn unknown_outcomes_name_what_is_unknown() {
        let lost = SqlError::Store {
            message: "the server does not answer".into(),
            unknown: true,
            done: StatementProgress::default(),
        };
        let code = |scope| report(&lost, "", scope).code;
        assert_eq!(code(StatementScope::Statement), "40003");
        assert_eq!(code(StatementScope::Commit), "08007");
    }
}
