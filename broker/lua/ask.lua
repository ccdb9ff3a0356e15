-- Send a command to the edge that serves a running session. The state does not change.
-- ARGV: sid, kind (the session must be of this kind), command, owner (its client's digest; '' = an operator)
-- Result: 1 sent | 0 no such session is in conversation (a chat is from its first moment)
local row = fields(session_key(sid), 'kind', 'state', 'owner')
local state = row[2]
if owner ~= '' and row[3] ~= owner then return 0 end
local reading = kind == 'chat' and (state == 'assigned' or state == 'preparing')
if row[1] ~= kind or not (reading or state == 'active' or state == 'recovering') then return 0 end
announce(sid, state, now_ms(), 'ask', command)
return 1
