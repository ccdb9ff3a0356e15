-- The connection of a worker is closed, so its process has probably ended: it counts as silent until its next
-- heartbeat. If it is lost, the next run of the reaper requeues its sessions.
-- ARGV: worker_id, beat_at (its last heartbeat when the connection was found closed), is_lost (1 or 0)
-- Result: 1 done | 0 the worker is not registered, or has sent a heartbeat since
local beat = number(redis.call('ZSCORE', workers, worker_id))
if not beat or beat > tonumber(beat_at) then return 0 end
if is_lost == '1' then
  remove_worker(worker_id, now_ms())
else
  keep_hash(worker_key(worker_id))
  redis.call('HSET', worker_key(worker_id), 'disconnected', '1')
end
return 1
