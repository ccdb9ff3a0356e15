-- The live edges, and the edge of every live session.
-- ARGV: heartbeat_ttl_ms
-- Result: {now ms, {edge id, beat ms, ...}, {edge id of every live session, ...}}
local serving = {}
for _, line in ipairs({queue, leases}) do
  for _, sid in ipairs(redis.call('ZRANGE', line, 0, -1)) do
    serving[#serving + 1] = fields(session_key(sid), 'edge')[1] or ''
  end
end
local at = now_ms()
local live = redis.call('ZRANGEBYSCORE', edges, '(' .. at - heartbeat_ttl_ms, '+inf', 'WITHSCORES')
return {at, live, serving}
