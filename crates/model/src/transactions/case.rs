//! The cases of the model of transactions: two rows in two tables, cores with copies of them,
//! transactions that change or check one or both rows, and the faults that may happen.

/// An upper bound for the number of transactions in a case.
pub const TRANSACTIONS_MAX: usize = 3;
/// Row x, of table A, as a set of rows or of tables.
pub const X: u8 = 1;
/// Row y, of table B, as a set of rows or of tables.
pub const Y: u8 = 2;

/// The way from the evaluated transaction to its decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecisionWay {
    /// The last primary sends the prepare to all members at once, and decides. Clients may see the
    /// commit as soon as all votes are durable, and an abort once it is durable itself.
    AllVotes,
    /// The last primary sends the prepare to all members at once, and decides. Clients may see the
    /// commit once the decision is durable, and an abort at once.
    Decision,
    /// The prepare goes from member to member, first to the primaries, and the decision goes back
    /// the same way. Clients may see an outcome once the first member has it.
    Chain,
}

/// A transaction of a case.
#[derive(Clone, Debug)]
pub struct CaseTransaction {
    /// The name in traces.
    pub name: &'static str,
    /// The request that the transaction runs. Two transactions with one request are two attempts.
    pub request: u8,
    /// The rows that it changes, as a set.
    pub changes: u8,
    /// The rows that it has read and checks, as a set.
    pub checks: u8,
    /// Whether it reads the rows that it checks at their last copies, instead of the primaries.
    pub reads_at_copy: bool,
    /// Whether the last copies judge its checks, instead of the primaries.
    pub checks_at_copy: bool,
    /// Whether its walk visits the primaries in the wrong order, if the case's bug says so.
    pub backwards: bool,
    /// The way to its decision.
    pub way: DecisionWay,
}

/// One small cluster.
#[derive(Clone, Debug)]
pub struct TransactionCase {
    /// The name on the command line.
    pub name: &'static str,
    /// The course of the case, in words.
    pub about: &'static str,
    /// Names of the cores.
    pub cores: &'static [&'static str],
    /// By row: the cores with a copy, the primary first.
    pub copies: [&'static [usize]; 2],
    /// The transactions of the case.
    pub transactions: Vec<CaseTransaction>,
    /// The core that may refuse a change because of a constraint.
    pub refuses: Option<usize>,
    /// The number of servers that may be lost.
    pub losses: u8,
    /// The number of restarts that may happen.
    pub crashes: u8,
    /// Whether members vote before their log is durable, so that a restart loses all memory.
    pub is_volatile: bool,
    /// Whether another client reads two rows, one after the other.
    pub reads: bool,
    /// Whether every transaction must commit that begins.
    pub must_commit: bool,
    /// Whether primaries may drop walks at any time.
    pub drops_walks: bool,
    /// Whether a coordinator may give up a transaction that it has not decided.
    pub gives_up: bool,
}

/// Returns a transaction that changes rows and checks none.
fn changing(name: &'static str, request: u8, changes: u8) -> CaseTransaction {
    CaseTransaction {
        name,
        request,
        changes,
        checks: 0,
        reads_at_copy: false,
        checks_at_copy: false,
        backwards: false,
        way: DecisionWay::AllVotes,
    }
}

/// Returns the same transactions on another way.
fn on_way(way: DecisionWay, transactions: &[CaseTransaction]) -> Vec<CaseTransaction> {
    let mut transactions = transactions.to_vec();
    for transaction in &mut transactions {
        transaction.way = way;
    }
    transactions
}

/// Returns the cases of one transaction that only changes rows, and of its attempts.
fn changing_cases(one: &TransactionCase) -> Vec<TransactionCase> {
    let t = changing("T", 1, X | Y);
    vec![
        one.clone(),
        TransactionCase {
            name: "tx-lost-twice",
            about: "a transaction; each of its two tables may lose a server",
            losses: 2,
            ..one.clone()
        },
        TransactionCase {
            name: "tx-resent",
            about: "a transaction that its client sends again; a server is lost, a core restarts",
            transactions: vec![t.clone(), changing("T again", 1, X | Y)],
            ..one.clone()
        },
        TransactionCase {
            name: "tx-one-row",
            about: "two transactions of row x alone; a server is lost, a core restarts",
            transactions: vec![changing("T", 1, X), changing("U", 2, X)],
            ..one.clone()
        },
        TransactionCase {
            name: "tx-one-row-resent",
            about: "a transaction of row x alone that its client sends again; a server is lost",
            transactions: vec![changing("T", 1, X), changing("T again", 1, X)],
            crashes: 0,
            drops_walks: true,
            gives_up: true,
            ..one.clone()
        },
        TransactionCase {
            name: "tx-single",
            about: "a transaction, and one of row x alone; a server is lost, a core restarts",
            transactions: vec![t, changing("O", 2, X)],
            ..one.clone()
        },
        TransactionCase {
            name: "tx-far",
            about: "a transaction; row x has three copies and y two; servers of both are lost",
            cores: &["A1", "A2", "A3", "B1", "B2"],
            copies: [&[0, 1, 2], &[3, 4]],
            losses: 2,
            crashes: 2,
            gives_up: true,
            ..one.clone()
        },
    ]
}

/// Returns the cases of two transactions that change the same rows.
fn colliding_cases(one: &TransactionCase) -> Vec<TransactionCase> {
    let [t, u] = [changing("T", 1, X | Y), changing("U", 2, X | Y)];
    let backwards = true;
    let two = vec![t, CaseTransaction { backwards, ..u }];
    vec![
        TransactionCase {
            name: "tx-collide",
            about: "two transactions over the same two rows; cores restart",
            transactions: two.clone(),
            losses: 0,
            crashes: 2,
            ..one.clone()
        },
        TransactionCase {
            name: "tx-collide-lost",
            about: "two transactions over the same two rows; a server is lost, a core restarts",
            transactions: two.clone(),
            ..one.clone()
        },
        TransactionCase {
            name: "tx-collide-lost-twice",
            about: "two transactions over the same two rows, both tables may lose a server",
            transactions: two.clone(),
            losses: 2,
            gives_up: true,
            ..one.clone()
        },
        TransactionCase {
            name: "tx-hot",
            about: "two transactions over the same two rows, without faults: both commit",
            transactions: two.clone(),
            losses: 0,
            crashes: 0,
            must_commit: true,
            ..one.clone()
        },
        TransactionCase {
            name: "tx-hot-read",
            about: "two transactions over the same two rows, and a client reads both rows",
            transactions: two.clone(),
            losses: 0,
            crashes: 0,
            reads: true,
            must_commit: true,
            ..one.clone()
        },
        TransactionCase {
            name: "tx-single-copies",
            about: "two transactions over rows that have one copy each; a core restarts",
            cores: &["A1", "B1"],
            copies: [&[0], &[1]],
            transactions: two.clone(),
            losses: 0,
            gives_up: true,
            ..one.clone()
        },
        TransactionCase {
            name: "tx-both",
            about: "two transactions; a core has the primary of x and a copy of y",
            cores: &["AB", "A2", "B1"],
            copies: [&[0, 1], &[2, 0]],
            transactions: two,
            ..one.clone()
        },
    ]
}

/// Returns the cases of a copy that may refuse, so that commits need a durable decision.
fn refused_cases(one: &TransactionCase) -> Vec<TransactionCase> {
    let t = changing("T", 1, X | Y);
    vec![
        TransactionCase {
            name: "tx-refused",
            about: "a transaction that a copy may refuse; a server is lost, a core restarts",
            transactions: on_way(DecisionWay::Decision, &[t]),
            refuses: Some(1),
            ..one.clone()
        },
        TransactionCase {
            name: "tx-late",
            about: "a transaction that its coordinator may give up; copies of messages come late",
            transactions: on_way(DecisionWay::Decision, &[changing("T", 1, X | Y)]),
            losses: 0,
            crashes: 0,
            gives_up: true,
            ..one.clone()
        },
        TransactionCase {
            name: "tx-refused-twice",
            about: "a transaction that a copy may refuse; each of its tables may lose a server",
            transactions: on_way(DecisionWay::Decision, &[changing("T", 1, X | Y)]),
            refuses: Some(1),
            losses: 2,
            ..one.clone()
        },
    ]
}

/// Returns the cases of transactions that check rows.
fn checking_cases(one: &TransactionCase) -> Vec<TransactionCase> {
    let skew = |name, request, changes, checks| CaseTransaction {
        checks,
        way: DecisionWay::Decision,
        ..changing(name, request, changes)
    };
    let read_at_copy = |transaction| CaseTransaction {
        reads_at_copy: true,
        ..transaction
    };
    let checked_at_copy = |transaction| CaseTransaction {
        checks_at_copy: true,
        ..transaction
    };
    vec![
        TransactionCase {
            name: "tx-skew",
            about: "two transactions, each changes one row and checks the other; cores restart",
            transactions: vec![skew("T", 1, X, Y), skew("U", 2, Y, X)],
            losses: 0,
            crashes: 2,
            ..one.clone()
        },
        TransactionCase {
            name: "tx-skew-lost",
            about: "two transactions, each changes one row and checks the other; a server is lost",
            transactions: vec![skew("T", 1, X, Y), skew("U", 2, Y, X)],
            ..one.clone()
        },
        TransactionCase {
            name: "tx-skew-copies",
            about: "the same, with checks at copies and a read at one",
            transactions: vec![
                checked_at_copy(read_at_copy(skew("T", 1, X, Y))),
                checked_at_copy(skew("U", 2, Y, X)),
            ],
            losses: 0,
            crashes: 2,
            ..one.clone()
        },
        TransactionCase {
            name: "tx-read",
            about: "a transaction checks what another one changes, and a client reads both rows",
            transactions: vec![skew("T", 1, X, Y), changing("W", 2, Y)],
            losses: 0,
            reads: true,
            ..one.clone()
        },
        TransactionCase {
            name: "tx-read-lost",
            about: "the same; a server is lost that may still answer reads",
            transactions: vec![skew("T", 1, X, Y), changing("W", 2, Y)],
            crashes: 0,
            reads: true,
            ..one.clone()
        },
        TransactionCase {
            name: "tx-checked",
            about: "a transaction checks what another one changes, on two ways to a decision",
            transactions: vec![skew("T", 1, X, Y), changing("U", 2, X | Y)],
            ..one.clone()
        },
    ]
}

/// Returns the cases of tables whose members vote before their log is durable.
fn volatile_cases(one: &TransactionCase) -> Vec<TransactionCase> {
    let [t, u] = [changing("T", 1, X | Y), changing("U", 2, X | Y)];
    let volatile = TransactionCase {
        is_volatile: true,
        ..one.clone()
    };
    vec![
        TransactionCase {
            name: "tx-memory",
            about: "a transaction; cores lose their memory, a server is lost",
            crashes: 2,
            ..volatile.clone()
        },
        TransactionCase {
            name: "tx-memory-decided",
            about: "a transaction that needs a durable decision; cores lose their memory",
            transactions: on_way(DecisionWay::Decision, std::slice::from_ref(&t)),
            refuses: Some(1),
            crashes: 2,
            ..volatile.clone()
        },
        TransactionCase {
            name: "tx-memory-lost-twice",
            about: "a transaction, and one of row x alone; two cores lose their memory, two servers are lost",
            transactions: vec![t.clone(), changing("O", 2, X)],
            losses: 2,
            crashes: 2,
            ..volatile.clone()
        },
        TransactionCase {
            name: "tx-memory-read",
            about: "a transaction checks what another one changes, a client reads; a core loses its memory",
            transactions: vec![
                CaseTransaction {
                    checks: Y,
                    way: DecisionWay::Decision,
                    ..changing("T", 1, X)
                },
                changing("W", 2, Y),
            ],
            losses: 0,
            reads: true,
            ..volatile.clone()
        },
        TransactionCase {
            name: "tx-memory-resent",
            about: "a transaction that its client sends again; a core loses its memory",
            transactions: vec![t.clone(), changing("T again", 1, X | Y)],
            losses: 0,
            ..volatile.clone()
        },
        TransactionCase {
            name: "tx-memory-collide",
            about: "two transactions over the same two rows; cores lose their memory",
            transactions: vec![t, u],
            losses: 0,
            crashes: 2,
            ..volatile
        },
    ]
}

/// Returns the cases of the alternative, which is not built: a chain with complete prepares.
fn chained_cases(one: &TransactionCase) -> Vec<TransactionCase> {
    let two = [changing("T", 1, X | Y), changing("U", 2, X | Y)];
    vec![
        TransactionCase {
            name: "tx-chain",
            about: "a transaction down a chain; each of its tables may lose a server",
            transactions: on_way(DecisionWay::Chain, &two[..1]),
            losses: 2,
            ..one.clone()
        },
        TransactionCase {
            name: "tx-chain-refused",
            about: "a transaction down a chain that a copy may refuse; two servers are lost",
            transactions: on_way(DecisionWay::Chain, &two[..1]),
            refuses: Some(1),
            losses: 2,
            ..one.clone()
        },
        TransactionCase {
            name: "tx-chain-collide",
            about: "two transactions down chains; a server is lost, a core restarts",
            transactions: on_way(DecisionWay::Chain, &two),
            ..one.clone()
        },
    ]
}

/// Returns every case, from small to large.
pub fn cases() -> Vec<TransactionCase> {
    let one = TransactionCase {
        name: "tx",
        about: "a transaction over two tables; a server is lost, a core restarts",
        cores: &["A1", "A2", "B1", "B2"],
        copies: [&[0, 1], &[2, 3]],
        transactions: vec![changing("T", 1, X | Y)],
        refuses: None,
        losses: 1,
        crashes: 1,
        is_volatile: false,
        reads: false,
        must_commit: false,
        drops_walks: false,
        gives_up: false,
    };
    let mut cases = changing_cases(&one);
    cases.extend(colliding_cases(&one));
    cases.extend(refused_cases(&one));
    cases.extend(checking_cases(&one));
    cases.extend(volatile_cases(&one));
    cases.extend(chained_cases(&one));
    cases
}

/// Returns the case of this name.
pub fn named(name: &str) -> Option<TransactionCase> {
    cases().into_iter().find(|case| case.name == name)
}
