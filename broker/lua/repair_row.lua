-- Look after a session's row that nobody looks after any more: it blocks its id, or would stay for ever.
-- ARGV: control, sid, row ttl s, '1' to only look
-- Result: 1 it was such a row, and has ended, or expires now | 0 it is well, or gone
local _, sid, row_ttl_s, look = unpack(ARGV)
local key = session_key(sid)
local state = redis.call('HGET', key, 'state')
if not state then return 0 end
if state == 'ended' then
  if redis.call('TTL', key) ~= -1 then return 0 end
  if look ~= '1' then redis.call('EXPIRE', key, row_ttl_s) end
  return 1
end
if redis.call('ZSCORE', queue, sid) or redis.call('ZSCORE', leases, sid) then return 0 end
if look ~= '1' then finish(sid, 'error', now_ms(), row_ttl_s) end
return 1
