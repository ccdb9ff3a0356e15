-- Remove a stream that would never expire by itself.
-- (Without the prelude: one stream, in the session's own slot.)
-- KEYS: stream
-- ARGV: '1' to only look
-- Result: 1 removed | 0 it has a life time, as every stream that is written to, or is gone
local stream = KEYS[1]
if redis.call('TTL', stream) ~= -1 then return 0 end
if ARGV[1] ~= '1' then redis.call('UNLINK', stream) end
return 1
