-- Ask the edge that serves a running session for something; the state stays what it is.
-- ARGV: control, sid, kind that the session must be of, what is asked
-- Result: 1 passed on | 0 no such session is in conversation
local _, sid, kind, what = unpack(ARGV)
local row = redis.call('HMGET', session_key(sid), 'kind', 'state')
if row[1] ~= kind or (row[2] ~= 'active' and row[2] ~= 'recovering') then return 0 end
announce(sid, row[2], now_ms(), 'ask', what)
return 1
