-- Further copies of every kind: made with their table, written, read, explained; and bad ones.
CREATE TABLE planes (
  id bigint PRIMARY KEY,
  tail text NOT NULL,
  origin text NOT NULL,
  seats bigint NOT NULL,
  INDEX by_tail (tail),
  INDEX h USING hybrid (planes, by_tail) WITH (divisions = '3,4')
) WITH (partitions = 12, failures_tolerated = 2); CREATE INDEX k ON planes USING hybrids_between (planes, by_tail) WITH (factors = '3,2,2'); CREATE INDEX c ON planes USING replica (by_tail); CREATE INDEX s ON planes USING hyperspace (tail, origin, seats) WITH (divisions = '2,3,2');
SHOW TABLE planes;
INSERT INTO planes VALUES (1, 'N1', 'EWR', 100), (2, 'N2', 'EWR', 20), (3, 'N3', 'JFK', 100), (4, 'N4', 'LGA', 7);
EXPLAIN SELECT * FROM planes WHERE tail = 'N1';
EXPLAIN SELECT id FROM planes WHERE origin = 'EWR' AND seats = 100;
SELECT id FROM planes WHERE origin = 'EWR' AND seats = 100;
SELECT id FROM planes WHERE seats = 100 ORDER BY id;
SELECT id FROM planes WHERE origin IN ('EWR', 'LGA') AND seats < 50 ORDER BY id;
SELECT count(*) FROM planes WHERE origin = 'EWR';
SELECT id FROM planes WHERE tail = 'N3' AND origin = 'JFK' AND seats = 100;
UPDATE planes SET tail = 'N9', seats = 101 WHERE id = 3;
SELECT id FROM planes WHERE seats = 100;
SELECT id FROM planes WHERE origin = 'JFK' AND seats = 101;
SELECT id FROM planes WHERE tail = 'N9';
DELETE FROM planes WHERE origin = 'LGA';
SELECT /*+ scan */ id, tail FROM planes ORDER BY id;
SELECT id FROM planes WHERE seats > 5;
DROP INDEX by_tail;
CREATE TABLE t (id bigint PRIMARY KEY, a text, INDEX by_a (a), INDEX h USING hybrid (t, by_a) WITH (divisions = '5,4'));
CREATE TABLE t (id bigint PRIMARY KEY, a text, INDEX by_a (a), INDEX h USING hybrid (t, by_a) WITH (divisions = '3,3'));
CREATE TABLE t (id bigint PRIMARY KEY, a text, INDEX by_a (a), INDEX h USING hybrid (t, by_b) WITH (divisions = '3,4'));
CREATE TABLE t (id bigint PRIMARY KEY, a text, INDEX by_a (a), INDEX h USING hybrid (by_a) WITH (divisions = '12'));
CREATE TABLE t (id bigint PRIMARY KEY, a text, INDEX x (a), INDEX y (a), INDEX h USING hybrid (x, y) WITH (divisions = '3,4'));
CREATE TABLE t (id bigint PRIMARY KEY, a text, INDEX r USING replica (t), INDEX r USING replica (t));
CREATE TABLE t (id bigint PRIMARY KEY, a text, INDEX by_a (a), INDEX h USING hybrid (t, by_a) WITH (divisions = '3,4')) WITH (failures_tolerated = 3);
CREATE TABLE t (id bigint PRIMARY KEY, a text, INDEX r USING replica (t)) WITH (failures_tolerated = 63);
