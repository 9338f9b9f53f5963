//! Changes of roles and privileges. The client itself is bound by none.

use protocol::configuration::roles::RoleChange;
use protocol::message::CoordinatorRequest;

use crate::client::Client;
use crate::error::Error;

impl Client {
    /// Changes roles or privileges, in one step. The configuration known afterwards has the change.
    /// Other servers and clients learn of it a moment later.
    ///
    /// # Errors
    /// As of [`Client::drop_table`]. The coordinator refuses a change that is impossible by then.
    pub async fn change_roles(&self, change: RoleChange) -> Result<(), Error> {
        let request = CoordinatorRequest::ChangeRoles { change };
        self.change(request, "the change of roles").await
    }
}
