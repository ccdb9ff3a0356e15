-- Store a client's newest resume again, which a failover has lost.
-- ARGV: sid, ticket, connection, digest (of the client's token), before (of the token before it, '' = void), attempt, edge
-- Result: 1 stored | 0 Redis has this connection or a newer one, or another session
local key = session_key(sid)
local row = fields(key, 'ticket', 'connection')
if row[1] ~= ticket or number(row[2], math.huge) >= tonumber(connection) then return 0 end
redis.call('HSET', key, 'connection', connection, 'edge', edge, 'seen_at', now_ms(), 'resume', digest,
  'resume_before', before, 'resume_attempt', attempt)
if before == '' then redis.call('HDEL', key, 'resume_before') end
redis.call('HDEL', key, 'left')
return 1
