-- The way of a newcomer: a table with three copies, rows, lookups by each key, a move.
CREATE TABLE planes (
  id bigint PRIMARY KEY,
  tail text,
  origin text NOT NULL,
  seats bigint DEFAULT 180,
  INDEX by_tail (tail),
  INDEX by_origin (origin)
) WITH (partitions = 4, failures_tolerated = 2, durability = 'sync');
SHOW TABLES;
INSERT INTO planes (id, tail, origin) VALUES (1, 'N14228', 'EWR'), (2, 'N24211', 'LGA');
INSERT INTO planes VALUES (3, NULL, 'EWR', 20), (4, 'N804JB', 'JFK', 100), (5, 'N668DN', 'EWR', 300);
SELECT * FROM planes WHERE id = 1;
SELECT id, seats FROM planes WHERE tail = 'N24211';
SELECT id, tail FROM planes WHERE origin = 'EWR' ORDER BY seats DESC;
SELECT id FROM planes WHERE origin = 'EWR' AND seats >= 100 ORDER BY seats LIMIT 1;
SELECT count(*) FROM planes WHERE origin = 'EWR';
SELECT /*+ scan */ id, origin FROM planes WHERE seats > 50 ORDER BY id;
UPDATE planes SET tail = 'N1RPLX', seats = seats + 1 WHERE id = 1 AND seats = 180;
SELECT * FROM planes WHERE tail = 'N14228';
SELECT * FROM planes WHERE tail = 'N1RPLX';
UPDATE planes SET seats = seats * 2 WHERE id = 1 AND seats = 180;
INSERT INTO planes VALUES (1, 'other', 'XXX', 0) ON CONFLICT DO NOTHING;
INSERT INTO planes VALUES (1, 'N14228', 'EWR', 7)
  ON CONFLICT (id) DO UPDATE SET tail = excluded.tail, seats = planes.seats + excluded.seats;
SELECT * FROM planes WHERE id = 1;
DELETE FROM planes WHERE origin = 'EWR';
SELECT count(*) FROM planes WHERE origin = 'EWR';
SELECT /*+ scan */ count(*) FROM planes;
DROP TABLE planes;
SHOW TABLES;
