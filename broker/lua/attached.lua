-- Note that the clients of these sessions are connected to the calling edge.
-- ARGV: serving (triples sid, ticket, connection)
-- Result: flat list of sid, current connection, for the connections that have been replaced
local at, replaced = now_ms(), {}
for i = serving, #ARGV, 3 do
  local sid = ARGV[i]
  local key = session_key(sid)
  local row = fields(key, 'ticket', 'connection')
  if row[1] == ARGV[i + 1] and row[2] == ARGV[i + 2] then
    redis.call('HSET', key, 'seen_at', at)
  elseif row[1] == ARGV[i + 1] and row[2] then
    replaced[#replaced + 1] = sid
    replaced[#replaced + 1] = row[2]
  end
end
return replaced
