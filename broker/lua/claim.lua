-- Give a worker the first queued session that it can serve, under a new epoch. A session that has lost workers
-- is on trial then, until it has survived: the worker takes no new session beside it. After one loss, sessions
-- are tried together. After two, a session is tried alone, on a worker without sessions if it finds one in time.
-- Such a worker takes the session with the most losses first.
-- ARGV: worker_id, lease_ms, alone_ms (how long a session waits for a worker without sessions)
-- Result: {} there is none | {sid, kind, ticket, epoch, attempt, edge, recording}
local wkey = worker_key(worker_id)
local row = fields(wkey, 'slots', 'used', 'kinds', 'open')
if not row[3] or row[4] ~= '1' or not is_whole(row[2]) then return {} end
if tonumber(row[2]) >= number(row[1], 0) then return {} end

local trial = trial_at(worker_id)
if trial > 1 then return {} end  -- a session is tried alone

local used = tonumber(row[2])
local free = number(row[1], 0) - used
local at = now_ms()

local function another_is_empty(kind)
  for _, worker in ipairs(accepting(kind)) do
    if worker[1] ~= worker_id and worker[3] == 0 then return true end
  end
  return false
end

-- `reserved`: earlier sessions in the queue that have lost workers, and still wait for a better worker.
local function fits(kind, failures, since, reserved)
  if failures == 0 then return trial == 0 and free > reserved end
  local waited = at - since > tonumber(alone_ms)
  if failures == 1 then return used == 0 or trial == 1 or waited or not another_is_empty(kind) end
  return trial == 0 and (used == 0 or waited)
end

local function choose()
  local found, reserved = nil, 0
  local worst, most = nil, 1  -- others can join busy workers
  for _, sid in ipairs(redis.call('ZRANGE', queue, 0, -1)) do
    local key = session_key(sid)
    local waiting = fields(key, 'kind', 'state', 'failures', 'recovering_at')
    if not waiting[1] then
      redis.call('ZREM', queue, sid)
    elseif includes(row[3], waiting[1]) then
      local failures = number(waiting[3], 0)
      if used == 0 and failures > most then
        worst, most = sid, failures
      end
      if not found and fits(waiting[1], failures, number(waiting[4], 0), reserved) then
        found = sid
      elseif failures > 0 then
        reserved = reserved + 1
      end
      if waiting[2] == 'queued' or (found and used > 0) then return worst or found end
    end
  end
  return worst or found
end

-- A session whose row is malformed ends.
local function is_sound(key)
  local chosen = fields(key, 'ticket', 'attempt', 'epoch', 'edge', 'recording')
  if not (is_whole(chosen[1]) and is_whole(chosen[2]) and is_whole(chosen[3])) then return false end
  return tonumber(chosen[3]) < 999 and chosen[4] and chosen[5]  -- a stream has no more epochs
end

local sid = choose()
while sid and not is_sound(session_key(sid)) do
  finish(sid, 'error', at, MALFORMED_TTL_S)
  sid = choose()
end
if not sid then return {} end
local key = session_key(sid)
redis.call('ZREM', queue, sid)
redis.call('ZADD', leases, at + tonumber(lease_ms), sid)
redis.call('HINCRBY', wkey, 'used', 1)
local epoch = redis.call('HINCRBY', key, 'epoch', 1)
redis.call('HSET', key, 'worker', worker_id)
redis.call('HSETNX', key, 'assigned_at', at)
local rest = fields(key, 'kind', 'ticket', 'attempt', 'edge', 'recording', 'works_since')
if rest[6] then redis.call('HSET', key, 'works_since', at) end
move(sid, 'assigned', at)
return {sid, rest[1], rest[2], epoch, rest[3], rest[4], rest[5]}
