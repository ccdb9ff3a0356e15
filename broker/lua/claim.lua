-- Give a worker the first queued session that it can serve, under a new epoch.
-- ARGV: worker_id, lease_ms
-- Result: {} there is none | {sid, kind, ticket, epoch, attempt, edge, recording}
local wkey = worker_key(worker_id)
local row = redis.call('HMGET', wkey, 'slots', 'used', 'kinds', 'open')
if not row[1] or row[4] ~= '1' or tonumber(row[2]) >= tonumber(row[1]) then return {} end

for _, sid in ipairs(redis.call('ZRANGE', queue, 0, -1)) do
  local key = session_key(sid)
  local kind = redis.call('HGET', key, 'kind')
  if not kind then
    redis.call('ZREM', queue, sid)
  elseif string.find(',' .. row[3] .. ',', ',' .. kind .. ',', 1, true) then
    local at = now_ms()
    redis.call('ZREM', queue, sid)
    redis.call('ZADD', leases, at + tonumber(lease_ms), sid)
    redis.call('HINCRBY', wkey, 'used', 1)
    local epoch = redis.call('HINCRBY', key, 'epoch', 1)
    redis.call('HSET', key, 'worker', worker_id)
    redis.call('HSETNX', key, 'assigned_at', at)
    move(sid, 'assigned', at)
    local rest = redis.call('HMGET', key, 'ticket', 'attempt', 'edge', 'recording')
    return {sid, kind, rest[1], epoch, rest[2], rest[3], rest[4]}
  end
end
return {}
