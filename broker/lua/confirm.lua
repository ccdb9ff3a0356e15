-- A client that came back has been heard, so it holds its new token: the one before is void.
-- ARGV: control, sid, ticket, connection
-- Result: 1 void now | 0 it was, or the session has another connection by now
local _, sid, ticket, connection = unpack(ARGV)
local row = redis.call('HMGET', session_key(sid), 'ticket', 'connection')
if row[1] ~= ticket or row[2] ~= connection then return 0 end
return redis.call('HDEL', session_key(sid), 'resume_before')
