-- Take a session's stream over under an epoch: nobody writes it under an older one any more.
-- (Without the prelude: one stream, in the session's own slot.)
-- KEYS: stream
-- ARGV: first part of the session's first possible id, of this epoch's ids, life time s
-- Result: number of the session's last entry, 0 if there is none | -1 a newer writer has the stream
local stream = KEYS[1]
local first, ours, ttl_s = ARGV[1], ARGV[2], ARGV[3]

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

local newest = redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1)[1]
if not newest or major(newest[1]) < tonumber(first) then return 0 end
return tonumber(string.match(newest[1], '%d+$'))
