-- Upkeep, run by any process once a second: what the dead have left behind.
-- ARGV: control, max attempts, heartbeat ttl ms, recovery timeout ms, row ttl s, lease ms, grace ms
-- Result: {requeued, ended, workers removed, edges removed}
local max_attempts, ttl, patience, row_ttl_s = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
local lease_ms, grace = tonumber(ARGV[6]), tonumber(ARGV[7])
local at = now_ms()
local requeued, ended = 0, 0

-- When nobody has run this for half a lease (of five seconds), Redis itself was away, or its clock was
-- set: everyone's times are wrong through no fault of their own. They get one heartbeat's time to come back.
local OUTAGE_MS = math.max(2000, lease_ms / 2)

-- No client could come back to its session either.
local function restart_grace(sid)
  if redis.call('HEXISTS', session_key(sid), 'resume') == 1 then
    redis.call('HSET', session_key(sid), 'seen_at', at)
  end
end

local function spare_everyone()
  redis.call('HSET', reaper, 'quiet_until', at + ttl)
  for _, sid in ipairs(redis.call('ZRANGE', leases, 0, -1)) do
    redis.call('ZADD', leases, at + lease_ms, sid)
    restart_grace(sid)
  end
  for _, sid in ipairs(redis.call('ZRANGE', queue, 0, -1)) do
    restart_grace(sid)
    if redis.call('HGET', session_key(sid), 'state') == 'recovering' then
      redis.call('HSET', session_key(sid), 'recovering_at', at)
    end
  end
  for _, beats in ipairs({workers, edges}) do
    for _, id in ipairs(redis.call('ZRANGE', beats, 0, -1)) do redis.call('ZADD', beats, at, id) end
  end
end

local last = tonumber(redis.call('HGET', reaper, 'last') or '0')
redis.call('HSET', reaper, 'last', at)
if at < last or at - last > OUTAGE_MS then spare_everyone() end
if at < tonumber(redis.call('HGET', reaper, 'quiet_until')) then return {0, 0, 0, 0} end

-- Leases that ran out: back under the old ticket, so at the head; or too often already.
for _, sid in ipairs(redis.call('ZRANGEBYSCORE', leases, '-inf', at - 1)) do
  local key = session_key(sid)
  local row = redis.call('HMGET', key, 'attempt', 'ticket')
  if not row[1] then
    redis.call('ZREM', leases, sid)
  elseif tonumber(row[1]) >= max_attempts then
    if finish(sid, 'worker_lost', at, row_ttl_s) then ended = ended + 1 end
  else
    release(sid)
    redis.call('HINCRBY', key, 'attempt', 1)
    redis.call('HSET', key, 'recovering_at', at)
    redis.call('ZADD', queue, row[2], sid)
    move(sid, 'recovering', at)
    requeued = requeued + 1
  end
end

local gone_workers = redis.call('ZRANGEBYSCORE', workers, '-inf', at - ttl)
for _, id in ipairs(gone_workers) do
  redis.call('ZREM', workers, id)
  redis.call('DEL', worker_key(id))
end

local gone_edges = redis.call('ZRANGEBYSCORE', edges, '-inf', at - ttl)
for _, id in ipairs(gone_edges) do redis.call('ZREM', edges, id) end

-- Why a session ends that has no client any more. One that may come back has its grace, counted from
-- when its edge, dead or alive, last had it.
local function abandoned(edge, resumable, seen_at)
  local lost = edge ~= '' and not redis.call('ZSCORE', edges, edge)
  if resumable and at - tonumber(seen_at) <= grace then return nil end
  return lost and 'edge_lost' or resumable and 'client_gone' or nil
end

-- Sessions whose edge is gone have no client; sessions that no worker took up have no future.
local function check(sid)
  local row = redis.call('HMGET', session_key(sid), 'edge', 'state', 'recovering_at', 'resume', 'seen_at')
  local reason = 'error'  -- without a row (evicted, or deleted by hand): out of every line
  if row[2] then reason = abandoned(row[1], row[4], row[5]) end
  if not reason and row[2] == 'recovering' and at - tonumber(row[3]) > patience then
    reason = 'worker_lost'
  end
  if reason and finish(sid, reason, at, row_ttl_s) then ended = ended + 1 end
end
for _, sid in ipairs(redis.call('ZRANGE', queue, 0, -1)) do check(sid) end
for _, sid in ipairs(redis.call('ZRANGE', leases, 0, -1)) do check(sid) end

return {requeued, ended, #gone_workers, #gone_edges}
