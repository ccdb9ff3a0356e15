-- Forget members of the events' groups that have been silent for long and owe nothing.
-- ARGV: control, silent ms, '1' to only look
-- Result: number of members forgotten
local _, silent_ms, look = unpack(ARGV)

local function by_name(flat)
  local row = {}
  for i = 1, #flat, 2 do row[flat[i]] = flat[i + 1] end
  return row
end

local dropped = 0
if redis.call('EXISTS', events) == 0 then return 0 end
for _, flat in ipairs(redis.call('XINFO', 'GROUPS', events)) do
  local group = by_name(flat)['name']
  for _, one in ipairs(redis.call('XINFO', 'CONSUMERS', events, group)) do
    local member = by_name(one)
    if member['pending'] == 0 and member['idle'] > tonumber(silent_ms) then
      if look ~= '1' then redis.call('XGROUP', 'DELCONSUMER', events, group, member['name']) end
      dropped = dropped + 1
    end
  end
end
return dropped
