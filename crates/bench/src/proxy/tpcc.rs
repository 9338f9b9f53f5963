//! The tables of TPC-C, and the transactions that the paper mixes (its Table 6) as scripts for
//! pgbench.
//!
//! They follow revision 5.11 of TPC-C, with these differences: Databases are small. Customers are
//! always found by number. Orders have ten lines, which is the mean. No order is remote or is
//! rolled back. Terminals do not pause before the next transaction. Delivery is in none of the
//! paper's mixes.

use std::fmt::Write;

/// The further reads of New-Order: TPC-C has it read the warehouse's and the customer's rates and
/// each item's price.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TpccReads {
    /// None of these reads, for measurements of writes.
    None,
    /// All of these reads, after the transaction's first write.
    All,
}

/// The paper has 500; with one, every payment waits for the one before.
const WAREHOUSES: u64 = 10;
const DISTRICTS: u64 = 10;
/// Of each district; TPC-C has 3,000.
const CUSTOMERS: u64 = 300;
/// TPC-C has 100,000.
const ITEMS: u64 = 2_000;
const LINES: u64 = 10;

/// Returns the script of TPC-C section 2.6: a customer, the last order, and its lines.
pub fn order_status() -> String {
    format!(
        "\\set w random(1, {WAREHOUSES})\n\
         \\set d random(1, {DISTRICTS})\n\
         \\set c random(1, {CUSTOMERS})\n\
         BEGIN;\n\
         SELECT balance, data FROM customer WHERE w_id = :w AND d_id = :d AND c_id = :c;\n\
         SELECT max(o_id) AS o FROM orders WHERE w_id = :w AND d_id = :d AND c_id = :c \\gset\n\
         SELECT i_id, supply_w_id, quantity, amount FROM order_line \
         WHERE w_id = :w AND d_id = :d AND o_id = :o;\n\
         COMMIT;\n"
    )
}

/// Returns the script of TPC-C section 2.8: of the items in a district's last twenty orders, how
/// many are nearly out of stock.
pub fn stock_level() -> String {
    format!(
        "\\set w random(1, {WAREHOUSES})\n\
         \\set d random(1, {DISTRICTS})\n\
         \\set least random(10, 20)\n\
         BEGIN;\n\
         SELECT next_o_id AS next FROM district WHERE w_id = :w AND d_id = :d \\gset\n\
         SELECT count(DISTINCT s.i_id) FROM order_line l JOIN stock s ON s.w_id = :w AND s.i_id = l.i_id \
         WHERE l.w_id = :w AND l.d_id = :d AND l.o_id >= :next - 20 AND l.o_id < :next \
         AND s.quantity < :least;\n\
         COMMIT;\n"
    )
}

/// Returns the script of TPC-C section 2.4. It locks the stock in the order of items, so
/// transactions cannot deadlock.
pub fn new_order(reads: TpccReads) -> String {
    let mut text = format!(
        "\\set w random(1, {WAREHOUSES})\n\
         \\set d random(1, {DISTRICTS})\n\
         \\set c random(1, {CUSTOMERS})\n"
    );
    let (mut items, mut lines) = (Vec::new(), Vec::new());
    for line in 1..=LINES {
        let _ = writeln!(text, "\\set i{line} random(1, {ITEMS})");
        let _ = writeln!(text, "\\set q{line} random(1, 10)");
        items.push(format!(":i{line}"));
        lines.push(format!(
            "(:w, :d, :o, {line}, :i{line}, :w, :q{line}, :q{line} * 1.5, 'dist {line}')"
        ));
    }
    let (items, lines) = (items.join(", "), lines.join(", "));
    let reads = match reads {
        TpccReads::None => String::new(),
        TpccReads::All => format!(
            "SELECT name FROM warehouse WHERE w_id = :w;\n\
             SELECT data FROM customer WHERE w_id = :w AND d_id = :d AND c_id = :c;\n\
             SELECT i_id, price, name FROM item WHERE i_id IN ({items});\n"
        ),
    };
    let _ = write!(
        text,
        "BEGIN;\n\
         UPDATE district SET next_o_id = next_o_id + 1 WHERE w_id = :w AND d_id = :d \
         RETURNING next_o_id - 1 AS o \\gset\n\
         {reads}\
         INSERT INTO orders VALUES (:w, :d, :o, :c, now(), NULL, {LINES});\n\
         INSERT INTO new_order VALUES (:w, :d, :o);\n\
         SELECT count(*) FROM (SELECT FROM stock WHERE w_id = :w AND i_id IN ({items}) \
         ORDER BY i_id FOR UPDATE) locked;\n\
         UPDATE stock SET quantity = CASE WHEN quantity > 14 THEN quantity - 5 ELSE quantity + 86 END, \
         ytd = ytd + 5, order_cnt = order_cnt + 1 WHERE w_id = :w AND i_id IN ({items});\n\
         INSERT INTO order_line VALUES {lines};\n\
         COMMIT;\n"
    );
    text
}

/// Returns the script of TPC-C section 2.5.
pub fn payment() -> String {
    format!(
        "\\set w random(1, {WAREHOUSES})\n\
         \\set d random(1, {DISTRICTS})\n\
         \\set c random(1, {CUSTOMERS})\n\
         \\set amount random(1, 5000)\n\
         BEGIN;\n\
         UPDATE warehouse SET ytd = ytd + :amount WHERE w_id = :w;\n\
         UPDATE district SET ytd = ytd + :amount WHERE w_id = :w AND d_id = :d;\n\
         UPDATE customer SET balance = balance - :amount, ytd_payment = ytd_payment + :amount, \
         payment_cnt = payment_cnt + 1 WHERE w_id = :w AND d_id = :d AND c_id = :c;\n\
         INSERT INTO history (w_id, d_id, c_id, made, amount, data) \
         VALUES (:w, :d, :c, now(), :amount, 'warehouse    district');\n\
         COMMIT;\n"
    )
}

/// Returns the statements that make and fill all tables.
pub fn schema() -> String {
    format!(
        "CREATE TABLE warehouse (w_id int PRIMARY KEY, name text, ytd numeric NOT NULL);
         CREATE TABLE district (w_id int, d_id int, name text, ytd numeric NOT NULL,
             next_o_id int NOT NULL, PRIMARY KEY (w_id, d_id));
         CREATE TABLE customer (w_id int, d_id int, c_id int, balance numeric NOT NULL,
             ytd_payment numeric NOT NULL, payment_cnt int NOT NULL, data text,
             PRIMARY KEY (w_id, d_id, c_id));
         CREATE TABLE stock (w_id int, i_id int, quantity int NOT NULL, ytd int NOT NULL,
             order_cnt int NOT NULL, data text, PRIMARY KEY (w_id, i_id));
         CREATE TABLE item (i_id int PRIMARY KEY, price numeric NOT NULL, name text);
         CREATE TABLE orders (w_id int, d_id int, o_id int, c_id int, entered timestamptz,
             carrier int, lines int, PRIMARY KEY (w_id, d_id, o_id));
         CREATE TABLE new_order (w_id int, d_id int, o_id int, PRIMARY KEY (w_id, d_id, o_id));
         CREATE TABLE order_line (w_id int, d_id int, o_id int, number int, i_id int,
             supply_w_id int, quantity int, amount numeric, dist text,
             PRIMARY KEY (w_id, d_id, o_id, number));
         CREATE INDEX ON orders (w_id, d_id, c_id, o_id);
         CREATE TABLE history (h_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, w_id int,
             d_id int, c_id int, made timestamptz, amount numeric, data text);
         INSERT INTO warehouse SELECT w, 'name', 300000 FROM generate_series(1, {WAREHOUSES}) w;
         INSERT INTO district SELECT w, d, 'name', 30000, {CUSTOMERS} + 1
           FROM generate_series(1, {WAREHOUSES}) w, generate_series(1, {DISTRICTS}) d;
         INSERT INTO customer SELECT w, d, c, -10, 10, 1, repeat('data ', 60)
           FROM generate_series(1, {WAREHOUSES}) w, generate_series(1, {DISTRICTS}) d,
                generate_series(1, {CUSTOMERS}) c;
         INSERT INTO item SELECT i, i * 0.05, 'name' FROM generate_series(1, {ITEMS}) i;
         INSERT INTO stock SELECT w, i, 50, 0, 0, repeat('data ', 10)
           FROM generate_series(1, {WAREHOUSES}) w, generate_series(1, {ITEMS}) i;
         INSERT INTO orders SELECT w, d, c, c, now(), 1, {LINES}
           FROM generate_series(1, {WAREHOUSES}) w, generate_series(1, {DISTRICTS}) d,
                generate_series(1, {CUSTOMERS}) c;
         INSERT INTO order_line
           SELECT o.w_id, o.d_id, o_id, n, (o_id * 31 + n * 7) % {ITEMS} + 1, o.w_id, 5, 7.5, 'dist ' || n
             FROM orders o, generate_series(1, {LINES}) n;
         ANALYZE"
    )
}
