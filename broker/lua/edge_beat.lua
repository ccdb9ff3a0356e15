-- Heartbeat of an edge, which lists the connections it serves and learns which sessions are over, which of their
-- workers are silent, and which connections have been replaced. It also notes that the clients are connected: with
-- two calls, an edge that was cut off between them would count as alive, and its clients as gone.
-- ARGV: edge, serving (triples sid, ticket, connection; 0 = not resumable)
-- Result: {{sid, reason, ...} ('' = the row is gone or of another session) that are over,
--          {sid, ...} that have a lease of a silent worker, {sid, current connection, ...} that were replaced,
--          {sid, ...} whose newest resume a failover has lost}
local at = now_ms()
redis.call('ZADD', edges, at, edge)
local is_silent = silence_at(at)
local over, silent, replaced, forgotten = {}, {}, {}, {}
for i = serving, #ARGV, 3 do
  local sid = ARGV[i]
  local key = session_key(sid)
  local row = fields(key, 'state', 'ticket', 'reason', 'worker', 'connection')
  local mine = row[2] == ARGV[i + 1]
  if mine and row[5] == ARGV[i + 2] then
    redis.call('HSET', key, 'seen_at', at)
  elseif mine and number(row[5], 0) < tonumber(ARGV[i + 2]) then
    redis.call('HSET', key, 'seen_at', at)
    forgotten[#forgotten + 1] = sid
  elseif mine and row[5] then
    replaced[#replaced + 1] = sid
    replaced[#replaced + 1] = row[5]
  end
  if not mine or row[1] == 'ended' then
    over[#over + 1] = sid
    over[#over + 1] = mine and row[3] or ''
  elseif is_silent(row[4]) and redis.call('ZSCORE', leases, sid) then
    silent[#silent + 1] = sid
  end
end
return {over, silent, replaced, forgotten}
