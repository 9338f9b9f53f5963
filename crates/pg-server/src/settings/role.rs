//! The role of a session, which follows transactions as settings do: `SET ROLE` and
//! `SET SESSION AUTHORIZATION`.
//!
//! The session checks who may become which role. `SET` and `set_config` cannot change these two.

use super::{SessionVariables, SettingSpan};

/// The setting of `SET ROLE`.
const ROLE: &str = "role";
/// The setting of `SET SESSION AUTHORIZATION`.
const AUTHORIZATION: &str = "session_authorization";

/// Returns whether a setting is one of a role.
pub(super) fn is_of_role(name: &str) -> bool {
    matches!(name, ROLE | AUTHORIZATION)
}

impl SessionVariables {
    /// Returns the role of `SET ROLE`; none if the session has its own.
    pub fn role(&self) -> Option<&str> {
        self.values.get(ROLE).map(String::as_str)
    }

    /// Returns the role of `SET SESSION AUTHORIZATION`; none if it is the user that has logged in.
    pub fn authorized(&self) -> Option<&str> {
        self.values.get(AUTHORIZATION).map(String::as_str)
    }

    /// Returns the user of the session.
    pub fn session_user(&self) -> &str {
        self.authorized().unwrap_or(&self.user)
    }

    /// Returns the user by whose rights statements run.
    pub fn current_user(&self) -> &str {
        self.role().unwrap_or_else(|| self.session_user())
    }

    /// Sets the role of `SET ROLE`; none is that of the session.
    pub fn set_role(&mut self, span: SettingSpan, role: Option<&str>) {
        self.put(span, ROLE, role.map(str::to_owned));
    }

    /// Sets the user of the session; none is the one that has logged in. Ends `SET ROLE`.
    pub fn set_authorization(&mut self, span: SettingSpan, user: Option<&str>) {
        self.put(span, ROLE, None);
        self.put(span, AUTHORIZATION, user.map(str::to_owned));
    }

    /// Notes whether the user by whose rights statements run may do everything.
    pub fn set_superuser(&mut self, is_superuser: bool) {
        if self.is_superuser != is_superuser {
            self.is_superuser = is_superuser;
            self.note("is_superuser");
        }
    }
}
