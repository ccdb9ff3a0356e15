-- An edge has left in order; the reaper ends whatever it still served.
-- ARGV: control, edge id
-- Result: 1
redis.call('ZREM', edges, ARGV[2])
return 1
