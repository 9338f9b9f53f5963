-- Rows that changes return.
CREATE TABLE jobs (id int PRIMARY KEY, queue varchar(8), attempts int NOT NULL DEFAULT 0, INDEX by_queue (queue)) WITH (partitions = 4, failures_tolerated = 1);
INSERT INTO jobs (id, queue) VALUES (1, 'mail'), (2, 'mail'), (3, 'print') RETURNING *;
INSERT INTO jobs VALUES (3, 'print'), (4, 'mail') ON CONFLICT DO NOTHING RETURNING id;
INSERT INTO jobs VALUES (4, 'mail') ON CONFLICT (id) DO UPDATE SET attempts = jobs.attempts + 10 RETURNING id, attempts;
UPDATE jobs SET attempts = attempts + 1 WHERE id = 1 RETURNING attempts, attempts * 2 AS twice;
UPDATE jobs SET attempts = 5 WHERE id = 9 RETURNING *;
DELETE FROM jobs WHERE queue = 'print' RETURNING id, queue;
-- In a transaction.
BEGIN; UPDATE jobs SET attempts = attempts + 1 WHERE id = 1 RETURNING attempts; UPDATE jobs SET attempts = attempts + 1 WHERE id = 1 RETURNING attempts; DELETE FROM jobs WHERE id = 1 RETURNING attempts; ROLLBACK;
SELECT id, attempts FROM jobs ORDER BY id;
-- A result that cannot be computed changes nothing.
INSERT INTO jobs VALUES (5, 'mail', 0) RETURNING 1 / attempts;
UPDATE jobs SET attempts = 0 WHERE id = 1 RETURNING 1 / attempts;
DELETE FROM jobs WHERE id = 2 RETURNING 1 / attempts;
SELECT id, attempts FROM jobs ORDER BY id;
-- Rows that match a further table.
UPDATE jobs SET attempts = v.n FROM (VALUES (1, 7), (9, 8)) AS v(id, n) WHERE v.id = jobs.id RETURNING jobs.*, v.n;
DELETE FROM jobs AS j USING jobs AS k WHERE k.id = j.id + 1 AND k.queue = j.queue AND j.id = 1 RETURNING j.id, k.id;
EXPLAIN UPDATE jobs SET attempts = 0 FROM jobs AS k WHERE k.id = jobs.attempts AND k.queue = 'mail';
-- Mistakes.
DELETE FROM jobs WHERE id = 1 RETURNING missing;
DELETE FROM jobs WHERE id = 1 RETURNING count(*);
EXPLAIN UPDATE jobs SET attempts = 1 WHERE id = 1 RETURNING id;
DROP TABLE jobs;
