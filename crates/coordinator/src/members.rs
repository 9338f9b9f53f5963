//! The life of a server in the cluster: it joins, renews its leases, stops responding, and leaves.
//!
//! | a join with | and | gives |
//! |---|---|---|
//! | no number, an unknown disk | | a new server |
//! | no number, a known disk | | as if with the disk's number: the number was lost, not the data |
//! | a number | the instance that joined last | the same answer again |
//! | a number | its disk, its lease over or its process before stopped | the next incarnation |
//! | a number | an older copy of its disk | a refusal, until that is void (`folders`) |
//! | a number | its disk, its lease running | a refusal, to be tried again |
//! | a number | another disk | a refusal (R16) |

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use placement::{members_at_risk, prove};
use protocol::configuration::{PartitionState, Server, ServerState};
use protocol::identity::{
    ClockReading, CoreId, Epoch, Incarnation, PartitionId, Position, ServerId, TableId,
};
use protocol::message::{
    CoordinatorReply, FillReport, FolderReport, RangeReport, Room, SealReport,
};

use super::{
    CORES_MAX, Coordinator, CoordinatorOutput, FolderTrust, LastReport, Outcome, Refused,
    SERVERS_MAX, ServerMember, TEXT_BYTES_MAX, core_id, recall::INCARNATIONS_SKIPPED,
};

/// The request of a starting server; see [`protocol::message::CoordinatorRequest::Join`].
pub(super) struct ServerJoin {
    pub server: Option<ServerId>,
    pub instance: u64,
    pub folder: FolderReport,
    pub domain: String,
    pub cores: Vec<String>,
}

/// A core's heartbeat; see [`protocol::message::CoordinatorRequest::Heartbeat`].
pub(super) struct CoreHeartbeat {
    pub core: CoreId,
    pub incarnation: Incarnation,
    pub epoch: Epoch,
    pub sent_us: u64,
    pub durable: Position,
    pub filled: Vec<PartitionId>,
    pub fills: Vec<FillReport>,
    pub seals: Vec<SealReport>,
    pub room: Room,
    pub ranges: Vec<RangeReport>,
}

impl Coordinator {
    pub(super) fn join(
        &mut self,
        now: ClockReading,
        join: ServerJoin,
        output: &mut CoordinatorOutput,
    ) -> Result<Outcome, Refused> {
        check_form(&join)?;
        let member = self.known(&join)?;
        if let Some(member) = &member {
            let server = self.server(member.server);
            if member.instance == join.instance && server.cores == join.cores {
                return Ok(self.joined(member.server));
            }
            self.check_return(now, member, &join)?;
        }
        let own = member.as_ref().map(|member| member.server);
        self.check_addresses(own, &join.cores)?;
        if let Some(member) = &member
            && let Some(message) = self.check_folder(now, member, &join, output)
        {
            return Ok(Outcome::Now(CoordinatorReply::Wait { message }));
        }
        let id = match member {
            Some(member) => {
                let id = member.server;
                if self.server(id).domain != domain_name(id, &join.domain) {
                    // The tolerance of moves to it was proven with its earlier failure domain.
                    self.cancel_moves(|_| true, output);
                }
                self.return_server(id, join);
                id
            }
            None => self.add_server(join)?,
        };
        let server = self.server(id);
        let (incarnation, cores) = (server.incarnation, server.cores.len());
        output.notes.push(format!(
            "server {} joined, incarnation {}, failure domain {}, at {}",
            id.0,
            incarnation.0,
            server.domain,
            server.cores.join(" ")
        ));
        self.seals.unwatch(id);
        self.note_back(id, now);
        self.take_part_again(id);
        self.reconfigure(output);
        self.forget(id);
        // The configuration comes with the answer.
        let report = LastReport::new(now, self.state.configuration.epoch);
        self.reports
            .extend((0..cores).map(|core| (core_id(id, core), report)));
        Ok(self.joined(id))
    }

    pub(super) fn heartbeat(
        &mut self,
        now: ClockReading,
        beat: CoreHeartbeat,
        output: &mut CoordinatorOutput,
    ) -> Result<Outcome, Refused> {
        let CoreHeartbeat {
            core,
            incarnation,
            epoch,
            sent_us,
            durable,
            filled,
            fills,
            seals,
            room,
            ranges,
        } = beat;
        let has_stopped = self.has_stopped(core.server);
        let epoch_now = self.state.configuration.epoch;
        let server = self.incarnation(core.server, incarnation)?;
        // On its way, a heartbeat may be overtaken by later messages.
        if has_stopped {
            return Err(Refused::new(format!(
                "incarnation {} of server {} has reported its stop: start it again",
                incarnation.0, core.server.0
            )));
        }
        if usize::from(core.core) >= server.cores.len() {
            return Err(Refused::new(format!(
                "{core} beats, but the server joined with {} cores: restart it",
                server.cores.len()
            )));
        }
        assert!(epoch <= epoch_now, "a later epoch is noticed before");
        if server.state == ServerState::Down {
            server.state = ServerState::Up;
            // Its process never ended, so that no folder is in question.
            self.member_mut(core.server).trust = FolderTrust::Newest;
            let note = format!("server {} is back and renews its lease", core.server.0);
            output.notes.push(note);
            self.seals.unwatch(core.server);
            self.note_back(core.server, now);
            self.take_part_again(core.server);
            self.reconfigure(output);
        }
        self.seals.report(core, epoch, seals, now);
        let report = self
            .reports
            .entry(core)
            .or_insert(LastReport::new(now, epoch));
        *report = LastReport {
            durable: report.durable.max(durable),
            ..LastReport::new(now, epoch)
        };
        self.note_room(core, room, output);
        self.take_reports((core, epoch), filled, fills, output);
        self.note_ranges(core, epoch, ranges);
        Ok(Outcome::Now(CoordinatorReply::Beat {
            sent_us,
            epoch: self.state.configuration.epoch,
            lease_us: self.settings.lease_us,
            session_floor: self.state.session_floor,
        }))
    }

    /// Takes what a core that knows an epoch reports of partitions that are filled or move. A
    /// report counts if its table is as the core knows it, and its chains are not blocked.
    fn take_reports(
        &mut self,
        (core, epoch): (CoreId, Epoch),
        filled: Vec<PartitionId>,
        fills: Vec<FillReport>,
        output: &mut CoordinatorOutput,
    ) {
        let configuration = &self.state.configuration;
        let counts = |id: TableId| {
            let table = configuration.table(id);
            table.is_some_and(|table| table.epoch <= epoch && table.sealing.is_none())
        };
        let filled = filled.into_iter().filter(|id| counts(id.table));
        let filled: Vec<PartitionId> = filled.collect();
        let fills = fills.into_iter().filter(|it| counts(it.table));
        let fills: Vec<FillReport> = fills.collect();
        self.note_level((core, epoch), &filled);
        self.serve_filled(core, &filled, output);
        self.take_fill_reports(core, fills, output);
    }

    /// Makes the partitions that a core has filled serve from the next epoch on (R20). The report
    /// must belong to the current epoch of the partition's table, so that it is about the present
    /// place.
    fn serve_filled(
        &mut self,
        core: CoreId,
        filled: &[PartitionId],
        output: &mut CoordinatorOutput,
    ) {
        let mut count = 0;
        let mut served = BTreeSet::new();
        for id in filled {
            let place = self.state.configuration.place(*id);
            let tables = &mut self.state.configuration.tables;
            if place.is_some_and(|it| it.core == core && it.state == PartitionState::Rebuilding) {
                let table = tables.get_mut(id.table).expect("its place was just found");
                let place = &mut table.placement[usize::from(id.replex)][id.number as usize];
                *place = place.filled();
                served.insert(id.table);
                count += 1;
            }
        }
        if count > 0 {
            let note = format!("{core} has filled {count} partitions: they serve");
            output.notes.push(note);
            for id in served {
                let table = self.state.configuration.tables.get_mut(id);
                let table = table.expect("a partition of it was just changed");
                for name in table.finish_building() {
                    let note = format!("{name} of table {} serves", table.schema.name);
                    output.notes.push(note);
                }
            }
            self.reconfigure(output);
        }
    }

    /// Handles the report that a process has stopped and serves nothing any more. It ends the
    /// leases of the process, so the next process need not wait for them.
    pub(super) fn stopped(
        &mut self,
        now: ClockReading,
        (id, incarnation): (ServerId, Incarnation),
        logs: &[Position],
        output: &mut CoordinatorOutput,
    ) -> Result<Outcome, Refused> {
        let server = self.incarnation(id, incarnation)?;
        if server.state == ServerState::Up {
            server.state = ServerState::Down;
            output.notes.push(format!("server {} stopped", id.0));
            let member = self.member_mut(id);
            member.has_stopped = true;
            for (core, last) in logs.iter().take(CORES_MAX).enumerate() {
                member.note_log(core, *last);
            }
            self.watch_down(id, now);
            self.reconfigure(output);
        }
        self.forget(id);
        Ok(self.done_now())
    }

    /// Begins to wait for a server that is down. If it does not return in time, others receive its
    /// partitions.
    pub(super) fn watch_down(&mut self, id: ServerId, now: ClockReading) {
        let after_us = match self.has_stopped(id) {
            true => self.settings.replace_stopped_after_us,
            false => self.settings.replace_after_us,
        };
        self.seals.watch(id, now, after_us);
    }

    /// Returns whether a server's last incarnation has reported its stop.
    pub(super) fn has_stopped(&self, id: ServerId) -> bool {
        let mut members = self.state.members.iter();
        members.any(|member| member.server == id && member.has_stopped)
    }

    pub(super) fn leave(
        &mut self,
        id: ServerId,
        output: &mut CoordinatorOutput,
    ) -> Result<Outcome, Refused> {
        let configuration = &mut self.state.configuration;
        let index = configuration
            .servers
            .binary_search_by_key(&id, |server| server.id)
            .map_err(|_| unknown_server(id))?;
        let held = configuration.tables.iter();
        let held = held.filter(|table| table.names(id));
        let held: Vec<&str> = held.map(|table| table.schema.name.as_str()).collect();
        if !held.is_empty() {
            return Err(Refused::new(format!(
                "server {} holds partitions of {}: drain it first, or drop what is not needed",
                id.0,
                held.join(", ")
            )));
        }
        configuration.servers.remove(index);
        configuration.forget_formers(&BTreeSet::from([id]));
        self.state.members.remove(index);
        self.forget(id);
        self.seals.unwatch(id);
        output.notes.push(format!("server {} left", id.0));
        self.reconfigure(output);
        Ok(self.done_now())
    }

    /// Returns the server, if this is its incarnation.
    fn incarnation(
        &mut self,
        id: ServerId,
        incarnation: Incarnation,
    ) -> Result<&mut Server, Refused> {
        let servers = &mut self.state.configuration.servers;
        let index = servers.binary_search_by_key(&id, |server| server.id);
        let server = &mut servers[index.map_err(|_| unknown_server(id))?];
        if server.incarnation != incarnation {
            return Err(Refused::new(format!(
                "incarnation {} of server {} has been replaced by incarnation {}: stop this \
                 process",
                incarnation.0, id.0, server.incarnation.0
            )));
        }
        Ok(server)
    }

    /// Returns for each server that is up the time at which the last lease of its cores has ended
    /// by any clock.
    pub(super) fn lease_ends(&self) -> impl Iterator<Item = (ServerId, u64)> {
        let after_us = self.settings.lease_us + self.settings.drift_us;
        let mut reports = self.reports.iter().peekable();
        core::iter::from_fn(move || {
            let (core, first) = reports.next()?;
            let mut last_us = first.at_us;
            while let Some((_, next)) = reports.next_if(|(next, _)| next.server == core.server) {
                last_us = last_us.max(next.at_us);
            }
            Some((core.server, last_us + after_us))
        })
    }

    /// Marks servers as down whose leases have ended, all in one epoch.
    pub(super) fn expire_leases(&mut self, now: ClockReading, output: &mut CoordinatorOutput) {
        let ends = self.lease_ends();
        let silent: Vec<ServerId> = ends
            .filter(|(_, end_us)| *end_us <= now.monotonic_us)
            .map(|(id, _)| id)
            .collect();
        for id in &silent {
            self.forget(*id);
            let servers = &mut self.state.configuration.servers;
            let index = servers
                .binary_search_by_key(id, |server| server.id)
                .expect("only servers of the configuration have reports");
            assert_eq!(
                servers[index].state,
                ServerState::Up,
                "only they have leases"
            );
            servers[index].state = ServerState::Down;
            self.watch_down(*id, now);
            output.notes.push(format!(
                "server {} is down: it has not renewed its lease for {} ms",
                id.0,
                (self.settings.lease_us + self.settings.drift_us) / 1000
            ));
        }
        if !silent.is_empty() {
            self.reconfigure(output);
        }
    }

    /// Returns the member that a join means; none is a new server.
    fn known(&self, join: &ServerJoin) -> Result<Option<ServerMember>, Refused> {
        let mut members = self.state.members.iter();
        let Some(id) = join.server else {
            return Ok(members.find(|it| it.disk == join.folder.disk).cloned());
        };
        let member = members.find(|member| member.server == id);
        let member = member.cloned().ok_or_else(|| unknown_server(id))?;
        if member.disk != join.folder.disk && member.disk != 0 {
            return Err(Refused::new(format!(
                "server {} has joined with another data folder before, and its partitions are \
                 there: start it on that folder, or start a new server without a number",
                id.0
            )));
        }
        Ok(Some(member))
    }

    fn check_return(
        &self,
        now: ClockReading,
        member: &ServerMember,
        join: &ServerJoin,
    ) -> Result<(), Refused> {
        let id = member.server;
        let running = self.lease_ends().find(|(server, _)| *server == id);
        if let Some((_, end_us)) = running
            && end_us > now.monotonic_us
            && !(join.folder.has_stopped && join.folder.last == member.instance)
        {
            return Err(Refused {
                message: format!(
                    "server {} is in use by another process, or was {} ms ago: stop that \
                     process, or give this one a folder of its own",
                    id.0,
                    (now.monotonic_us + self.settings.lease_us + self.settings.drift_us - end_us)
                        / 1000
                ),
                retry: true,
            });
        }
        let places = self.state.configuration.places();
        let tenures = places.flat_map(|(_, place)| place.tenures());
        let cores = tenures
            .filter(|tenure| tenure.core.server == id)
            .map(|tenure| usize::from(tenure.core.core) + 1)
            .max()
            .unwrap_or(0);
        if cores > join.cores.len() {
            return Err(Refused::new(format!(
                "server {} holds partitions on {cores} cores and was started with {}: start it \
                 with {cores} or more",
                id.0,
                join.cores.len()
            )));
        }
        self.check_domain(id, &domain_name(id, &join.domain))
    }

    /// Checks that the tables keep their promises if a server returns in another failure domain.
    fn check_domain(&self, id: ServerId, domain: &str) -> Result<(), Refused> {
        if self.server(id).domain == domain {
            return Ok(());
        }
        let configuration = &self.state.configuration;
        let mut servers = configuration.hosts();
        for server in servers.iter_mut().filter(|server| server.id == id.0) {
            server.domain = domain.into();
        }
        let before = configuration.hosts();
        for table in configuration.tables.iter() {
            let placement = table.bare_placement();
            let failures = usize::from(table.schema.failures_tolerated);
            let of = (&table.schema, &table.layout);
            let at_risk = |servers| members_at_risk(of, &placement, servers, failures);
            if at_risk(&servers) != at_risk(&before) {
                return Err(Refused::new(format!(
                    "with server {} in failure domain {domain}, other copies of table {} would fail \
                     together: keep domain {}, or remove the server first",
                    id.0,
                    table.schema.name,
                    self.server(id).domain
                )));
            }
            let proof = prove(&table.layout, &placement, &servers);
            if proof.failures_tolerated() < u32::from(table.schema.failures_tolerated) {
                return Err(Refused::new(format!(
                    "with server {} in failure domain {domain}, table {} would survive {} \
                     failures, not the {} that it tolerates: keep domain {}",
                    id.0,
                    table.schema.name,
                    proof.failures_tolerated(),
                    table.schema.failures_tolerated,
                    self.server(id).domain
                )));
            }
        }
        Ok(())
    }

    /// Checks that no server that is up has one of these addresses. An address of a server that is
    /// down may be used, because a client that connects learns which core answers.
    fn check_addresses(&self, own: Option<ServerId>, addresses: &[String]) -> Result<(), Refused> {
        let servers = self.state.configuration.servers.iter();
        for server in servers.filter(|it| it.state == ServerState::Up && Some(it.id) != own) {
            if let Some(address) = addresses.iter().find(|it| server.cores.contains(it)) {
                return Err(Refused::new(format!(
                    "{address} is the address of server {}: choose another port",
                    server.id.0
                )));
            }
        }
        Ok(())
    }

    fn add_server(&mut self, join: ServerJoin) -> Result<ServerId, Refused> {
        let servers = &mut self.state.configuration.servers;
        if servers.len() >= SERVERS_MAX {
            return Err(Refused::new(format!(
                "the cluster has {SERVERS_MAX} servers, which is the limit: let one leave first"
            )));
        }
        let id = ServerId(self.state.next_server);
        self.state.next_server += 1;
        servers.push(Server {
            id,
            incarnation: Incarnation(1),
            domain: domain_name(id, &join.domain),
            cores: join.cores,
            state: ServerState::Up,
            is_draining: false,
            is_new: false,
        });
        self.state.members.push(ServerMember {
            server: id,
            disk: join.folder.disk,
            instance: join.instance,
            has_stopped: false,
            trust: FolderTrust::Newest,
            logs: Vec::new(),
        });
        Ok(id)
    }

    fn return_server(&mut self, id: ServerId, join: ServerJoin) {
        let index = self.state.members.iter().position(|it| it.server == id);
        let index = index.expect("the caller found the member");
        let member = &mut self.state.members[index];
        let folder = join.folder;
        if !matches!(member.trust, FolderTrust::Newest) {
            // Rows that it had made durable before are void, or given up.
            member.logs.clear();
        }
        let is_unknown = member.instance == 0;
        member.disk = folder.disk;
        member.instance = join.instance;
        member.has_stopped = false;
        member.trust = FolderTrust::Newest;
        let server = &mut self.state.configuration.servers[index];
        assert_eq!(server.id, id, "there is one member per server, in order");
        let skipped = if is_unknown { INCARNATIONS_SKIPPED } else { 0 };
        server.incarnation.0 = server.incarnation.0.max(folder.incarnation.0) + skipped + 1;
        server.domain = domain_name(id, &join.domain);
        server.cores = join.cores;
        server.state = ServerState::Up;
    }

    pub(super) fn done_now(&self) -> Outcome {
        Outcome::Now(CoordinatorReply::Done {
            epoch: self.state.configuration.epoch,
            table: None,
        })
    }

    fn joined(&self, id: ServerId) -> Outcome {
        Outcome::Now(CoordinatorReply::Joined {
            server: id,
            incarnation: self.server(id).incarnation,
            logs: self.logs_of(id),
            configuration: self.state.configuration.clone(),
        })
    }

    fn logs_of(&self, id: ServerId) -> Vec<Position> {
        let mut members = self.state.members.iter();
        let member = members.find(|member| member.server == id);
        member.map(|it| it.logs.clone()).unwrap_or_default()
    }

    fn server(&self, id: ServerId) -> &Server {
        let server = self.state.configuration.server(id);
        server.expect("the caller found it among the members")
    }

    pub(super) fn forget(&mut self, id: ServerId) {
        self.note_logs();
        self.rooms.retain(|core, _| core.server != id);
        self.reports.retain(|core, _| core.server != id);
        self.ranges.forget(id);
        self.listeners.forget(id);
    }
}

pub(super) fn unknown_server(id: ServerId) -> Refused {
    Refused::new(format!(
        "server {} is not of this cluster: it left, or its folder belongs to another cluster; \
         start it on an empty folder",
        id.0
    ))
}

/// Returns the name of a server's failure domain. A server without a named domain has a domain of
/// its own.
fn domain_name(id: ServerId, domain: &str) -> String {
    if domain.is_empty() {
        format!("server-{}", id.0)
    } else {
        domain.into()
    }
}

fn check_form(join: &ServerJoin) -> Result<(), Refused> {
    let printable = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
    if !printable(&join.domain) || join.domain.len() > TEXT_BYTES_MAX {
        return Err(Refused::new(format!(
            "the failure domain {:?} is no name: use up to {TEXT_BYTES_MAX} letters, digits and \
             signs without spaces",
            join.domain.chars().take(80).collect::<String>()
        )));
    }
    if !(1..=CORES_MAX).contains(&join.cores.len()) {
        return Err(Refused::new(format!(
            "a server has 1 to {CORES_MAX} cores, not {}",
            join.cores.len()
        )));
    }
    for (core, address) in join.cores.iter().enumerate() {
        let port = address
            .rsplit_once(':')
            .filter(|(host, _)| !host.is_empty());
        let port = port.and_then(|(_, port)| port.parse::<u16>().ok());
        let well_formed = printable(address) && address.len() <= TEXT_BYTES_MAX;
        if !well_formed || port.is_none_or(|port| port == 0) {
            return Err(Refused::new(format!(
                "{:?} is no address: write host:port",
                address.chars().take(80).collect::<String>()
            )));
        }
        if join.cores[..core].contains(address) {
            return Err(Refused::new(format!(
                "two cores have the address {address}: give each its own port"
            )));
        }
    }
    Ok(())
}
