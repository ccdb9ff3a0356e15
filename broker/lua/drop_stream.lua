-- Remove a stream that would never expire.
-- (Without the prelude: one stream, in the session's own slot.)
-- KEYS: stream
-- ARGV: dry_run ('1' = only count)
-- Result: 1 removed | 0 it has an expiry, as every stream in use has, or is gone
if redis.call('TTL', stream) ~= -1 then return 0 end
if dry_run ~= '1' then redis.call('UNLINK', stream) end
return 1
