-- Extend the leases of the sessions that a worker believes it holds.
-- ARGV: worker_id, lease_ms, held (pairs sid, epoch)
-- Result: the sids that it does not hold (ended, taken over, or unknown)
local at = now_ms()
local lost = {}
for i = held, #ARGV, 2 do
  local sid, epoch = ARGV[i], ARGV[i + 1]
  local row = fields(session_key(sid), 'worker', 'epoch')
  local mine = row[1] == worker_id and row[2] == epoch
  if mine and redis.call('ZSCORE', leases, sid) then
    redis.call('ZADD', leases, at + tonumber(lease_ms), sid)
  else
    lost[#lost + 1] = sid
  end
end
return lost
