//! The cases of the model of seals: two tables, cores that hold one or both of them, operations on
//! one or both, and the events that may happen.

/// An upper bound for the number of operations in a case.
pub const OPERATIONS_MAX: usize = 2;
/// Table A, as a set of tables.
pub const A: u8 = 1;
/// Table B, as a set of tables.
pub const B: u8 = 2;

/// The way in which an operation reaches its members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Down a chain, whose last member decides.
    Chain,
    /// From the member at this index to all others, whose votes it collects.
    Fanned(usize),
}

/// An operation of a case: its tables and its members.
#[derive(Clone, Debug)]
pub struct SealedOperation {
    /// The name of the operation in traces.
    pub name: &'static str,
    /// The operation's tables, as a set.
    pub tables: u8,
    /// The cores that take part, in the order of the chain if there is one.
    pub members: &'static [usize],
    /// The way in which the operation reaches the members.
    pub way: Way,
}

/// One small cluster.
#[derive(Clone, Debug)]
pub struct SealCase {
    /// The name on the command line.
    pub name: &'static str,
    /// The course of the case, in words.
    pub about: &'static str,
    /// Names of the cores.
    pub cores: &'static [&'static str],
    /// For each core, the tables of which it holds partitions, as a set.
    pub holds: &'static [u8],
    /// The operations of the case.
    pub operations: Vec<SealedOperation>,
    /// The number of servers that may be lost.
    pub losses: u8,
    /// The number of seals without a loss that may happen.
    pub changes: u8,
    /// The core that may vote no.
    pub refuses: Option<usize>,
}

/// Returns an operation over both tables.
fn over_both(members: &'static [usize], coordinator: usize) -> SealedOperation {
    SealedOperation {
        name: "X",
        tables: A | B,
        members,
        way: Way::Fanned(coordinator),
    }
}

/// Returns an operation of one table.
fn chain(name: &'static str, tables: u8, members: &'static [usize]) -> SealedOperation {
    SealedOperation {
        name,
        tables,
        members,
        way: Way::Chain,
    }
}

/// Returns every case, from small to large.
pub fn cases() -> Vec<SealCase> {
    let one = SealCase {
        name: "seals",
        about: "seals; an operation over two tables, begun by a core of B; one server is lost",
        cores: &["A1", "A2", "B1", "B2"],
        holds: &[A, A, B, B],
        operations: vec![over_both(&[0, 1, 2, 3], 2)],
        losses: 1,
        changes: 0,
        refuses: None,
    };
    vec![
        one.clone(),
        SealCase {
            name: "seals-changed",
            about: "seals; an operation over two tables, one or both of which just change",
            losses: 0,
            changes: 2,
            ..one.clone()
        },
        SealCase {
            name: "seals-refused",
            about: "seals; an operation over two tables that a member may refuse",
            refuses: Some(1),
            losses: 2,
            ..one.clone()
        },
        SealCase {
            name: "seals-both",
            about: "seals; an operation over two tables, each of which may lose a server",
            losses: 2,
            changes: 1,
            ..one.clone()
        },
        SealCase {
            name: "seals-beside",
            about: "seals; an operation over two tables and one of B alone, a core holds both",
            cores: &["A1", "Both", "B1", "B2"],
            holds: &[A, A | B, B, B],
            operations: vec![over_both(&[0, 1, 2], 0), chain("O", B, &[2, 1, 3])],
            changes: 1,
            ..one.clone()
        },
        SealCase {
            name: "seals-chains",
            about: "seals; an operation of each table alone, a core holds both",
            cores: &["A1", "A2", "Both", "B1", "B2"],
            holds: &[A, A, A | B, B, B],
            operations: vec![chain("N", A, &[0, 2, 1]), chain("O", B, &[3, 2, 4])],
            changes: 1,
            ..one.clone()
        },
        SealCase {
            name: "seals-far",
            about: "seals; an operation over two tables on five cores, one of which holds both",
            cores: &["A1", "A2", "Both", "B1", "B2"],
            holds: &[A, A, A | B, B, B],
            operations: vec![over_both(&[0, 1, 2, 3, 4], 2)],
            losses: 2,
            changes: 1,
            ..one
        },
    ]
}

/// Returns the case of this name.
pub fn named(name: &str) -> Option<SealCase> {
    cases().into_iter().find(|case| case.name == name)
}
