-- End a session, from any state.
-- ARGV: control, sid, reason, row ttl s, epoch ('' = whoever holds it), ticket ('' = any)
-- Result: 1 ended now | 0 had ended, or is unknown | -1 held under another epoch or ticket
local _, sid, reason, row_ttl_s, epoch, ticket = unpack(ARGV)
local row = redis.call('HMGET', session_key(sid), 'epoch', 'ticket')
if epoch ~= '' and row[1] ~= epoch then return -1 end
if ticket ~= '' and row[2] ~= ticket then return -1 end
return finish(sid, reason, now_ms(), row_ttl_s) and 1 or 0
