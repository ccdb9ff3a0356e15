-- Whether a session of one of these kinds waits for a worker.
-- ARGV: kinds (separated by commas)
-- Result: 1 | 0
for _, sid in ipairs(redis.call('ZRANGE', queue, 0, -1)) do
  local kind = fields(session_key(sid), 'kind')[1]
  if kind and includes(kinds, kind) then return 1 end
end
return 0
