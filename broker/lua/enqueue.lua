-- Put a new session at the end of the queue.
-- ARGV: control, sid, kind, edge, recording id, config summary (JSON), max queue size, digest of the
--       resume token ('' for none), protocol, trace context ('' for none)
-- Result: {'exists', state} | {'full', length} | {'ok', ticket, position, length, 1 if it must wait}
local _, sid, kind, edge, recording, config, max_queue, resume, protocol, trace = unpack(ARGV)
local key = session_key(sid)

local state = redis.call('HGET', key, 'state')
if state and state ~= 'ended' then return {'exists', state} end

local length = redis.call('ZCARD', queue)
if length >= tonumber(max_queue) then return {'full', length} end

local at = now_ms()
redis.call('SET', tickets, at, 'NX')  -- so that no number returns after Redis has lost its data
local ticket = redis.call('INCR', tickets)
redis.call('DEL', key)
redis.call('HSET', key, 'kind', kind, 'edge', edge, 'worker', '', 'epoch', 0, 'attempt', 1,
  'ticket', ticket, 'queued_at', at, 'recording', recording, 'config', config)
if resume ~= '' then
  redis.call('HSET', key, 'resume', resume, 'protocol', protocol, 'connection', 1, 'seen_at', at)
end
if trace ~= '' then redis.call('HSET', key, 'trace', trace) end
redis.call('ZADD', queue, ticket, sid)
redis.call('ZADD', edges, at, edge)  -- whoever asks is alive, its first beat may come later
move(sid, 'queued', at)

local position = redis.call('ZRANK', queue, sid) + 1
local wait = position > free_slots(kind) and 1 or 0
return {'ok', ticket, position, length + 1, wait}
