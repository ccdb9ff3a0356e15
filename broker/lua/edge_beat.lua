-- Heartbeat of an edge, which lists the sessions it serves and learns which of them are over, and which of their
-- workers are silent.
-- ARGV: edge, serving (pairs sid, ticket)
-- Result: {{sid, reason, ...} ('' = the row is gone or of another session) that are over,
--          {sid, ...} that have a lease of a silent worker}
local at = now_ms()
redis.call('ZADD', edges, at, edge)
local is_silent = silence_at(at)
local over, silent = {}, {}
for i = serving, #ARGV, 2 do
  local sid = ARGV[i]
  local row = fields(session_key(sid), 'state', 'ticket', 'reason', 'worker')
  local mine = row[2] == ARGV[i + 1]
  if not mine or row[1] == 'ended' then
    over[#over + 1] = sid
    over[#over + 1] = mine and row[3] or ''
  elseif is_silent(row[4]) and redis.call('ZSCORE', leases, sid) then
    silent[#silent + 1] = sid
  end
end
return {over, silent}
