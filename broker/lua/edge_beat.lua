-- An edge is alive. It names the sessions it serves and learns which of them are over.
-- ARGV: control, edge id, then pairs sid, ticket
-- Result: flat list of sid, reason ('' when the row is gone or another's) for sessions that ended
local edge = ARGV[2]
redis.call('ZADD', edges, now_ms(), edge)
local over = {}
for i = 3, #ARGV, 2 do
  local row = redis.call('HMGET', session_key(ARGV[i]), 'state', 'ticket', 'reason')
  local mine = row[2] == ARGV[i + 1]
  if not mine or row[1] == 'ended' then
    over[#over + 1] = ARGV[i]
    over[#over + 1] = mine and row[3] or ''
  end
end
return over
