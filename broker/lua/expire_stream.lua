-- Shorten the expiry of a stream whose session is over, unless a newer session with the same id has the stream.
-- (Without the prelude: one stream, in the session's own slot.)
-- KEYS: stream
-- ARGV: newer (major part of the lowest id of a newer session), ttl_s, dry_run ('1' = only count)
-- Result: 1 shortened | 0 it is gone, expires earlier, or has a newer writer
local left = redis.call('TTL', stream)
if left ~= -1 and left <= tonumber(ttl_s) then return 0 end

local info = redis.pcall('XINFO', 'STREAM', stream)
for i = 1, #info, 2 do
  if info[i] == 'last-generated-id' and tonumber(string.match(info[i + 1], '^%d+')) < tonumber(newer) then
    if dry_run ~= '1' then redis.call('EXPIRE', stream, ttl_s) end
    return 1
  end
end
return 0
