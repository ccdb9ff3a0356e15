-- A worker is alive: refresh its row. `used` is the scripts' own count, made from the leases when the
-- row is new (a worker that was away may believe that it still holds what others have by now).
-- ARGV: control, worker id, number of sessions it believes it holds, then pairs field, value
-- Result: what an operator has asked of the worker, '' for nothing
local id, held = ARGV[2], ARGV[3]
local key = worker_key(id)
local at = now_ms()
if redis.call('HEXISTS', key, 'used') == 0 then
  local used = 0
  for _, sid in ipairs(redis.call('ZRANGE', leases, 0, -1)) do
    if redis.call('HGET', session_key(sid), 'worker') == id then used = used + 1 end
  end
  redis.call('HSET', key, 'used', used)
end
redis.call('HSET', key, 'held', held, 'beat_at', at, unpack(ARGV, 4))
redis.call('ZADD', workers, at, id)
return redis.call('HGET', key, 'asked') or ''
