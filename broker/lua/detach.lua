-- Note that a resumable session has lost its client: its grace period starts.
-- ARGV: sid, ticket, connection
-- Result: 1 noted | 0 the session has ended, or has another connection
local row = fields(session_key(sid), 'ticket', 'connection', 'state')
if row[1] ~= ticket or row[2] ~= connection or row[3] == 'ended' then return 0 end
redis.call('HSET', session_key(sid), 'seen_at', now_ms(), 'left', 1)
return 1
