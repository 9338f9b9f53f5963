-- What CHECK constraints refuse, by every kind of change, and what is not possible in one.
CREATE TABLE accounts (
  id bigint PRIMARY KEY CHECK (id > 0),
  owner text UNIQUE,
  balance bigint CHECK (balance >= 0) CHECK (balance < 1000),
  credit bigint NOT NULL DEFAULT 0,
  CHECK (credit <= balance * 2),
  CONSTRAINT has_owner CHECK (balance = 0 OR owner IS NOT NULL)
) WITH (partitions = 3, failures_tolerated = 1);
SHOW TABLE accounts;
INSERT INTO accounts VALUES (1, 'ann', 100), (2, 'ben', 10), (3, NULL, 0);
INSERT INTO accounts VALUES (0, 'zoe', 1);
INSERT INTO accounts VALUES (4, 'zoe', -1);
INSERT INTO accounts VALUES (4, NULL, 5);
INSERT INTO accounts VALUES (4, NULL, NULL, 7);
INSERT INTO accounts VALUES (5, 'dan', 1), (6, 'eve', 5000);
UPDATE accounts SET balance = balance - 50 WHERE id = 2;
UPDATE accounts SET balance = balance - 50 WHERE id IN (1, 2);
UPDATE accounts SET owner = NULL WHERE id = 1;
UPDATE accounts SET credit = 21 WHERE id = 2;
UPDATE accounts SET credit = 20 WHERE id = 2;
INSERT INTO accounts VALUES (1, 'ann', 2000) ON CONFLICT (id) DO NOTHING;
INSERT INTO accounts VALUES (1, 'ann', 2000) ON CONFLICT (id) DO UPDATE SET balance = 3;
INSERT INTO accounts VALUES (1, 'ann', 950) ON CONFLICT (id) DO UPDATE SET balance = accounts.balance + excluded.balance;
BEGIN; UPDATE accounts SET balance = balance - 100 WHERE id = 1; UPDATE accounts SET balance = balance - 1 WHERE id = 1;
BEGIN; UPDATE accounts SET balance = balance - 100 WHERE id = 1; UPDATE accounts SET balance = balance + 7 WHERE id = 1; COMMIT;
SELECT * FROM accounts ORDER BY id;
CREATE TABLE t (id bigint PRIMARY KEY, at timestamp CHECK (at < now()));
CREATE TABLE t (id bigint PRIMARY KEY, name text CHECK (length(name) < 3));
CREATE TABLE t (id bigint PRIMARY KEY, CHECK (id IN (SELECT id FROM accounts)));
CREATE TABLE t (id bigint PRIMARY KEY, CHECK (id + 1));
CREATE TABLE t (id bigint PRIMARY KEY, CHECK (missing > 1));
CREATE TABLE t (id bigint PRIMARY KEY, CONSTRAINT a CHECK (id > 1), CONSTRAINT a CHECK (id > 2));
CREATE TABLE t (id bigint PRIMARY KEY CHECK (id > 1) NO INHERIT);
DROP TABLE accounts;
