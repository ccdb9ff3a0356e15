-- A client that may come back has gone: its grace begins.
-- ARGV: control, sid, ticket, connection
-- Result: 1 noted | 0 the session has ended, or has another connection by now
local _, sid, ticket, connection = unpack(ARGV)
local row = redis.call('HMGET', session_key(sid), 'ticket', 'connection', 'state')
if row[1] ~= ticket or row[2] ~= connection or row[3] == 'ended' then return 0 end
redis.call('HSET', session_key(sid), 'seen_at', now_ms(), 'left', 1)
return 1
