-- Remove a worker whose process shuts down or has ended. The next run of the reaper requeues the sessions
-- that it has left.
-- ARGV: worker_id
-- Result: 1
local at = now_ms()
for _, sid in ipairs(redis.call('ZRANGE', leases, 0, -1)) do
  if fields(session_key(sid), 'worker')[1] == worker_id then redis.call('ZADD', leases, at - 1, sid) end
end
redis.call('ZREM', workers, worker_id)
redis.call('DEL', worker_key(worker_id))
return 1
