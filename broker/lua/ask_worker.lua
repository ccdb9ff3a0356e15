-- Ask something of a worker; its next heartbeat finds it.
-- ARGV: control, worker id, what is asked
-- Result: 1 asked | 0 there is no such worker
local _, id, what = unpack(ARGV)
if not redis.call('ZSCORE', workers, id) then return 0 end
redis.call('HSET', worker_key(id), 'asked', what)
return 1
