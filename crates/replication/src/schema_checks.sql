-- Refuses on the primary what replicas could only find out when they run it again: changes after
-- which their rows may differ, and texts that cannot be matched with what has run. The proxy refuses
-- the same where it sees the statement; these see what functions do, and what goes around it. From
-- the primary's catalogue more is known than from a text, so that the two do not always agree: what
-- is not refused here runs again at replicas.
--
-- Each statement comes without its comments.
CREATE OR REPLACE FUNCTION hihooi.refuse(message text, hint text) RETURNS void LANGUAGE plpgsql AS $function$
BEGIN
  RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = message, HINT = hint;
END
$function$;
-- Whether the input of a type may give another value at another time.
CREATE OR REPLACE FUNCTION hihooi.reads_clock(type oid) RETURNS bool
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $function$
DECLARE
  it pg_type;
BEGIN
  SELECT * INTO it FROM pg_type WHERE oid = type;
  RETURN CASE
    WHEN it.typtype = 'e' THEN false
    WHEN it.typtype = 'd' THEN hihooi.reads_clock(it.typbasetype)
    WHEN it.typcategory = 'A' AND it.typelem <> 0 THEN hihooi.reads_clock(it.typelem)
    ELSE it.typnamespace <> 'pg_catalog'::regnamespace
      OR it.typname <> ALL ('{bit,bool,box,bpchar,bytea,char,cidr,circle,float4,float8,inet,int2,int4,int4range,int8,
           int8range,interval,json,jsonb,line,lseg,macaddr,macaddr8,name,numeric,numrange,path,point,polygon,text,tsquery,
           tsvector,uuid,varbit,varchar,int4multirange,int8multirange,nummultirange,oid}'::name[])
  END;
END
$function$;
-- Whether a function is PostgreSQL's own and gives the same everywhere, with the settings that go
-- with the statement.
CREATE OR REPLACE FUNCTION hihooi.gives_the_same(f pg_catalog.pg_proc) RETURNS bool
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $function$
  SELECT (f).oid < 16384
     AND ((f).provolatile = 'i' OR (f).proname IN ('concat', 'concat_ws', 'format')
          OR ((f).proname, (f).pronargs) IN (
            ('age', 2), ('array_to_json', 1), ('array_to_string', 2), ('array_to_string', 3), ('date_part', 2),
            ('date_trunc', 2), ('date_trunc', 3), ('extract', 2), ('length', 1), ('timezone', 2), ('to_json', 1),
            ('to_jsonb', 1), ('to_timestamp', 1), ('to_tsvector', 2)))
$function$;
-- Whether a statement does this to a column: ADD it, or ALTER it.
CREATE OR REPLACE FUNCTION hihooi.is_about(statement text, verb text, name name) RETURNS bool
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $function$
  SELECT statement ~* concat('\m', verb, '\s+(column\M\s*)?(if\s+not\s+exists\s*)?"?',
                             regexp_replace(replace(name, '"', '""'), '([^[:alnum:]_])', '\\\1', 'g'), '($|[^[:alnum:]_$])')
$function$;
-- The columns of a table that the transaction under way has made or changed, and the statement
-- names so.
CREATE OR REPLACE FUNCTION hihooi.columns_of(relation oid, statement text, verb text) RETURNS SETOF pg_catalog.pg_attribute
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $function$
  SELECT a.* FROM pg_attribute a,
         LATERAL (SELECT pg_current_xact_id()::text::int8) AS own (id),
         LATERAL (SELECT own.id - own.id % 4294967296 + a.xmin::text::int8) AS its (id)
   WHERE a.attrelid = relation AND a.attnum > 0 AND NOT a.attisdropped
     AND CASE WHEN its.id >= own.id THEN pg_xact_status(its.id::text::xid8) = 'in progress' ELSE false END
     AND hihooi.is_about(statement, verb, a.attname)
$function$;
-- Returns a table, its partitions and its children, at all levels.
CREATE OR REPLACE FUNCTION hihooi.with_children(relation oid) RETURNS SETOF oid
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $function$
  WITH RECURSIVE below (oid) AS (
    SELECT relation UNION SELECT i.inhrelid FROM below JOIN pg_inherits i ON i.inhparent = below.oid)
  SELECT oid FROM below
$function$;
-- Returns the functions that a tree of nodes calls, also by operators.
CREATE OR REPLACE FUNCTION hihooi.calls_of(node text) RETURNS SETOF pg_catalog.pg_proc
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $function$
  SELECT f.* FROM regexp_matches(node, ':(?:funcid|opfuncid) (\d+)', 'g') AS calls (numbers)
                  JOIN pg_proc f ON f.oid = numbers[1]::oid
$function$;
-- Returns whether a table, a partition of it or a child may have rows. The snapshot of a transaction may be older than rows.
CREATE OR REPLACE FUNCTION hihooi.has_rows(relation oid) RETURNS bool
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $function$
DECLARE
  found bool;
BEGIN
  IF (SELECT coalesce(sum(pg_relation_size(oid)), 0) = 0 FROM hihooi.with_children(relation) AS below (oid)) THEN RETURN false;
  END IF;
  IF current_setting('transaction_isolation') <> 'read committed' THEN RETURN true;
  END IF;
  EXECUTE format('SELECT EXISTS (SELECT FROM %s)', relation::regclass) INTO found;
  RETURN found;
END
$function$;
-- Refuses for this reason, which ends with a hint, if a table has rows.
CREATE OR REPLACE FUNCTION hihooi.refuse_rows(relation oid, reason text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $function$
DECLARE
  hint text := substring(reason, ': (.*)$');
BEGIN
  IF EXISTS (SELECT FROM pg_class WHERE oid = relation AND relkind IN ('r', 'p')) AND hihooi.has_rows(relation) THEN
    PERFORM hihooi.refuse(split_part(reason, ': ', 1), concat(upper(left(hint, 1)), substr(hint, 2), '.'));
  END IF;
END
$function$;
-- Whether a statement has a word for the time at which it is read.
CREATE OR REPLACE FUNCTION hihooi.has_clock_word(statement text) RETURNS bool
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $function$
  SELECT statement ~* '(^|[^[:alpha:]])(now|today|tomorrow|yesterday)($|[^[:alpha:]])'
$function$;
-- The text behind the statements that the proxy puts in front of it. The shortest match ends with the last of them, whatever
-- the client's text has.
CREATE OR REPLACE FUNCTION hihooi.behind_preludes(statement text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $function$
  SELECT regexp_replace(statement, '^(?:DO \$replex_noted\$.*?END\$replex_noted\$;)*?(?!DO \$replex_noted\$)', '')
$function$;
-- Whether a statement has a literal with such a word.
CREATE OR REPLACE FUNCTION hihooi.has_clock_literal(statement text) RETURNS bool
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $function$
  SELECT EXISTS (
    SELECT FROM regexp_matches(statement, '''((?:[^'']|'''')*)''|\$(\w*)\$(.*?)\$\2\$', 'g') AS literals (parts)
     WHERE hihooi.has_clock_word(coalesce(parts[1], parts[3])))
$function$;
-- Whether a tree of nodes has a constant of a type whose input reads the clock.
CREATE OR REPLACE FUNCTION hihooi.has_clock_constant(node text) RETURNS bool
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $function$
  SELECT EXISTS (SELECT FROM regexp_matches(node, ':consttype (\d+)', 'g') AS types (numbers)
                  WHERE hihooi.reads_clock(numbers[1]::oid))
$function$;
-- Whether a default, a tree of nodes, may give a column of this type another value elsewhere.
CREATE OR REPLACE FUNCTION hihooi.default_differs(node text, type oid, statement text) RETURNS bool
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $function$
  SELECT node IS NOT NULL AND (
    node ~ '\{(SQLVALUEFUNCTION|NEXTVALUEEXPR|XMLEXPR|SUBLINK)'
    OR EXISTS (SELECT FROM hihooi.calls_of(node) AS f WHERE NOT hihooi.gives_the_same(f))
    OR node ~ '\{COERCEVIAIO' AND EXISTS (
         SELECT FROM regexp_matches(node, ':resulttype (\d+)', 'g') AS types (numbers) WHERE hihooi.reads_clock(numbers[1]::oid))
    OR node ~ ':consttype 1266 ' OR type = 'timetz'::regtype
    OR hihooi.has_clock_word(statement)
       AND (hihooi.reads_clock(type)
            OR EXISTS (SELECT FROM regexp_matches(node, ':consttype (\d+)', 'g') AS types (numbers)
                        WHERE hihooi.reads_clock(numbers[1]::oid))))
$function$;
-- Whether the texts after USING may give another value elsewhere, in columns of these types.
CREATE OR REPLACE FUNCTION hihooi.using_differs(statement text, types oid[]) RETURNS bool
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $function$
DECLARE
  -- Its source is no text. Where it is a time of day, its zone's rule is that of now.
  it text := regexp_replace(statement, '\mat\s+time\s+zone\s+''[^'']*''', '', 'gi');
  reads bool := (SELECT bool_or(hihooi.reads_clock(type)) FROM unnest(types) AS type);
BEGIN
  RETURN hihooi.has_clock_word(it)
    OR it <> statement AND NOT types <@ '{timestamp,timestamptz,date}'::regtype[]::oid[]
    OR it ~* '\m(current_\w+|localtime\w*|session_user|user|tableoid|ctid|xmin|xmax|cmin|cmax|operator|xml\w*)\M'
    -- What is cast to a time may be a text.
    OR it ~* '(::|\mas\M)\s*(pg_catalog\s*\.\s*)?"?(timestamp|timestamptz|time|timetz|date)\M'
    OR reads AND it ~* '::|''|\|\||\mcast\M'
    OR EXISTS (
      SELECT FROM regexp_matches(lower(it), '([[:alnum:]_.]+|")\s*\(', 'g') AS words (word)
       WHERE word[1] !~ concat('^(using|cast|coalesce|nullif|greatest|least|extract|in|and|or|not|when|then|else|case|array|row|',
               'any|all|between|like|ilike|similar|is|as|check|default|unique|primary|key|references|values|position|substring|',
               'trim|overlay|',
               'varchar|character|varying|char|bpchar|numeric|decimal|dec|bit|varbit|interval|float|precision|int4|int8)$')
         AND (word[1] = '"'
              -- With how many arguments is not known.
              OR (SELECT count(*) = 0
                         OR bool_or(f.oid >= 16384 OR f.provolatile <> 'i' AND f.proname <> ALL (
                              '{array_to_json,array_to_string,concat,concat_ws,date_part,date_trunc,format,length,timezone,
                                to_json,to_jsonb,to_timestamp}'::name[]))
                    FROM pg_proc f WHERE f.proname = regexp_replace(word[1], '^pg_catalog\.', ''))))
    -- A type of users' own, other than those that the columns get.
    OR EXISTS (
      SELECT FROM regexp_matches(lower(it), '::\s*("?[[:alnum:]_.]+)', 'g') AS casts (name)
       WHERE name[1] !~ '^(pg_catalog\.)?(int|integer|bigint|smallint|real|float|double|decimal|dec|boolean|character|bit|national|nchar)$'
         AND NOT EXISTS (SELECT FROM pg_type t
                          WHERE t.typname = regexp_replace(name[1], '^("|pg_catalog\.)', '')
                            AND (t.typnamespace = 'pg_catalog'::regnamespace OR t.oid = ANY (types))));
END
$function$;
-- Whether the bounds of a partition, of a table with the columns of this one, may be others elsewhere.
CREATE OR REPLACE FUNCTION hihooi.bounds_differ(relation oid, statement text) RETURNS bool
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $function$
  SELECT coalesce(bool_or(
      hihooi.has_clock_word(it.bounds)
        AND EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = relation AND a.attnum > 0 AND hihooi.reads_clock(a.atttypid))
      OR it.bare ~* '\m(current_\w+|localtime\w*|session_user|user)\M'
      OR EXISTS (SELECT FROM regexp_matches(lower(it.bare), '([[:alnum:]_]+|")\s*\(', 'g') AS words (word)
                             LEFT JOIN pg_proc f ON f.proname = word[1]
                  WHERE word[1] = '"' OR f.oid >= 16384 OR f.provolatile <> 'i')), false)
    FROM (SELECT bounds[1] AS bounds, regexp_replace(bounds[1], '''[^'']*''', '', 'g') AS bare
            FROM regexp_matches(statement, '\mfor\s+values\M([^;]*)', 'gi') AS found (bounds)) AS it
$function$;
-- Checks the rewriting of a table's rows.
CREATE OR REPLACE FUNCTION hihooi.check_rewrite(statement text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $function$
DECLARE
  relation oid := pg_event_trigger_table_rewrite_oid();
  reason int := pg_event_trigger_table_rewrite_reason();
  persistence "char" := (SELECT relpersistence FROM pg_class WHERE oid = relation);
  -- The table cannot be read by now: its indexes are half made.
  is_empty bool := pg_relation_size(relation) = 0;
  types oid[];
BEGIN
  -- Replicas may have rows even if it is empty: those from before it was unlogged.
  IF reason & 1 <> 0 AND persistence = 'u' THEN
    PERFORM hihooi.refuse(
      'SET LOGGED is not replicated, since replicas do not have the rows of unlogged tables',
      'Make another table that is LIKE this one, fill it with INSERT ... SELECT, then drop this one and rename the other.');
  END IF;
  IF reason & 4 = 0 OR persistence <> 'p' OR is_empty THEN RETURN;
  END IF;
  types := (SELECT array_agg(a.atttypid) FROM hihooi.columns_of(relation, statement, 'alter') AS a);
  IF EXISTS (SELECT FROM pg_cast WHERE oid >= 16384)
     OR EXISTS (SELECT FROM unnest(types) AS type WHERE type = 'timetz'::regtype)
     OR statement ~* '\musing\M' AND hihooi.using_differs(statement, types) THEN
    PERFORM hihooi.refuse(
      'this ALTER TABLE converts existing rows to values that may differ between databases',
      'Add another column of that type, fill it with UPDATE, then drop the first one and rename the other; or run it through the proxy, in no function, where more is known of it.');
  END IF;
END
$function$;
-- Returns whether a statement that has changed this table, or made it, has merged a check that replicas replace with the same check
-- of a parent or a child. INHERIT and ATTACH merge checks that both are there already, and are replaced in the same way.
CREATE OR REPLACE FUNCTION hihooi.merges_check(relation oid, statement text) RETURNS bool
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $function$
  SELECT statement !~* '\m(inherit|attach)\M' AND EXISTS (
    SELECT FROM hihooi.with_children(relation) AS below (oid) JOIN pg_class r USING (oid) JOIN pg_constraint c ON c.conrelid = below.oid
     WHERE c.contype = 'c' AND c.coninhcount > 0 AND age(c.xmin) <= age(pg_current_xact_id()::xid)
       -- Of partitions it is not recorded whether they have a check of their own.
       AND (c.conislocal
            OR r.relispartition AND statement ~* '^\s*create\M.*\mcheck\M' AND strpos(lower(statement), lower(c.conname)) > 0
            OR EXISTS (SELECT FROM pg_inherits i JOIN pg_constraint p ON p.conrelid = i.inhparent
                        WHERE i.inhrelid = below.oid AND p.contype = 'c' AND p.conname = c.conname AND p.oid > c.oid))
       AND {may_fail})
$function$;
-- Returns whether a function of users' own calls what gives another value in another session or at another time. Functions that
-- it calls are not looked into.
CREATE OR REPLACE FUNCTION hihooi.depends_on_session(f pg_catalog.pg_proc) RETURNS bool
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $function$
  SELECT (f).oid >= 16384 AND concat((f).prosrc, pg_get_function_sqlbody((f).oid)) ~* concat(
    '\m(current_(date|time|timestamp|user|role|catalog|schema)|localtime|localtimestamp|session_user)\M|',
    '\m(current_setting|set_config|current_query|current_database|pg_(try_)?advisory\w+|pg_backend_pid|inet_(client|server)\w+|',
    'txid_\w+|pg_current_\w+|pg_sleep\w*|random|gen_random_uuid|nextval|currval|lastval|setval|',
    'now|clock_timestamp|statement_timestamp|transaction_timestamp|timeofday)\s*\(')
$function$;
-- Returns whether a tree of nodes calls such a function.
CREATE OR REPLACE FUNCTION hihooi.calls_session(node text) RETURNS bool
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $function$
  SELECT EXISTS (SELECT FROM hihooi.calls_of(node) AS f WHERE hihooi.depends_on_session(f))
$function$;
CREATE OR REPLACE FUNCTION hihooi.refuse_of_session(statement text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $function$
BEGIN
  PERFORM hihooi.refuse('an index or a generated column whose function depends on the session or the clock is not replicated',
                        concat('Give the function an argument for it, or store the value in a column of its own.',
                               CASE WHEN statement ~* '\mconcurrently\M' THEN ' The index exists on the primary: drop it.' END));
END
$function$;
-- Checks a function that was made or replaced. Indexes and generated columns may use it already.
CREATE OR REPLACE FUNCTION hihooi.check_function(function oid, statement text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $function$
BEGIN
  IF EXISTS (SELECT FROM pg_proc f WHERE f.oid = function AND hihooi.depends_on_session(f))
     AND EXISTS (
       SELECT FROM pg_depend d
              LEFT JOIN pg_class i ON d.classid = 'pg_class'::regclass AND i.oid = d.objid AND i.relkind IN ('i', 'I')
              LEFT JOIN pg_attrdef v ON d.classid = 'pg_attrdef'::regclass AND v.oid = d.objid
              LEFT JOIN pg_attribute a ON a.attrelid = v.adrelid AND a.attnum = v.adnum AND a.attgenerated = 's'
              JOIN pg_class c ON c.oid IN (i.oid, a.attrelid) AND c.relpersistence = 'p'
        WHERE d.refclassid = 'pg_proc'::regclass AND d.refobjid = function) THEN
    PERFORM hihooi.refuse_of_session(statement);
  END IF;
END
$function$;
-- Checks a table that was made or altered. How columns are filled the proxy has checked, if it sent the statement.
CREATE OR REPLACE FUNCTION hihooi.check_table(relation oid, statement text, is_checked bool) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $function$
BEGIN
  IF EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = relation AND NOT t.tgisinternal AND t.tgenabled IN ('A', 'R'))
     OR EXISTS (SELECT FROM pg_rewrite r WHERE r.ev_class = relation AND r.oid >= 16384 AND r.ev_enabled IN ('A', 'R')) THEN
    PERFORM hihooi.refuse(
      'what is ENABLE ALWAYS or ENABLE REPLICA would run again at replicas, where rows come with what it has done',
      'Use ENABLE alone.');
  END IF;
  -- PostgreSQL reads the clock when the object is made: each server has its own constant.
  IF hihooi.has_clock_literal(statement)
     AND (EXISTS (SELECT FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class
                   WHERE r.ev_class = relation AND c.relkind IN ('v', 'm') AND c.relpersistence = 'p'
                     AND hihooi.has_clock_constant(r.ev_action::text))
          OR EXISTS (SELECT FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid AND c.relpersistence = 'p'
                                JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
                      WHERE a.attrelid = relation AND a.attgenerated = 's' AND hihooi.has_clock_constant(d.adbin::text))) THEN
    PERFORM hihooi.refuse('a view or generated column with ''now'' or the like would have another time at each server',
                          'Write the time itself; in a view, now() is the time of each query.');
  END IF;
  -- Replicas run it in other sessions. Those of earlier transactions are not judged again.
  IF EXISTS (SELECT FROM pg_class WHERE oid = relation AND relpersistence = 'p')
     AND (EXISTS (SELECT FROM pg_index i
                   WHERE relation IN (i.indexrelid, i.indrelid) AND age(i.xmin) <= age(pg_current_xact_id()::xid)
                     AND hihooi.calls_session(concat(i.indexprs, i.indpred)))
          OR EXISTS (SELECT FROM pg_attribute a JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
                      WHERE a.attrelid = relation AND a.attgenerated = 's' AND age(d.xmin) <= age(pg_current_xact_id()::xid)
                        AND hihooi.calls_session(d.adbin::text))) THEN
    PERFORM hihooi.refuse_of_session(statement);
  END IF;
  IF NOT EXISTS (SELECT FROM pg_class WHERE oid = relation AND relkind IN ('r', 'p') AND relpersistence = 'p') THEN RETURN;
  END IF;
  IF statement ~* '\mfor\s+values\M' AND hihooi.bounds_differ(relation, statement) THEN
    PERFORM hihooi.refuse('a partition whose bounds are not constants would have others at replicas', 'Write their values.');
  END IF;
  IF hihooi.merges_check(relation, statement) THEN
    PERFORM hihooi.refuse('a check that calls functions is not replicated where a parent and a child table each define it',
                          'Write it in one of the tables, or give the two checks different names.');
  END IF;
  -- Of types for internal use only, and of keys of indexes, what the output writes no input reads.
  IF EXISTS (SELECT FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
                         JOIN pg_proc f ON f.oid = t.typinput
              WHERE a.attrelid = relation AND a.attnum > 0 AND NOT a.attisdropped
                AND (t.typcategory = 'Z' AND t.typname <> 'char'
                     OR f.proname IN ('gtsvectorin', 'gbtreekey_in', 'gtrgm_in', 'ghstore_in', 'ltree_gist_in', '_int_gkey_in',
                                      'intbig_gkey_in'))) THEN
    PERFORM hihooi.refuse('a table with a column of a type whose values cannot be read as text is not replicated',
                          'Store it as text, for example column::text.');
  END IF;
  IF EXISTS (SELECT FROM pg_attribute a JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
              WHERE a.attrelid = relation AND a.attgenerated = 's' AND d.adbin::text ~ ':varattno -\d') THEN
    PERFORM hihooi.refuse('a column GENERATED from tableoid would differ between databases', 'Leave tableoid out.');
  END IF;
  IF NOT is_checked AND EXISTS (
       SELECT FROM hihooi.columns_of(relation, statement, 'add') AS a
                   JOIN pg_type t ON t.oid = a.atttypid
                   LEFT JOIN pg_attrdef d ON d.adrelid = relation AND d.adnum = a.attnum
        WHERE a.attgenerated = ''
          AND (a.attidentity <> ''
               OR hihooi.default_differs(coalesce(d.adbin, t.typdefaultbin)::text, a.atttypid, statement)))
     AND hihooi.has_rows(relation) THEN
    PERFORM hihooi.refuse(
      'this ALTER TABLE fills existing rows with values that may differ between databases',
      'Add the column without a default, fill it with UPDATE, then set the default.');
  END IF;
END
$function$;
-- Checks a text: notes must be matched with its statements.
CREATE OR REPLACE FUNCTION hihooi.check_text(statement text, is_conforming bool, is_whole bool, makes_rows bool) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $function$
DECLARE
  bare text := regexp_replace(regexp_replace(statement, '\$(\w*?)\$.*?\$\1\$', '', 'g'), '''[^'']*''', '', 'g');
  ends constant text := '\s*(begin|start\s+transaction|commit|end|rollback|abort|savepoint|release|prepare\s+transaction)\M';
BEGIN
  IF NOT is_conforming AND strpos(statement, '\') > 0 THEN
    PERFORM hihooi.refuse('a change of the schema with a backslash is not replicated while standard_conforming_strings is off',
                          'Set it on, and write E''...'' where the backslash is an escape.');
  END IF;
  IF makes_rows AND (bare ~* '\mas\s+execute\M|^\s*explain\M') THEN
    PERFORM hihooi.refuse('a table that is made so is not replicated', 'Write CREATE TABLE ... AS with a query.');
  END IF;
  -- No event trigger sees a table that EXPLAIN ANALYZE makes.
  IF is_whole AND bare ~* '(^|;)\s*create\s+(or\s+replace\s+)?(function|procedure)\M'
     AND statement ~* '(''|\$)\s*explain\M([^;''$]|'''')*\manaly[sz]e\M([^;''$]|'''')*(\mcreate\s+(?!temp|local|global)|(?<!\minsert\s)(?<!\mmerge\s)\minto\s+(?!temp|local|global|pg_temp))' THEN
    PERFORM hihooi.refuse('a function in which EXPLAIN ANALYZE makes a table is not replicated',
                          'Leave out ANALYZE, or make the table by a statement of its own.');
  END IF;
  IF bare ~* '\mpg_toast"?\s*\.' THEN
    PERFORM hihooi.refuse('a change of a table in pg_toast is not replicated, since its name is another one at replicas',
                          'Change the table that it belongs to.');
  END IF;
  IF is_whole AND bare ~* '(^|;)\s*(create|alter)\s+extension\M'
     AND bare ~* '(^|;)\s*(?!create\M|alter\M|drop\M|comment\M|grant\M|revoke\M|set\M|begin\M|commit\M)\w' THEN
    PERFORM hihooi.refuse('an extension that is made or changed together with other things is not replicated',
                          'Send the statement in a message of its own.');
  END IF;
  -- The first of its transactions ends in it, or a part is rolled back.
  IF is_whole AND bare !~* '\mbegin\s+atomic\M'
     AND (SELECT count(*) > 1 FROM regexp_matches(bare, '(?:^|;)\s*(?:create|alter|drop|grant|revoke|comment|import|security|reassign)\M', 'gi'))
     AND regexp_replace(regexp_replace(bare, concat('^', ends), '', 'i'), ';\s*(commit|end)\M[^;]*;?\s*$', '', 'i') ~* concat('(^|;)', ends) THEN
    PERFORM hihooi.refuse('changes of the schema in a text that ends transactions within it, or parts of them, are not replicated',
                          'Send each transaction in messages of its own.');
  END IF;
END
$function$;
-- Checks a text at its first statement: it may have hundreds, and the triggers run for each.
CREATE OR REPLACE FUNCTION hihooi.check_text_once(statement text, is_whole bool, makes_rows bool) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $function$
DECLARE
  is_conforming bool := current_setting('standard_conforming_strings') = 'on';
  checked text := md5(concat_ws('|', statement_timestamp(), is_conforming, is_whole, makes_rows, statement));
BEGIN
  IF current_setting('hihooi.checked_text', true) IS DISTINCT FROM checked THEN
    PERFORM hihooi.check_text(statement, is_conforming, is_whole, makes_rows);
    PERFORM set_config('hihooi.checked_text', checked, true);
  END IF;
END
$function$;
REVOKE ALL ON FUNCTION hihooi.refuse(text, text), hihooi.reads_clock(oid), hihooi.gives_the_same(pg_catalog.pg_proc),
  hihooi.is_about(text, text, name), hihooi.columns_of(oid, text, text), hihooi.has_rows(oid), hihooi.with_children(oid), hihooi.calls_of(text), hihooi.refuse_rows(oid, text),
  hihooi.has_clock_word(text), hihooi.behind_preludes(text), hihooi.has_clock_literal(text),
  hihooi.has_clock_constant(text),
  hihooi.default_differs(text, oid, text), hihooi.bounds_differ(oid, text), hihooi.using_differs(text, oid[]), hihooi.check_rewrite(text),
  hihooi.merges_check(oid, text), hihooi.depends_on_session(pg_catalog.pg_proc), hihooi.calls_session(text),
  hihooi.refuse_of_session(text), hihooi.check_function(oid, text), hihooi.check_table(oid, text, bool), hihooi.check_text(text, bool, bool, bool),
  hihooi.check_text_once(text, bool, bool) FROM PUBLIC;
