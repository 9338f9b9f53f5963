-- Columns of numeric: keys, indexes, rounding, and what they refuse.
CREATE TABLE bills (id numeric(12,0) PRIMARY KEY, amount numeric(10,2) NOT NULL DEFAULT 0.5, rate numeric, big decimal(4,-2), small dec(2,4), CHECK (amount >= 0), INDEX by_amount (amount), UNIQUE INDEX by_rate (rate)) WITH (partitions = 4, failures_tolerated = 1);
SHOW TABLE bills;
INSERT INTO bills VALUES (1, 1.005, 1.50, 149, 0.00005), (2, '19.999', 0.333333333333333333333, 150, 0.0099), (3, 7, 'NaN', -950, NULL), (1e11, 12345678.9, 1e25, NULL, 0), (4.5, DEFAULT, '-Infinity', 999949, 0.00989::numeric(3,5));
SELECT * FROM bills ORDER BY id;
SELECT id, rate FROM bills ORDER BY rate;
SELECT id, rate FROM bills ORDER BY rate DESC LIMIT 2;
SELECT id FROM bills WHERE id = 2.000;
SELECT id FROM bills WHERE id = 100000000000 AND amount > 1e7;
SELECT rate FROM bills WHERE rate = 1.5;
SELECT rate FROM bills WHERE rate IN (1.500, 'NaN', 7) ORDER BY rate;
SELECT id, amount FROM bills WHERE amount BETWEEN 1 AND 20.0 ORDER BY amount;
SELECT count(*), min(rate), max(rate), min(amount), max(amount * 2) FROM bills;
EXPLAIN SELECT amount FROM bills WHERE amount = 20;
EXPLAIN SELECT id FROM bills WHERE rate > 1.50 AND rate < 'Infinity';
EXPLAIN SELECT id FROM bills WHERE rate = 1.5::float8;
-- Equal numbers are one key, whatever their scales are.
INSERT INTO bills (id, rate) VALUES (9, 1.5000);
INSERT INTO bills (id, rate) VALUES (9, 'NaN');
INSERT INTO bills (id) VALUES (1.0);
UPDATE bills SET rate = 1.50000 WHERE id = 1;
SELECT rate FROM bills WHERE rate = 1.5;
-- Values that a column does not take.
INSERT INTO bills (id, amount) VALUES (9, 99999999.995);
INSERT INTO bills (id, amount) VALUES (9, 'Infinity');
INSERT INTO bills (id, amount) VALUES (9, -0.01);
INSERT INTO bills (id, small) VALUES (9, 0.00995);
INSERT INTO bills (id, amount) VALUES (9, 'many');
INSERT INTO bills (id, rate) VALUES (9, 1e131072);
UPDATE bills SET amount = amount * 1000 WHERE id = 100000000000;
UPDATE bills SET amount = amount / 0 WHERE id = 1;
CREATE TABLE t (a numeric(1001) PRIMARY KEY);
CREATE TABLE t (a numeric(5,2) PRIMARY KEY, b numeric(3,2) DEFAULT 10);
-- Arithmetic with the scales of PostgreSQL.
SELECT id, amount + 1 AS a, amount * rate AS b, amount / 3 AS c, amount % 1 AS d, -amount AS e FROM bills WHERE id < 3 ORDER BY id;
SELECT round(amount) AS a, round(rate, 2) AS b, trunc(amount, 1) AS c, ceil(amount) AS d, sign(big) AS e, scale(rate) AS f FROM bills WHERE id < 3 ORDER BY id;
SELECT amount::integer AS a, amount::float8 AS b, rate::real AS c, amount::text AS d, amount::numeric(6,1) AS e FROM bills WHERE id < 3 ORDER BY id;
SELECT 0.1 + 0.2 AS a, 1.5 * 2 AS b, 10 / 4.0 AS c, 2.5::int AS d, 1.10 = 1.1 AS e, 9223372036854775808 AS f;
UPDATE bills SET amount = amount * 1.1, rate = rate + 1 WHERE id = 2 RETURNING amount, rate;
DELETE FROM bills WHERE rate = 'NaN'::numeric RETURNING id, rate;
-- A thin index, a foreign key and an upsert.
CREATE TABLE rates (rate numeric PRIMARY KEY, note text, price numeric(8,3)) WITH (partitions = 4, failures_tolerated = 1);
CREATE INDEX by_price ON rates (price DESC) INCLUDE (note);
INSERT INTO rates VALUES (1.50, 'a', 2), (-0.5, 'b', 1.5), (0, 'c', -7.25);
INSERT INTO rates VALUES (1.5, 'd', 3.0005) ON CONFLICT (rate) DO UPDATE SET price = excluded.price, note = rates.note || excluded.note RETURNING *;
SELECT price, rate FROM rates WHERE price > 0 ORDER BY price DESC;
SELECT rate FROM rates ORDER BY price LIMIT 1;
CREATE TABLE uses (id int PRIMARY KEY, rate numeric(5,2) REFERENCES rates) WITH (partitions = 4, failures_tolerated = 1);
INSERT INTO uses VALUES (1, 1.5), (2, -0.500);
INSERT INTO uses VALUES (3, 1.51);
DELETE FROM rates WHERE rate = 1.5;
-- The entries of a thin index show the scale that the row has.
CREATE TABLE scales (id int PRIMARY KEY, n numeric, f float8) WITH (partitions = 4, failures_tolerated = 1);
CREATE INDEX by_n ON scales (n, f);
INSERT INTO scales VALUES (1, 1.5, 0), (2, 1.25, 1);
UPDATE scales SET n = 1.500, f = '-0' WHERE id = 1;
EXPLAIN SELECT n, f FROM scales WHERE n = 1.5;
SELECT n, f FROM scales WHERE n = 1.5;
SELECT sum(n), avg(n), sum(id::bigint), avg(id) FROM scales;
SELECT n = 1.5 AS same, count(*), sum(n) FROM scales GROUP BY n = 1.5 ORDER BY same;
DROP TABLE uses, rates, bills, scales;
