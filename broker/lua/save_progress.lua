-- Store the progress of a recorder in its sessions.
-- ARGV: ttl_s, progress (ticket, value, ticket, value, …)
-- Result: nothing
for i = progress, #ARGV, 2 do
  local key = recorded_key(ARGV[i])
  keep_hash(key)
  redis.call('HSET', key, 'progress', ARGV[i + 1])
  redis.call('EXPIRE', key, ttl_s)
end
