//! Users and their secrets, from a file with a line `"name" "secret"` for each.
//!
//! A secret is a password, or the text in PostgreSQL's `pg_authid.rolpassword` (`SCRAM-SHA-256$…`).
//! With the latter a client can log in, but a proxy cannot log in to servers that want the
//! password.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use crate::scram::ScramVerifier;

/// The users that may log in, with their secrets.
#[derive(Default)]
pub struct UserSecrets {
    users: BTreeMap<String, UserSecret>,
}

/// One user's secret.
#[derive(Clone)]
pub struct UserSecret {
    /// The verifier for the client's login.
    pub verifier: ScramVerifier,
    /// The password for servers that ask for it; none if it is unknown.
    pub password: Option<String>,
}

impl UserSecrets {
    /// Reads a file of users. The error names the file and the line, but not its text.
    pub fn read(path: &Path) -> Result<UserSecrets, String> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("cannot read users from {}: {error}", path.display()))?;
        UserSecrets::parse(&text).map_err(|error| format!("{}: {error}", path.display()))
    }

    fn parse(text: &str) -> Result<UserSecrets, String> {
        let mut users = UserSecrets::default();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with([';', '#']) {
                continue;
            }
            let invalid = || format!("line {}: expected `\"name\" \"secret\"`", index + 1);
            let (name, rest) = quoted(line).ok_or_else(invalid)?;
            let (secret, rest) = quoted(rest.trim_start()).ok_or_else(invalid)?;
            if !rest.trim().is_empty() {
                return Err(invalid());
            }
            users.add(&name, &secret).map_err(|_| invalid())?;
        }
        Ok(users)
    }

    /// Adds a user or replaces a user's secret. Fails if the secret looks like a verifier but is
    /// not valid.
    pub fn add(&mut self, name: &str, secret: &str) -> Result<(), String> {
        let user = if secret.starts_with("SCRAM-SHA-256$") {
            let verifier = ScramVerifier::parse(secret).ok_or("the verifier is damaged")?;
            UserSecret {
                verifier,
                password: None,
            }
        } else {
            UserSecret {
                verifier: ScramVerifier::of_password(secret),
                password: Some(secret.to_string()),
            }
        };
        self.users.insert(name.to_string(), user);
        Ok(())
    }

    /// Returns the names of the users, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.users.keys().map(String::as_str)
    }

    /// Returns the secret of a user.
    pub fn find(&self, name: &str) -> Option<&UserSecret> {
        self.users.get(name)
    }
}

impl fmt::Debug for UserSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.users.keys()).finish()
    }
}

/// Returns a word in double quotes, in which `""` is one quote, and the text after it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut rest = text.strip_prefix('"')?;
    let mut word = String::new();
    loop {
        let (part, after) = rest.split_once('"')?;
        word += part;
        match after.strip_prefix('"') {
            Some(after) => {
                word.push('"');
                rest = after;
            }
            None => return Some((word, after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_is_read() {
        let users =
            UserSecrets::parse("; note\n\"ann\" \"se\"\"cret\"\n\n  \"bob\"   \"x\" \n").unwrap();
        let password = |name| users.find(name).and_then(|user| user.password.clone());
        assert_eq!(password("ann").as_deref(), Some("se\"cret"));
        assert_eq!(password("bob").as_deref(), Some("x"));
        assert!(users.find("eve").is_none());
        assert_eq!(format!("{users:?}"), r#"{"ann", "bob"}"#);
    }

    #[test]
    fn error_names_the_line_and_no_secret() {
        for text in [
            "\n\"ann\" secret",
            "\n\"ann\" \"secret",
            "\n\"ann\" \"SCRAM-SHA-256$secret\"",
        ] {
            let error = UserSecrets::parse(text).unwrap_err();
            assert!(
                error.contains("line 2") && !error.contains("ann"),
                "{error}"
            );
        }
    }
}
