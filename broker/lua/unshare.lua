-- Revoke links to one recording.
-- ARGV: control, recording, token ('' = all of them)
-- Result: number of links that opened it until now
local _, recording, only = unpack(ARGV)
local listed = shares_key(recording)
local revoked = 0
for _, token in ipairs(redis.call('ZRANGE', listed, 0, -1)) do
  if only == '' or token == only then
    revoked = revoked + redis.call('DEL', share_key(token))
    redis.call('ZREM', listed, token)
  end
end
return revoked
