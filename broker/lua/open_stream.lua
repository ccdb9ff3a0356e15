-- Open a session's stream for writing under an epoch: writers of older epochs are shut out.
-- (Without the prelude: one stream, in the session's own slot.)
-- KEYS: stream
-- ARGV: first (major part of the session's lowest id), ours (major part of this epoch's ids), ttl_s,
--       known (number of the last entry of an older epoch that this writer continues: later ones are deleted,
--       because another server has accepted them without its fence; '' = all of them are continued)
-- Result: {number of the session's last entry, number of its last entry of an older epoch} (0 for none)
--         | {} a newer writer has the stream
local function major(id) return tonumber(string.match(id, '^%d+')) end

if redis.call('EXISTS', stream) == 0 then
  redis.call('XADD', stream, ours .. '-0', 'fence', '')
  redis.call('XDEL', stream, ours .. '-0')
  redis.call('EXPIRE', stream, ttl_s)
  return {0, 0}
end

local info, last = redis.call('XINFO', 'STREAM', stream), '0-0'
for i = 1, #info, 2 do
  if info[i] == 'last-generated-id' then last = info[i + 1] end
end
if major(last) > tonumber(ours) then return {} end
if major(last) < tonumber(ours) then redis.call('XSETID', stream, ours .. '-0') end
redis.call('EXPIRE', stream, ttl_s)

local function number(id) return id and tonumber(string.match(id, '%d+$')) or 0 end

-- The last entry of this session below an id.
local function last_before(id)
  local found = redis.call('XREVRANGE', stream, id, first .. '-0', 'COUNT', 1)[1]
  return found and found[1]
end

local older = '(' .. ours .. '-0'
local late = last_before(older)
while known ~= '' and number(late) > tonumber(known) do
  redis.call('XDEL', stream, late)
  late = last_before(older)
end
return {number(last_before('+')), number(late)}
