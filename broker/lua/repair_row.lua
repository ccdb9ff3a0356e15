-- Repair the row of a session that has no owner: one that blocks its id, or that would never expire.
-- ARGV: sid, row_ttl_s, dry_run ('1' = only count)
-- Result: 1 ended it, or set its expiry | 0 the row is in order, or gone
local key = session_key(sid)
local state = fields(key, 'state')[1]
if not state then return 0 end
if state == 'ended' then
  if redis.call('TTL', key) ~= -1 then return 0 end
  if dry_run ~= '1' then redis.call('EXPIRE', key, row_ttl_s) end
  return 1
end
if redis.call('ZSCORE', queue, sid) or redis.call('ZSCORE', leases, sid) then return 0 end
if dry_run ~= '1' then finish(sid, 'error', now_ms(), row_ttl_s) end
return 1
