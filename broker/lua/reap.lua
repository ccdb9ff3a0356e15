-- Clean up after dead workers, edges and clients. Any process runs it, once a second.
-- ARGV: max_attempts, heartbeat_ttl_ms, recovery_timeout_ms, row_ttl_s, lease_ms, grace_ms, patience_ms
-- Result: {number of requeued sessions, {{sid, ticket, reason} of each that has ended, ...}}
local ttl = tonumber(heartbeat_ttl_ms)
local at = now_ms()
local requeued, ended = 0, {}

-- If this has not run for half a lease (of five seconds), Redis was down or its clock was set, so all
-- stored times are wrong. Every process then has one heartbeat's time to report again.
local OUTAGE_MS = math.max(2000, tonumber(lease_ms) / 2)

-- Clients could not resume during the outage either.
local function restart_grace(sid)
  if fields(session_key(sid), 'resume')[1] then
    redis.call('HSET', session_key(sid), 'seen_at', at)
  end
end

local function restart_record(sid)
  if fields(session_key(sid), 'works_since')[1] then
    redis.call('HSET', session_key(sid), 'works_since', at)
  end
end

local function restart_all_timers()
  redis.call('HSET', reaper, 'quiet_until', at + ttl, 'regular_since', at + ttl, 'restarted_at', at, 'tried_at', at)
  for _, sid in ipairs(redis.call('ZRANGE', leases, 0, -1)) do
    redis.call('ZADD', leases, at + tonumber(lease_ms), sid)
    restart_grace(sid)
    restart_record(sid)
  end
  for _, sid in ipairs(redis.call('ZRANGE', queue, 0, -1)) do
    restart_grace(sid)
    if fields(session_key(sid), 'state')[1] == 'recovering' then
      redis.call('HSET', session_key(sid), 'recovering_at', at)
    end
  end
  for _, sid in ipairs(redis.call('ZRANGE', trials, 0, -1)) do
    redis.call('ZADD', trials, at + trial_ms(sid, 'active'), sid)
  end
  for _, beats in ipairs({workers, edges}) do
    for _, id in ipairs(redis.call('ZRANGE', beats, 0, -1)) do redis.call('ZADD', beats, at, id) end
  end
end

keep_hash(reaper)
local last = number(fields(reaper, 'last')[1], 0)
redis.call('HSET', reaper, 'last', at)
if at < last or at - last > REAPER_GAP_MS then redis.call('HSET', reaper, 'regular_since', at) end
if at < last or at - last > OUTAGE_MS then restart_all_timers() end
local quiet_ms = number(fields(reaper, 'quiet_until')[1], 0) - at
if quiet_ms > 0 and quiet_ms <= 10 * ttl then return {0, {}} end

-- Time of the last renewal of a lease, false without a lease.
local function renewed_at(sid)
  local lease = redis.call('ZSCORE', leases, sid)
  return lease and tonumber(lease) - tonumber(lease_ms)
end

-- The session has survived on its worker: end its trial, and do not charge it for losses that it shared.
local function acquit(sid)
  local key = session_key(sid)
  redis.call('ZREM', trials, sid)
  local row = fields(key, 'shared', 'attempt')
  if is_whole(row[1]) and is_whole(row[2]) then
    redis.call('HSET', key, 'attempt', math.max(1, tonumber(row[2]) - tonumber(row[1])))
  end
  redis.call('HDEL', key, 'failures', 'shared', 'verdict')
  redis.call('HSET', key, 'works_since', at)
end

-- A worker has renewed the lease after the end of the trial, so the session has survived it.
for _, sid in ipairs(redis.call('ZRANGE', trials, 0, -1)) do
  local renewed = renewed_at(sid)
  if not renewed then
    redis.call('ZREM', trials, sid)
  elseif renewed > tonumber(redis.call('ZSCORE', trials, sid)) then
    acquit(sid)
  end
end

-- Whether a session has survived its trial, or was excused, only a short time ago.
local function works_recently(sid)
  local since = number(fields(session_key(sid), 'works_since')[1])
  return since ~= nil and at - since <= RECENT_MS
end

-- Decide for each session of a lost worker whether it is the cause: `blamed` if only this one can be, `accused`
-- if one that has just survived its trial can be as well, `suspected` if several were on trial or none was, and
-- `excused` if another one was. The decision is stored with the epoch, because the leases of one worker may
-- expire in different runs.
local function judge(worker)
  local all, tried, recent = {}, {}, 0
  for _, sid in ipairs(redis.call('ZRANGE', leases, 0, -1)) do
    if fields(session_key(sid), 'worker')[1] == worker then
      all[#all + 1] = sid
      if redis.call('ZSCORE', trials, sid) then
        tried[#tried + 1] = sid
      elseif works_recently(sid) then
        recent = recent + 1
      end
    end
  end
  local suspects = #tried > 0 and tried or all
  local function decide(sids, verdict)
    for _, sid in ipairs(sids) do
      local key = session_key(sid)
      local epoch = fields(key, 'epoch')[1]
      if epoch then redis.call('HSET', key, 'verdict', epoch .. ' ' .. verdict) end
    end
  end
  decide(all, 'excused')
  decide(suspects, #suspects > 1 and 'suspected' or #tried == 1 and recent > 0 and 'accused' or 'blamed')
end

-- The decision of the present epoch, nil if there is none.
local function verdict_of(sid)
  local row = fields(session_key(sid), 'epoch', 'verdict')
  local epoch, verdict = string.match(row[2] or '', '^(%d+) (%a+)$')
  return epoch == row[1] and verdict or nil
end

local function count(key, name)
  local value = fields(key, name)[1]
  redis.call('HSET', key, name, (is_whole(value) and tonumber(value) or 0) + 1)
end

-- Charge the loss of its worker to a session. If it had survived its trial shortly before, the next one is longer.
local function charge(sid, verdict)
  local key = session_key(sid)
  if works_recently(sid) then
    redis.call('HSET', key, 'long_trial', 1)
  elseif not redis.call('ZSCORE', trials, sid) then
    redis.call('HDEL', key, 'long_trial')
  end
  redis.call('HDEL', key, 'works_since')
  redis.call('HINCRBY', key, 'attempt', 1)
  count(key, 'failures')
  if verdict == 'suspected' then count(key, 'shared') end
end

-- Whether a session has ended too many workers. One that is accused may be innocent: only what is charged to it alone counts.
local function is_guilty(verdict, attempt, shared)
  if verdict == 'accused' then return attempt - shared >= tonumber(max_attempts) - 1 end
  return verdict == 'blamed' and attempt >= tonumber(max_attempts)
end

local function close(sid, reason)
  if not finish(sid, reason, at, row_ttl_s) then return end
  ended[#ended + 1] = {sid, fields(session_key(sid), 'ticket')[1] or '', reason}
end

local expired = redis.call('ZRANGEBYSCORE', leases, '-inf', at - 1)
local lost = {}
for _, sid in ipairs(expired) do
  local worker = fields(session_key(sid), 'worker')[1]
  if worker and not verdict_of(sid) then lost[worker] = true end
end
for worker in pairs(lost) do judge(worker) end

-- Expired leases: requeue under the old ticket, so at the head, unless the session has ended too many workers.
for _, sid in ipairs(expired) do
  local key = session_key(sid)
  local row = fields(key, 'state', 'attempt', 'ticket', 'shared')
  local verdict = verdict_of(sid)
  if not row[1] then
    redis.call('ZREM', leases, sid)
  elseif not is_whole(row[2]) or not is_whole(row[3]) then
    close(sid, 'error')
  elseif is_guilty(verdict, tonumber(row[2]), number(row[4], 0)) then
    close(sid, 'worker_lost')
  else
    if verdict == 'excused' then
      redis.call('HSET', key, 'works_since', at)
    else
      charge(sid, verdict)
    end
    release(sid)
    redis.call('HDEL', key, 'verdict')
    redis.call('HSET', key, 'recovering_at', at)
    redis.call('ZADD', queue, row[3], sid)
    move(sid, 'recovering', at)
    requeued = requeued + 1
  end
end

for _, id in ipairs(redis.call('ZRANGEBYSCORE', workers, '-inf', at - ttl)) do
  redis.call('ZREM', workers, id)
  redis.call('DEL', worker_key(id))
end

-- An edge without a heartbeat may only have lost its connection to Redis. Its sessions wait for it as
-- long as it waits for Redis.
local patience = math.max(ttl, tonumber(patience_ms))
redis.call('ZREMRANGEBYSCORE', edges, '-inf', at - patience)

-- The end reason of a session without a client. A resumable one has a grace period, counted from the
-- last time its edge, dead or alive, listed it.
local function abandoned(edge, resumable, seen_at)
  local beat_at = edge and edge ~= '' and tonumber(redis.call('ZSCORE', edges, edge) or '0') or at
  if resumable and at - number(seen_at, 0) <= tonumber(grace_ms) then return nil end
  if beat_at == 0 then return 'edge_lost' end
  return resumable and beat_at > at - ttl and 'client_gone' or nil
end

-- A session may wait for the end of a trial, and then for the worker to which it was fatal.
if redis.call('ZCARD', trials) > 0 then redis.call('HSET', reaper, 'tried_at', at) end
local tried_at = number(fields(reaper, 'tried_at')[1], 0)

-- End sessions that have no client, and those that no worker recovered in time.
local function check(sid)
  local row = fields(session_key(sid), 'edge', 'state', 'recovering_at', 'resume', 'seen_at')
  local reason = 'error'  -- no row (evicted or deleted by hand): remove it from the queue and the leases
  if row[2] then reason = abandoned(row[1], row[4], row[5]) end
  local waits_since = math.max(number(row[3], 0), tried_at)
  if not reason and row[2] == 'recovering' and at - waits_since > tonumber(recovery_timeout_ms) then
    reason = 'worker_lost'
  end
  if reason then close(sid, reason) end
end
for _, sid in ipairs(redis.call('ZRANGE', queue, 0, -1)) do check(sid) end
for _, sid in ipairs(redis.call('ZRANGE', leases, 0, -1)) do check(sid) end

return {requeued, ended}
