-- Return a session to the head of the queue. It does not count as a failed attempt.
-- ARGV: sid, worker_id, epoch
-- Result: 1 returned | 0 not held
local row = fields(session_key(sid), 'worker', 'epoch', 'ticket')
if row[1] ~= worker_id or row[2] ~= epoch or not release(sid) then return 0 end
if not is_whole(row[3]) then
  finish(sid, 'error', now_ms(), MALFORMED_TTL_S)
  return 1
end
redis.call('ZADD', queue, row[3], sid)
redis.call('HSET', session_key(sid), 'recovering_at', now_ms())
redis.call('HDEL', session_key(sid), 'works_since')
move(sid, 'recovering', now_ms())
return 1
