-- Remove the row of a worker that shuts down.
-- ARGV: worker_id
-- Result: 1
redis.call('ZREM', workers, worker_id)
redis.call('DEL', worker_key(worker_id))
return 1
