-- Heartbeat of a worker: refresh its row. When the row is new, `used` is counted from the leases:
-- a worker that was away may believe that it holds sessions which other workers have taken over.
-- ARGV: worker_id, row (pairs field, value)
-- Result: the command left for the worker, '' for none
local key = worker_key(worker_id)
local at = now_ms()
if not is_whole(fields(key, 'used')[1]) then
  keep_hash(key)
  local used = 0
  for _, sid in ipairs(redis.call('ZRANGE', leases, 0, -1)) do
    if fields(session_key(sid), 'worker')[1] == worker_id then used = used + 1 end
  end
  redis.call('HSET', key, 'used', used)
end
redis.call('HSET', key, 'beat_at', at, unpack(ARGV, row))
redis.call('HDEL', key, 'disconnected')
redis.call('ZADD', workers, at, worker_id)
return redis.call('HGET', key, 'asked') or ''
