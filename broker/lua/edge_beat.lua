-- Heartbeat of an edge, which lists the sessions it serves and learns which of them are over.
-- ARGV: edge, serving (pairs sid, ticket)
-- Result: flat list of sid, reason ('' = the row is gone or of another session) for the sessions that are over
redis.call('ZADD', edges, now_ms(), edge)
local over = {}
for i = serving, #ARGV, 2 do
  local row = fields(session_key(ARGV[i]), 'state', 'ticket', 'reason')
  local mine = row[2] == ARGV[i + 1]
  if not mine or row[1] == 'ended' then
    over[#over + 1] = ARGV[i]
    over[#over + 1] = mine and row[3] or ''
  end
end
return over
