-- Connect a client to its session again, perhaps on another edge, if it has a valid token.
-- ARGV: sid, protocol, current (digest that the caller has read from the row), shown (digest of the client's
--       token: the current one or the one before it), next_digest, edge, grace_ms, attempt (number of the
--       client's attempt to resume, counted over the whole session; 0 if the client does not count)
-- Result: {} refused | {connection, kind, ticket, recording, queued_at, state, 1 if a worker has had it, reason,
--         1 if it waits for another worker}
local key = session_key(sid)
local row = fields(key, 'resume', 'protocol', 'state', 'ended_at', 'seen_at', 'left', 'reason', 'connection',
  'resume_attempt', 'worker')
if not row[3] or not is_whole(row[8]) then return {} end
local at = now_ms()

-- The previous token is valid only if this is a newer attempt than the one that opened the connection. A client
-- that does not count its attempts must wait until that connection is gone: the client left, or its edge has
-- not listed it for three heartbeats. An older attempt that arrives late never takes over.
local function token_is_valid()
  if row[1] ~= current then return false end
  if shown == current then return true end
  if tonumber(attempt) > 0 then return tonumber(attempt) > number(row[9], 0) end
  return row[6] or at - number(row[5], 0) > 3000
end

local function may_resume()
  if not token_is_valid() or row[2] ~= protocol then return false end
  if elapsed_ms(number(row[4] or row[5], 0), at) > tonumber(grace_ms) then return false end
  if row[7] == 'client_gone' or row[7] == 'edge_lost' then return false end
  return tonumber(row[8]) < 999  -- a stream has no more epochs
end

local connection = row[8]
if row[1] ~= next_digest then  -- otherwise the call is repeated, because its reply was lost
  if not may_resume() then return {} end
  connection = redis.call('HINCRBY', key, 'connection', 1)
  redis.call('HSET', key, 'resume', next_digest, 'resume_before', shown, 'edge', edge, 'seen_at', at,
    'resume_attempt', attempt)
  redis.call('HDEL', key, 'left')
  redis.call('ZADD', edges, 'NX', at, edge)
end
local rest = fields(key, 'kind', 'ticket', 'recording', 'queued_at', 'assigned_at')
local recovering = row[3] == 'recovering' or redis.call('ZSCORE', leases, sid) and silence_at(at)(row[10])
return {connection, rest[1], rest[2], rest[3], rest[4], row[3], rest[5] and 1 or 0, row[7] or '',
  recovering and 1 or 0}
