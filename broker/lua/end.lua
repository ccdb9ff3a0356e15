-- End a session in any state.
-- ARGV: sid, reason, row_ttl_s, epoch ('' = any), ticket ('' = any)
-- Result: 1 ended by this call | 0 had ended, or is unknown | -1 has another epoch or ticket
local row = fields(session_key(sid), 'epoch', 'ticket')
if epoch ~= '' and row[1] ~= epoch then return -1 end
if ticket ~= '' and row[2] ~= ticket then return -1 end
return finish(sid, reason, now_ms(), row_ttl_s) and 1 or 0
