//! Changes roles and privileges. They are a part of the configuration, so that a change is an epoch
//! of its own. The coordinator does not check whether the requester may make it. A server of SQL
//! does.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;

use protocol::codec::Wire;
use protocol::configuration::roles::{PasswordChange, RoleAttributes, RoleChange, RoleId};
use protocol::identity::TableId;

use super::{CONFIGURATION_BYTES_MAX, Coordinator, CoordinatorOutput, Outcome, Refused};

impl Coordinator {
    /// Makes a change of roles or privileges.
    pub(super) fn change_roles(
        &mut self,
        change: &RoleChange,
        output: &mut CoordinatorOutput,
    ) -> Result<Outcome, Refused> {
        let configuration = &self.state.configuration;
        let changed = configuration.roles.changed(change, &configuration.tables);
        let changed = changed.map_err(|fault| Refused::new(format!("{fault}")))?;
        if changed == *configuration.roles {
            return Ok(self.done_now());
        }
        let more = changed.to_bytes().len();
        let more = more.saturating_sub(configuration.roles.to_bytes().len());
        let bytes = self.configuration_bytes() + more;
        if more > 0 && bytes > CONFIGURATION_BYTES_MAX {
            return Err(Refused::new(format!(
                "with this change of roles the configuration would take {bytes} bytes, the limit \
                 is {CONFIGURATION_BYTES_MAX}: drop roles or tables, or revoke privileges"
            )));
        }
        output.notes.push(note(change));
        self.state.configuration.roles = Arc::new(changed);
        self.reconfigure(output);
        Ok(self.done_now())
    }

    /// Checks that the role that is to own a new table exists.
    pub(super) fn check_owner(&self, owner: RoleId) -> Result<(), Refused> {
        match self.state.configuration.roles.role(owner) {
            Some(_) => Ok(()),
            None => Err(Refused::new(String::from(
                "the role that would own the table was dropped meanwhile: log in again",
            ))),
        }
    }

    /// Makes a role the owner of a new table.
    pub(super) fn give(&mut self, table: TableId, owner: RoleId) {
        if owner != RoleId::BOOTSTRAP {
            Arc::make_mut(&mut self.state.configuration.roles).set_owner(table, owner);
        }
    }

    /// Removes the owner and the privileges of a dropped table.
    pub(super) fn forget_rights(&mut self, table: TableId) {
        let roles = &mut self.state.configuration.roles;
        if roles.names_table(table) {
            Arc::make_mut(roles).forget(table);
        }
    }

    /// Gives the owner and the privileges of a table to the one that takes its place.
    pub(super) fn follow_rights(&mut self, before: TableId, after: TableId) {
        let roles = &mut self.state.configuration.roles;
        if before != after && roles.names_table(before) {
            Arc::make_mut(roles).follow(before, after);
        }
    }
}

/// Returns a line about a change for the operator. It has nothing of a password.
fn note(change: &RoleChange) -> String {
    match change {
        RoleChange::Create {
            name, attributes, ..
        } => format!("role {name} was created{}", attributes_text(attributes)),
        RoleChange::Alter { name, attributes } => {
            format!("role {name} was changed{}", attributes_text(attributes))
        }
        RoleChange::Rename { name, to } => format!("role {name} was renamed to {to}"),
        RoleChange::Drop { names } => format!("roles {} were dropped", names.join(", ")),
        RoleChange::Join { roles, members } | RoleChange::Leave { roles, members } => {
            let verb = match change {
                RoleChange::Join { .. } => "became",
                _ => "ceased to be",
            };
            let (members, roles) = (members.join(", "), roles.join(", "));
            format!("roles {members} {verb} members of {roles}")
        }
        RoleChange::Grant { objects, .. } | RoleChange::Revoke { objects, .. } => {
            let verb = match change {
                RoleChange::Grant { .. } => "granted",
                _ => "revoked",
            };
            format!("privileges for {} objects were {verb}", objects.len())
        }
        RoleChange::SetOwner { owner, tables } => {
            format!("{owner} became the owner of {} tables", tables.len())
        }
    }
}

fn attributes_text(attributes: &RoleAttributes) -> &'static str {
    match attributes.password {
        PasswordChange::Keep => "",
        PasswordChange::Remove => ", without a password",
        PasswordChange::Set(_) => ", with a new password",
    }
}
