-- Remove members of the events' consumer groups that are long silent and have nothing pending.
-- ARGV: silent_ms, dry_run ('1' = only count)
-- Result: number of members removed
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
      if dry_run ~= '1' then redis.call('XGROUP', 'DELCONSUMER', events, group, member['name']) end
      dropped = dropped + 1
    end
  end
end
return dropped
