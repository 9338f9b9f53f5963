//! Reads the settings of sessions whose statements may have changed them. Such a session continues
//! on other connections if these can have the same settings.

use super::{Relay, SessionEnd, snapshots, violation};
use crate::serve::server_settings::ServerSettings;
use proxy_core::session::{SessionAction, SessionEvent, SettingChanges};
use proxy_core::touched::is_temporary_schema;
use proxy_pool::connection::ChangedSettings;

/// The most bytes of the names and values of a session's changed settings. With more, the session
/// keeps its server.
const CHANGED_LEN_MAX: usize = 8 * 1024;

impl Relay<'_> {
    /// Reads the session's settings from the primary, after its batch or transaction has ended. If
    /// no other session can have the same settings, the session keeps the connection. Returns the
    /// next action.
    pub(super) async fn read_settings(
        &mut self,
        changes: SettingChanges,
    ) -> Result<SessionAction, SessionEnd> {
        let connection = self.connection.as_mut();
        let connection = connection.expect("its settings were changed there");
        let is_quiet = connection.cutter.is_between_messages() && self.out.to_server.is_empty();
        let has_login_settings = self.server_settings.key.changed.is_empty();
        let changed = match changes {
            SettingChanges::Discarded => Some(ChangedSettings::default()),
            SettingChanges::Reset if has_login_settings => Some(ChangedSettings::default()),
            _ if !is_quiet => None,
            _ => match connection.changed().await {
                Ok(changed) => changed,
                Err(error) => {
                    self.server_lost(Some(error)).await?;
                    return Ok(self.session.next());
                }
            },
        };
        let Some(server_settings) = changed.and_then(|changed| self.server_settings_with(changed))
        else {
            let stepped = self.session.step(SessionEvent::Keep, &mut self.out);
            return stepped.map_err(violation);
        };
        let connection = self.connection.as_mut();
        let connection = connection.expect("it was there before");
        connection.becomes(&server_settings.key);
        let snapshots = self
            .routing
            .and_then(|_| snapshots(server_settings.isolation));
        let server = &mut connection.server;
        let event = SessionEvent::Settings { server, snapshots };
        let stepped = self.session.step(event, &mut self.out);
        let action = stepped.map_err(violation)?;
        if self.server_settings.key != server_settings.key {
            self.unfit.clear();
        }
        self.server_settings = server_settings;
        Ok(action)
    }

    /// Returns the session's settings from now on; none if the session must keep its connection.
    fn server_settings_with(&self, changed: ChangedSettings) -> Option<ServerSettings> {
        let ChangedSettings { settings, schemas } = changed;
        let length = |(name, value): (&str, &str)| name.len() + value.len();
        if settings.is_empty() {
            return Some(self.at_login.clone());
        }
        if settings.iter().map(length).sum::<usize>() > CHANGED_LEN_MAX {
            return None;
        }
        let changes_path = settings.value("search_path").is_some();
        let server_settings = self.at_login.changed_to(settings, self.known);
        let path = &server_settings.reading.search_path;
        // Tables made there without TEMPORARY are temporary.
        let has_temporary = path.iter().any(|name| is_temporary_schema(name));
        // If a schema exists and is missing in the effective search path, its user may not use it.
        let catalogue = self.routing.map(|routing| routing.analyser.catalogue());
        let is_closed_schema = |name: &String| {
            let is_there = catalogue.as_ref().is_some_and(|it| it.has_schema(name));
            is_there && !schemas.contains(name)
        };
        let names_closed_schema = changes_path && path.iter().any(is_closed_schema);
        (!has_temporary && !names_closed_schema && !server_settings.reading.has_escapes)
            .then_some(server_settings)
    }
}
