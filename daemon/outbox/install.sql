-- The outbox of Bellhop, version {{.Version}}, for PostgreSQL 13 or newer. It may be run again, also over an
-- older version: rows and rights stay. Run it in one transaction.

DO $bellhop$
DECLARE
	owner text;
	at integer;
BEGIN
	IF current_setting('server_version_num')::integer < 130000 THEN
		RAISE feature_not_supported USING MESSAGE = 'PostgreSQL ' || current_setting('server_version') || ' is too old; use 13 or newer';
	ELSIF to_regnamespace('bellhop') IS NULL THEN
		IF NOT has_database_privilege(current_database(), 'CREATE') THEN
			RAISE insufficient_privilege USING MESSAGE = format('%I may not make the schema bellhop; allow it: GRANT CREATE ON DATABASE %I TO %1$I', current_user, current_database());
		END IF;
		CREATE SCHEMA bellhop;
	ELSIF NOT (has_schema_privilege('bellhop', 'CREATE') AND has_schema_privilege('bellhop', 'USAGE')) THEN
		RAISE insufficient_privilege USING MESSAGE = format('%I may make nothing in the schema bellhop; allow it: GRANT CREATE, USAGE ON SCHEMA bellhop TO %1$I', current_user);
	END IF;
	IF to_regclass('bellhop.outbox') IS NOT NULL OR to_regclass('bellhop.outbox_about') IS NOT NULL THEN
		IF (SELECT count(*) FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid WHERE c.relkind = 'r' AND NOT a.attisdropped AND (
				a.attrelid = to_regclass('bellhop.outbox') AND a.attname IN ('seq', 'called', 'topic', 'id', 'asked', 'body', 'refused')
				OR a.attrelid = to_regclass('bellhop.outbox_about') AND a.attname IN ('id', 'version', 'max_body'))) < 10 THEN
			RAISE duplicate_table USING MESSAGE = 'bellhop.outbox or bellhop.outbox_about is there, and is none of Bellhop; rename it: ALTER TABLE bellhop.outbox RENAME TO other';
		END IF;
		SELECT pg_get_userbyid(c.relowner) INTO owner FROM pg_class c WHERE c.oid = to_regclass('bellhop.outbox') AND NOT pg_has_role(c.relowner, 'USAGE');
		IF owner IS NOT NULL THEN
			RAISE insufficient_privilege USING MESSAGE = format('bellhop.outbox belongs to %I; log in as that role, or join it: GRANT %1$I TO %I', owner, current_user);
		END IF;
		SELECT a.version INTO at FROM bellhop.outbox_about a;
		IF at > {{.Version}} THEN
			RAISE feature_not_supported USING MESSAGE = format('the outbox is of a newer version of this program: it has version %s, and this program knows up to {{.Version}}; update this one', at);
		END IF;
	END IF;
END $bellhop$;

-- What was published by transactions that committed, until it is in Redis.
CREATE TABLE IF NOT EXISTS bellhop.outbox (
	seq     bigint GENERATED ALWAYS AS IDENTITY (SEQUENCE NAME bellhop.outbox_seq) PRIMARY KEY,
	called  timestamptz NOT NULL DEFAULT clock_timestamp(),
	topic   text NOT NULL,
	id      text NOT NULL,
	asked   jsonb,                                          -- what else its publisher asked for, as in a JSON line; NULL: nothing
	body    bytea NOT NULL,
	refused text                                            -- why it cannot be published; NULL: it waits
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);

CREATE TABLE IF NOT EXISTS bellhop.outbox_about (
	id       uuid NOT NULL,                                 -- of this outbox, in Redis
	version  integer NOT NULL,
	max_body bigint NOT NULL                                -- bytes
);
INSERT INTO bellhop.outbox_about SELECT gen_random_uuid(), {{.Version}}, {{.MaxBody}} WHERE NOT EXISTS (SELECT FROM bellhop.outbox_about);
UPDATE bellhop.outbox_about SET version = {{.Version}}, max_body = {{.MaxBody}}{{if .NewID}}, id = gen_random_uuid(){{end}};

-- Publishes a message once the transaction commits, and returns its id. All that is wrong is one error, 22023.
CREATE OR REPLACE FUNCTION bellhop.publish(topic text, body bytea{{.Parameters}}) RETURNS text
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $bellhop$
#variable_conflict use_variable
DECLARE
	named  text COLLATE "C" := topic;
	ident  text COLLATE "C" := id;
	asked  jsonb := '{}';
	faults text[] := '{}';
	wrong  text;
	header text COLLATE "C";
	value  jsonb;
	number integer := 0;
	size   bigint := 0;
	us     bigint;
	drawn  text;
BEGIN
	IF starts_with(named, '$') THEN
		faults := faults || ('topic ' || to_json(left(named, 200)) || ': names that begin with $ are the system''s; name a topic of your own, and listen to $dead.TOPIC to hear of its deaths');
	ELSIF named IS NULL OR named = '' THEN
		faults := faults || text 'topic: it is empty; name one, such as order.timeout';
	ELSIF octet_length(named) > {{.MaxTopic}} THEN
		faults := faults || ('topic: ' || octet_length(named) || ' bytes; at most {{.MaxTopic}} are allowed');
	ELSIF named !~ '^[A-Za-z0-9_-]+([.][A-Za-z0-9_-]+)*(@[A-Za-z0-9_-]+)?$' THEN
		faults := faults || ('topic ' || to_json(named) || ': use tokens of letters, digits, _ and -, joined by single dots');
	END IF;
	IF octet_length(ident) > {{.MaxID}} THEN
		faults := faults || ('id: ' || octet_length(ident) || ' bytes; at most {{.MaxID}} are allowed');
	ELSIF ident !~ '^[A-Za-z0-9._~:-]*$' OR ident IN ('.', '..') THEN
		faults := faults || ('id ' || to_json(ident) || ': use letters, digits and . _ ~ : -, but not . or .. alone, which no URL can name');
	END IF;

	IF num_nonnulls({{range .Asked}}{{.Name}}, {{end}}headers) > 0 OR broadcast THEN
{{- range .Asked}}
		IF {{.Given}} THEN
			wrong := CASE{{range .Wrong}}
				WHEN {{.If}} THEN {{.Said}}{{end}} END;
			IF wrong IS NOT NULL THEN
				faults := faults || ('{{.Words}} ' || {{.Shown}} || wrong);
			END IF;
			{{- if .Without}}
			IF asked->'{{.Without}}' IS NOT NULL THEN
				faults := faults || text '{{.Without}} and {{.Key}}: both are given; give one of them';
			END IF;
			{{- end}}
			asked := asked || jsonb_build_object('{{.Key}}', {{.Value}});
		END IF;
{{- end}}
	END IF;

	IF body IS NULL THEN
		faults := faults || text 'body: it is NULL; give '''' for an empty one';
	ELSIF octet_length(body) > {{.MaxBody}} THEN
		faults := faults || ('body: ' || octet_length(body) || ' bytes; at most {{.MaxBody}} are allowed');
	END IF;

	IF jsonb_typeof(headers) NOT IN ('object', 'null') THEN
		faults := faults || ('headers: it is a JSON ' || jsonb_typeof(headers) || ', and should be an object; write one such as {"Tenant": "acme"}');
	ELSIF headers NOT IN ('{}', 'null') THEN
		wrong := NULL;
		FOR header, value IN SELECT h.key, h.value FROM jsonb_each(headers) h LOOP
			number := number + 1;
			size := size + octet_length(header) + coalesce(octet_length(convert_to(value #>> '{}', 'UTF8')), 0);
			wrong := coalesce(wrong, CASE
				WHEN header !~ '^[!#$%&''*+.^_`|~0-9A-Za-z-]+$' THEN 'header name ' || to_json(left(header, 100)) || ': use letters, digits and the signs !#$%&''*+.^_`|~-'
				WHEN jsonb_typeof(value) NOT IN ('string', 'null') THEN 'header ' || left(header, 100) || ': its value is a JSON ' || jsonb_typeof(value) || ', and should be a string'
				WHEN (value #>> '{}') COLLATE "C" ~ {{.Control}} THEN 'header ' || left(header, 100) || ': its value is not printable UTF-8 text' END);
		END LOOP;
		IF number > {{.MaxHeaders}} THEN
			wrong := 'headers: ' || number || ' of them; at most {{.MaxHeaders}} are allowed';
		ELSIF wrong IS NULL AND number > 1 THEN
			SELECT 'headers ' || left(min(h.key COLLATE "C"), 100) || ' and ' || left(max(h.key COLLATE "C"), 100) || ': names are equal without regard to case; give one of them' INTO wrong
				FROM jsonb_object_keys(headers) h (key) GROUP BY lower(h.key COLLATE "C") HAVING count(*) > 1 LIMIT 1;
		END IF;
		IF wrong IS NULL AND size > {{.MaxHeaderBytes}} THEN
			wrong := 'headers: ' || size || ' bytes in all; at most {{.MaxHeaderBytes}} are allowed';
		END IF;
		IF wrong IS NOT NULL THEN
			faults := faults || wrong;
		END IF;
		asked := asked || jsonb_build_object('headers', headers);
	END IF;

	IF asked <> '{}' THEN
		IF asked->'if_busy' IS NOT NULL AND asked->'key' IS NULL AND broadcast IS NOT TRUE THEN
			faults := faults || ('if_busy ' || if_busy || ': the key is missing; give the one of which others may be under way');
		END IF;
		IF asked->'on_dead' IS NOT NULL AND asked->'after_group' IS NULL AND broadcast IS NOT TRUE THEN
			faults := faults || ('on_dead ' || on_dead || ': it says what holds back a message with after_group; give both');
		END IF;
		IF asked->'after_group' IS NOT NULL AND (asked->'delay' IS NOT NULL OR asked->'due' IS NOT NULL OR asked->'spread' IS NOT NULL) THEN
			faults := faults || ('after_group ' || after_group || ': the end of the group is its time; leave out delay, due and spread, and reschedule it for a time at the latest');
		END IF;
		IF asked->'after_group' IS NOT NULL AND asked->>'if_exists' = 'debounce' THEN
			faults := faults || ('if_exists ' || if_exists || ': what waits for a group is not put off; use replace');
		END IF;
		IF asked->'then' IS NOT NULL AND (asked->'group' IS NOT NULL OR asked->'after_group' IS NOT NULL) THEN
			faults := faults || ('then ' || "then" || ': what follows another message joins no group, and waits for none; leave it out, or give this one an id of its own');
		END IF;
		IF asked->'late' IS NOT NULL AND asked->'late_after' IS NULL AND broadcast IS NOT TRUE THEN
			faults := faults || ('late ' || late || ': late_after is missing; give how long after its first due time a claim is too late');
		END IF;
		IF ident IS NULL OR ident = '' THEN
			IF asked->'unique_for' IS NOT NULL THEN
				faults := faults || ('unique_for ' || quote_literal(unique_for::text) || ': the id is missing; name the message');
			END IF;
			IF asked->>'if_exists' <> 'refuse' THEN
				faults := faults || ('if_exists ' || if_exists || ': the id is missing; name the message');
			END IF;
			IF asked->'then' IS NOT NULL THEN
				faults := faults || ('then ' || "then" || ': the id is missing; name the message');
			END IF;
		END IF;
		IF asked->>'if_exists' = 'debounce' AND asked->'delay' IS NULL AND asked->'after_group' IS NULL THEN
			faults := faults || text 'delay: it is missing; debounce puts the message off by it';
		END IF;
		IF asked->'max_wait' IS NOT NULL THEN
			IF asked->>'if_exists' IS DISTINCT FROM 'debounce' THEN
				faults := faults || ('max_wait ' || quote_literal(max_wait::text) || ': it is for if_exists=debounce alone; leave it out');
			ELSIF max_wait < delay THEN
				faults := faults || ('max_wait ' || quote_literal(max_wait::text) || ': it is less than the delay, ' || quote_literal(delay::text));
			END IF;
		END IF;
	END IF;
	IF broadcast THEN
		asked := asked || '{"mode": "broadcast"}';
	END IF;
	IF cardinality(faults) > 0 THEN
		RAISE invalid_parameter_value USING MESSAGE = 'bellhop: ' || array_to_string(faults, chr(10));
	END IF;

	IF ident IS NULL OR ident = '' THEN -- 42 bits of the time in ms, 10 of the us in that, and 44 random ones
		us := extract(epoch FROM clock_timestamp()) * 1000000;
		drawn := right(gen_random_uuid()::text, 11);
		ident := translate(encode(int8send(((us / 1000) << 22) | ((us % 1000) << 12) | ('x' || left(drawn, 3))::bit(12)::bigint) || decode(right(drawn, 8), 'hex'), 'base64'),
			'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/', '-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz');
	END IF;
	INSERT INTO bellhop.outbox (topic, id, asked, body) VALUES (named, ident, nullif(asked, '{}'), body);
	IF NOT pg_try_advisory_xact_lock_shared({{.LockClass}}, {{.Lock}}) THEN -- the relay sleeps
		PERFORM pg_notify('{{.Channel}}', '');
	END IF;
	RETURN ident;
END $bellhop$;

CREATE OR REPLACE FUNCTION bellhop.publish(topic text, body text DEFAULT ''{{.Parameters}}) RETURNS text
	LANGUAGE sql AS $bellhop$ SELECT bellhop.publish($1, pg_catalog.convert_to($2, 'UTF8'){{.Passed}}) $bellhop$;

CREATE OR REPLACE FUNCTION bellhop.publish(topic text, body jsonb{{.Parameters}}) RETURNS text
	LANGUAGE sql AS $bellhop$ SELECT bellhop.publish($1, pg_catalog.convert_to($2::pg_catalog.text, 'UTF8'){{.PassedJSON}}) $bellhop$;

REVOKE ALL ON FUNCTION {{.Functions}} FROM PUBLIC;

-- Those of an older version have other arguments. Who may execute them may execute these.
DO $bellhop$
DECLARE
	old record;
	granted record;
BEGIN
	FOR old IN SELECT p.oid::regprocedure AS named, p.proacl, p.proowner FROM pg_proc p WHERE p.pronamespace = 'bellhop'::regnamespace AND p.proname = 'publish'
			AND p.oid NOT IN ({{range $i, $f := .Signatures}}{{if $i}}, {{end}}'{{$f}}'::regprocedure{{end}}) LOOP
		FOR granted IN SELECT a.grantee::regrole AS named, a.is_grantable FROM aclexplode(old.proacl) a WHERE a.grantee NOT IN (0, old.proowner) LOOP
			EXECUTE format('GRANT EXECUTE ON FUNCTION {{.Functions}} TO %s', granted.named) || CASE WHEN granted.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END;
		END LOOP;
		EXECUTE format('DROP ROUTINE %s', old.named);
	END LOOP;
	FOR old IN SELECT p.oid::regprocedure AS named, c.relowner::regrole AS owner FROM pg_proc p JOIN pg_class c ON c.oid = 'bellhop.outbox'::regclass AND c.relowner <> p.proowner
			WHERE p.pronamespace = 'bellhop'::regnamespace AND p.proname = 'publish' LOOP
		EXECUTE format('ALTER FUNCTION %s OWNER TO %s', old.named, old.owner); -- they write with the rights of their owner
	END LOOP;
END $bellhop$;
{{- range .Grant}}

GRANT USAGE ON SCHEMA bellhop TO {{.}};
GRANT EXECUTE ON FUNCTION {{$.Functions}} TO {{.}};
{{- end}}
{{- range .Relay}}

GRANT USAGE ON SCHEMA bellhop TO {{.}};
GRANT SELECT, DELETE, UPDATE (refused, seq) ON bellhop.outbox TO {{.}};
GRANT SELECT ON bellhop.outbox_about TO {{.}};
GRANT SELECT ON SEQUENCE bellhop.outbox_seq TO {{.}};
{{- end}}
