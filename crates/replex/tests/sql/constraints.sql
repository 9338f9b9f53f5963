-- What a unique and a dense index refuse, by name and by key, and that nothing is changed by it.
CREATE TABLE log (
  id bigint PRIMARY KEY,
  name text,
  place bigint NOT NULL,
  UNIQUE INDEX by_name (name),
  INDEX by_place (place) WITH (constraint = 'dense')
) WITH (partitions = 3, failures_tolerated = 1);
INSERT INTO log VALUES (1, 'a', 1);
INSERT INTO log VALUES (2, 'b', 2);
INSERT INTO log VALUES (1, 'c', 3);
INSERT INTO log VALUES (3, 'a', 3);
INSERT INTO log VALUES (3, 'c', 5);
SELECT /*+ scan */ * FROM log ORDER BY id;
DROP TABLE log;
