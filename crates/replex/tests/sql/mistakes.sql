-- Every statement here is wrong; each error names the thing and the remedy.
CREATE TABLE fragile (id bigint PRIMARY KEY, name text, INDEX by_name (name))
  WITH (failures_tolerated = 9);
CREATE TABLE t (id bigint PRIMARY KEY, name text, score bigint, INDEX by_name (name))
  WITH (partitions = 3, failures_tolerated = 1);
SELECT * FROM nowhere WHERE id = 1;
SELECT nothing FROM t WHERE id = 1;
SELECT * FROM t WHERE score = 1;
SELECT * FROM t WHERE id = 'one';
INSERT INTO t VALUES (NULL, 'a', 1);
INSERT INTO t VALUES (1, 'a', 'many');
INSERT INTO t (id, name) VALUES (1, 'a'), (1, 'b');
UPDATE t SET id = 2 WHERE id = 1;
SELEC * FROM t;
SELECT * FROM t WHERE (id = 1;
CREATE INDEX late ON t USING replex (score) WITH (constraint = 'dense');
DROP TABLE t;
DROP TABLE t;
