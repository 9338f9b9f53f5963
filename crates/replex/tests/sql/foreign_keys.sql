-- Foreign keys: what is refused, by every kind of change, and what the definitions show.
CREATE TABLE teams (
  id bigint PRIMARY KEY,
  name text UNIQUE
) WITH (partitions = 3, failures_tolerated = 1);
CREATE TABLE workers (
  id bigint PRIMARY KEY,
  team bigint REFERENCES teams,
  boss bigint,
  CONSTRAINT has_boss FOREIGN KEY (boss) REFERENCES workers (id) ON DELETE RESTRICT,
  INDEX by_team (team)
) WITH (partitions = 3, failures_tolerated = 1);
SHOW TABLE workers;
SHOW TABLE teams;
INSERT INTO teams VALUES (1, 'red'), (2, 'blue'), (3, 'green');
INSERT INTO workers VALUES (1, 1, NULL), (2, 1, 1), (3, NULL, 2), (4, 2, 4);
INSERT INTO workers VALUES (5, 9, NULL);
INSERT INTO workers VALUES (5, 1, NULL), (6, 1, 99);
UPDATE workers SET team = 9 WHERE id = 3;
UPDATE workers SET team = 2 WHERE id = 3;
UPDATE workers SET team = team + 1 WHERE team = 2;
INSERT INTO workers VALUES (1, 9, NULL) ON CONFLICT (id) DO NOTHING;
INSERT INTO workers VALUES (1, 9, NULL) ON CONFLICT (id) DO UPDATE SET team = excluded.team;
INSERT INTO workers VALUES (7, 3, NULL) ON CONFLICT DO NOTHING;
UPDATE teams SET name = 'crimson' WHERE id = 1;
DELETE FROM teams WHERE id = 1;
DELETE FROM teams WHERE id = 2;
DELETE FROM teams WHERE id >= 3;
DELETE FROM workers WHERE id = 1;
DELETE FROM workers WHERE id IN (1, 2, 3);
DELETE FROM workers WHERE id = 4;
BEGIN; INSERT INTO teams VALUES (4, 'grey'); INSERT INTO workers VALUES (8, 4, 8); COMMIT;
BEGIN; DELETE FROM workers WHERE id = 8; DELETE FROM teams WHERE id = 4; COMMIT;
BEGIN; DELETE FROM teams WHERE id = 3; COMMIT;
BEGIN; INSERT INTO workers VALUES (9, 77, NULL); COMMIT;
SELECT * FROM workers ORDER BY id;
SELECT * FROM teams ORDER BY id;
CREATE TABLE t (id bigint PRIMARY KEY, team text REFERENCES teams);
CREATE TABLE t (id bigint PRIMARY KEY, team text REFERENCES teams (name));
CREATE TABLE t (id bigint PRIMARY KEY, team bigint REFERENCES workers (team));
CREATE TABLE t (id bigint PRIMARY KEY, team bigint REFERENCES teams MATCH FULL);
CREATE TABLE t (id bigint PRIMARY KEY, team bigint REFERENCES teams ON DELETE SET DEFAULT);
CREATE TABLE t (id bigint PRIMARY KEY, team bigint REFERENCES missing);
CREATE TABLE t (id bigint PRIMARY KEY, team bigint REFERENCES teams) WITH (partitions = 3, failures_tolerated = 1);
SHOW TABLE t;
DROP TABLE t;
CREATE TABLE badges (id bigint PRIMARY KEY REFERENCES workers ON DELETE CASCADE, team bigint REFERENCES teams ON DELETE SET NULL) WITH (partitions = 3, failures_tolerated = 1);
CREATE TABLE scans (badge bigint REFERENCES badges ON DELETE CASCADE, n bigint, PRIMARY KEY (badge, n)) WITH (partitions = 3, failures_tolerated = 1);
CREATE TABLE later (id bigint PRIMARY KEY, team bigint REFERENCES teams DEFERRABLE INITIALLY DEFERRED) WITH (partitions = 3, failures_tolerated = 1);
SHOW TABLE later;
INSERT INTO workers VALUES (10, NULL, NULL), (11, NULL, NULL), (12, NULL, NULL);
INSERT INTO teams VALUES (5, 'pink'), (6, 'gold');
INSERT INTO badges VALUES (10, 5), (11, 5), (12, 6);
INSERT INTO scans VALUES (10, 1), (10, 2), (11, 1), (12, 9);
DELETE FROM workers WHERE id = 10;
DELETE FROM teams WHERE id IN (5, 6);
SELECT * FROM badges ORDER BY id;
BEGIN; DELETE FROM workers WHERE id >= 11; SELECT * FROM scans ORDER BY badge, n; SELECT * FROM badges ORDER BY id; COMMIT;
SELECT * FROM scans ORDER BY badge, n;
BEGIN; INSERT INTO later VALUES (1, 8); INSERT INTO teams VALUES (8, 'tan'); DELETE FROM teams WHERE id = 8; INSERT INTO teams VALUES (8, 'sand'); COMMIT;
BEGIN; INSERT INTO later VALUES (2, 9); COMMIT;
BEGIN; INSERT INTO workers VALUES (13, 9, NULL);
BEGIN; SET CONSTRAINTS ALL DEFERRED; ROLLBACK;
SELECT * FROM later ORDER BY id;
DROP TABLE later;
DROP TABLE scans;
DROP TABLE badges;
DROP INDEX by_team ON workers;
ALTER INDEX by_team ON workers SET USING btree;
DROP TABLE teams;
DROP TABLE workers;
DELETE FROM teams WHERE id = 1;
DROP TABLE teams;
