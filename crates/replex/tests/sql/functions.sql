-- Functions and CASE, in every clause.
CREATE TABLE folks (id int PRIMARY KEY, name text, nick varchar(10), age int CHECK (abs(age) = age), INDEX by_name (name)) WITH (partitions = 4, failures_tolerated = 1);
INSERT INTO folks VALUES (1, 'Ann Ä', NULL, 30), (2, 'bob', 'B', NULL), (3, NULL, 'cat', 7);
SELECT id, coalesce(nick, name, '?') AS shown, upper(name) FROM folks ORDER BY id;
SELECT id, CASE WHEN age >= 18 THEN 'adult' WHEN age IS NULL THEN 'unknown' ELSE 'child' END FROM folks ORDER BY id;
SELECT id FROM folks WHERE lower(name) = 'bob';
SELECT id FROM folks ORDER BY length(coalesce(name, '')) DESC, id;
SELECT substring(name from 2 for 2) AS part, position('n' in name), trim(both 'A' from name) FROM folks WHERE id = 1;
UPDATE folks SET name = concat(name, ' ', nick), age = coalesce(age, 0) + 1 WHERE id = 2 RETURNING name, age;
INSERT INTO folks VALUES (4, left('abcdef', 3), right('abcdef', 2), greatest(3, 5, 4)) RETURNING *;
INSERT INTO folks VALUES (5, 'eve', NULL, -5);
EXPLAIN SELECT id, abs(age) FROM folks WHERE CASE WHEN age > 5 THEN lower(name) = 'bob' ELSE false END;
-- What is refused.
SELECT lower(age) FROM folks;
SELECT substr(name, 1, -1) FROM folks WHERE id = 1;
SELECT round(2.5);
SELECT gamma(2) FROM folks;
SELECT coalesce(name, age) FROM folks;
UPDATE folks SET name = substr(name, 1, age - 100) WHERE id = 4;
DROP TABLE folks;
