-- Create a link that opens one recording.
-- ARGV: token, recording, life_ms ('' = until it is revoked), most (links per recording)
-- Result: 0 there are too many already | expiry ms | -1 it does not expire
local at = now_ms()
local listed = shares_key(recording)

redis.call('ZREMRANGEBYSCORE', listed, '-inf', at)
if redis.call('ZCARD', listed) >= tonumber(most) then return 0 end

local expires = life_ms == '' and '+inf' or at + tonumber(life_ms)
redis.call('SET', share_key(token), recording)
redis.call('ZADD', listed, expires, token)
if expires ~= '+inf' then redis.call('PEXPIREAT', share_key(token), expires) end

local last = redis.call('ZREVRANGE', listed, 0, 0, 'WITHSCORES')[2]
if last == 'inf' then
  redis.call('PERSIST', listed)
else
  redis.call('PEXPIREAT', listed, last)
end
return expires == '+inf' and -1 or expires
