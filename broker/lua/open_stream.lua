-- Open a session's stream for writing under an epoch: writers of older epochs are shut out.
-- (Without the prelude: one stream, in the session's own slot.)
-- KEYS: stream
-- ARGV: first (major part of the session's lowest id), ours (major part of this epoch's ids), ttl_s
-- Result: number of the session's last entry, 0 for none | -1 a newer writer has the stream
local function major(id) return tonumber(string.match(id, '^%d+')) end

if redis.call('EXISTS', stream) == 0 then
  redis.call('XADD', stream, ours .. '-0', 'fence', '')
  redis.call('XDEL', stream, ours .. '-0')
  redis.call('EXPIRE', stream, ttl_s)
  return 0
end

local info, last = redis.call('XINFO', 'STREAM', stream), '0-0'
for i = 1, #info, 2 do
  if info[i] == 'last-generated-id' then last = info[i + 1] end
end
if major(last) > tonumber(ours) then return -1 end
if major(last) < tonumber(ours) then redis.call('XSETID', stream, ours .. '-0') end
redis.call('EXPIRE', stream, ttl_s)

local newest = redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1)[1]
if not newest or major(newest[1]) < tonumber(first) then return 0 end
return tonumber(string.match(newest[1], '%d+$'))
