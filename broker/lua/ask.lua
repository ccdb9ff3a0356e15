-- Ask the edge that serves a running session for something; the state stays what it is.
-- ARGV: control, sid, kind that the session must be of, what is asked
-- Result: 1 passed on | 0 no such session is in conversation (a chat is from its first moment)
local _, sid, kind, what = unpack(ARGV)
local row = redis.call('HMGET', session_key(sid), 'kind', 'state')
local state = row[2]
local reading = kind == 'chat' and (state == 'assigned' or state == 'preparing')
if row[1] ~= kind or not (reading or state == 'active' or state == 'recovering') then return 0 end
announce(sid, state, now_ms(), 'ask', what)
return 1
