-- Tables change while they are in use.
CREATE TABLE crew (id int PRIMARY KEY, name varchar(20) NOT NULL, age int CHECK (age > 0), INDEX by_name (name), INDEX by_age USING btree (age)) WITH (partitions = 4, failures_tolerated = 1);
INSERT INTO crew VALUES (1, 'Ann', 30), (2, 'Bob', NULL), (3, 'Cat', 41);
-- Columns.
ALTER TABLE crew ADD COLUMN level int NOT NULL DEFAULT 1, ADD note text;
ALTER TABLE crew ALTER COLUMN level SET DEFAULT 2;
INSERT INTO crew (id, name) VALUES (4, 'Dan');
SELECT * FROM crew ORDER BY id;
UPDATE crew SET note = 'old' WHERE level = 1 AND age > 35;
SELECT id, level, note FROM crew WHERE name = 'Cat';
SELECT id, level, note FROM crew WHERE age > 0 ORDER BY age;
CREATE INDEX by_level ON crew USING replex (level, id);
SELECT id FROM crew WHERE level = 1 ORDER BY id DESC;
ALTER TABLE crew ADD COLUMN IF NOT EXISTS level int;
ALTER TABLE crew ADD COLUMN level int;
ALTER TABLE crew ADD COLUMN needed int NOT NULL;
ALTER TABLE crew ADD COLUMN token uuid DEFAULT gen_random_uuid();
ALTER TABLE crew ADD COLUMN boss int REFERENCES crew;
ALTER TABLE crew ALTER level DROP DEFAULT;
INSERT INTO crew (id, name) VALUES (5, 'Eve');
-- NOT NULL and constraints.
ALTER TABLE crew ALTER age SET NOT NULL;
ALTER TABLE crew ADD CONSTRAINT grown CHECK (age > 30);
ALTER TABLE crew ADD CONSTRAINT grown CHECK (age > 30) NOT VALID;
ALTER TABLE crew VALIDATE CONSTRAINT grown;
INSERT INTO crew VALUES (5, 'Eve', 20, 1);
UPDATE crew SET age = coalesce(age, 0) + 31;
ALTER TABLE crew ALTER age SET NOT NULL, VALIDATE CONSTRAINT grown;
INSERT INTO crew VALUES (5, 'Eve', NULL, 1);
ALTER TABLE crew DROP CONSTRAINT crew_age_check, ALTER note SET DEFAULT 'none';
ALTER TABLE crew DROP CONSTRAINT crew_age_check;
ALTER TABLE crew DROP CONSTRAINT IF EXISTS crew_age_check;
ALTER TABLE crew ALTER id DROP NOT NULL;
ALTER TABLE crew ADD CONSTRAINT one_name UNIQUE (name);
INSERT INTO crew VALUES (6, 'Ann', 50, 1);
ALTER TABLE crew DROP CONSTRAINT one_name;
-- Names.
ALTER TABLE crew RENAME COLUMN note TO remark;
ALTER TABLE crew RENAME CONSTRAINT grown TO is_grown;
ALTER INDEX by_age RENAME TO by_years;
ALTER TABLE crew RENAME TO sailors;
ALTER TABLE sailors RENAME age TO name;
ALTER TABLE crew RENAME TO ships;
SHOW TABLE sailors;
EXPLAIN SELECT id FROM sailors WHERE age = 61;
SELECT id, remark FROM sailors WHERE age = 61;
-- Columns go.
ALTER TABLE sailors DROP COLUMN remark;
SELECT * FROM sailors WHERE age = 61;
SELECT remark FROM sailors;
ALTER TABLE sailors DROP COLUMN id;
ALTER TABLE sailors DROP COLUMN level, ADD level bigint DEFAULT 7;
SHOW TABLE sailors;
SELECT id, level FROM sailors WHERE name = 'Ann';
ALTER TABLE sailors DROP COLUMN level, ADD level int DEFAULT 1;
-- Types that store the same values.
ALTER TABLE sailors ALTER name TYPE varchar(30);
INSERT INTO sailors VALUES (9, 'A name of more than 20 chars', 40);
ALTER TABLE sailors ALTER name TYPE varchar(10);
DELETE FROM sailors WHERE id = 9;
ALTER TABLE sailors ALTER name SET DATA TYPE varchar(10);
ALTER TABLE sailors ALTER id TYPE bigint;
-- Foreign keys.
CREATE TABLE pets (id int PRIMARY KEY, owner int);
INSERT INTO pets VALUES (1, 1), (2, 77);
ALTER TABLE pets ADD FOREIGN KEY (owner) REFERENCES sailors;
ALTER TABLE pets ADD FOREIGN KEY (owner) REFERENCES sailors NOT VALID;
INSERT INTO pets VALUES (3, 77);
SHOW TABLE pets;
DELETE FROM pets WHERE id = 2;
ALTER TABLE pets VALIDATE CONSTRAINT pets_owner_fkey;
SHOW TABLE pets;
BEGIN; SET CONSTRAINTS ALL DEFERRED; INSERT INTO pets VALUES (3, 77); ROLLBACK;
DROP TABLE pets;
-- A transaction goes on after a change of tables.
BEGIN; INSERT INTO sailors VALUES (9, 'Zoe', 50); ALTER TABLE sailors ADD x int; DELETE FROM sailors WHERE id = 9; ROLLBACK;
SELECT * FROM sailors WHERE name = 'Zoe';
DELETE FROM sailors WHERE id = 9;
-- TRUNCATE.
CREATE TABLE trips (id int PRIMARY KEY, sailor int REFERENCES sailors, INDEX by_sailor (sailor));
INSERT INTO trips VALUES (1, 1), (2, 3);
TRUNCATE sailors;
TRUNCATE missing;
TRUNCATE trips;
SELECT count(*) FROM trips;
INSERT INTO trips VALUES (1, 1);
INSERT INTO trips VALUES (3, 9);
ALTER TABLE sailors RENAME TO crew;
INSERT INTO trips VALUES (3, 9);
TRUNCATE TABLE crew CASCADE;
SELECT count(*) FROM crew;
SELECT count(*) FROM trips;
INSERT INTO crew VALUES (1, 'Ann', 33, 1);
INSERT INTO trips VALUES (1, 1);
SELECT * FROM crew WHERE name = 'Ann';
TRUNCATE trips RESTART IDENTITY;
DROP TABLE trips, crew;
