-- Move a held session to its next state, if this worker still holds it under this epoch.
-- ARGV: sid, worker_id, epoch, state, config (JSON, '' = unchanged), origins (states it may move from)
-- Result: 1 moved | 0 not held | -1 the move is not legal from its state
local row = fields(session_key(sid), 'worker', 'epoch', 'state')
if row[1] ~= worker_id or row[2] ~= epoch or not redis.call('ZSCORE', leases, sid) then return 0 end
if row[3] == state then return 1 end  -- a repeated call
for i = origins, #ARGV do
  if row[3] == ARGV[i] then
    if config ~= '' then redis.call('HSET', session_key(sid), 'config', config) end
    local at = now_ms()
    if state == 'active' then redis.call('HSETNX', session_key(sid), 'active_at', at) end
    move(sid, state, at)
    return 1
  end
end
return -1
