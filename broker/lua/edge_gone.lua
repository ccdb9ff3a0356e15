-- Remove an edge that shuts down. The reaper ends the sessions it still served.
-- ARGV: edge
-- Result: 1
redis.call('ZREM', edges, edge)
return 1
