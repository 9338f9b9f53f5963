//! The URL of a database, as libpq accepts it: an address, and the user that logs in there.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::tls::{TlsFiles, TlsPolicy};

/// The default port.
const PORT_DEFAULT: u16 = 5432;

/// An address of a server: `postgresql://user:password@host:port/database?NAME=VALUE&…`. Parameters
/// are `sslmode`, `sslrootcert`, `sslcrl`, `sslcert`, `sslkey`, and `host` and `port` in place of
/// those before.
#[derive(Clone)]
pub struct Address {
    /// A name, an IP address, or the folder of a Unix socket, which begins with a slash.
    pub host: String,
    /// The TCP port, and part of a Unix socket's name.
    pub port: u16,
    /// The user that logs in.
    pub user: String,
    /// The user's password.
    pub password: Option<String>,
    /// The database to connect to. In a URL without one, the database has the user's name.
    pub database: String,
    /// The use of TLS. Unix sockets never have TLS.
    pub tls: TlsPolicy,
}

impl Address {
    /// Returns the database, without the user.
    pub fn place(&self) -> (&str, u16, &str) {
        (&self.host, self.port, &self.database)
    }

    /// Returns the path of the Unix socket at this address; none for a TCP address.
    pub fn socket(&self) -> Option<PathBuf> {
        let folder = self.host.starts_with('/').then(|| Path::new(&self.host));
        folder.map(|folder| socket_in(folder, self.port))
    }

    /// Parses a URL. The error does not repeat it, because it may contain a password.
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
            Some((host, port)) if !port.contains(']') => (host, Some(unescape(port)?)),
            _ => (place, None),
        };
        let host = unescape(host.trim_start_matches('[').trim_end_matches(']'))?;
        let query = AddressQuery::parse(query)?;
        let host = query.host.unwrap_or(host);
        let port = match query.port.or(port) {
            Some(port) => port.parse().map_err(|_| "the URL's port is not a number")?,
            None => PORT_DEFAULT,
        };
        if host.is_empty() || user.is_empty() {
            return Err("a database's URL needs a user and a host".into());
        }
        let user = unescape(user)?;
        let database = match database {
            "" => user.clone(),
            database => unescape(database)?,
        };
        Ok(Address {
            tls: match host.starts_with('/') {
                true => TlsPolicy::Disable,
                false => query.tls,
            },
            host,
            port,
            user,
            password,
            database,
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.socket() {
            Some(socket) => write!(f, "{}", socket.display()),
            None => write!(f, "{}:{}", self.host, self.port),
        }
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

/// Returns the path of a Unix socket in a folder, as PostgreSQL's servers and clients form it.
pub fn socket_in(folder: &Path, port: u16) -> PathBuf {
    folder.join(format!(".s.PGSQL.{port}"))
}

/// The part after the question mark.
struct AddressQuery {
    host: Option<String>,
    port: Option<String>,
    tls: TlsPolicy,
}

impl AddressQuery {
    fn parse(query: &str) -> Result<AddressQuery, String> {
        let (mut mode, mut roots) = ("prefer".to_string(), None);
        let (mut certificates, mut key, mut revoked) = (None, None, None);
        let (mut host, mut port) = (None, None);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("sslmode", value)) => mode = unescape(value)?,
                Some(("sslrootcert", value)) => roots = Some(unescape(value)?.into()),
                Some(("sslcrl", value)) => revoked = Some(unescape(value)?.into()),
                Some(("sslcert", value)) => certificates = Some(unescape(value)?.into()),
                Some(("sslkey", value)) => key = Some(unescape(value)?.into()),
                Some(("host", value)) => host = Some(unescape(value)?),
                Some(("port", value)) => port = Some(unescape(value)?),
                _ => {
                    return Err(
                        "a database's URL may have sslmode, sslrootcert, sslcrl, sslcert, sslkey, host \
                         and port behind `?`"
                            .into(),
                    );
                }
            }
        }
        let proof = match (certificates, key) {
            (Some(certificates), Some(key)) => Some((certificates, key)),
            (None, None) => None,
            _ => return Err("sslcert and sslkey go together in a database's URL".into()),
        };
        let files = TlsFiles {
            roots,
            revoked,
            proof,
        };
        let tls = TlsPolicy::of(&mode, files)?;
        Ok(AddressQuery { host, port, tls })
    }
}

/// Decodes percent signs.
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
    if bytes.contains(&0) {
        return Err("the URL has a zero byte, which no name or password can have".into());
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
        assert!(matches!(address.tls, TlsPolicy::Disable));
        let address = Address::parse("postgres://ann@[::1]").unwrap();
        assert_eq!(format!("{address:?}"), "ann@::1:5432/ann");
    }

    #[test]
    fn url_names_a_unix_socket() {
        for url in [
            "postgresql://ann@%2Frun%2Fpg:6000/shop?sslmode=require",
            "postgresql://ann@%2Frun%2Fpg:1/shop?port=6000",
            "postgresql://ann@/shop?host=/run/pg&port=6000",
            "postgresql://ann@db/shop?host=%2Frun%2Fpg&port=6000",
        ] {
            let address = Address::parse(url).unwrap();
            assert_eq!(address.to_string(), "/run/pg/.s.PGSQL.6000", "{url}");
            assert_eq!(address.place(), ("/run/pg", 6000, "shop"), "{url}");
            assert!(matches!(address.tls, TlsPolicy::Disable), "{url}");
        }
        let address = Address::parse("postgresql://ann@%2Frun").unwrap();
        assert_eq!(address.to_string(), "/run/.s.PGSQL.5432");
        assert_eq!(
            Address::parse("postgresql://ann@db").unwrap().socket(),
            None
        );
    }

    #[test]
    fn invalid_urls_are_refused_without_their_password() {
        for url in [
            "",
            "http://a@b",
            "postgresql://secret",
            "postgresql://a:secret@b:x",
            "postgresql://a:secret%@b",
            "postgresql://a:secret%00@b",
            "postgresql://a:secret@b?sslmode=some",
            "postgresql://a:secret@b?sslmode=verify-full",
            "postgresql://a:secret@b?x=1",
            "postgresql://a:secret@b?sslcert=x",
            "postgresql://a:secret@b?sslcert=/no/such&sslkey=/no/such",
            "postgresql://a:secret@b?port=x",
            "postgresql://a:secret@/b",
        ] {
            let error = Address::parse(url).unwrap_err();
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
