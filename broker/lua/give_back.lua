-- A worker hands a session back: it goes to the head of the queue without counting as a failure.
-- ARGV: control, sid, worker id, epoch
-- Result: 1 handed back | 0 not held any more
local _, sid, worker, epoch = unpack(ARGV)
local row = redis.call('HMGET', session_key(sid), 'worker', 'epoch', 'ticket')
if row[1] ~= worker or row[2] ~= epoch or not release(sid) then return 0 end
redis.call('ZADD', queue, row[3], sid)
redis.call('HSET', session_key(sid), 'recovering_at', now_ms())
move(sid, 'recovering', now_ms())
return 1
