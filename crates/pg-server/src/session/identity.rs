//! The role of a session: the user that has logged in, `SET ROLE` and `SET SESSION AUTHORIZATION`.
//!
//! Names are looked up again for each statement, so that a change of a role concerns sessions that
//! run. A user without a role may do everything. Invariant: a session whose role was dropped may do
//! nothing, and never becomes one of a user without a role.

use bytes::BytesMut;
use pg_wire::report::Report;
use protocol::configuration::roles::{Role, Roles};
use sql::{Store, sqlstate};

use super::ClientSession;
use super::roles::no_role;
use super::run::Ran;
use crate::command::SessionRole;
use crate::errors::{INVALID_PARAMETER, error};
use crate::settings::SettingSpan;

impl<S: Store> ClientSession<S> {
    /// Finds the role by whose rights the next statement runs.
    ///
    /// # Errors
    /// The role was dropped.
    pub(super) fn follow_role(&mut self) -> Result<(), Report> {
        let configuration = self.sql.store().configuration();
        let roles = &configuration.roles;
        if let Some(own) = self.login_role(roles)? {
            // From now on the role decides, also if it is dropped.
            self.identity.role = Some(own.id);
        }
        let current = self.current_role(roles)?;
        let is_superuser = current.is_none_or(|role| role.is_superuser);
        self.settings.set_superuser(is_superuser);
        self.sql.set_role(current.map(|role| role.id));
        Ok(())
    }

    /// Returns the role of the user that has logged in; none if the user has none.
    fn login_role<'r>(&self, roles: &'r Roles) -> Result<Option<&'r Role>, Report> {
        let user = &self.identity.user;
        match self.identity.role {
            None => Ok(roles.named(user)),
            Some(id) => {
                let role = roles.role(id).ok_or_else(|| missing(user))?;
                Ok(Some(role))
            }
        }
    }

    /// Returns the role of the session's user; none if the user has none.
    pub(super) fn session_role<'r>(&self, roles: &'r Roles) -> Result<Option<&'r Role>, Report> {
        match self.settings.authorized() {
            None => self.login_role(roles),
            Some(name) => Ok(Some(roles.named(name).ok_or_else(|| missing(name))?)),
        }
    }

    /// Returns the role by whose rights statements run; none if its user has none.
    pub(super) fn current_role<'r>(&self, roles: &'r Roles) -> Result<Option<&'r Role>, Report> {
        match self.settings.role() {
            None => self.session_role(roles),
            Some(name) => Ok(Some(roles.named(name).ok_or_else(|| missing(name))?)),
        }
    }

    /// Runs `SET ROLE` or `SET SESSION AUTHORIZATION`.
    pub(super) async fn set_role(
        &mut self,
        span: SettingSpan,
        role: &SessionRole,
        out: &mut BytesMut,
    ) -> Result<Ran, Report> {
        let (SessionRole::Current(name) | SessionRole::Session(name)) = role;
        let mut configuration = self.sql.store().configuration();
        if let Some(name) = name
            && configuration.roles.named(name).is_none()
        {
            // Another client may have created it.
            let newest = self.sql.store().refresh().await;
            configuration = newest.unwrap_or(configuration);
        }
        let roles = &configuration.roles;
        let by = match role {
            SessionRole::Current(_) => self.session_role(roles)?,
            SessionRole::Session(_) => self.login_role(roles)?,
        };
        let is_superuser = by.is_none_or(|by| by.is_superuser);
        if let Some(name) = name {
            let wanted = roles.named(name).ok_or_else(|| {
                error(INVALID_PARAMETER, format!("role \"{name}\" does not exist"))
            })?;
            let may = match role {
                SessionRole::Current(_) => {
                    by.is_some_and(|by| roles.reach(by.id).contains(&wanted.id))
                }
                SessionRole::Session(_) => by.is_some_and(|by| by.id == wanted.id),
            };
            if !is_superuser && !may {
                let text = match role {
                    SessionRole::Current(_) => format!("permission denied to set role \"{name}\""),
                    SessionRole::Session(_) => {
                        "permission denied to set session authorization".to_owned()
                    }
                };
                return Err(error(sqlstate::INSUFFICIENT_PRIVILEGE, text));
            }
        }
        match role {
            SessionRole::Current(name) => self.settings.set_role(span, name.as_deref()),
            SessionRole::Session(name) => self.settings.set_authorization(span, name.as_deref()),
        }
        self.follow_role()?;
        self.warn_of_local(span, out);
        Ok(Ran::Done("SET".into()))
    }
}

/// Returns the error for a role that a session has, and that was dropped.
fn missing(name: &str) -> Report {
    no_role(name).hint("It was dropped: log in as another one.")
}
