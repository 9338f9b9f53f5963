DO $replex_checks$
DECLARE
  found jsonb;
  own record;
BEGIN
  -- Names come with their schemas.
  PERFORM pg_catalog.set_config('search_path', '', true);
  SELECT jsonb_agg(it) INTO found FROM (
    SELECT c.conname AS name, c.connoinherit AS is_alone, pg_get_expr(c.conbin, c.conrelid) AS condition,
           CASE WHEN c.contypid <> 0 THEN 'DOMAIN ' || c.contypid::regtype ELSE 'TABLE ' || c.conrelid::regclass END AS owner,
           (WITH RECURSIVE above (oid, depth) AS (
              SELECT c.conrelid, 0
              UNION SELECT i.inhparent, above.depth + 1 FROM above JOIN pg_inherits i ON i.inhrelid = above.oid)
            SELECT max(depth) FROM above) AS depth
      FROM pg_constraint c LEFT JOIN pg_class r ON r.oid = c.conrelid
     WHERE c.contype = 'c' AND c.conislocal AND c.oid >= 16384 AND r.relpersistence IS DISTINCT FROM 't'
       AND {which}
       AND {may_fail}) AS it
   WHERE NOT starts_with(condition, '((current_setting(''session_replication_role''::text) = ''replica''::text) OR ');
  FOR own IN SELECT * FROM jsonb_to_recordset(found) AS it (owner text, name text, depth int) ORDER BY depth LOOP
    EXECUTE format('ALTER %s DROP CONSTRAINT %I', own.owner, own.name);
  END LOOP;
  FOR own IN
    SELECT * FROM jsonb_to_recordset(found) AS it (owner text, name text, depth int, is_alone bool, condition text)
     ORDER BY depth DESC
  LOOP
    EXECUTE format(
      'ALTER %s ADD CONSTRAINT %I CHECK (current_setting(''session_replication_role'') = ''replica'' OR (%s)) %s NOT VALID',
      own.owner, own.name, own.condition, CASE WHEN own.is_alone THEN 'NO INHERIT' ELSE '' END);
  END LOOP;
END $replex_checks$
