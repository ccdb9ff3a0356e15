-- Connect a client to its session again, perhaps on another edge, if it has a valid token.
-- ARGV: sid, protocol, current (digest that the caller has read from the row), shown (digest of the client's
--       token: the current one or the one before it), next_digest, edge, grace_ms
-- Result: {} refused | {connection, kind, ticket, recording, queued_at, state, 1 if a worker has had it, reason}
local key = session_key(sid)
local row = fields(key, 'resume', 'protocol', 'state', 'ended_at', 'seen_at', 'left', 'reason', 'connection')
if row[1] ~= current or row[2] ~= protocol or not row[3] or not is_whole(row[8]) then return {} end

local at = now_ms()
if at - number(row[4] or row[5], 0) > tonumber(grace_ms) then return {} end
if row[7] == 'client_gone' or row[7] == 'edge_lost' then return {} end
-- The previous token is valid only if the connection that it opened is gone: the client left, or its edge
-- has not listed it for three heartbeats.
local gone = row[6] or at - number(row[5], 0) > 3000
if shown ~= current and not gone then return {} end
if tonumber(row[8]) >= 999 then return {} end  -- a stream has no more epochs

local connection = redis.call('HINCRBY', key, 'connection', 1)
redis.call('HSET', key, 'resume', next_digest, 'resume_before', shown, 'edge', edge, 'seen_at', at)
redis.call('HDEL', key, 'left')
redis.call('ZADD', edges, at, edge)
local rest = fields(key, 'kind', 'ticket', 'recording', 'queued_at', 'assigned_at')
return {connection, rest[1], rest[2], rest[3], rest[4], row[3], rest[5] and 1 or 0, row[7] or ''}
