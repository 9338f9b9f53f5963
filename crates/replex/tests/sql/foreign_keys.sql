-- Foreign keys: what is refused, by every kind of change, and what the definitions show.
CREATE TABLE teams (
  id bigint PRIMARY KEY,
  name text UNIQUE
) WITH (partitions = 3, failures_tolerated = 1);
CREATE TABLE people (
  id bigint PRIMARY KEY,
  team bigint REFERENCES teams,
  boss bigint,
  CONSTRAINT has_boss FOREIGN KEY (boss) REFERENCES people (id) ON DELETE RESTRICT,
  INDEX by_team (team)
) WITH (partitions = 3, failures_tolerated = 1);
SHOW TABLE people;
SHOW TABLE teams;
INSERT INTO teams VALUES (1, 'red'), (2, 'blue'), (3, 'green');
INSERT INTO people VALUES (1, 1, NULL), (2, 1, 1), (3, NULL, 2), (4, 2, 4);
INSERT INTO people VALUES (5, 9, NULL);
INSERT INTO people VALUES (5, 1, NULL), (6, 1, 99);
UPDATE people SET team = 9 WHERE id = 3;
UPDATE people SET team = 2 WHERE id = 3;
UPDATE people SET team = team + 1 WHERE team = 2;
INSERT INTO people VALUES (1, 9, NULL) ON CONFLICT (id) DO NOTHING;
INSERT INTO people VALUES (1, 9, NULL) ON CONFLICT (id) DO UPDATE SET team = excluded.team;
INSERT INTO people VALUES (7, 3, NULL) ON CONFLICT DO NOTHING;
UPDATE teams SET name = 'crimson' WHERE id = 1;
DELETE FROM teams WHERE id = 1;
DELETE FROM teams WHERE id = 2;
DELETE FROM teams WHERE id >= 1;
DELETE FROM people WHERE id = 1;
DELETE FROM people WHERE id IN (1, 2, 3);
DELETE FROM people WHERE id = 4;
BEGIN; INSERT INTO teams VALUES (4, 'grey'); INSERT INTO people VALUES (8, 4, 8); COMMIT;
BEGIN; DELETE FROM people WHERE id = 8; DELETE FROM teams WHERE id = 4; COMMIT;
BEGIN; DELETE FROM teams WHERE id = 3; COMMIT;
BEGIN; INSERT INTO people VALUES (9, 77, NULL); COMMIT;
SELECT * FROM people ORDER BY id;
SELECT * FROM teams ORDER BY id;
CREATE TABLE t (id bigint PRIMARY KEY, team text REFERENCES teams);
CREATE TABLE t (id bigint PRIMARY KEY, team text REFERENCES teams (name));
CREATE TABLE t (id bigint PRIMARY KEY, team bigint REFERENCES people (team));
CREATE TABLE t (id bigint PRIMARY KEY, team bigint REFERENCES teams MATCH FULL);
CREATE TABLE t (id bigint PRIMARY KEY, team bigint REFERENCES teams ON DELETE SET DEFAULT);
CREATE TABLE t (id bigint PRIMARY KEY, team bigint REFERENCES missing);
CREATE TABLE t (id bigint PRIMARY KEY, team bigint REFERENCES teams) WITH (partitions = 3, failures_tolerated = 1);
SHOW TABLE t;
DROP TABLE t;
DROP INDEX by_team ON people;
DROP TABLE teams;
DROP TABLE people;
DELETE FROM teams WHERE id = 1;
DROP TABLE teams;
