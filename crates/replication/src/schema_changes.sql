-- The triggers' function runs with a superuser's rights in whatever search path: each name has its
-- schema. CREATE TABLE AS is noted before its rows come, anything else when it is known whether it
-- changes something that replicas have; of a DROP only the list of dropped objects shows that.
-- Whatever is alone in its text and changes nothing needs no note. What would last and rests on the
-- session's temporary objects, which replicas do not have, is refused.
CREATE TABLE IF NOT EXISTS hihooi.schema_change (
  id int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at text NOT NULL, event text NOT NULL, tag text NOT NULL,
  matters bool NOT NULL, settings text NOT NULL, path text NOT NULL, role text NOT NULL, query text NOT NULL, context text NOT NULL);
ALTER TABLE hihooi.schema_change ADD COLUMN IF NOT EXISTS temporary text NOT NULL DEFAULT '';
CREATE OR REPLACE FUNCTION hihooi.note_schema_change() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET lc_messages = 'C' AS $function$
DECLARE
  role pg_catalog.text := pg_catalog.current_setting('role');
  query pg_catalog.text := hihooi.behind_preludes(pg_catalog.current_query());
  is_drop pg_catalog.bool := pg_catalog.starts_with(TG_TAG, 'DROP ');
  makes_rows pg_catalog.bool := TG_TAG OPERATOR(pg_catalog.~) '^(CREATE TABLE AS|SELECT INTO)$';
  matters pg_catalog.bool := true;
  lasts pg_catalog.bool := false;
  temporary_schema pg_catalog.oid := pg_catalog.pg_my_temp_schema();
  has_temporary pg_catalog.bool := temporary_schema OPERATOR(pg_catalog.<>) 0::pg_catalog.oid;
  temporary pg_catalog.text := '';
  context pg_catalog.text;
  is_unseen pg_catalog.bool;
  is_checked pg_catalog.bool;
  -- Why a change of a table that has rows is refused, in the words of the proxy; NULL if it is not.
  unless_rows pg_catalog.text;
  inner_statement pg_catalog.text;
  -- The one under way or, of the client's text, all of them: without comments.
  statement pg_catalog.text;
  noted pg_catalog.int8;
BEGIN
  IF TG_TAG OPERATOR(pg_catalog.~) '^REFRESH MATERIALIZED VIEW$| (PUBLICATION|SUBSCRIPTION)$' THEN RETURN;
  END IF;
  GET DIAGNOSTICS context = PG_CONTEXT;
  -- Only PL/pgSQL reports which statement it runs. Scripts of extensions run again as a whole.
  is_unseen := pg_catalog.strpos(context, E'\n') OPERATOR(pg_catalog.>) 0
    AND context OPERATOR(pg_catalog.!~) E'^[^\n]*\nSQL statement ".*"\nPL/pgSQL function '
    AND query OPERATOR(pg_catalog.!~*) E'\\mextension\\M';
  -- The statement, where a function in PL/pgSQL runs it.
  inner_statement := pg_catalog.substring(context, E'\nSQL statement "(.*?)"\nPL/pgSQL function ');
  statement := pg_catalog.regexp_replace(pg_catalog.regexp_replace(coalesce(inner_statement, query), E'/\\*.*?\\*/', ' ', 'g'),
                                         E'--[^\n]*', ' ', 'g');
  IF TG_EVENT OPERATOR(pg_catalog.=) 'ddl_command_start' AND NOT makes_rows THEN
    PERFORM hihooi.note_indexes(statement);
    RETURN;
  END IF;
  IF has_temporary THEN
    temporary := (SELECT coalesce(pg_catalog.string_agg(c.relname::pg_catalog.text, E'\n'), '') FROM pg_catalog.pg_class AS c
                   WHERE c.relnamespace OPERATOR(pg_catalog.=) temporary_schema AND pg_catalog.pg_table_is_visible(c.oid)
                     AND c.relkind OPERATOR(pg_catalog.=) ANY ('{r,p,v,f,S}'::pg_catalog."char"[]));
  END IF;
  -- The proxy has checked what its clients send, and knows more of it.
  is_checked := inner_statement IS NULL AND pg_catalog.current_setting('hihooi.checked', true) IS NOT DISTINCT FROM 'on';
  IF inner_statement IS NULL AND NOT is_checked THEN
    unless_rows := nullif(pg_catalog.current_setting('hihooi.checked', true), '');
  END IF;
  IF TG_EVENT OPERATOR(pg_catalog.=) 'table_rewrite' THEN
    IF NOT is_checked THEN
      PERFORM hihooi.check_rewrite(statement);
    END IF;
    RETURN;
  END IF;
  IF TG_EVENT OPERATOR(pg_catalog.=) 'sql_drop' THEN
    IF NOT is_drop OR NOT EXISTS (
      SELECT FROM pg_catalog.pg_event_trigger_dropped_objects() AS o
       WHERE o.original AND NOT o.is_temporary AND o.object_identity OPERATOR(pg_catalog.<>) 'hihooi'
         AND coalesce(o.schema_name OPERATOR(pg_catalog.<>) 'hihooi',
                      coalesce(o.address_names[1] OPERATOR(pg_catalog.<>) 'pg_temp', true))) THEN RETURN;
    END IF;
    lasts := true;
    PERFORM hihooi.check_text_once(statement, inner_statement IS NULL, false);
    IF has_temporary AND EXISTS (
      SELECT FROM pg_catalog.pg_event_trigger_dropped_objects() AS o WHERE o.original AND o.is_temporary) THEN
      RAISE EXCEPTION USING ERRCODE = '0A000',
        MESSAGE = 'temporary objects cannot be dropped together with others, since replicas do not have them',
        HINT = 'Drop them by a statement of their own.';
    END IF;
  ELSIF TG_EVENT OPERATOR(pg_catalog.=) 'ddl_command_end' THEN
    lasts := EXISTS (
      SELECT FROM pg_catalog.pg_event_trigger_ddl_commands() AS o
       WHERE coalesce(o.object_identity OPERATOR(pg_catalog.<>) 'hihooi', true)
         AND coalesce(o.schema_name OPERATOR(pg_catalog.<>) 'hihooi'
                      AND o.schema_name OPERATOR(pg_catalog.<>) 'pg_temp', true)
         -- These are on the primary only.
         AND o.object_type OPERATOR(pg_catalog.!~*) '^(large object|publication|subscription)'
         AND NOT (has_temporary AND hihooi.is_on_temporary(o.classid, o.objid, o.schema_name)));
    IF lasts THEN
      PERFORM hihooi.check_text_once(statement, inner_statement IS NULL, makes_rows);
      IF unless_rows IS NOT NULL THEN
        PERFORM hihooi.refuse_rows(o.objid, unless_rows) FROM pg_catalog.pg_event_trigger_ddl_commands() AS o
          WHERE o.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass;
      END IF;
      PERFORM hihooi.check_table(o.objid, statement, is_checked) FROM pg_catalog.pg_event_trigger_ddl_commands() AS o
        WHERE o.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass AND NOT o.in_extension;
      PERFORM hihooi.check_function(o.objid, statement) FROM pg_catalog.pg_event_trigger_ddl_commands() AS o
        WHERE o.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass AND NOT o.in_extension;
    END IF;
    IF makes_rows AND NOT (is_unseen AND lasts) THEN
      PERFORM hihooi.give_identity(o.objid) FROM pg_catalog.pg_event_trigger_ddl_commands() AS o WHERE NOT o.in_extension;
      RETURN;
    END IF;
    -- It may do nothing but revoke rights, of which there is no list.
    lasts := lasts OR TG_TAG OPERATOR(pg_catalog.=) 'DROP OWNED';
    matters := lasts AND (NOT is_drop OR TG_TAG OPERATOR(pg_catalog.=) 'DROP OWNED');
    IF NOT is_drop AND NOT matters AND pg_catalog.strpos(query, ';') OPERATOR(pg_catalog.=) 0 THEN RETURN;
    END IF;
    IF has_temporary AND matters AND EXISTS (
      SELECT FROM pg_catalog.pg_event_trigger_ddl_commands() AS o
       WHERE coalesce(o.schema_name OPERATOR(pg_catalog.<>) 'pg_temp', true)
         AND NOT hihooi.is_on_temporary(o.classid, o.objid, o.schema_name)
         AND hihooi.rests_on_temporary(o.classid, o.objid)) THEN
      RAISE EXCEPTION USING ERRCODE = '0A000',
        MESSAGE = pg_catalog.concat(TG_TAG, ' uses a temporary object, which replicas do not have'),
        HINT = 'Make what it uses without TEMPORARY, or make all of it in the schema pg_temp.';
    END IF;
  END IF;
  IF is_unseen AND lasts THEN
    RAISE EXCEPTION USING ERRCODE = '0A000',
      MESSAGE = pg_catalog.concat(TG_TAG, ' cannot be replicated from a function that is not in PL/pgSQL'),
      HINT = 'Write the function in LANGUAGE plpgsql, or run the statement outside of it.';
  END IF;
  -- At its end it is known whether it is temporary.
  matters := matters AND NOT is_unseen;
  -- What makes a table for good of a temporary one, or gives rights on both: that leaves no dependency. Of several statements
  -- it is not known here which names it.
  IF has_temporary AND NOT is_checked AND (matters OR makes_rows) AND statement OPERATOR(pg_catalog.!~) E';.*\\S'
     AND (makes_rows OR TG_TAG OPERATOR(pg_catalog.=) 'CREATE TABLE' AND statement OPERATOR(pg_catalog.~*) E'\\mlike\\M'
          OR TG_TAG OPERATOR(pg_catalog.~) '^(GRANT|REVOKE)$' AND statement OPERATOR(pg_catalog.~*) E'\\mon\\M.*,')
     AND statement OPERATOR(pg_catalog.!~*) E'\\m(create|into)\\s+((global|local)\\s+)?temp(orary)?\\M|\\mtable\\s+(if\\s+not\\s+exists\\s+)?pg_temp\\.'
     AND pg_catalog.current_schema() OPERATOR(pg_catalog.!~) '^pg_temp'
     AND EXISTS (
       SELECT FROM pg_catalog.unnest(pg_catalog.string_to_array(temporary, E'\n')) AS own (name)
        WHERE statement OPERATOR(pg_catalog.~*) pg_catalog.concat(
                E'(^|[^[:alnum:]_."]|[^.]"|\\mpg_temp\\."?)', pg_catalog.regexp_replace(own.name, '([^[:alnum:]_])', E'\\\\\\1', 'g'),
                '($|[^[:alnum:]_])')) THEN
    RAISE EXCEPTION USING ERRCODE = '0A000',
      MESSAGE = CASE WHEN TG_TAG OPERATOR(pg_catalog.~) '^CREATE|^SELECT'
                     THEN 'a table cannot be made of a temporary one, which replicas do not have'
                     ELSE 'rights on temporary tables cannot be given together with others, since replicas do not have them' END,
      HINT = CASE WHEN TG_TAG OPERATOR(pg_catalog.~) '^CREATE|^SELECT' THEN 'Write CREATE TABLE with its columns, then INSERT ... SELECT.'
                  ELSE 'Name them in a statement of their own.' END;
  END IF;
  IF role OPERATOR(pg_catalog.=) 'none' THEN
    role := SESSION_USER;
  END IF;
  INSERT INTO hihooi.schema_change AS own (at, event, tag, matters, settings, path, role, query, context, temporary)
    VALUES (pg_catalog.encode(pg_catalog.timestamptz_send(pg_catalog.statement_timestamp()), 'hex'),
            TG_EVENT, TG_TAG, matters,
            (SELECT pg_catalog.string_agg(pg_catalog.concat(own.name, '=', pg_catalog.current_setting(own.name)), E'\n')
               FROM pg_catalog.unnest(ARRAY['TimeZone', 'DateStyle', 'IntervalStyle',
                                            'extra_float_digits', 'bytea_output', 'xmloption', 'array_nulls',
                                            'standard_conforming_strings']) AS own (name)),
            pg_catalog.current_setting('search_path'), role, query, context, temporary)
    RETURNING own.id INTO noted;
  DELETE FROM hihooi.schema_change AS own WHERE own.id OPERATOR(pg_catalog.=) noted;
  IF TG_EVENT OPERATOR(pg_catalog.=) 'ddl_command_end'
     AND TG_TAG OPERATOR(pg_catalog.~) '^(CREATE TABLE|ALTER TABLE|CREATE SCHEMA)$' THEN
    PERFORM hihooi.give_identity(o.objid) FROM pg_catalog.pg_event_trigger_ddl_commands() AS o WHERE NOT o.in_extension;
  ELSIF TG_EVENT OPERATOR(pg_catalog.=) 'ddl_command_end' AND is_drop THEN
    PERFORM hihooi.give_identities();
  END IF;
END
$function$;
-- Notes the indexes that a statement needs: what ADD CONSTRAINT and REPLICA IDENTITY name behind USING INDEX, CLUSTER ON,
-- and the keys that REFERENCES may mean. A replica lacks an index whose concurrent build failed on the primary and that
-- REINDEX has repaired there; it builds the index now, as a superuser, since the
-- table's owner need not have the right to. One that is not needed, as its name stands in a literal, does no harm.
CREATE OR REPLACE FUNCTION hihooi.note_indexes(statement text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $function$
DECLARE
  a_name CONSTANT text := '("(?:[^"]|"")+"|[^\s"(),.;]+)';
  index record;
  noted int8;
BEGIN
  FOR index IN
    WITH named (kind, word) AS (
      SELECT 'index', words[1]
        FROM regexp_matches(statement, concat('\m(?:using\s+index|cluster\s+on)\s*', a_name), 'gi') AS words
      UNION ALL
      SELECT 'table', words[2]
        FROM regexp_matches(statement, concat('\mreferences\s*(?:', a_name, '\s*\.\s*)*', a_name), 'gi') AS words),
    names (kind, name) AS (
      SELECT kind, CASE WHEN word LIKE '"%' THEN replace(substr(word, 2, length(word) - 2), '""', '"') ELSE lower(word) END::name
        FROM named)
    SELECT DISTINCT regexp_replace(pg_get_indexdef(i.indexrelid), '\mINDEX\M', 'INDEX IF NOT EXISTS') AS definition
      FROM names
           JOIN pg_class c ON c.relname = names.name AND c.relkind::text = CASE names.kind WHEN 'index' THEN 'i' ELSE 'r' END
           JOIN pg_index i ON c.oid = CASE names.kind WHEN 'index' THEN i.indexrelid ELSE i.indrelid END
           JOIN pg_class r ON r.oid = i.indrelid
     WHERE i.indisvalid AND r.relkind = 'r' AND r.relpersistence <> 't' AND r.oid >= 16384
       AND (names.kind = 'index' OR i.indisunique)
       AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conindid = i.indexrelid AND k.contype IN ('p', 'u', 'x'))
       AND NOT EXISTS (SELECT FROM pg_inherits h WHERE h.inhrelid = i.indexrelid)
  LOOP
    INSERT INTO hihooi.schema_change (at, event, tag, matters, settings, path, role, query, context)
      VALUES (encode(timestamptz_send(statement_timestamp()), 'hex'), 'index', 'CREATE INDEX', true, '',
              current_setting('search_path'), '', index.definition, '')
      RETURNING id INTO noted;
    DELETE FROM hihooi.schema_change WHERE id = noted;
  END LOOP;
END
$function$;
REVOKE ALL ON FUNCTION hihooi.note_indexes(text) FROM PUBLIC;
-- A table without a primary key could not be changed any more, as its changes would come without a key: whole rows stand
-- for it, until there is one.
CREATE TABLE IF NOT EXISTS hihooi.whole (relation oid PRIMARY KEY);
CREATE OR REPLACE FUNCTION hihooi.give_identity(object oid) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $function$
DECLARE
  it record;
BEGIN
  SELECT c.oid, c.relreplident, n.nspname, c.relname, i.has_key,
         c.relreplident = 'n' OR c.relreplident = 'd' AND NOT i.has_key OR c.relreplident = 'i' AND NOT i.has_index AS lacks
    INTO it FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
         CROSS JOIN LATERAL (SELECT coalesce(bool_or(indisprimary), false) AS has_key,
                                    coalesce(bool_or(indisreplident), false) AS has_index
                               FROM pg_index WHERE indrelid = c.oid) AS i
   WHERE c.oid = object AND c.relkind = 'r' AND c.relpersistence = 'p' AND n.nspname <> 'hihooi';
  IF NOT FOUND THEN RETURN;
  END IF;
  IF it.lacks AND NOT it.has_key THEN
    INSERT INTO hihooi.whole VALUES (object) ON CONFLICT DO NOTHING;
    EXECUTE format('ALTER TABLE %I.%I REPLICA IDENTITY FULL', it.nspname, it.relname);
  ELSIF it.lacks OR it.relreplident = 'f' AND it.has_key AND EXISTS (SELECT FROM hihooi.whole WHERE relation = object) THEN
    DELETE FROM hihooi.whole WHERE relation = object;
    EXECUTE format('ALTER TABLE %I.%I REPLICA IDENTITY DEFAULT', it.nspname, it.relname);
  END IF;
END
$function$;
-- The same for every table: what is dropped may take a key with it, as a column's type does.
CREATE OR REPLACE FUNCTION hihooi.give_identities() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $function$
BEGIN
  PERFORM hihooi.give_identity(c.oid) FROM pg_class c
   WHERE c.relkind = 'r' AND c.relpersistence = 'p' AND c.oid >= 16384 AND c.relreplident <> 'f'
     AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid
                      AND CASE c.relreplident WHEN 'd' THEN i.indisprimary WHEN 'i' THEN i.indisreplident END);
END
$function$;
REVOKE ALL ON FUNCTION hihooi.give_identity(oid), hihooi.give_identities() FROM PUBLIC;
-- Whether an object without a schema is a part of a temporary table, or a statistic of one.
CREATE OR REPLACE FUNCTION hihooi.is_on_temporary(class oid, object oid, schema text) RETURNS bool
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $function$
BEGIN
  IF class = 'pg_statistic_ext'::regclass THEN
    RETURN EXISTS (SELECT FROM pg_statistic_ext s JOIN pg_class c ON c.oid = s.stxrelid
                    WHERE s.oid = object AND c.relpersistence = 't');
  END IF;
  RETURN coalesce(object <> 0 AND schema IS NULL
                  AND (pg_identify_object_as_address(class, object, 0)).object_names[1] = 'pg_temp', false);
END
$function$;
-- Whether an object, or a default, a check or a rule of a table, needs something temporary.
CREATE OR REPLACE FUNCTION hihooi.rests_on_temporary(class oid, object oid) RETURNS bool
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $function$
BEGIN
  RETURN EXISTS (
    SELECT FROM (
      SELECT class, object
      UNION ALL SELECT 'pg_attrdef'::regclass, a.oid FROM pg_attrdef a
                 WHERE class = 'pg_class'::regclass AND a.adrelid = object
      UNION ALL SELECT 'pg_constraint'::regclass, k.oid FROM pg_constraint k
                 WHERE class = 'pg_class'::regclass AND k.conrelid = object
      UNION ALL SELECT 'pg_constraint'::regclass, k.oid FROM pg_constraint k
                 WHERE class = 'pg_type'::regclass AND k.contypid = object
      UNION ALL SELECT 'pg_rewrite'::regclass, r.oid FROM pg_rewrite r
                 WHERE class = 'pg_class'::regclass AND r.ev_class = object) AS part (class, object)
      JOIN pg_depend d ON d.classid = part.class AND d.objid = part.object
      LEFT JOIN pg_class c ON d.refclassid = 'pg_class'::regclass AND c.oid = d.refobjid
      LEFT JOIN pg_type t ON d.refclassid = 'pg_type'::regclass AND t.oid = d.refobjid
      LEFT JOIN pg_proc p ON d.refclassid = 'pg_proc'::regclass AND p.oid = d.refobjid
     WHERE pg_my_temp_schema() IN (c.relnamespace, t.typnamespace, p.pronamespace));
END
$function$;
REVOKE ALL ON FUNCTION hihooi.is_on_temporary(oid, oid, text), hihooi.rests_on_temporary(oid, oid) FROM PUBLIC;
DO $do$ DECLARE
  name text; event text; tags text[];
BEGIN
  FOR name, event, tags IN VALUES
    ('hihooi_before', 'ddl_command_start', '{CREATE TABLE AS,SELECT INTO,CREATE TABLE,CREATE SCHEMA,ALTER TABLE}'::text[]),
    ('hihooi_after', 'ddl_command_end', NULL), ('hihooi_drop', 'sql_drop', NULL), ('hihooi_rewrite', 'table_rewrite', NULL)
  LOOP
    CONTINUE WHEN EXISTS (SELECT FROM pg_event_trigger WHERE evtname = name AND evttags IS NOT DISTINCT FROM tags);
    EXECUTE format('DROP EVENT TRIGGER IF EXISTS %I', name);
    EXECUTE format('CREATE EVENT TRIGGER %I ON %I %s EXECUTE FUNCTION hihooi.note_schema_change()', name, event,
                   'WHEN TAG IN (' || (SELECT string_agg(quote_literal(tag), ', ') FROM unnest(tags) AS tag) || ')');
  END LOOP;
END $do$