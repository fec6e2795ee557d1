-- The messages that ended, a row each. A row has its month's partition, messages_YYYY_MM,
-- which is made when it is needed.

CREATE TABLE bellhop.messages (
	ended        timestamptz NOT NULL,              -- by Redis's clock
	topic        text COLLATE "C" NOT NULL,         -- empty if the member is foreign
	id           text COLLATE "C" NOT NULL,
	store        text COLLATE "C" NOT NULL,         -- id of the store in Redis
	entry        text COLLATE "C" NOT NULL,         -- its id in the stream of endings of the store
	state        text NOT NULL,                     -- dead, dropped, acked or removed
	reason       text NOT NULL,                     -- why it died or was dropped
	attempts     integer NOT NULL,                  -- used up
	history      jsonb NOT NULL,                    -- the last attempts that failed: ended, took_ms, by, reason
	published    timestamptz,
	due          timestamptz,                       -- of its first attempt
	content_type text NOT NULL,
	headers      jsonb NOT NULL,
	options      jsonb NOT NULL,                    -- what else its publisher asked for
	body         bytea NOT NULL,
	size         integer NOT NULL,                  -- of the body
	result       bytea,                             -- of an acknowledgement that had one
	fault        text,                              -- why the record is unreadable; the body is all of it then
	archived     timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (topic, id, ended, store, entry)
) PARTITION BY RANGE (ended);

CREATE INDEX messages_ended ON bellhop.messages (ended);
