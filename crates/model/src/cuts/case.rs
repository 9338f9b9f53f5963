//! The cases of the model of drained cuts: two heads whose chains share no core, and the events
//! that may happen.

/// An upper bound for the number of cores in a case.
pub const CORES_MAX: usize = 5;
/// An upper bound for the number of operations in a case.
pub const OPERATIONS_MAX: usize = 3;
/// An upper bound for the length of a chain.
pub const PLACES_MAX: usize = 3;
/// An upper bound for the number of openings in a case.
pub const OPENINGS_MAX: usize = 2;

/// An operation that writes one row. Every core of the row's chain has a copy of the row.
#[derive(Clone, Copy, Debug)]
pub struct CutOperation {
    /// The name of the operation in traces.
    pub name: &'static str,
    /// The row, which determines the chain.
    pub row: usize,
}

/// One small cluster.
#[derive(Clone, Debug)]
pub struct CutCase {
    /// The name on the command line.
    pub name: &'static str,
    /// The course of the case, in words.
    pub about: &'static str,
    /// Names of the cores.
    pub cores: &'static [&'static str],
    /// The initial clock of each core.
    pub clocks: &'static [u8],
    /// The chain of each row, from the head on.
    pub chains: [&'static [usize]; 2],
    /// Operations. The operations of one row begin in this order.
    pub operations: &'static [CutOperation],
    /// The number of openings.
    pub openings: usize,
    /// The number of restarts.
    pub restarts: u8,
    /// The number of servers that may be lost.
    pub losses: u8,
    /// The number of versions by which a head's wall clock may jump ahead.
    pub jumps: u8,
    /// The number of times that a core's history may be full.
    pub trims: u8,
}

const O: CutOperation = CutOperation { name: "O", row: 0 };
const P: CutOperation = CutOperation { name: "P", row: 1 };
const Q: CutOperation = CutOperation { name: "Q", row: 0 };

/// Returns every case, from small to large.
pub fn cases() -> Vec<CutCase> {
    let mut cases = one_chain();
    cases.extend(two_chains());
    cases.extend(with_faults());
    cases
}

/// Returns two chains that share no core.
fn two() -> CutCase {
    CutCase {
        name: "cuts",
        about: "cuts; two heads, two operations of one row and one of another",
        cores: &["Head1", "Last1", "Head2", "Last2"],
        clocks: &[2, 0, 0, 0],
        chains: [&[0, 1], &[2, 3]],
        operations: &[O, P, Q],
        openings: 1,
        restarts: 0,
        losses: 0,
        jumps: 0,
        trims: 0,
    }
}

fn two_chains() -> Vec<CutCase> {
    let one = two();
    vec![
        CutCase {
            name: "cuts-of-two",
            about: "cuts; two heads, an operation of each",
            operations: &[O, P],
            ..one.clone()
        },
        one.clone(),
        CutCase {
            name: "cuts-trimmed",
            about: "cuts; two heads, an operation of each, history is full once",
            operations: &[O, P],
            trims: 1,
            ..one.clone()
        },
    ]
}

/// Returns cases with one chain, where restarts and losses are what there is to explore.
fn one_chain() -> Vec<CutCase> {
    let one = CutCase {
        cores: &["Head1", "Last1"],
        clocks: &[0, 0],
        chains: [&[0, 1], &[]],
        operations: &[O, Q],
        ..two()
    };
    vec![
        CutCase {
            name: "cuts-restarts-of-one",
            about: "cuts; one chain of two cores, both may restart",
            restarts: 2,
            ..one.clone()
        },
        CutCase {
            name: "cuts-lost-of-one",
            about: "cuts; one chain of two cores, one of which is lost",
            clocks: &[2, 0],
            losses: 1,
            ..one.clone()
        },
        CutCase {
            name: "cuts-overlap-of-one",
            about: "cuts; one chain of two cores, two openings that overlap",
            openings: 2,
            ..one
        },
    ]
}

fn with_faults() -> Vec<CutCase> {
    let one = two();
    vec![
        CutCase {
            name: "cuts-restart",
            about: "cuts; two heads, an operation of each, a core restarts",
            operations: &[O, P],
            restarts: 1,
            clocks: &[0, 0, 2, 0],
            ..one.clone()
        },
        CutCase {
            name: "cuts-lost",
            about: "cuts; two heads, an operation of each, a server is lost",
            operations: &[O, P],
            losses: 1,
            ..one.clone()
        },
        CutCase {
            name: "cuts-overlap",
            about: "cuts; two openings that overlap, an operation of each head",
            operations: &[O, P],
            clocks: &[0, 0, 2, 0],
            openings: 2,
            ..one.clone()
        },
        CutCase {
            name: "cuts-jump",
            about: "cuts; two heads, three operations, a wall clock jumps",
            clocks: &[0, 0, 0, 3],
            jumps: 1,
            ..one.clone()
        },
        CutCase {
            name: "cuts-restart-again",
            about: "cuts; two heads, three operations, a core restarts",
            restarts: 1,
            clocks: &[0, 0, 2, 0],
            ..one.clone()
        },
        CutCase {
            name: "cuts-again",
            about: "cuts; two openings that overlap, three operations",
            openings: 2,
            ..one.clone()
        },
        CutCase {
            name: "cuts-long",
            about: "cuts; a chain of three cores and one of two, a core restarts",
            cores: &["Head1", "Middle1", "Last1", "Head2", "Last2"],
            clocks: &[0, 0, 0, 2, 0],
            chains: [&[0, 1, 2], &[3, 4]],
            operations: &[O, P],
            restarts: 1,
            ..one
        },
    ]
}

/// Returns the case of this name.
pub fn named(name: &str) -> Option<CutCase> {
    cases().into_iter().find(|case| case.name == name)
}
