-- The types of columns, what they refuse, and how their values are converted.
CREATE TABLE parcels (id int PRIMARY KEY, size smallint, weight real, code char(4), name varchar(6), sent date, at timestamptz(6), INDEX by_sent (sent), INDEX by_code (code)) WITH (partitions = 4, failures_tolerated = 1);
SHOW TABLE parcels;
INSERT INTO parcels VALUES (1, 7, 0.1, 'ab', 'glass ', '2024-02-29', '2024-02-29 12:00+02'), (2, -7, 1234567, 'b', NULL, '2024-03-01', '2024-03-01 00:00'), (3, NULL, 'NaN', NULL, 'wood', 'infinity', NULL);
SELECT * FROM parcels ORDER BY id;
SELECT id FROM parcels WHERE code = 'b   ';
SELECT id, code || '!' AS exclaimed FROM parcels WHERE sent = '2024-02-29';
SELECT id FROM parcels WHERE sent < '2024-03-01'::timestamp ORDER BY id;
SELECT id, sent + 1 AS next, sent - '2024-01-01'::date AS days, at::date AS day FROM parcels WHERE id < 3 ORDER BY id;
SELECT id FROM parcels WHERE id = 2::bigint;
SELECT id FROM parcels WHERE id = 3000000000;
EXPLAIN SELECT id FROM parcels WHERE id = 2.0;
EXPLAIN SELECT id FROM parcels WHERE code = 'ab  ';
-- Values that a column does not take.
INSERT INTO parcels (id) VALUES (2147483648);
INSERT INTO parcels (id, size) VALUES (4, 32768);
INSERT INTO parcels (id, weight) VALUES (4, 1e39);
INSERT INTO parcels (id, code) VALUES (4, 'abcde');
INSERT INTO parcels (id, name) VALUES (4, 'seventh');
INSERT INTO parcels (id, sent) VALUES (4, '2024-02-30');
INSERT INTO parcels (id, at) VALUES (4, 'yesterday');
UPDATE parcels SET size = size * 10000 WHERE id = 1;
UPDATE parcels SET name = name || name WHERE id = 1;
UPDATE parcels SET size = name::smallint WHERE id = 1;
UPDATE parcels SET name = id WHERE id = 1;
SELECT id, name FROM parcels WHERE id = 1;
-- Types that the store does not have.
CREATE TABLE t (a int PRIMARY KEY, b varchar(0));
CREATE TABLE t (a int PRIMARY KEY, b money);
CREATE TABLE t (a int PRIMARY KEY, b timestamp(3));
-- Defaults that are computed.
CREATE TABLE clicks (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), page text, at timestamptz NOT NULL DEFAULT now(), day date DEFAULT CURRENT_DATE) WITH (partitions = 4, failures_tolerated = 1);
SHOW TABLE clicks;
INSERT INTO clicks (page) VALUES ('a'), ('b'), ('c');
SELECT count(*), min(page), max(page) FROM clicks WHERE at > '2020-01-01' AND day >= '2020-01-01' AND id IS NOT NULL;
UPDATE clicks SET day = DEFAULT, at = DEFAULT WHERE page = 'a';
CREATE TABLE t (id uuid PRIMARY KEY DEFAULT now());
CREATE TABLE t (id int PRIMARY KEY, u uuid DEFAULT gen_random_uuid(), w text);
UPDATE t SET u = DEFAULT WHERE id = 1;
UPDATE t SET u = gen_random_uuid() WHERE id = 1;
DROP TABLE parcels, clicks, t;
