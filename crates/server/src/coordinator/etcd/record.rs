//! Reads and writes the coordinators' keys in etcd: the present coordinators, the leader, and the
//! state.
//!
//! ```text
//! PREFIX/coordinators/INSTANCE   address; goes with the coordinator's lease
//! PREFIX/leader                  address; goes with the leader's lease
//! PREFIX/state                   the manifest
//! PREFIX/state/VERSION/PART      bytes of the state, cut
//! ```
//! Invariants: every key that is not a coordinator's own name is written in a transaction that
//! holds only while `leader` is the key that this coordinator made (its revision of creation is its
//! term). A deposed coordinator therefore writes nothing, even if it believes that it leads. The
//! manifest changes only from the revision that the writer knows, after all parts that it names are
//! there.

use std::slice;

use protocol::state::{CoordinatorState, decode_state, encode_state};
use serde_json::Value;

use super::gateway::{Gateway, GatewayError, KeyValue, changed_at, delete, get, made_at, put};
use super::manifest::{Manifest, PART_BYTES};
use crate::error::ServerError;

/// A coordinator's lease in etcd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CoordinatorLease {
    pub lease: i64,
    pub ttl_s: u64,
}

/// The revisions of etcd that a leader's transactions check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeaderRevisions {
    /// The revision at which the key `leader` was created.
    pub made_at: i64,
    /// The revision at which the manifest was last changed; 0 if there is none.
    pub changed_at: i64,
}

/// The result of a campaign for leadership.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CampaignOutcome {
    /// This coordinator leads. Its key was created at this revision.
    Won(i64),
    /// Another coordinator leads. Contains its address.
    Lost(String),
}

/// The result of storing a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SaveOutcome {
    /// The state is stored, at this revision.
    Kept(i64),
    /// This coordinator does not lead any more. Nothing was written.
    Deposed,
    /// This coordinator leads, but another process has changed the state.
    Overwritten,
}

/// The reason why the state cannot be read.
#[derive(Debug)]
pub(crate) enum LoadError {
    /// The caller may try again.
    Gateway(GatewayError),
    /// The state cannot be used. Contains the reason and the remedy.
    Unusable(ServerError),
}

impl From<GatewayError> for LoadError {
    fn from(error: GatewayError) -> Self {
        LoadError::Gateway(error)
    }
}

/// A state as etcd has it.
#[derive(Clone, Debug)]
pub(crate) struct StoredState {
    pub manifest: Manifest,
    pub changed_at: i64,
    pub state: CoordinatorState,
    pub bytes: Vec<u8>,
}

/// The keys below one prefix, as one coordinator uses them.
#[derive(Debug)]
pub(crate) struct Record {
    gateway: Gateway,
    prefix: String,
    /// Names this process among all coordinators.
    instance: u64,
    /// The address that others connect to.
    address: String,
}

impl Record {
    /// Returns the record of a coordinator at `address`. It sends nothing to etcd yet.
    pub fn new(gateway: Gateway, prefix: &str, instance: u64, address: String) -> Record {
        Record {
            gateway,
            prefix: prefix.trim_end_matches('/').to_owned(),
            instance,
            address,
        }
    }

    /// Returns the address that others connect to.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns the location of the state, for people.
    pub fn place(&self) -> String {
        let urls = self.gateway.urls().join(",");
        format!("etcd {urls}, prefix {}", self.prefix)
    }

    /// Creates a lease and registers this coordinator.
    pub fn enter(&mut self, ttl_s: u64) -> Result<CoordinatorLease, GatewayError> {
        let (lease, ttl_s) = self.gateway.grant(ttl_s)?;
        let name = format!("{}/coordinators/{:016x}", self.prefix, self.instance);
        let entry = put(&name, self.address.as_bytes(), lease);
        self.gateway.transact(&[], &[entry], &[])?;
        Ok(CoordinatorLease { lease, ttl_s })
    }

    /// Renews the lease. Returns false if it has ended.
    pub fn renew(&mut self, seat: CoordinatorLease) -> Result<bool, GatewayError> {
        Ok(self.gateway.keep_alive(seat.lease)? > 0)
    }

    /// Ends the lease, which removes this coordinator's registration.
    pub fn leave(&mut self, seat: CoordinatorLease) -> Result<(), GatewayError> {
        self.gateway.revoke(seat.lease)
    }

    /// Returns the addresses of all registered coordinators.
    pub fn coordinators(&mut self) -> Result<Vec<String>, GatewayError> {
        let (first, end) = children(&format!("{}/coordinators", self.prefix));
        let found = self.gateway.range(&first, Some(&end))?;
        Ok(found.iter().map(address).collect())
    }

    /// Returns the address of the leader.
    pub fn leader(&mut self) -> Result<Option<String>, GatewayError> {
        let found = self.gateway.range(&self.leader_key(), None)?;
        Ok(found.first().map(address))
    }

    /// Becomes the leader, if no coordinator is.
    pub fn campaign(&mut self, seat: CoordinatorLease) -> Result<CampaignOutcome, GatewayError> {
        let key = self.leader_key();
        let done = self.gateway.transact(
            &[made_at(&key, 0)],
            &[put(&key, self.address.as_bytes(), seat.lease)],
            &[get(&key)],
        )?;
        if done.succeeded {
            return Ok(CampaignOutcome::Won(done.revision));
        }
        match done.found.first().and_then(|found| found.first()) {
            // Its own: the answer to an earlier attempt was lost.
            Some(leader) if leader.lease == seat.lease => {
                Ok(CampaignOutcome::Won(leader.create_revision))
            }
            Some(leader) => Ok(CampaignOutcome::Lost(address(leader))),
            None => Err(GatewayError::Refused(
                "a key is there and is not".to_owned(),
            )),
        }
    }

    /// Returns the state, also for a coordinator that does not lead; none if there was never one.
    pub fn load(&mut self) -> Result<Option<StoredState>, LoadError> {
        let found = self.gateway.range(&self.state_key(), None)?;
        let Some(found) = found.into_iter().next() else {
            return Ok(None);
        };
        let manifest = Manifest::decode(&found.value).map_err(|what| self.unusable(&what))?;
        let mut bytes = Vec::new();
        for part in 0..manifest.parts() {
            let key = self.part_key(manifest.version, part);
            let found = self.gateway.range(&key, None)?;
            bytes.extend(found.into_iter().flat_map(|part| part.value));
        }
        if !manifest.names(&bytes) {
            let what = "its parts do not match its manifest: restore etcd from a copy";
            return Err(self.unusable(what));
        }
        let state = decode_state(&bytes).map_err(|error| self.unusable(&error.to_string()))?;
        Ok(Some(StoredState {
            manifest,
            changed_at: found.mod_revision,
            state,
            bytes,
        }))
    }

    /// Stores a state, which replaces the state that `term` knows.
    pub fn keep(
        &mut self,
        term: LeaderRevisions,
        state: &CoordinatorState,
    ) -> Result<SaveOutcome, GatewayError> {
        let bytes = encode_state(state);
        let manifest = Manifest::new(state.version, self.instance, &bytes);
        self.write(term, &manifest, &bytes)
    }

    /// Records in the stored state that the state has moved, so that no coordinator continues with
    /// this copy.
    pub fn hand_over(
        &mut self,
        term: LeaderRevisions,
        found: &StoredState,
        to: &str,
    ) -> Result<SaveOutcome, GatewayError> {
        let manifest = Manifest {
            instance: self.instance,
            moved_to: Some(to.to_owned()),
            ..found.manifest.clone()
        };
        self.write(term, &manifest, &found.bytes)
    }

    /// Writes all parts of a state, each on the condition that this process leads, and the manifest
    /// with the last part.
    fn write(
        &mut self,
        term: LeaderRevisions,
        manifest: &Manifest,
        bytes: &[u8],
    ) -> Result<SaveOutcome, GatewayError> {
        let leads = made_at(&self.leader_key(), term.made_at);
        let mut parts: Vec<Value> = (0..)
            .zip(bytes.chunks(PART_BYTES))
            .map(|(part, bytes)| put(&self.part_key(manifest.version, part), bytes, 0))
            .collect();
        let last = parts.pop().expect("a state has a header");
        for part in parts {
            let done = self
                .gateway
                .transact(slice::from_ref(&leads), &[part], &[])?;
            if !done.succeeded {
                return Ok(SaveOutcome::Deposed);
            }
        }
        let (first, end) = children(&self.state_key());
        let (own_first, own_end) = children(&self.version_key(manifest.version));
        let done = self.gateway.transact(
            &[leads, changed_at(&self.state_key(), term.changed_at)],
            &[
                last,
                put(&self.state_key(), &manifest.encode(), 0),
                // Parts of other states: the previous one, and states that a leader left behind
                // when it died.
                delete(&first, &own_first),
                delete(&own_end, &end),
            ],
            &[get(&self.leader_key()), get(&self.state_key())],
        )?;
        if done.succeeded {
            return Ok(SaveOutcome::Kept(done.revision));
        }
        let mut found = done.found.into_iter().map(|found| found.into_iter().next());
        let leader = found.next().flatten();
        if leader.is_none_or(|leader| leader.create_revision != term.made_at) {
            return Ok(SaveOutcome::Deposed);
        }
        let state = found.next().flatten();
        let is_own = |state: &KeyValue| Manifest::decode(&state.value).as_ref() == Ok(manifest);
        Ok(match state {
            // Its own: the answer to an earlier attempt was lost.
            Some(state) if is_own(&state) => SaveOutcome::Kept(state.mod_revision),
            _ => SaveOutcome::Overwritten,
        })
    }

    fn unusable(&self, what: &str) -> LoadError {
        let text = format!("{} in {}: {what}", self.state_key(), self.place());
        LoadError::Unusable(ServerError::Folder(text))
    }

    fn leader_key(&self) -> String {
        format!("{}/leader", self.prefix)
    }

    fn state_key(&self) -> String {
        format!("{}/state", self.prefix)
    }

    fn version_key(&self, version: u64) -> String {
        format!("{}/{version:016x}", self.state_key())
    }

    fn part_key(&self, version: u64, part: u64) -> String {
        format!("{}/{part:04x}", self.version_key(version))
    }
}

fn address(value: &KeyValue) -> String {
    String::from_utf8_lossy(&value.value).into_owned()
}

/// Returns the first key below a key, and the first one after all of them: `0` follows `/`.
fn children(key: &str) -> (String, String) {
    (format!("{key}/"), format!("{key}0"))
}
