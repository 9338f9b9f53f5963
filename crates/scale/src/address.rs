//! Where a database is and who logs in there: a URL as libpq takes it.

use std::fmt;
use std::path::Path;

use crate::auth::tls::Policy;

/// The port where nothing else is said.
const PORT_DEFAULT: u16 = 5432;

/// `postgresql://user:password@host:port/database?sslmode=…&sslrootcert=FILE`
#[derive(Clone)]
pub struct Address {
    /// A name or an address.
    pub host: String,
    /// The TCP port.
    pub port: u16,
    /// Who logs in for the proxy's own work.
    pub user: String,
    /// That user's password.
    pub password: Option<String>,
    /// The database that is replicated.
    pub database: String,
    /// How it is spoken to.
    pub tls: Policy,
}

impl Address {
    /// Which database it is, whoever logs in there.
    pub fn place(&self) -> (&str, u16, &str) {
        (&self.host, self.port, &self.database)
    }

    /// Reads a URL. The error does not repeat it, since it may hold a password.
    pub fn parse(url: &str) -> Result<Address, String> {
        let rest = url
            .strip_prefix("postgresql://")
            .or_else(|| url.strip_prefix("postgres://"))
            .ok_or("a database is named as postgresql://user:password@host:port/database")?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, place) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = match login.split_once(':') {
            Some((user, password)) => (user, Some(unescape(password)?)),
            None => (login, None),
        };
        let (host, port) = match place.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => {
                let port = port.parse().map_err(|_| "the URL's port is no number")?;
                (host, port)
            }
            _ => (place, PORT_DEFAULT),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() || user.is_empty() {
            return Err("a database's URL needs a user and a host".into());
        }
        let user = unescape(user)?;
        let database = match database {
            "" => user.clone(),
            database => unescape(database)?,
        };
        Ok(Address {
            host: unescape(host)?,
            port,
            user,
            password,
            database,
            tls: policy(query)?,
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}@{}:{}/{}",
            self.user, self.host, self.port, self.database
        )
    }
}

fn policy(query: &str) -> Result<Policy, String> {
    let (mut mode, mut roots) = ("prefer".to_string(), None);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("sslmode", value)) => mode = unescape(value)?,
            Some(("sslrootcert", value)) => roots = Some(unescape(value)?),
            _ => {
                return Err("a database's URL may have sslmode and sslrootcert behind `?`".into());
            }
        }
    }
    Policy::of(&mode, roots.as_deref().map(Path::new))
}

/// Without percent signs.
fn unescape(text: &str) -> Result<String, String> {
    let invalid = || "a percent sign in the URL is not followed by two hexadecimal digits";
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        if byte != b'%' {
            bytes.push(byte);
            rest = after;
            continue;
        }
        let digits = after.get(..2).ok_or_else(invalid)?;
        let digits = str::from_utf8(digits).map_err(|_| invalid())?;
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| invalid())?);
        rest = &after[2..];
    }
    String::from_utf8(bytes).map_err(|_| "the URL is not UTF-8".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_is_read() {
        let address =
            Address::parse("postgresql://an%40n:p%3Aw@db.example:6000/shop?sslmode=disable");
        let address = address.unwrap();
        assert_eq!(format!("{address:?}"), "an@n@db.example:6000/shop");
        assert_eq!(address.password.as_deref(), Some("p:w"));
        assert!(matches!(address.tls, Policy::Disable));
        let address = Address::parse("postgres://ann@[::1]").unwrap();
        assert_eq!(format!("{address:?}"), "ann@::1:5432/ann");
    }

    #[test]
    fn invalid_urls_are_refused_without_their_password() {
        for url in [
            "",
            "http://a@b",
            "postgresql://secret",
            "postgresql://a:secret@b:x",
            "postgresql://a:secret%@b",
            "postgresql://a:secret@b?sslmode=some",
            "postgresql://a:secret@b?sslmode=verify-full",
            "postgresql://a:secret@b?x=1",
        ] {
            let error = Address::parse(url).unwrap_err();
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
