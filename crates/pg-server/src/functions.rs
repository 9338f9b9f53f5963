//! Functions about the session that clients call when they connect, as items of a `SELECT`.

use placement::{ColumnType, Value};
use protocol::configuration::roles::RoleId;
use sql::{SessionFunctions, SqlError};

use pg_wire::report::Report;

use crate::errors::error;
use crate::settings::{SessionVariables, SettingSpan};

/// The names of the functions, and the types of their results.
const FUNCTIONS: &[(&str, ColumnType)] = &[
    ("current_catalog", ColumnType::Text),
    ("current_database", ColumnType::Text),
    ("current_role", ColumnType::Text),
    ("current_schema", ColumnType::Text),
    ("current_setting", ColumnType::Text),
    ("current_user", ColumnType::Text),
    ("pg_advisory_unlock_all", ColumnType::Text),
    ("pg_backend_pid", ColumnType::Int32),
    ("pg_is_in_recovery", ColumnType::Bool),
    ("session_user", ColumnType::Text),
    ("set_config", ColumnType::Text),
    ("user", ColumnType::Text),
    ("version", ColumnType::Text),
];

/// The names and numbers of a session.
#[derive(Clone, Debug)]
pub struct SessionIdentity {
    /// The user's name.
    pub user: String,
    /// The role of this user; none without one.
    pub role: Option<RoleId>,
    /// The database's name, as the client has given it: there is one database.
    pub database: String,
    /// The number of the session, in place of PostgreSQL's process number.
    pub process: u32,
}

/// The functions of a session. A call may change its settings.
#[derive(Debug)]
pub struct FunctionCalls<'a> {
    /// The session.
    pub identity: &'a SessionIdentity,
    /// The settings.
    pub settings: &'a mut SessionVariables,
    /// Why the last call has failed, in more detail than its error.
    pub failure: Option<Report>,
}

/// The names of the functions, for statements that are only described.
#[derive(Clone, Copy, Debug)]
pub struct FunctionNames;

impl SessionFunctions for FunctionNames {
    fn result_type(&self, name: &str) -> Option<ColumnType> {
        let mut known = FUNCTIONS.iter();
        known
            .find(|(known, _)| *known == name)
            .map(|(_, found)| *found)
    }

    fn call(&mut self, _: &str, _: &[Option<String>]) -> Result<Value, SqlError> {
        unreachable!("a description calls no function")
    }
}

impl SessionFunctions for FunctionCalls<'_> {
    fn result_type(&self, name: &str) -> Option<ColumnType> {
        FunctionNames.result_type(name)
    }

    fn call(&mut self, name: &str, arguments: &[Option<String>]) -> Result<Value, SqlError> {
        self.value(name, arguments).map_err(|report| {
            let message = report.message.clone();
            self.failure = Some(report);
            SqlError::Statement {
                sqlstate: sql::sqlstate::STATEMENT,
                message,
            }
        })
    }
}

impl FunctionCalls<'_> {
    fn value(&mut self, name: &str, arguments: &[Option<String>]) -> Result<Value, Report> {
        let text = |text: &str| Ok(Value::Text(text.to_owned()));
        match (name, arguments) {
            ("version", []) => {
                let version = self.settings.value("server_version")?;
                text(&format!("PostgreSQL {version}"))
            }
            ("current_database" | "current_catalog", []) => text(&self.identity.database),
            ("current_user" | "user" | "current_role", []) => text(self.settings.current_user()),
            ("session_user", []) => text(self.settings.session_user()),
            ("current_schema", []) => text("public"),
            ("pg_backend_pid", []) => Ok(Value::Int32(self.identity.process.cast_signed())),
            ("pg_is_in_recovery", []) => Ok(Value::Bool(false)),
            // There are no advisory locks. PostgreSQL's function returns nothing, as an empty text.
            ("pg_advisory_unlock_all", []) => text(""),
            ("current_setting", [Some(setting)]) => text(self.settings.value(setting)?),
            ("current_setting", [Some(setting), Some(missing_ok)]) => {
                match self.settings.value(setting) {
                    Err(_) if is_true(missing_ok) => Ok(Value::Null),
                    value => text(value?),
                }
            }
            ("set_config", [Some(setting), value, Some(is_local)]) => {
                let span = match is_true(is_local) {
                    true => SettingSpan::Transaction,
                    false => SettingSpan::Session,
                };
                self.settings.set_for(span, setting, value.as_deref())?;
                text(self.settings.value(setting)?)
            }
            ("current_setting" | "set_config", arguments)
                if arguments.iter().any(Option::is_none) =>
            {
                Ok(Value::Null)
            }
            (name, arguments) => {
                let count = arguments.len();
                let text = format!("function {name} does not take {count} arguments");
                Err(error("42883", text))
            }
        }
    }
}

fn is_true(text: &str) -> bool {
    matches!(Value::parse(ColumnType::Bool, text), Ok(Value::Bool(true)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn called(text: &str) -> Result<Vec<String>, String> {
        let identity = SessionIdentity {
            user: "ann".into(),
            role: None,
            database: "shop".into(),
            process: 7,
        };
        let mut settings = SessionVariables::new("ann", "0.1.0");
        let mut calls = FunctionCalls {
            identity: &identity,
            settings: &mut settings,
            failure: None,
        };
        let statement = sql::parse(text).unwrap().remove(0).statement;
        let called = statement.with_session_values(&[], &mut calls);
        let failure = calls.failure.take();
        let called = called.map_err(|_| failure.expect("the call has failed").code)?;
        let Some(sql::statement::Statement::Select(select)) = called else {
            panic!("{text} calls nothing")
        };
        let items = select.items.iter().map(|item| match item {
            sql::statement::SelectItem::Expression { expression, .. } => expression.to_string(),
            other => format!("{other:?}"),
        });
        Ok(items.collect())
    }

    #[test]
    fn what_clients_ask_for_at_the_start() {
        for (text, expected) in [
            (
                "SELECT version()",
                &["'PostgreSQL 15.0 (Replex 0.1.0)'"][..],
            ),
            (
                "SELECT current_database(), current_user, pg_catalog.pg_backend_pid()",
                &["'shop'", "'ann'", "7"],
            ),
            (
                "SELECT current_schema(), pg_is_in_recovery(), current_setting('TimeZone')",
                &["'public'", "false", "'UTC'"],
            ),
            (
                "SELECT set_config('application_name', 'a', false), current_setting('x', true)",
                &["'a'", "NULL"],
            ),
            ("SELECT set_config('work_mem', '1MB', true)", &["'1MB'"]),
        ] {
            assert_eq!(called(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn calls_that_fail() {
        for (text, code) in [
            ("SELECT set_config('TimeZone', 'Nowhere', false)", "22023"),
            ("SELECT set_config('DateStyle', 'German', true)", "0A000"),
            ("SELECT current_setting('missing')", "42704"),
            ("SELECT version(1)", "42883"),
        ] {
            assert_eq!(called(text), Err(code.into()), "{text}");
        }
    }
}
