//! A client of etcd's JSON gateway. It makes one call at a time, to any member that answers.
//!
//! It knows HTTP, JSON and base64, and the form of etcd's errors. Module `record` gives the keys
//! their meaning. Requests and answers are those of etcd's API version 3
//! (<https://etcd.io/docs/v3.4/dev-guide/api_grpc_gateway/>): numbers are strings, keys and values
//! base64, and fields that are zero are left out.

use std::fmt;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::error::ServerError;

/// How long one member may take to answer: etcd itself answers within milliseconds, or not at all
/// while it has no leader.
const CALL_MAX: Duration = Duration::from_millis(800);
/// Bytes of an answer: a part of a state in base64, and room for the fields around it.
const ANSWER_BYTES_MAX: u64 = 4 << 20;

/// gRPC's codes that matter here.
const DEADLINE_EXCEEDED: u64 = 4;
const NOT_FOUND: u64 = 5;
const RESOURCE_EXHAUSTED: u64 = 8;
const INTERNAL: u64 = 13;
const UNAVAILABLE: u64 = 14;

/// The reason why a call to etcd failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum GatewayError {
    /// No member answered, so the outcome is unknown. The caller may try again.
    Unavailable(String),
    /// The given lease has ended. Nothing was changed.
    NoLease,
    /// etcd has no space. Nothing was changed. The caller may try again after an operator has made
    /// space.
    Full(String),
    /// etcd refused the request. Nothing was changed.
    Refused(String),
}

impl fmt::Display for GatewayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GatewayError::Unavailable(reasons) => write!(f, "no member of etcd answers: {reasons}"),
            GatewayError::NoLease => write!(f, "the lease in etcd is over"),
            GatewayError::Full(reason) => write!(
                f,
                "etcd has no space ({reason}): compact and defragment it, or raise its quota, and \
                 disarm its alarm"
            ),
            GatewayError::Refused(reason) => write!(f, "etcd refused: {reason}"),
        }
    }
}

/// A key with its fields in etcd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyValue {
    pub key: String,
    pub value: Vec<u8>,
    pub create_revision: i64,
    pub mod_revision: i64,
    pub lease: i64,
}

/// The outcome of a transaction.
#[derive(Debug)]
pub(crate) struct Transaction {
    pub succeeded: bool,
    /// The revision of the store after the transaction.
    pub revision: i64,
    /// The key-values of each of its range requests.
    pub found: Vec<Vec<KeyValue>>,
}

/// A client of the members of one etcd.
#[derive(Debug)]
pub(crate) struct Gateway {
    agent: ureq::Agent,
    urls: Vec<String>,
    /// The member that answered last.
    preferred: usize,
}

impl Gateway {
    /// Returns a gateway to the members at these URLs.
    ///
    /// # Errors
    /// There is none, or one is no `http://host:port`.
    pub fn new(urls: &[String]) -> Result<Gateway, ServerError> {
        if urls.is_empty() {
            return Err(ServerError::Options(
                "no member of etcd is named: give its http://host:port".to_owned(),
            ));
        }
        let trimmed = urls.iter().map(|url| url.trim_end_matches('/').to_owned());
        let urls: Vec<String> = trimmed.collect();
        for url in &urls {
            let host = url.strip_prefix("http://").unwrap_or_default();
            if host.is_empty() || host.contains('/') {
                return Err(ServerError::Options(format!(
                    "{url:?} is no address of etcd: write http://host:port (there is no TLS yet)"
                )));
            }
        }
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(CALL_MAX))
            .http_status_as_error(false)
            // The operator chooses the members to ask, not the environment.
            .proxy(None)
            .build();
        Ok(Gateway {
            agent: config.into(),
            urls,
            preferred: 0,
        })
    }

    /// Returns the members' URLs.
    pub fn urls(&self) -> &[String] {
        &self.urls
    }

    /// Returns the keys from `key` up to `end`, or only `key`.
    pub fn range(&mut self, key: &str, end: Option<&str>) -> Result<Vec<KeyValue>, GatewayError> {
        key_values(&self.call("/v3/kv/range", &range(key, end))?)
    }

    /// Executes one of two lists of operations, depending on comparisons.
    pub fn transact(
        &mut self,
        compare: &[Value],
        success: &[Value],
        failure: &[Value],
    ) -> Result<Transaction, GatewayError> {
        let body = json!({ "compare": compare, "success": success, "failure": failure });
        let answer = self.call("/v3/kv/txn", &body)?;
        let responses = answer["responses"]
            .as_array()
            .map_or(&[][..], Vec::as_slice);
        let ranges = responses.iter().filter_map(|it| it.get("response_range"));
        Ok(Transaction {
            succeeded: answer["succeeded"] == true,
            revision: number(&answer["header"]["revision"])?,
            found: ranges.map(key_values).collect::<Result<_, _>>()?,
        })
    }

    /// Creates a lease of about `ttl_s` seconds. Returns its id and its actual seconds.
    pub fn grant(&mut self, ttl_s: u64) -> Result<(i64, u64), GatewayError> {
        let answer = self.call("/v3/lease/grant", &json!({ "TTL": ttl_s.to_string() }))?;
        Ok((number(&answer["ID"])?, seconds(&answer["TTL"])?))
    }

    /// Renews a lease. Returns its seconds from now on; 0 if it has ended.
    pub fn keep_alive(&mut self, lease: i64) -> Result<u64, GatewayError> {
        let body = json!({ "ID": lease.to_string() });
        let answer = self.call("/v3/lease/keepalive", &body)?;
        seconds(&answer["result"]["TTL"])
    }

    /// Ends a lease, and deletes its keys.
    pub fn revoke(&mut self, lease: i64) -> Result<(), GatewayError> {
        let body = json!({ "ID": lease.to_string() });
        self.call("/v3/lease/revoke", &body).map(|_| ())
    }

    /// Asks members until one answers, each once.
    fn call(&mut self, path: &str, body: &Value) -> Result<Value, GatewayError> {
        let body = body.to_string();
        let mut reasons = Vec::new();
        for offset in 0..self.urls.len() {
            let index = (self.preferred + offset) % self.urls.len();
            match self.call_one(&self.urls[index], path, &body) {
                Err(GatewayError::Unavailable(reason)) => {
                    reasons.push(format!("{}: {reason}", self.urls[index]));
                }
                result => {
                    self.preferred = index;
                    return result;
                }
            }
        }
        // A member that hangs costs the whole patience: the next call begins with another one.
        self.preferred = (self.preferred + 1) % self.urls.len();
        Err(GatewayError::Unavailable(reasons.join("; ")))
    }

    fn call_one(&self, url: &str, path: &str, body: &str) -> Result<Value, GatewayError> {
        let unavailable = |error: ureq::Error| GatewayError::Unavailable(error.to_string());
        let request = self.agent.post(format!("{url}{path}"));
        let request = request.header("Content-Type", "application/json");
        let mut response = request.send(body).map_err(unavailable)?;
        let reader = response.body_mut().with_config().limit(ANSWER_BYTES_MAX);
        let text = reader.read_to_string().map_err(unavailable)?;
        let answer: Result<Value, _> = serde_json::from_str(&text);
        match answer {
            Ok(answer) if response.status().is_success() && answer.get("error").is_none() => {
                Ok(answer)
            }
            Ok(answer) => Err(refusal(&answer)),
            Err(_) => Err(GatewayError::Refused(format!(
                "{url} answers {} and no JSON: an etcd of version 3.4 or newer was expected there",
                response.status()
            ))),
        }
    }
}

/// Returns the meaning of an error of etcd.
fn refusal(answer: &Value) -> GatewayError {
    // Streams put their errors one level deeper.
    let error = if answer["error"].is_object() {
        &answer["error"]
    } else {
        answer
    };
    let text = error["message"].as_str().or(error["error"].as_str());
    let text = text.unwrap_or("no reason given").to_owned();
    let code = error["code"].as_u64().or(error["grpc_code"].as_u64());
    match code {
        Some(NOT_FOUND) => GatewayError::NoLease,
        Some(RESOURCE_EXHAUSTED) if text.contains("space exceeded") => GatewayError::Full(text),
        Some(RESOURCE_EXHAUSTED | DEADLINE_EXCEEDED | INTERNAL | UNAVAILABLE) => {
            GatewayError::Unavailable(text)
        }
        _ => GatewayError::Refused(text),
    }
}

/// Returns the comparison that a key was created at this revision; 0 means that it does not exist.
pub(super) fn made_at(key: &str, revision: i64) -> Value {
    let (key, revision) = (encode(key.as_bytes()), revision.to_string());
    json!({ "key": key, "target": "CREATE", "result": "EQUAL", "create_revision": revision })
}

/// Returns the comparison that a key was last changed at this revision; 0 means that it does not
/// exist.
pub(super) fn changed_at(key: &str, revision: i64) -> Value {
    let (key, revision) = (encode(key.as_bytes()), revision.to_string());
    json!({ "key": key, "target": "MOD", "result": "EQUAL", "mod_revision": revision })
}

/// Returns the operation that sets a key. It is deleted with its lease, if the lease is not 0.
pub(super) fn put(key: &str, value: &[u8], lease: i64) -> Value {
    let (key, value, lease) = (encode(key.as_bytes()), encode(value), lease.to_string());
    json!({ "request_put": { "key": key, "value": value, "lease": lease } })
}

/// Returns the operation that deletes the keys from `key` up to `end`.
pub(super) fn delete(key: &str, end: &str) -> Value {
    json!({ "request_delete_range": range(key, Some(end)) })
}

/// Returns the operation that reads a key.
pub(super) fn get(key: &str) -> Value {
    json!({ "request_range": range(key, None) })
}

fn range(key: &str, end: Option<&str>) -> Value {
    let key = encode(key.as_bytes());
    match end {
        None => json!({ "key": key }),
        Some(end) => json!({ "key": key, "range_end": encode(end.as_bytes()) }),
    }
}

fn encode(bytes: &[u8]) -> String {
    BASE64_STANDARD.encode(bytes)
}

fn key_values(answer: &Value) -> Result<Vec<KeyValue>, GatewayError> {
    let found = answer["kvs"].as_array().map_or(&[][..], Vec::as_slice);
    let values = found.iter().map(|it| {
        Ok(KeyValue {
            key: String::from_utf8_lossy(&bytes(&it["key"])?).into_owned(),
            value: bytes(&it["value"])?,
            create_revision: number(&it["create_revision"])?,
            mod_revision: number(&it["mod_revision"])?,
            lease: number(&it["lease"])?,
        })
    });
    values.collect()
}

fn bytes(value: &Value) -> Result<Vec<u8>, GatewayError> {
    let text = value.as_str().unwrap_or_default();
    BASE64_STANDARD
        .decode(text)
        .map_err(|error| strange(&error.to_string()))
}

/// Returns a number from a string. An absent field is zero.
fn number(value: &Value) -> Result<i64, GatewayError> {
    match value {
        Value::Null => Ok(0),
        Value::String(text) => text.parse().map_err(|_| strange(text)),
        other => other.as_i64().ok_or_else(|| strange(&other.to_string())),
    }
}

fn seconds(value: &Value) -> Result<u64, GatewayError> {
    // A lease that is over has a negative rest.
    Ok(u64::try_from(number(value)?).unwrap_or(0))
}

fn strange(what: &str) -> GatewayError {
    GatewayError::Refused(format!("its answer makes no sense: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_distinguished() {
        let refused = |code: u64, text: &str| refusal(&json!({ "code": code, "message": text }));
        let full = "etcdserver: mvcc: database space exceeded";
        assert_eq!(refused(8, full), GatewayError::Full(full.to_owned()));
        let many = "etcdserver: too many requests";
        assert_eq!(refused(8, many), GatewayError::Unavailable(many.to_owned()));
        assert_eq!(refused(5, "lease not found"), GatewayError::NoLease);
        let no_leader = "etcdserver: no leader";
        assert_eq!(
            refused(14, no_leader),
            GatewayError::Unavailable(no_leader.to_owned())
        );
        let large = "etcdserver: request is too large";
        assert_eq!(refused(3, large), GatewayError::Refused(large.to_owned()));
        let streamed = json!({ "error": { "grpc_code": 14, "message": no_leader } });
        assert_eq!(
            refusal(&streamed),
            GatewayError::Unavailable(no_leader.to_owned())
        );
    }

    #[test]
    fn absent_fields_are_zero() {
        let answer = json!({ "kvs": [{ "key": "Zm9v", "mod_revision": "7" }] });
        let expected = KeyValue {
            key: "foo".to_owned(),
            value: Vec::new(),
            create_revision: 0,
            mod_revision: 7,
            lease: 0,
        };
        assert_eq!(key_values(&answer), Ok(vec![expected]));
        assert_eq!(key_values(&json!({})), Ok(vec![]));
        for nonsense in [json!({ "key": "%" }), json!({ "lease": "seven" })] {
            let answer = json!({ "kvs": [nonsense] });
            assert!(matches!(key_values(&answer), Err(GatewayError::Refused(_))));
        }
    }

    #[test]
    fn only_plain_addresses_are_members() {
        let of = |urls: &[&str]| {
            let urls: Vec<String> = urls.iter().map(|url| (*url).to_owned()).collect();
            Gateway::new(&urls).map(|gateway| gateway.urls)
        };
        let good = of(&["http://a:1", "http://b:2/"]).expect("two members");
        assert_eq!(good, ["http://a:1", "http://b:2"]);
        let bad: [&[&str]; 5] = [
            &[],
            &["a:1"],
            &["https://a:1"],
            &["http://"],
            &["http://a/b"],
        ];
        for urls in bad {
            assert!(matches!(of(urls), Err(ServerError::Options(_))), "{urls:?}");
        }
    }
}
