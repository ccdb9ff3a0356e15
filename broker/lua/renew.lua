-- Extend the leases of the sessions a worker believes it holds.
-- ARGV: control, worker id, lease ms, then pairs sid, epoch
-- Result: the sids it no longer holds (ended, taken over, or unknown)
local worker, lease_ms = ARGV[2], tonumber(ARGV[3])
local at = now_ms()
local lost = {}
for i = 4, #ARGV, 2 do
  local sid, epoch = ARGV[i], ARGV[i + 1]
  local row = redis.call('HMGET', session_key(sid), 'worker', 'epoch')
  local mine = row[1] == worker and row[2] == epoch
  if mine and redis.call('ZSCORE', leases, sid) then
    redis.call('ZADD', leases, at + lease_ms, sid)
  else
    lost[#lost + 1] = sid
  end
end
return lost
