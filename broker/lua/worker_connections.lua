-- The registered workers, and whether the connection of each is open on this server.
-- ARGV:
-- Result: {worker id, last heartbeat, number of its connections, ...}; empty if the user may not ask
local beats = redis.call('ZRANGE', workers, 0, -1, 'WITHSCORES')
local channels, seen = {}, {}
for i = 1, #beats, 2 do channels[#channels + 1] = worker_key(beats[i]) end
local counts = redis.pcall('PUBSUB', 'NUMSUB', unpack(channels))
if counts.err then return {} end
for i = 1, #beats, 2 do
  seen[#seen + 1] = beats[i]
  seen[#seen + 1] = beats[i + 1]
  seen[#seen + 1] = counts[i + 1]
end
return seen
