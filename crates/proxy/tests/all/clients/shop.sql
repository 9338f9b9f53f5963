-- What there is to dump: a bit of everything, made through the proxy.
CREATE SCHEMA shop;
COMMENT ON SCHEMA shop IS 'it''s a shop';
CREATE ROLE clerk;
GRANT USAGE ON SCHEMA shop TO clerk;
CREATE TYPE shop.state AS ENUM ('new', 'paid', 'it''s gone');
CREATE TYPE shop.place AS (street text, number int);
CREATE DOMAIN shop.price AS numeric(10, 2) CHECK (VALUE >= 0);
CREATE SEQUENCE shop.ticket START 1000 INCREMENT 7 CACHE 3;
CREATE TABLE shop.client (
  id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name text NOT NULL COLLATE "C",
  home shop.place,
  made timestamptz NOT NULL DEFAULT '2024-02-29 12:00+00'
);
CREATE TABLE shop.sale (
  id serial PRIMARY KEY,
  client int NOT NULL REFERENCES shop.client ON DELETE CASCADE,
  ticket bigint UNIQUE DEFAULT nextval('shop.ticket'),
  state shop.state NOT NULL DEFAULT 'new',
  total shop.price,
  doubled numeric GENERATED ALWAYS AS (total * 2) STORED,
  tags text[] DEFAULT '{}',
  doc jsonb,
  raw bytea,
  during tstzrange
);
CREATE INDEX ON shop.sale USING gin (doc);
CREATE INDEX sale_open ON shop.sale (client, (total * 2)) WHERE state = 'new';
CREATE TABLE shop.log (at date NOT NULL, what text, PRIMARY KEY (at, what)) PARTITION BY RANGE (at);
CREATE TABLE shop.log_2024 PARTITION OF shop.log FOR VALUES FROM ('2024-01-01') TO ('2025-01-01');
CREATE TABLE shop.log_rest PARTITION OF shop.log DEFAULT;
CREATE FUNCTION shop.note_sale() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO shop.log VALUES ('2024-06-01', format('sale %s; of %L', NEW.id, NEW.total));
  RETURN NEW;
END $$;
CREATE TRIGGER note AFTER INSERT ON shop.sale FOR EACH ROW EXECUTE FUNCTION shop.note_sale();
CREATE FUNCTION shop.total_of(buyer int) RETURNS numeric LANGUAGE sql STABLE AS
  'SELECT sum(total) FROM shop.sale WHERE client = buyer';
CREATE PROCEDURE shop.forget(buyer int) LANGUAGE sql AS 'DELETE FROM shop.client WHERE id = buyer';
CREATE AGGREGATE shop.product(numeric) (SFUNC = numeric_mul, STYPE = numeric, INITCOND = '1');
CREATE VIEW shop.open_sales AS
  SELECT c.name, s.ticket, s.total FROM shop.client c JOIN shop.sale s ON s.client = c.id WHERE s.state = 'new';
CREATE MATERIALIZED VIEW shop.totals AS SELECT client, sum(total) AS total FROM shop.sale GROUP BY client WITH NO DATA;
CREATE RULE silent AS ON DELETE TO shop.open_sales DO INSTEAD NOTHING;
ALTER TABLE shop.sale ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON shop.sale TO clerk USING (total < 1000);
GRANT SELECT, UPDATE (state) ON shop.sale TO clerk;
ALTER DEFAULT PRIVILEGES IN SCHEMA shop GRANT SELECT ON TABLES TO clerk;
CREATE STATISTICS shop.both ON client, state FROM shop.sale;
COMMENT ON COLUMN shop.sale.ticket IS 'shown to "clients"';
INSERT INTO shop.client (name, home)
  SELECT 'client ' || n, ROW ('Straße; ' || n, n)::shop.place FROM generate_series(1, 50) n;
INSERT INTO shop.sale (client, total, tags, doc, raw, during)
  SELECT 1 + n % 50, n * 1.5, ARRAY[n::text, NULL, '"'], jsonb_build_object('n', n, 'null', NULL),
         decode(md5(n::text), 'hex'), tstzrange('2024-01-01Z', '2024-01-02Z')
    FROM generate_series(1, 500) n;
UPDATE shop.sale SET state = 'paid' WHERE id % 3 = 0;
CALL shop.forget(50);
REFRESH MATERIALIZED VIEW shop.totals;
SELECT setval('shop.ticket', 123456);
SELECT lo_from_bytea(70001, decode(repeat('00ff5c27', 3000), 'hex'));
COMMENT ON LARGE OBJECT 70001 IS 'a large one';
