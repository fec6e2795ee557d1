-- Reads the pushes.
-- Reply: name and JSON of each, in no order; under * how often they were changed; under *NAME of one that fails when it is asked next, in ms,
--   and the last answer.
return try('HGETALL', PUSHES) or {}
