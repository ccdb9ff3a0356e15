-- Leave a command for a worker; its next heartbeat returns it.
-- ARGV: worker_id, command
-- Result: 1 left | 0 there is no such worker
if not redis.call('ZSCORE', workers, worker_id) then return 0 end
keep_hash(worker_key(worker_id))
redis.call('HSET', worker_key(worker_id), 'asked', command)
return 1
