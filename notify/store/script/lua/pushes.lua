-- Reads the pushes.
-- Reply: name and JSON of each, in no order; under * how often they were changed.
return try('HGETALL', PUSHES) or {}
