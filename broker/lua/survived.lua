-- A worker reports that a session on trial has survived: its first steps after the recovery are finished.
-- ARGV: sid, worker_id, epoch
-- Result: 1 acquitted | 0 not held
local row = fields(session_key(sid), 'worker', 'epoch')
if row[1] ~= worker_id or row[2] ~= epoch or not redis.call('ZSCORE', leases, sid) then return 0 end
acquit(sid)
return 1
