-- Transactions of several statements. Each line is one session.
CREATE TABLE accounts (
  id bigint PRIMARY KEY,
  owner text UNIQUE,
  balance bigint NOT NULL
) WITH (partitions = 3, failures_tolerated = 1);
CREATE TABLE entries (
  id bigint PRIMARY KEY,
  account bigint NOT NULL,
  amount bigint NOT NULL,
  INDEX by_account (account)
) WITH (partitions = 3, failures_tolerated = 1);
INSERT INTO accounts VALUES (1, 'ann', 100), (2, 'ben', 100), (3, NULL, 0);
BEGIN; UPDATE accounts SET balance = balance - 10 WHERE owner = 'ann'; UPDATE accounts SET balance = balance + 10 WHERE id = 2; INSERT INTO entries VALUES (1, 1, -10), (2, 2, 10); SELECT balance FROM accounts WHERE id IN (1, 2) ORDER BY id; COMMIT;
SELECT * FROM accounts ORDER BY id;
SELECT * FROM entries ORDER BY id;
BEGIN; DELETE FROM accounts WHERE id = 1; SELECT count(*) FROM accounts WHERE id = 1; ROLLBACK;
BEGIN; SAVEPOINT a; INSERT INTO entries VALUES (3, 1, 1); ROLLBACK TO SAVEPOINT a; INSERT INTO entries VALUES (4, 1, 1); RELEASE SAVEPOINT a; COMMIT;
BEGIN READ ONLY; SELECT count(*), max(balance) FROM accounts; SELECT id FROM entries WHERE account = 1 ORDER BY id; COMMIT;
BEGIN; INSERT INTO accounts VALUES (9, 'ann', 0); COMMIT;
BEGIN; INSERT INTO accounts VALUES (1, 'x', 0);
BEGIN; SELECT count(*) FROM accounts WHERE id > 1; UPDATE accounts SET balance = balance - 1 WHERE balance > 100; SELECT balance FROM accounts ORDER BY balance LIMIT 2; ROLLBACK;
BEGIN; SELECT id FROM entries WHERE account = 1 ORDER BY id; UPDATE entries SET amount = 7 WHERE account = 1; SELECT id, amount FROM entries WHERE account = 1 ORDER BY id; COMMIT;
BEGIN; CREATE TABLE t (id bigint PRIMARY KEY); ROLLBACK;
DROP TABLE t;
BEGIN READ ONLY; DELETE FROM accounts WHERE id = 1;
INSERT INTO accounts VALUES (4, 'cat', 0), (5, 'ann', 0);
UPDATE accounts SET balance = balance + 1 WHERE balance >= 0;
SELECT * FROM accounts ORDER BY id;
SAVEPOINT a;
COMMIT;
COMMIT AND CHAIN;
SELECT * FROM accounts WHERE id = 1 FOR UPDATE;
DROP TABLE accounts;
DROP TABLE entries;
