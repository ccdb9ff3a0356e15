-- Void a session's previous resume token: the client has sent something, so it holds the new one.
-- ARGV: sid, ticket, connection
-- Result: 1 voided | 0 it was void, or the session has another connection
local row = fields(session_key(sid), 'ticket', 'connection')
if row[1] ~= ticket or row[2] ~= connection then return 0 end
return redis.call('HDEL', session_key(sid), 'resume_before')
