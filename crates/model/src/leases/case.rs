//! The cases of the model of leases: a table on a few cores, and the changes of the table that may
//! happen.

/// One small cluster.
#[derive(Clone, Debug)]
pub struct LeaseCase {
    /// The name on the command line.
    pub name: &'static str,
    /// The course of the case, in words.
    pub about: &'static str,
    /// The names of the cores. The first core requests leases.
    pub cores: &'static [&'static str],
    /// The cores that hold a partition of the table in the initial state, as a set.
    pub holders: u8,
    /// The number of failures that the table tolerates.
    pub tolerated: u8,
    /// The number of sealings.
    pub seals: u8,
    /// The number of changes of the table without a sealing.
    pub changes: u8,
    /// The number of changes of other tables.
    pub others: u8,
    /// The number of restarts of vouchers.
    pub restarts: u8,
    /// The giver and the taker of a move.
    pub moved: Option<(usize, usize)>,
    /// A core whose place goes to another core once it was removed, and that other core.
    pub replaced: Option<usize>,
    /// A core whose copy may be dropped.
    pub dropped: Option<usize>,
    /// Whether the number of failures that the table tolerates may rise.
    pub raised: bool,
    /// Cores that have the same role, as a set. Exchanging them gives an equivalent run.
    pub alike: u8,
}

/// Returns every case, from small to large.
pub fn cases() -> Vec<LeaseCase> {
    let mut cases = small();
    cases.extend(two_sealings());
    cases.extend(large());
    cases
}

/// Returns a table on three of four servers.
fn three() -> LeaseCase {
    LeaseCase {
        name: "leases",
        about: "leases; a table on three servers, f = 1, one is removed",
        cores: &["Asker", "Second", "Third", "Other"],
        holders: 0b0111,
        tolerated: 1,
        seals: 1,
        changes: 0,
        others: 1,
        restarts: 0,
        moved: None,
        replaced: None,
        dropped: None,
        raised: false,
        alike: 0b0110,
    }
}

/// Returns a table on all of three servers, sealed twice.
fn twice() -> LeaseCase {
    LeaseCase {
        name: "leases-twice",
        about: "leases; f = 1, two sealings",
        cores: &["Asker", "Second", "Third"],
        seals: 2,
        others: 0,
        ..three()
    }
}

fn small() -> Vec<LeaseCase> {
    let twice = twice();
    vec![
        LeaseCase {
            name: "leases-once",
            about: "leases; f = 1, one sealing",
            seals: 1,
            ..twice.clone()
        },
        LeaseCase {
            name: "leases-restart",
            about: "leases; f = 1, one sealing, a voucher restarts",
            seals: 1,
            restarts: 1,
            ..twice.clone()
        },
        LeaseCase {
            name: "leases-cancelled",
            about: "leases; two servers, f = 1, one sealing, a move to a third one is given up",
            seals: 1,
            changes: 2,
            holders: 0b011,
            moved: Some((1, 2)),
            alike: 0,
            ..twice.clone()
        },
        LeaseCase {
            name: "leases-of-two",
            about: "leases; a table on two of three servers, f = 1, one sealing",
            seals: 1,
            cores: &["Asker", "Second", "Other"],
            holders: 0b011,
            alike: 0,
            ..twice.clone()
        },
        LeaseCase {
            name: "leases-returned",
            about: "leases; two servers, f = 1, one returns with an empty disk",
            cores: &["Asker", "Second"],
            holders: 0b11,
            replaced: Some(1),
            alike: 0,
            ..twice
        },
    ]
}

fn two_sealings() -> Vec<LeaseCase> {
    let twice = twice();
    vec![
        LeaseCase {
            name: "leases-drops",
            about: "leases; f = 1, two sealings, a copy is dropped",
            changes: 1,
            dropped: Some(1),
            alike: 0,
            ..twice.clone()
        },
        LeaseCase {
            name: "leases-tolerance",
            about: "leases; three servers, f rises from 1 to 2 at a sealing",
            changes: 1,
            raised: true,
            ..twice.clone()
        },
        LeaseCase {
            name: "leases-replaced",
            about: "leases; f = 1, two sealings, a removed server returns with an empty disk",
            replaced: Some(1),
            alike: 0,
            ..twice.clone()
        },
        twice.clone(),
        LeaseCase {
            name: "leases-restarts",
            about: "leases; f = 1, one sealing, vouchers restart",
            seals: 1,
            restarts: 2,
            ..twice
        },
    ]
}

fn large() -> Vec<LeaseCase> {
    let one = three();
    vec![
        LeaseCase {
            name: "leases-far",
            about: "leases; four servers, f = 2, two sealings",
            cores: &["Asker", "Second", "Third", "Fourth"],
            holders: 0b1111,
            tolerated: 2,
            seals: 2,
            others: 0,
            alike: 0b1110,
            ..one.clone()
        },
        LeaseCase {
            name: "leases-moves",
            about: "leases; f = 1, two sealings, a place moves from the asker to another server",
            seals: 2,
            changes: 2,
            others: 0,
            moved: Some((0, 3)),
            ..one.clone()
        },
        LeaseCase {
            name: "leases-moves-beside",
            about: "leases; f = 1, two sealings, a place of another server moves",
            seals: 2,
            changes: 2,
            others: 0,
            moved: Some((1, 3)),
            alike: 0,
            ..one.clone()
        },
        one,
    ]
}

/// Returns the case of this name.
pub fn named(name: &str) -> Option<LeaseCase> {
    cases().into_iter().find(|case| case.name == name)
}
