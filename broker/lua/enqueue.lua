-- Put a new session at the end of the queue.
-- ARGV: sid, kind, edge, recording, shard (tag of its streams), max_queue, resume_digest ('' = not resumable), protocol, trace ('' = none),
--       owner (digest of the client's secret; '' = none), client (whose sessions are counted; '' = not counted),
--       max_sessions (of one client; 0 = no limit)
-- Result: {'exists', state} | {'full', length} | {'too many', count} | {'ok', ticket, position, length, 1 if it must wait}
local key = session_key(sid)

local state = fields(key, 'state')[1]
if state and state ~= 'ended' then return {'exists', state} end

local length = redis.call('ZCARD', queue)
if length >= tonumber(max_queue) then return {'full', length} end

if client ~= '' and tonumber(max_sessions) > 0 then
  local count = 0
  for _, line in ipairs({queue, leases}) do
    for _, other in ipairs(redis.call('ZRANGE', line, 0, -1)) do
      if fields(session_key(other), 'client')[1] == client then count = count + 1 end
    end
  end
  if count >= tonumber(max_sessions) then return {'too many', count} end
end

local at = now_ms()
-- Not below the time, so that numbers stay unique if Redis loses its newest writes or all data.
local last = redis.pcall('GET', tickets)
local newest = redis.call('ZRANGE', queue, -1, -1, 'WITHSCORES')[2]
local ticket = math.max(at, number(is_whole(last) and last or newest, 0) + 1)
redis.call('SET', tickets, string.format('%d', ticket))
redis.call('DEL', key)
redis.call('HSET', key, 'kind', kind, 'edge', edge, 'worker', '', 'epoch', 0, 'attempt', 1,
  'ticket', ticket, 'queued_at', at, 'recording', recording, 'shard', shard, 'config', '{}')
if resume_digest ~= '' then
  redis.call('HSET', key, 'resume', resume_digest, 'protocol', protocol, 'connection', 1, 'seen_at', at)
end
if client ~= '' then redis.call('HSET', key, 'client', client) end
if owner ~= '' then redis.call('HSET', key, 'owner', owner) end
if trace ~= '' then redis.call('HSET', key, 'trace', trace) end
redis.call('ZADD', queue, ticket, sid)
-- Register an edge that has sent no heartbeat yet. This is none: it does not list the edge's clients.
redis.call('ZADD', edges, 'NX', at, edge)
move(sid, 'queued', at)

local position = redis.call('ZRANK', queue, sid) + 1
local wait = position > free_slots(kind) and 1 or 0
return {'ok', ticket, position, length + 1, wait}
