//! The cases of the model of commit: small clusters with a few colliding operations, and the number
//! of faults that may happen in each.
//!
//! A member stands for one partition on a server of its own. A chain lists members with the
//! position of their replex, from 1, which is what n, f, k and x count (R3).

/// An upper bound for the number of members in a case.
pub const MEMBERS_MAX: usize = 6;
/// An upper bound for the number of operations in a case.
pub const OPERATIONS_MAX: usize = 3;
/// An upper bound for the length of a chain: a move of a row through four replexes has five
/// members.
pub const PLACES_MAX: usize = 5;

/// One member's part in one operation, as the operation's keys determine it.
#[derive(Clone, Copy, Debug)]
pub struct MemberPlace {
    /// The member.
    pub member: usize,
    /// The position of the member's replex in the chain, from 1.
    pub replex: usize,
    /// The keys that the operation holds at this member, as a set. They are numbered for each
    /// replex.
    pub holds: u8,
    /// The keys of a unique index that the operation inserts at this member.
    pub takes: u8,
    /// The keys of a unique index that the operation removes at this member.
    pub gives_up: u8,
}

/// An operation: its chain.
#[derive(Clone, Debug)]
pub struct ModelOperation {
    /// The name of the operation in traces.
    pub name: &'static str,
    /// The members of the chain, from the head to the decider, and then the side members.
    pub places: Vec<MemberPlace>,
    /// The number of side members: partitions of thin indexes, which follow no replex of the chain.
    pub sides: usize,
}

/// The most faults of each kind that may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultLimits {
    /// The number of crashes. The member may restart with the records on its disk.
    pub crashes: u8,
    /// The number of members that are removed for good. They may continue to run for a while.
    pub losses: u8,
    /// The number of waits at members that end with the vote `Conflict` (R8).
    pub conflicts: u8,
}

/// A renaming of members and operations that gives the same case.
#[derive(Clone, Debug)]
pub struct Symmetry {
    /// For each member, the member that replaces it.
    pub members: [usize; MEMBERS_MAX],
    /// For each operation, the operation that replaces it.
    pub operations: [usize; OPERATIONS_MAX],
}

/// One small cluster.
#[derive(Clone, Debug)]
pub struct Case {
    /// The name on the command line.
    pub name: &'static str,
    /// The course of the case, in words.
    pub about: &'static str,
    /// The number of replexes.
    pub replexes: usize,
    /// The number of tolerated failures, f.
    pub tolerated: usize,
    /// Position of the last replex that can vote no, k.
    pub last_voter: usize,
    /// The names of the members, in traces.
    pub members: Vec<&'static str>,
    /// The operations.
    pub operations: Vec<ModelOperation>,
    /// The keys of unique indexes that a row has in the initial state.
    pub occupied: u8,
    /// The faults that may happen.
    pub faults: FaultLimits,
    /// Whether the table is `replicated`: no step waits for the disk, and a record in f + 1
    /// memories counts as durable. At most f members may have lost their memory at a time.
    pub replicated: bool,
    /// Whether an operation may wait at any member behind a lookup, even if its keys are free.
    pub lookups: bool,
    /// Whether a lost member is replaced as soon as the new epoch serves.
    pub replaced: bool,
    /// The renamings of members and operations that give the same case.
    pub symmetries: Vec<Symmetry>,
}

impl Case {
    /// Returns a description of the case in one line.
    pub fn describe(&self) -> String {
        let FaultLimits {
            crashes,
            losses,
            conflicts,
        } = self.faults;
        let memory = if self.replicated { ", replicated" } else { "" };
        format!(
            "{}{memory}; n = {}, f = {}, k = {}, x = {}; {crashes} crashes, {losses} losses, {conflicts} \
             conflicts",
            self.about,
            self.replexes,
            self.tolerated,
            self.last_voter,
            self.settle_position()
        )
    }

    /// Returns the position x where a decision must be durable before any client may depend on it
    /// (R3).
    pub fn settle_position(&self) -> usize {
        let survivors = self.replexes - self.tolerated;
        if self.last_voter <= survivors {
            self.replexes
        } else {
            survivors
        }
    }

    /// Returns whether clients may see a decision before the decision itself has a durable record.
    pub fn settles_at_decision(&self) -> bool {
        self.settle_position() == self.replexes
    }

    /// Returns the index of `member` in an operation's chain, counted from 0; none if the member
    /// takes no part.
    pub fn place_of(&self, operation: usize, member: usize) -> Option<usize> {
        let places = &self.operations[operation].places;
        places.iter().position(|place| place.member == member)
    }
}

const A: u8 = 1;
const B: u8 = 2;

fn place(member: usize, replex: usize, holds: u8, takes: u8) -> MemberPlace {
    MemberPlace {
        member,
        replex,
        holds,
        takes,
        gives_up: 0,
    }
}

/// Returns inserts of one unique key, each through one of `heads` heads. The operations share the
/// members after the heads.
fn inserts(heads: usize, unique: &[usize], replexes: usize) -> Vec<ModelOperation> {
    let names = ["O", "P", "Q"];
    let chain = |head: usize| {
        let shared = (2..=replexes).map(|replex| {
            let key = if unique.contains(&replex) { A } else { 0 };
            place(heads + replex - 2, replex, key, key)
        });
        std::iter::once(place(head, 1, 0, 0))
            .chain(shared)
            .collect()
    };
    (0..heads)
        .map(|head| ModelOperation {
            name: names[head],
            places: chain(head),
            sides: 0,
        })
        .collect()
}

/// Returns the case with side members in each operation: the partitions of a thin index that an
/// entry leaves and enters.
fn with_sides(name: &'static str, case: Case, sides: &[&'static str], faults: FaultLimits) -> Case {
    let mut case = Case {
        name,
        faults,
        ..case
    };
    let first = case.members.len();
    case.members.extend(sides);
    for operation in &mut case.operations {
        let members = first..case.members.len();
        operation
            .places
            .extend(members.map(|member| place(member, 0, 0, 0)));
        operation.sides = sides.len();
    }
    case
}

/// Returns the renaming that exchanges two heads and their operations.
fn swapped_heads() -> Vec<Symmetry> {
    vec![Symmetry {
        members: [1, 0, 2, 3, 4, 5],
        operations: [1, 0, 2],
    }]
}

/// Returns all renamings that permute three heads and their operations, except the one that changes
/// nothing.
fn permuted_heads() -> Vec<Symmetry> {
    let permutations = [[1, 0, 2], [0, 2, 1], [2, 1, 0], [1, 2, 0], [2, 0, 1]];
    let symmetry = |heads: [usize; 3]| Symmetry {
        members: [heads[0], heads[1], heads[2], 3, 4, 5],
        operations: heads,
    };
    permutations.map(symmetry).into()
}

/// Returns a case with two inserts of one unique key through two heads, in three replexes.
fn pair(name: &'static str, about: &'static str, tolerated: usize, faults: FaultLimits) -> Case {
    Case {
        name,
        about,
        replexes: 3,
        tolerated,
        last_voter: 2,
        members: vec!["Head1", "Head2", "Unique", "Last"],
        operations: inserts(2, &[2], 3),
        occupied: 0,
        faults,
        replicated: false,
        lookups: false,
        replaced: false,
        symmetries: swapped_heads(),
    }
}

/// Returns the case of [`pair`] with a second unique index, so with four replexes.
fn long_pair(
    name: &'static str,
    about: &'static str,
    tolerated: usize,
    faults: FaultLimits,
) -> Case {
    Case {
        replexes: 4,
        last_voter: 3,
        members: vec!["Head1", "Head2", "Unique", "Other", "Last"],
        operations: inserts(2, &[2, 3], 4),
        ..pair(name, about, tolerated, faults)
    }
}

/// Returns a case in which a row moves from key A to key B while other operations insert A and B.
fn moves(name: &'static str, faults: FaultLimits) -> Case {
    let mut moved = vec![place(0, 1, A, 0)];
    moved.push(MemberPlace {
        gives_up: A,
        ..place(2, 2, A, 0)
    });
    moved.push(place(3, 2, B, B));
    moved.push(place(4, 3, 0, 0));
    let insert = |key, unique| {
        vec![
            place(1, 1, key, 0),
            place(unique, 2, key, key),
            place(4, 3, 0, 0),
        ]
    };
    let operation = |name, places| ModelOperation {
        name,
        places,
        sides: 0,
    };
    Case {
        members: vec!["Head1", "Head2", "UniqueA", "UniqueB", "Last"],
        operations: vec![
            operation("Move", moved),
            operation("InsertA", insert(A, 2)),
            operation("InsertB", insert(B, 3)),
        ],
        occupied: A,
        symmetries: Vec::new(),
        ..pair(
            name,
            "a row moves from key A to key B, others insert both",
            1,
            faults,
        )
    }
}

/// Returns a case with three inserts of one unique key through three heads.
fn triple(name: &'static str, faults: FaultLimits) -> Case {
    Case {
        members: vec!["Head1", "Head2", "Head3", "Unique", "Last"],
        operations: inserts(3, &[2], 3),
        symmetries: permuted_heads(),
        ..pair(name, "three inserts of one key", 1, faults)
    }
}

/// Returns a case with a single operation, in which only faults vary.
fn single(name: &'static str, about: &'static str, replexes: usize, tolerated: usize) -> Case {
    let mut members = vec!["Head", "Unique", "Third"];
    members.truncate(replexes - 1);
    members.push("Last");
    Case {
        name,
        about,
        replexes,
        tolerated,
        last_voter: 2,
        members,
        operations: inserts(1, &[2], replexes),
        occupied: 0,
        faults: faults(2, tolerated as u8 + 1, 0),
        replicated: false,
        lookups: false,
        replaced: false,
        symmetries: Vec::new(),
    }
}

/// Returns a case without waits for disks (`replicated`).
fn in_memory(name: &'static str, case: Case, crashes: u8) -> Case {
    Case {
        name,
        faults: faults(crashes, 0, 0),
        replicated: true,
        ..case
    }
}

fn faults(crashes: u8, losses: u8, conflicts: u8) -> FaultLimits {
    FaultLimits {
        crashes,
        losses,
        conflicts,
    }
}

/// Returns every case, from small to large.
pub fn cases() -> Vec<Case> {
    let mut cases = single_operations();
    cases.extend(replicated());
    cases.extend(collisions());
    cases.extend(thin_indexes());
    cases
}

/// Returns a case with one operation that every replex can refuse, in which two failures are
/// tolerated.
fn far(replexes: usize) -> Case {
    let constraints: Vec<usize> = (2..=replexes).collect();
    Case {
        last_voter: replexes,
        operations: inserts(1, &constraints, replexes),
        ..single("", "one operation, constraints everywhere", replexes, 2)
    }
}

fn single_operations() -> Vec<Case> {
    let one = single("one", "one operation", 3, 1);
    vec![
        Case {
            name: "restarts-of-one",
            about: "one operation that may wait everywhere",
            faults: faults(3, 0, 0),
            lookups: true,
            ..one.clone()
        },
        one,
        single("one-at-head", "one operation", 3, 2),
        Case {
            last_voter: 1,
            operations: inserts(1, &[], 3),
            lookups: true,
            faults: faults(1, 2, 1),
            ..single("one-free", "one operation, no constraints", 3, 2)
        },
        Case {
            name: "one-far",
            ..far(3)
        },
        Case {
            faults: faults(1, 3, 0),
            ..single("one-long", "one operation", 4, 2)
        },
        Case {
            name: "one-long-far",
            faults: faults(1, 2, 0),
            ..far(4)
        },
    ]
}

fn replicated() -> Vec<Case> {
    vec![
        in_memory("memory", single("", "one operation", 3, 1), 3),
        Case {
            faults: faults(2, 2, 0),
            ..in_memory("memory-lost", single("", "one operation", 3, 1), 0)
        },
        Case {
            faults: faults(2, 3, 0),
            ..in_memory("memory-lost-at-head", single("", "one operation", 3, 2), 0)
        },
        Case {
            faults: faults(2, 3, 0),
            ..in_memory("memory-lost-far", far(3), 0)
        },
        in_memory("memory-at-head", single("", "one operation", 3, 2), 3),
        in_memory("memory-far", far(3), 3),
        in_memory("memory-long", single("", "one operation", 4, 2), 3),
        in_memory("memory-long-far", far(4), 3),
        Case {
            tolerated: 3,
            faults: faults(1, 3, 0),
            ..in_memory("memory-lost-furthest", far(4), 0)
        },
    ]
}

fn collisions() -> Vec<Case> {
    let two = "two inserts of one key";
    vec![
        Case {
            about: "two inserts of one key; lost members are replaced",
            replaced: true,
            ..pair("replaced", two, 1, faults(1, 1, 0))
        },
        pair("pair", two, 1, faults(1, 1, 0)),
        pair("pair-restarts", two, 1, faults(2, 0, 1)),
        in_memory("memory-of-pair", pair("", two, 1, faults(0, 0, 0)), 2),
        in_memory(
            "memory-of-pair-at-head",
            pair("", two, 2, faults(0, 0, 0)),
            2,
        ),
        pair("pair-at-head", two, 2, faults(1, 2, 0)),
        long_pair("long", two, 1, faults(1, 1, 0)),
        long_pair("long-far", two, 2, faults(1, 1, 0)),
        moves("move", faults(0, 1, 0)),
        moves("move-restarts", faults(1, 0, 0)),
        triple("triple", faults(0, 1, 0)),
        triple("triple-restarts", faults(1, 0, 0)),
    ]
}

fn thin_indexes() -> Vec<Case> {
    let one = |tolerated| single("", "one operation with a thin index", 3, tolerated);
    let moved = || single("", "one operation that moves an entry", 3, 1);
    let memory = |tolerated| in_memory("", one(tolerated), 0);
    let two = "two inserts of one key with a thin index";
    let both = || pair("", two, 1, faults(0, 0, 0));
    let replaced = Case {
        replaced: true,
        ..one(1)
    };
    let short = single("", "one operation with a thin index", 2, 1);
    let long = single("", "one operation with a thin index", 4, 2);
    let free = Case {
        last_voter: 1,
        operations: inserts(1, &[], 3),
        ..single("", "one operation with a thin index, no constraints", 3, 1)
    };
    vec![
        with_sides("thin", one(1), &["Side"], faults(2, 1, 0)),
        with_sides("thin-lost", one(1), &["Side"], faults(1, 2, 0)),
        with_sides("thin-at-head", one(2), &["Side"], faults(1, 2, 0)),
        with_sides("thin-short", short, &["Side"], faults(2, 1, 0)),
        with_sides("thin-moved", moved(), &["Old", "New"], faults(1, 1, 0)),
        with_sides("thin-replaced", replaced, &["Side"], faults(1, 1, 0)),
        with_sides("thin-memory", memory(1), &["Side"], faults(3, 0, 0)),
        with_sides("thin-memory-lost", memory(1), &["Side"], faults(1, 1, 0)),
        with_sides("thin-memory-at-head", memory(2), &["Side"], faults(2, 1, 0)),
        with_sides(
            "thin-memory-free",
            in_memory("", free, 0),
            &["Side"],
            faults(2, 1, 0),
        ),
        with_sides(
            "thin-memory-long",
            in_memory("", long, 0),
            &["Side"],
            faults(2, 0, 0),
        ),
        with_sides("thin-pair", both(), &["Side"], faults(1, 1, 0)),
        with_sides("thin-pair-restarts", both(), &["Side"], faults(1, 0, 0)),
    ]
}

/// Returns the case of this name.
pub fn named(name: &str) -> Option<Case> {
    cases().into_iter().find(|case| case.name == name)
}
