-- Revoke links to one recording.
-- ARGV: recording, token ('' = all of them)
-- Result: number of links that were valid
local listed = shares_key(recording)
local revoked = 0
for _, each in ipairs(redis.call('ZRANGE', listed, 0, -1)) do
  if token == '' or each == token then
    revoked = revoked + redis.call('DEL', share_key(each))
    redis.call('ZREM', listed, each)
  end
end
return revoked
