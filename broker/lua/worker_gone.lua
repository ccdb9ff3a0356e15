-- A worker has left in order: remove its row.
-- ARGV: control, worker id
-- Result: 1
redis.call('ZREM', workers, ARGV[2])
redis.call('DEL', worker_key(ARGV[2]))
return 1
