//! Decides whether a server may join with its data folder (R16, R25).
//!
//! Before a process serves, it records durably in its folder that it has joined. So a folder that
//! names an earlier process is an older copy, and so is a folder whose log ends before a position
//! that was durable. An older copy lacks rows and votes that its server had acknowledged. A server
//! with such a folder may not join at once. The earlier epochs of its tables end as if the server
//! were lost for good. Its partitions stay assigned to it, but their rows are void. Once the tables
//! serve again, the server joins and fills its partitions from the other copies.
//!
//! | folder | the rows have other copies | the server |
//! |---|---|---|
//! | the newest one | | joins |
//! | older | yes | waits until its partitions are void, joins, refills them |
//! | older | no | is refused until an operator accepts what is lost, or the newest folder comes |
//! | older, and the server holds nothing | | joins |

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use protocol::configuration::ServerState;
use protocol::identity::{ClockReading, Position, ServerId};
use protocol::planted::{self, Bug};

use super::members::{ServerJoin, unknown_server};
use super::sealing::removed;
use super::{Coordinator, CoordinatorOutput, FolderTrust, Outcome, Refused, ServerMember};

/// How long a server whose partitions were made void has to join before others get them.
const PATIENCE_US: u64 = 5_000_000;

impl Coordinator {
    /// Returns the reason why a server may not join with its folder yet, because the folder is an
    /// older copy; none if it may join.
    pub(super) fn check_folder(
        &mut self,
        now: ClockReading,
        member: &ServerMember,
        join: &ServerJoin,
        output: &mut CoordinatorOutput,
    ) -> Option<String> {
        let id = member.server;
        let why = self.reason_for_distrust(member, join)?;
        match member.trust {
            _ if planted::is(Bug::OldFolderBelieved) => None,
            FolderTrust::Any => {
                output.notes.push(format!(
                    "OLD FOLDER: {why}; it is let in because an operator accepts the loss: run \
                     replex admin check and replex admin repair on each table"
                ));
                None
            }
            FolderTrust::Voided => None,
            FolderTrust::Newest | FolderTrust::Void if !self.holds(id) => None,
            FolderTrust::Newest | FolderTrust::Void => Some(self.void(now, id, why, output)),
        }
    }

    /// Returns the reason why a folder is an older copy; none if it is the newest one.
    fn reason_for_distrust(&self, member: &ServerMember, join: &ServerJoin) -> Option<String> {
        let (id, folder) = (member.server.0, &join.folder);
        let own = self.state.configuration.server(member.server);
        let incarnation = own.map(|server| server.incarnation).unwrap_or_default();
        if folder.is_old {
            return Some(format!(
                "the log in the folder of server {id} ends before what it had made durable: the \
                 folder is an older copy"
            ));
        }
        let is_newest = match member.instance {
            // It is not known which process it was, but the configuration has its incarnation.
            0 => folder.incarnation >= incarnation,
            instance => folder.last == instance || join.instance == instance,
        };
        (!is_newest).then(|| {
            format!(
                "server {id} came with an older copy of its folder: it is of incarnation {}, the \
                 newest is of incarnation {}",
                folder.incarnation.0, incarnation.0
            )
        })
    }

    /// Begins to make what a server holds void, if that has not begun. Returns that it has to wait.
    fn void(
        &mut self,
        now: ClockReading,
        id: ServerId,
        why: String,
        output: &mut CoordinatorOutput,
    ) -> String {
        let mut begun = BTreeMap::new();
        let mut obstacle = None;
        let tables = self.state.configuration.tables.iter();
        for table in tables.filter(|table| table.names(id)) {
            let mut removed = removed(table);
            if removed.insert(id)
                && let Err(why) = self.check_removal(table, &removed)
            {
                obstacle.get_or_insert(why);
            }
            begun.insert(table.id, removed);
        }
        if let Some(obstacle) = obstacle {
            let text = format!(
                "OLD FOLDER: {why}, and its rows cannot be had from other servers ({obstacle}): \
                 start it on its newest folder, start the other servers, drop the table, or accept \
                 that rows which were acknowledged are missing: replex admin server accept-folder {}",
                id.0
            );
            self.seals.notify(text.clone(), output);
            return text;
        }
        let begins = self.member(id).trust != FolderTrust::Void;
        let is_named = {
            let mut tables = self.state.configuration.tables.iter();
            tables.all(|table| !table.names(id) || table.removes(id))
        };
        if begins {
            self.member_mut(id).trust = FolderTrust::Void;
            output.notes.push(format!(
                "OLD FOLDER: {why}; nothing of it is served: its partitions are refilled from \
                 the other copies"
            ));
        }
        if begins || !is_named {
            let servers = self.state.configuration.servers.iter_mut();
            for server in servers.filter(|server| server.id == id) {
                server.state = ServerState::Down;
            }
            self.forget(id);
            self.seals.watch(id, now, self.void_patience_us());
            self.begin_seals(&begun, output);
        }
        format!("{why}: its partitions are being made void, to be filled from the other copies")
    }

    pub(super) fn void_patience_us(&self) -> u64 {
        self.settings.replace_after_us.max(PATIENCE_US)
    }

    /// Returns the servers among these whose partitions become void at their present places.
    pub(super) fn to_be_voided(&self, removed: &BTreeSet<ServerId>) -> BTreeSet<ServerId> {
        let members = self.state.members.iter();
        let void =
            members.filter(|it| it.trust == FolderTrust::Void && removed.contains(&it.server));
        void.map(|member| member.server).collect()
    }

    /// Records servers whose partitions are all void by now, because the last of their tables
    /// serves.
    pub(super) fn note_voided(&mut self, now: ClockReading) {
        let configuration = &self.state.configuration;
        let members = self.state.members.iter();
        let void = members.filter(|it| it.trust == FolderTrust::Void);
        let void = void.map(|member| member.server);
        let voided: Vec<ServerId> = void.filter(|id| !configuration.is_removed(*id)).collect();
        for id in voided {
            self.member_mut(id).trust = FolderTrust::Voided;
            self.seals.watch(id, now, self.void_patience_us());
        }
    }

    /// Handles an operator's acceptance of an older copy of a folder.
    pub(super) fn accept_folder(
        &mut self,
        id: ServerId,
        output: &mut CoordinatorOutput,
    ) -> Result<Outcome, Refused> {
        let server = self.state.configuration.server(id);
        let server = server.ok_or_else(|| unknown_server(id))?;
        if server.state == ServerState::Up {
            return Err(Refused::new(format!(
                "server {} is up: nothing is to be accepted",
                id.0
            )));
        }
        if self.member(id).trust != FolderTrust::Any {
            self.member_mut(id).trust = FolderTrust::Any;
            output.notes.push(format!(
                "server {} may come back with an older copy of its folder: an operator accepts that \
                 acknowledged rows are missing",
                id.0
            ));
            self.keep(output);
        }
        Ok(self.done_now())
    }

    /// Adds the reported log positions to the state whenever the state is stored.
    pub(super) fn note_logs(&mut self) {
        for (core, report) in &self.reports {
            let mut members = self.state.members.iter_mut();
            let member = members.find(|member| member.server == core.server);
            if let Some(member) = member
                && report.durable > Position(0)
            {
                member.note_log(usize::from(core.core), report.durable);
            }
        }
    }

    fn member(&self, id: ServerId) -> &ServerMember {
        let mut members = self.state.members.iter();
        let member = members.find(|member| member.server == id);
        member.expect("each server is a member")
    }

    pub(super) fn member_mut(&mut self, id: ServerId) -> &mut ServerMember {
        let mut members = self.state.members.iter_mut();
        let member = members.find(|member| member.server == id);
        member.expect("each server is a member")
    }
}
