//! Functions about the session and its server.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Called, Function, int_of, lenient, null, oid_of, strict, text_of};
use crate::catalogue::Calls;
use crate::datum::Datum;
use crate::error::CatalogueError;
use crate::types::{
    BOOL, FLOAT8, INT4, INT8, NAME, NAME_ARRAY, OID, TEXT, TIMESTAMPTZ, VOID, XID8,
};

/// PostgreSQL's number of the encoding UTF8.
const UTF8: i64 = 6;

/// The longest sleep of one call, in seconds: a year.
const SLEEP_MAX_S: f64 = 31_536_000.0;

pub(super) const FUNCTIONS: &[Function] = &[
    strict("version", &[], TEXT, |calls, _| {
        let version = calls.session.setting("server_version").unwrap_or("15.0");
        Ok(Datum::text(format!("PostgreSQL {version}")))
    }),
    strict("current_database", &[], NAME, database),
    strict("current_catalog", &[], NAME, database),
    strict("current_user", &[], NAME, user),
    strict("current_role", &[], NAME, user),
    strict("session_user", &[], NAME, |calls, _| {
        let session = calls.session;
        Ok(Datum::text(match &*session.session_user {
            "" => &session.user,
            user => user,
        }))
    }),
    strict("user", &[], NAME, user),
    strict("current_schema", &[], NAME, |calls, _| {
        match calls.session.sees_public() {
            true => Ok(Datum::text("public")),
            false => null(),
        }
    }),
    strict(
        "current_schemas",
        &[BOOL],
        NAME_ARRAY,
        |calls, arguments| {
            let system = arguments[0].is_true().then_some("pg_catalog");
            let own = calls.session.sees_public().then_some("public");
            Ok(Datum::texts(system.into_iter().chain(own)))
        },
    ),
    strict("pg_backend_pid", &[], INT4, |calls, _| {
        Ok(Datum::Int(i64::from(calls.session.process)))
    }),
    strict("pg_is_in_recovery", &[], BOOL, |_, _| {
        Ok(Datum::Bool(false))
    }),
    strict("current_setting", &[TEXT], TEXT, |calls, arguments| {
        let name = text_of(&arguments[0]);
        calls.session.setting(name).map(Datum::text).ok_or_else(|| {
            let text = format!("unrecognized configuration parameter \"{name}\"");
            CatalogueError::new("42704", text)
        })
    }),
    strict(
        "current_setting",
        &[TEXT, BOOL],
        TEXT,
        |calls, arguments| {
            let name = text_of(&arguments[0]);
            match calls.session.setting(name) {
                Some(value) => Ok(Datum::text(value)),
                None if arguments[1].is_true() => null(),
                None => {
                    let text = format!("unrecognized configuration parameter \"{name}\"");
                    Err(CatalogueError::new("42704", text))
                }
            }
        },
    ),
    lenient("set_config", &[TEXT, TEXT, BOOL], TEXT, |_, _| {
        Err(CatalogueError::unsupported("set_config"))
    }),
    strict("now", &[], TIMESTAMPTZ, now),
    strict("current_timestamp", &[], TIMESTAMPTZ, now),
    strict("transaction_timestamp", &[], TIMESTAMPTZ, now),
    strict("statement_timestamp", &[], TIMESTAMPTZ, now),
    strict("clock_timestamp", &[], TIMESTAMPTZ, now),
    strict("pg_postmaster_start_time", &[], TIMESTAMPTZ, started),
    strict("pg_conf_load_time", &[], TIMESTAMPTZ, started),
    strict("pg_sleep", &[FLOAT8], VOID, |calls, arguments| {
        let seconds = arguments[0].as_float().unwrap_or_default();
        let sleep =
            Duration::try_from_secs_f64(seconds.clamp(0.0, SLEEP_MAX_S)).unwrap_or_default();
        let sleep_us = u64::try_from(sleep.as_micros()).unwrap_or(u64::MAX);
        calls.sleep_us.fetch_add(sleep_us, Ordering::Relaxed);
        Ok(Datum::text(""))
    }),
    // A connection's addresses are not part of the description.
    strict("inet_client_port", &[], INT4, |_, _| null()),
    strict("inet_server_port", &[], INT4, |_, _| null()),
    strict("pg_my_temp_schema", &[], OID, |_, _| Ok(Datum::oid(0))),
    strict("pg_is_other_temp_schema", &[OID], BOOL, |_, _| {
        Ok(Datum::Bool(false))
    }),
    strict("txid_current", &[], INT8, |_, _| Ok(Datum::Int(0))),
    strict("pg_current_xact_id", &[], XID8, |_, _| Ok(Datum::Int(0))),
    lenient("txid_current_if_assigned", &[], INT8, |_, _| null()),
    strict("pg_encoding_to_char", &[INT4], NAME, |_, arguments| {
        Ok(Datum::text(match int_of(&arguments[0]) {
            UTF8 => "UTF8",
            0 => "SQL_ASCII",
            _ => "",
        }))
    }),
    strict("pg_char_to_encoding", &[NAME], INT4, |_, arguments| {
        let name = text_of(&arguments[0]).to_ascii_lowercase();
        Ok(Datum::Int(match &*name {
            "utf8" | "utf-8" | "unicode" => UTF8,
            "sql_ascii" => 0,
            _ => -1,
        }))
    }),
    strict("getdatabaseencoding", &[], NAME, |_, _| {
        Ok(Datum::text("UTF8"))
    }),
    strict("pg_client_encoding", &[], NAME, |_, _| {
        Ok(Datum::text("UTF8"))
    }),
    strict("pg_get_userbyid", &[OID], NAME, |calls, arguments| {
        Ok(Datum::text(calls.role(oid_of(&arguments[0]))))
    }),
    strict("pg_tablespace_location", &[OID], TEXT, |_, _| {
        Ok(Datum::text(""))
    }),
    strict("pg_stat_get_numscans", &[OID], INT8, |_, _| {
        Ok(Datum::Int(0))
    }),
    strict("pg_stat_get_live_tuples", &[OID], INT8, |_, _| {
        Ok(Datum::Int(0))
    }),
    strict("pg_stat_get_dead_tuples", &[OID], INT8, |_, _| {
        Ok(Datum::Int(0))
    }),
    strict("pg_notification_queue_usage", &[], FLOAT8, |_, _| {
        Ok(Datum::float(0.0))
    }),
];

fn database(calls: Calls<'_>, _: &[Datum]) -> Called {
    Ok(Datum::text(&calls.session.database))
}

fn user(calls: Calls<'_>, _: &[Datum]) -> Called {
    Ok(Datum::text(&calls.session.user))
}

fn now(calls: Calls<'_>, _: &[Datum]) -> Called {
    Ok(Datum::Int(calls.session.now_us))
}

fn started(calls: Calls<'_>, _: &[Datum]) -> Called {
    Ok(Datum::Int(calls.session.started_us))
}
