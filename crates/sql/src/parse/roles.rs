//! Parses statements about roles and privileges: `CREATE`, `ALTER` and `DROP ROLE`, `GRANT` and
//! `REVOKE`, and `OWNER TO`.
//!
//! Invariant: no error has the text of a password.

use protocol::configuration::roles::Privileges;
use sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use crate::error::{SqlError, sqlstate};
use crate::script::is_space;
use crate::statement::{GrantTarget, RoleName, RoleOptions, RoleStatement, Secret};

/// Parses a statement; none if it is of another kind.
///
/// # Errors
/// The statement is invalid, or not supported.
pub(super) fn parse(tokens: &[TokenWithSpan]) -> Result<Option<RoleStatement>, SqlError> {
    let mut words = Words::new(tokens);
    let mut first = || words.word().unwrap_or_default();
    let begin = (first(), first());
    let begin = (&*begin.0, &*begin.1);
    let mut words = Words::new(tokens);
    words.next = 2;
    let statement = match begin {
        ("create", kind @ ("role" | "user" | "group")) => {
            let name = words.name()?;
            words.skip("with");
            let mut options = options(&mut words)?;
            if kind == "user" {
                options.can_login.get_or_insert(true);
            }
            RoleStatement::Create { name, options }
        }
        ("alter", "role" | "user" | "group") => alter(&mut words)?,
        ("drop", "role" | "user" | "group") => {
            let if_exists = words.skip_all(&["if", "exists"]);
            let roles = words.list(Words::role)?;
            RoleStatement::Drop { roles, if_exists }
        }
        ("grant", _) => {
            words.next = 1;
            grant(&mut words, true)?
        }
        ("revoke", _) => {
            words.next = 1;
            grant(&mut words, false)?
        }
        ("alter", kind @ ("table" | "sequence")) => {
            let is_sequence = kind == "sequence";
            let if_exists = words.skip_all(&["if", "exists"]);
            words.skip("only");
            let Ok(relation) = words.relation() else {
                return Ok(None);
            };
            if !words.skip_all(&["owner", "to"]) {
                return Ok(None);
            }
            RoleStatement::SetOwner {
                relation,
                is_sequence,
                if_exists,
                owner: words.role()?,
            }
        }
        ("reassign" | "security", _) | ("drop", "owned") | ("alter", "default") => {
            let what = format!("{} {}", begin.0, begin.1).to_ascii_uppercase();
            let remedy = "grant and revoke the privileges of each table";
            return Err(SqlError::unsupported(what, remedy));
        }
        _ => return Ok(None),
    };
    words.end()?;
    Ok(Some(statement))
}

/// Parses the words after `ALTER ROLE`.
fn alter(words: &mut Words<'_>) -> Result<RoleStatement, SqlError> {
    let role = words.role()?;
    if words.skip_all(&["rename", "to"]) {
        let RoleName::Named(name) = role else {
            return Err(syntax("RENAME names a role"));
        };
        let to = words.name()?;
        return Ok(RoleStatement::Rename { name, to });
    }
    if let "set" | "reset" | "in" = &*words.peek() {
        return Err(SqlError::unsupported(
            "a setting of a role",
            "send SET when the session begins, or name it in the connection string",
        ));
    }
    words.skip("with");
    let options = options(words)?;
    if !options.of.is_empty() || !options.members.is_empty() {
        return Err(syntax("ALTER ROLE changes no memberships: write GRANT"));
    }
    Ok(RoleStatement::Alter { role, options })
}

/// Parses the options of a role.
fn options(words: &mut Words<'_>) -> Result<RoleOptions, SqlError> {
    let mut options = RoleOptions::default();
    while let Some(word) = words.word() {
        match &*word {
            "login" => once(&mut options.can_login, true)?,
            "nologin" => once(&mut options.can_login, false)?,
            "superuser" => once(&mut options.is_superuser, true)?,
            "nosuperuser" => once(&mut options.is_superuser, false)?,
            "encrypted" if words.peek() == "password" => {}
            "password" => {
                let secret = match words.next() {
                    Some(Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text)) => {
                        Some(Secret(text.clone()))
                    }
                    Some(Token::DollarQuotedString(quoted)) => Some(Secret(quoted.value.clone())),
                    Some(Token::Word(word)) if is_bare(word, "null") => None,
                    _ => return Err(syntax("PASSWORD takes a text in quotes, or NULL")),
                };
                once(&mut options.password, secret)?;
            }
            "in" if words.skip("role") || words.skip("group") => {
                options.of = words.list(Words::name)?;
            }
            "role" | "user" => options.members = words.list(Words::name)?,
            // The defaults of PostgreSQL, and all that there is here.
            "nocreatedb" | "nocreaterole" | "noreplication" | "nobypassrls" | "inherit" => {}
            "connection" if words.skip_all(&["limit", "-", "1"]) => {}
            "valid" if words.skip("until") => match words.next() {
                Some(Token::SingleQuotedString(text)) if text == "infinity" => {}
                _ => return Err(unsupported("VALID UNTIL")),
            },
            "createdb" | "createrole" | "replication" | "bypassrls" | "noinherit" | "admin"
            | "sysid" => return Err(unsupported(&word.to_ascii_uppercase())),
            "connection" => return Err(unsupported("CONNECTION LIMIT")),
            _ => return Err(syntax(&format!("{word} is no option of a role"))),
        }
    }
    match words.is_over() {
        true => Ok(options),
        false => Err(syntax("expected an option of a role")),
    }
}

/// Sets an option, which a statement has at most once.
fn once<T>(option: &mut Option<T>, value: T) -> Result<(), SqlError> {
    match option.replace(value) {
        None => Ok(()),
        Some(_) => Err(syntax("conflicting or redundant options")),
    }
}

/// Parses the words after `GRANT` or `REVOKE`.
fn grant(words: &mut Words<'_>, gives: bool) -> Result<RoleStatement, SqlError> {
    for option in ["grant", "admin"] {
        if words.skip_all(&[option, "option", "for"]) {
            return Err(unsupported(&format!(
                "{} OPTION FOR",
                option.to_ascii_uppercase()
            )));
        }
    }
    let granted = words.list(Words::name)?;
    let link = if gives { "to" } else { "from" };
    let statement = if words.skip(link) {
        RoleStatement::Membership {
            gives,
            roles: granted,
            members: grantees(words)?,
        }
    } else {
        if words.peek() == "(" {
            return Err(unsupported("a privilege for single columns"));
        }
        if !words.skip("on") {
            return Err(syntax(&format!("expected ON or {}", link.to_uppercase())));
        }
        let on = target(words)?;
        if !words.skip(link) {
            return Err(syntax(&format!("expected {}", link.to_uppercase())));
        }
        RoleStatement::Privileges {
            gives,
            privileges: privileges(&granted, &on)?,
            on,
            grantees: grantees(words)?,
        }
    };
    if gives && words.skip("with") {
        let option = words.word().unwrap_or_default().to_ascii_uppercase();
        return Err(unsupported(&format!("WITH {option} OPTION")));
    }
    if words.skip("granted") {
        return Err(unsupported("GRANTED BY"));
    }
    if !gives && !words.skip("cascade") {
        words.skip("restrict");
    }
    Ok(statement)
}

fn grantees(words: &mut Words<'_>) -> Result<Vec<RoleName>, SqlError> {
    words.list(|words| {
        words.skip("group");
        words.role()
    })
}

/// Returns the privileges of these names; none for all.
fn privileges(names: &[String], on: &GrantTarget) -> Result<Option<Privileges>, SqlError> {
    if let [all] = names
        && matches!(&**all, "all" | "all privileges")
    {
        return Ok(None);
    }
    let (possible, kind) = match on {
        GrantTarget::Tables(_) => (
            // A sequence counts as a table.
            Privileges::OF_TABLE.with(Privileges::USAGE),
            "relation",
        ),
        GrantTarget::AllTables => (Privileges::OF_TABLE, "table"),
        GrantTarget::Sequences(_) | GrantTarget::AllSequences => {
            (Privileges::OF_SEQUENCE, "sequence")
        }
        GrantTarget::Schema => (Privileges::OF_SCHEMA, "schema"),
    };
    let mut all = Privileges::NONE;
    for name in names {
        let found = Privileges::named(name)
            .ok_or_else(|| syntax(&format!("unrecognized privilege type \"{name}\"")))?;
        if found.common(possible).is_empty() {
            let name = name.to_ascii_uppercase();
            return Err(SqlError::with_state(
                sqlstate::INVALID_GRANT,
                format!("invalid privilege type {name} for {kind}"),
            ));
        }
        all = all.with(found);
    }
    Ok(Some(all))
}

/// Parses the objects of a `GRANT`.
fn target(words: &mut Words<'_>) -> Result<GrantTarget, SqlError> {
    let all = |words: &mut Words<'_>, target| {
        let schemas = words.list(Words::name)?;
        match schemas.iter().all(|schema| schema == "public") {
            true => Ok(target),
            false => Err(SqlError::with_state(
                sqlstate::UNDEFINED_SCHEMA,
                "the only schema is public",
            )),
        }
    };
    if words.skip_all(&["all", "tables", "in", "schema"]) {
        return all(words, GrantTarget::AllTables);
    }
    if words.skip_all(&["all", "sequences", "in", "schema"]) {
        return all(words, GrantTarget::AllSequences);
    }
    match &*words.peek() {
        "schema" => {
            words.next += 1;
            all(words, GrantTarget::Schema)
        }
        "sequence" => {
            words.next += 1;
            Ok(GrantTarget::Sequences(words.list(Words::relation)?))
        }
        kind @ ("all" | "database" | "function" | "procedure" | "routine" | "language"
        | "tablespace" | "type" | "domain" | "foreign" | "large" | "parameter") => {
            let what = format!("a privilege for {}", kind.to_ascii_uppercase());
            Err(unsupported(&what))
        }
        _ => {
            words.skip("table");
            Ok(GrantTarget::Tables(words.list(Words::relation)?))
        }
    }
}

fn unsupported(what: &str) -> SqlError {
    SqlError::unsupported(
        what,
        "roles have LOGIN, SUPERUSER, PASSWORD, memberships, and privileges for tables, sequences \
         and the schema",
    )
}

fn syntax(text: &str) -> SqlError {
    SqlError::with_state(sqlstate::SYNTAX, format!("syntax error: {text}"))
}

fn is_bare(word: &Word, wanted: &str) -> bool {
    word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted)
}

/// The tokens of a statement that are no spaces.
struct Words<'a> {
    tokens: Vec<&'a Token>,
    next: usize,
}

impl<'a> Words<'a> {
    fn new(tokens: &'a [TokenWithSpan]) -> Words<'a> {
        let tokens = tokens.iter().map(|it| &it.token);
        Words {
            tokens: tokens.filter(|it| !is_space(it)).collect(),
            next: 0,
        }
    }

    fn is_over(&self) -> bool {
        self.next >= self.tokens.len()
    }

    fn end(&self) -> Result<(), SqlError> {
        match self.is_over() {
            true => Ok(()),
            false => Err(syntax("expected the end of the statement")),
        }
    }

    fn next(&mut self) -> Option<&'a Token> {
        let token = self.tokens.get(self.next).copied();
        self.next += 1;
        token
    }

    /// Returns the next token as a text: a bare word in lower case, and nothing for a text in
    /// quotes, which may be a password.
    fn at(&self, position: usize) -> String {
        match self.tokens.get(position) {
            Some(Token::Word(word)) if word.quote_style.is_none() => {
                word.value.to_ascii_lowercase()
            }
            Some(token @ (Token::Minus | Token::Number(..) | Token::LParen)) => token.to_string(),
            _ => String::new(),
        }
    }

    fn peek(&self) -> String {
        self.at(self.next)
    }

    /// Returns the next token if it is a bare word.
    fn word(&mut self) -> Option<String> {
        let word = Some(self.peek()).filter(|it| !it.is_empty())?;
        self.next += 1;
        Some(word)
    }

    fn skip(&mut self, word: &str) -> bool {
        self.skip_all(&[word])
    }

    /// Skips these words if all of them come next.
    fn skip_all(&mut self, words: &[&str]) -> bool {
        let mut positions = (self.next..).zip(words);
        let found = positions.all(|(position, word)| self.at(position) == *word);
        if found {
            self.next += words.len();
        }
        found
    }

    /// Returns a name. `ALL PRIVILEGES` counts as one.
    fn name(&mut self) -> Result<String, SqlError> {
        if self.skip_all(&["all", "privileges"]) {
            return Ok("all privileges".into());
        }
        match self.next() {
            Some(Token::Word(word)) if word.quote_style.is_some() => Ok(word.value.clone()),
            Some(Token::Word(word)) => Ok(word.value.to_ascii_lowercase()),
            _ => Err(syntax("expected a name")),
        }
    }

    /// Returns the name of a table or a sequence, without the schema before it.
    fn relation(&mut self) -> Result<String, SqlError> {
        let first = self.name()?;
        if !matches!(self.tokens.get(self.next), Some(Token::Period)) {
            return Ok(first);
        }
        self.next += 1;
        match first == "public" {
            true => self.name(),
            false => Err(SqlError::with_state(
                sqlstate::UNDEFINED_SCHEMA,
                format!("schema \"{first}\" does not exist"),
            )),
        }
    }

    fn role(&mut self) -> Result<RoleName, SqlError> {
        let bare = self.peek();
        let name = self.name()?;
        Ok(match &*bare {
            "current_user" | "current_role" => RoleName::Current,
            "session_user" => RoleName::Session,
            _ if name == "public" => RoleName::Public,
            _ => RoleName::Named(name),
        })
    }

    fn list<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<T, SqlError>,
    ) -> Result<Vec<T>, SqlError> {
        let mut items = vec![item(self)?];
        while matches!(self.tokens.get(self.next), Some(Token::Comma)) {
            self.next += 1;
            items.push(item(self)?);
        }
        Ok(items)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Option<RoleStatement>, String> {
        let pieces = crate::split(text).unwrap();
        pieces[0].parse_role().map_err(|error| error.to_string())
    }

    fn statement(text: &str) -> RoleStatement {
        parsed(text).unwrap().expect(text)
    }

    #[test]
    fn roles_have_options() {
        let options = RoleOptions {
            can_login: Some(true),
            is_superuser: Some(false),
            password: Some(Some(Secret("it's".into()))),
            of: vec!["a".into(), "B".into()],
            members: Vec::new(),
        };
        for text in [
            "CREATE ROLE Ann WITH LOGIN NOSUPERUSER PASSWORD 'it''s' IN ROLE a, \"B\"",
            "create user ann nosuperuser inherit nocreatedb encrypted password 'it''s' in group a,\
             \"B\" connection limit -1",
        ] {
            let name = "ann".to_owned();
            let options = options.clone();
            assert_eq!(statement(text), RoleStatement::Create { name, options });
        }
        let RoleStatement::Alter { role, options } =
            statement("ALTER USER CURRENT_USER PASSWORD NULL")
        else {
            panic!("it alters a role")
        };
        assert_eq!((role, options.password), (RoleName::Current, Some(None)));
        for text in [
            "CREATE TABLE t (id int)",
            "ALTER TABLE t ADD x int",
            "SELECT 1",
            "DROP TABLE t",
        ] {
            assert_eq!(parsed(text), Ok(None), "{text}");
        }
    }

    #[test]
    fn grants_name_objects_and_roles() {
        let named = |name: &str| RoleName::Named(name.into());
        let select = Some(Privileges::SELECT.with(Privileges::INSERT));
        for (text, expected) in [
            (
                "GRANT SELECT, insert ON TABLE t, public.\"U\" TO ann, PUBLIC, GROUP g",
                RoleStatement::Privileges {
                    gives: true,
                    privileges: select,
                    on: GrantTarget::Tables(vec!["t".into(), "U".into()]),
                    grantees: vec![named("ann"), RoleName::Public, named("g")],
                },
            ),
            (
                "REVOKE ALL PRIVILEGES ON ALL TABLES IN SCHEMA public FROM CURRENT_USER CASCADE",
                RoleStatement::Privileges {
                    gives: false,
                    privileges: None,
                    on: GrantTarget::AllTables,
                    grantees: vec![RoleName::Current],
                },
            ),
            (
                "GRANT USAGE ON SEQUENCE s TO ann",
                RoleStatement::Privileges {
                    gives: true,
                    privileges: Some(Privileges::USAGE),
                    on: GrantTarget::Sequences(vec!["s".into()]),
                    grantees: vec![named("ann")],
                },
            ),
            (
                "REVOKE a, b FROM ann",
                RoleStatement::Membership {
                    gives: false,
                    roles: vec!["a".into(), "b".into()],
                    members: vec![named("ann")],
                },
            ),
            (
                "ALTER TABLE IF EXISTS ONLY public.t OWNER TO ann",
                RoleStatement::SetOwner {
                    relation: "t".into(),
                    is_sequence: false,
                    if_exists: true,
                    owner: named("ann"),
                },
            ),
        ] {
            assert_eq!(statement(text), expected, "{text}");
        }
    }

    #[test]
    fn errors_have_no_password() {
        for text in [
            "CREATE ROLE a PASSWORD secret",
            "CREATE ROLE a PASSWORD 'secret' 'secret'",
            "CREATE ROLE a PASSWORD 'secret' \"secret\"",
            "CREATE ROLE a PASSWORD 'secret' NOTHING",
            "CREATE ROLE a PASSWORD 'secret' VALID UNTIL 'secret'",
            "CREATE ROLE a PASSWORD 'x' PASSWORD 'secret'",
            "ALTER ROLE a PASSWORD 'secret' CREATEDB",
            "GRANT SELECT (a) ON t TO b",
            "GRANT SELECT ON t TO b WITH GRANT OPTION",
            "GRANT EXECUTE ON FUNCTION f TO b",
            "GRANT USAGE ON ALL TABLES IN SCHEMA public TO b",
            "GRANT SELECT ON other.t TO b",
            "GRANT x ON t TO b",
            "REVOKE a",
            "DROP ROLE",
            "CREATE ROLE",
            "ALTER ROLE a SET work_mem = 1",
        ] {
            let error = parsed(text).expect_err(text);
            assert!(!error.contains("secret"), "{text}: {error}");
        }
        let secret = statement("CREATE ROLE a PASSWORD 'secret'");
        assert!(!format!("{secret:?}").contains("secret"));
    }
}
