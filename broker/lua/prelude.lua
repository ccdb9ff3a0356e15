-- Prepended to every control script. KEYS are the same for all of them, in this order. ARGV[1] is the
-- control prefix, to which `session:<sid>`, `worker:<id>`, `recorded:<ticket>`, `share:<token>` and
-- `shares:<recording>` are appended (same slot).
--
--   queue    ZSET   session id -> ticket      leases ZSET   session id -> expiry ms
--   workers  ZSET   worker id -> beat ms      edges  ZSET   edge id -> beat ms
--   events   STREAM session transitions       eta    HASH   baselines and moving averages
--   tickets  STRING last ticket number       reaper HASH   last run and quiet time of the upkeep
--   trials   ZSET   session id -> end of its trial (ms)
local queue, leases, workers, edges, events, eta, tickets, reaper, trials = unpack(KEYS)
local control = ARGV[1]

local EVENTS_KEPT = 100000
local MALFORMED_TTL_S = 3600  -- of the row of a session that ends because its row is malformed

local REAPER_LATE_MS = 5000  -- between two runs: Redis was away, or its clock was set
local REAPER_GAP_MS = 1500  -- the longest time between two runs of the reaper, which has to run each second
local SILENCE_MS = 3000  -- without a heartbeat; workers send one each second, and repeat it during an outage, so an
-- outage that is shorter than REAPER_GAP_MS makes it late by up to 2600

-- How long a trial lasts after the session has entered a state.
local TRIAL_MS = {assigned = 8000, preparing = 30000, active = 8000}
local LONG_TRIAL_MS = 30000  -- active, if its last worker was lost soon after its trial
local RECENT_MS = 30000  -- a worker is lost soon after a trial
local RECORD_MS = 600000  -- a session that continues after a pause is tried again, if it was requeued within this time

local function session_key(sid) return control .. 'session:' .. sid end
local function recorded_key(ticket) return control .. 'recorded:' .. ticket end
local function worker_key(id) return control .. 'worker:' .. id end
local function share_key(token) return control .. 'share:' .. token end
local function shares_key(recording) return control .. 'shares:' .. recording end

-- Redis time in milliseconds, the only clock of the control plane.
local function now_ms()
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
end

-- Rows are checked where a script computes with them: a malformed one must not stop the script.

-- The fields of a hash, false for what is missing; all of them, if the key has another type.
local function fields(key, ...)
  local row = redis.pcall('HMGET', key, ...)
  if not row.err then return row end
  local none = {}
  for i = 1, select('#', ...) do none[i] = false end
  return none
end

-- The fields and values of a hash; none, if the key has another type.
local function all_fields(key)
  local row = redis.pcall('HGETALL', key)
  return row.err and {} or row
end

-- Remove a key that is to be a hash, if it has another type. Redis without free memory refuses the first write
-- of a script, but none that follows a DEL.
local function keep_hash(key)
  local kind = redis.call('TYPE', key).ok
  if kind ~= 'hash' and kind ~= 'none' then redis.call('DEL', key) end
end

-- The finite number in a field, or `default`.
local function number(value, default)
  local found = tonumber(value)
  if not found or found ~= found or math.abs(found) == math.huge then return default end
  return found
end

-- Whether a field has a whole number that Redis can add to.
local function is_whole(value)
  return type(value) == 'string' and #value <= 15 and string.find(value, '^%d+$') ~= nil
end

-- Append an event with a session's state; `name` and `value` are an optional extra field.
local function announce(sid, state, at, name, value)
  local row = fields(session_key(sid), 'kind', 'ticket', 'epoch', 'attempt', 'edge', 'worker', 'recording')
  local entry = {'sid', sid, 'state', state, 'kind', row[1] or '', 'ticket', row[2] or '', 'epoch', row[3] or '',
    'attempt', row[4] or '', 'edge', row[5] or '', 'worker', row[6] or '', 'recording', row[7] or '', 'at', at}
  if value then
    entry[#entry + 1] = name
    entry[#entry + 1] = value
  end
  redis.call('XADD', events, 'MAXLEN', '~', EVENTS_KEPT, '*', unpack(entry))
end

-- The most failures of a session that is on trial at this worker; 0 if there is no trial.
local function trial_at(id)
  local most = 0
  for _, sid in ipairs(redis.call('ZRANGE', trials, 0, -1)) do
    local row = fields(session_key(sid), 'worker', 'failures')
    if row[1] == id then most = math.max(most, number(row[2], 0)) end
  end
  return most
end

local function trial_ms(sid, state)
  local is_long = state == 'active' and fields(session_key(sid), 'long_trial')[1]
  return is_long and LONG_TRIAL_MS or TRIAL_MS[state]
end

-- Write the new state into the row and append the event. A session with failures is on trial. Nothing happens in
-- a pause, so it proves nothing: a session that lost a worker lately is tried again after it.
local function move(sid, state, at, reason)
  local key = session_key(sid)
  local row = fields(key, 'state', 'failures', 'works_since')
  redis.call('HSET', key, 'state', state)
  local is_tried = row[2] ~= false
  if state == 'active' and row[1] == 'paused' and at - number(row[3], -RECORD_MS) < RECORD_MS then
    redis.call('HSETNX', key, 'failures', 1)
    is_tried = true
  end
  if is_tried and TRIAL_MS[state] then redis.call('ZADD', trials, at + trial_ms(sid, state), sid) end
  announce(sid, state, at, 'reason', reason)
end

-- Take the session's lease and slot from its worker. Returns false when it has none.
local function release(sid)
  redis.call('ZREM', trials, sid)
  if redis.call('ZREM', leases, sid) == 0 then return false end
  local worker = worker_key(fields(session_key(sid), 'worker')[1] or '')
  local used = fields(worker, 'used')[1]
  if is_whole(used) and tonumber(used) > 0 then redis.call('HINCRBY', worker, 'used', -1) end
  return true
end

-- Milliseconds since a stored time, without the time before Redis was last away or its clock was last set. The
-- reaper, which runs each second, notices both and restarts all timers. Until it does, this is 0.
local function elapsed_ms(since, at)
  local row = fields(reaper, 'last', 'restarted_at')
  local last = number(row[1], at)
  if at < last or at - last > REAPER_LATE_MS then return 0 end
  return at - math.max(since, number(row[2], 0))
end

-- Fold one finished session's length into its kind's moving average.
local function learn(kind, seconds)
  keep_hash(eta)
  local row = fields(eta, 'alpha', 'ema:' .. kind, 'count:' .. kind)
  local alpha = math.max(0, math.min(1, number(row[1], 0.3)))
  local old = number(row[2])
  local ema = old and (alpha * seconds + (1 - alpha) * old) or seconds
  local count = is_whole(row[3]) and tonumber(row[3]) or 0
  redis.call('HSET', eta, 'ema:' .. kind, string.format('%.3f', ema), 'count:' .. kind, count + 1)
end

-- End a session in any state. Returns false when it had ended already. Only sessions that were active
-- count for the average length of their kind, and no session during which Redis' clock was set.
local function finish(sid, reason, at, row_ttl_s)
  local key = session_key(sid)
  local row = fields(key, 'state', 'kind', 'assigned_at', 'active_at')
  if not row[1] or row[1] == 'ended' then
    redis.call('ZREM', queue, sid)
    redis.call('ZREM', leases, sid)
    redis.call('ZREM', trials, sid)
    return false
  end
  redis.call('ZREM', queue, sid)
  local assigned_at = number(row[3])
  local lasted_ms = assigned_at and at - assigned_at or -1
  if release(sid) and row[4] and row[2] and lasted_ms >= 0 and elapsed_ms(assigned_at, at) == lasted_ms then
    learn(row[2], lasted_ms / 1000)
  end
  redis.call('HSET', key, 'ended_at', at, 'reason', reason)
  move(sid, 'ended', at, reason)
  redis.call('EXPIRE', key, row_ttl_s)
  return true
end

local function includes(kinds, kind)
  return string.find(',' .. kinds .. ',', ',' .. kind .. ',', 1, true) ~= nil
end

-- The live workers that accept sessions of this kind: {{id, free slots, used slots}, ...}
local function accepting(kind)
  local found = {}
  for _, id in ipairs(redis.call('ZRANGE', workers, 0, -1)) do
    local row = fields(worker_key(id), 'slots', 'used', 'kinds', 'open')
    if row[3] and row[4] == '1' and includes(row[3], kind) then
      local used = number(row[2], 0)
      found[#found + 1] = {id, number(row[1], 0) - used, used}
    end
  end
  return found
end

-- Returns a function of a worker's id: whether its heartbeats have stopped, an edge has found its connection
-- closed, or it has no row. Its sessions keep their leases.
-- No heartbeat counts as missing unless the reaper has run as often as it should: after an outage of Redis or of
-- the network, all heartbeats are late.
local function silence_at(at)
  local row = fields(reaper, 'last', 'regular_since')
  local is_regular = at - number(row[1], 0) <= REAPER_GAP_MS and at - number(row[2], at) >= SILENCE_MS
  local beating, ended = {}, {}
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', workers, at - SILENCE_MS, '+inf')) do beating[id] = true end
  return function(id)
    if ended[id] == nil then
      local row = fields(worker_key(id or ''), 'slots', 'disconnected')
      ended[id] = not row[1] or row[2] ~= false
    end
    return ended[id] or is_regular and not beating[id]
  end
end

-- Remove a worker from the registry. Its leases expire now.
local function remove_worker(id, at)
  for _, sid in ipairs(redis.call('ZRANGE', leases, 0, -1)) do
    if fields(session_key(sid), 'worker')[1] == id then redis.call('ZADD', leases, at - 1, sid) end
  end
  redis.call('ZREM', workers, id)
  redis.call('DEL', worker_key(id))
end

-- Free slots of live workers for new sessions of this kind.
local function free_slots(kind)
  local free = 0
  for _, worker in ipairs(accepting(kind)) do
    if trial_at(worker[1]) == 0 then free = free + math.max(0, worker[2]) end
  end
  return free
end

