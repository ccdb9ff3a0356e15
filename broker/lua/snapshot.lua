-- The queue, the running sessions and the workers, at one instant.
-- ARGV:
-- Result: {now ms, {{sid, kind, ticket, queued_at, state}, ...},
--          {{sid, kind, worker, state, assigned_at, attempt, connections ('0' = not resumable)}, ...},
--          {{worker id, {field, value, ...}}, ...}, {eta field, value, ...},
--          {{sid, kind, ticket, queued_at, state, worker}, ...} (those running on silent workers)}
local at = now_ms()
local is_silent = silence_at(at)
local silent = {}
local waiting, running, serving = {}, {}, {}
local members = redis.call('ZRANGE', queue, 0, -1)
for _, sid in ipairs(members) do
  local row = fields(session_key(sid), 'kind', 'ticket', 'queued_at', 'state')
  if row[1] then
    waiting[#waiting + 1] = {sid, row[1], row[2], row[3], row[4]}
  end
end
for _, sid in ipairs(redis.call('ZRANGE', leases, 0, -1)) do
  local row = fields(session_key(sid), 'kind', 'worker', 'state', 'assigned_at', 'attempt',
    'connection', 'ticket', 'queued_at')
  if row[1] then
    running[#running + 1] = {sid, row[1], row[2], row[3], row[4], row[5], row[6] or '0'}
    if is_silent(row[2]) then silent[#silent + 1] = {sid, row[1], row[7], row[8], row[3], row[2]} end
  end
end
for _, id in ipairs(redis.call('ZRANGE', workers, 0, -1)) do
  serving[#serving + 1] = {id, all_fields(worker_key(id))}
end
return {at, waiting, running, serving, all_fields(eta), silent}
