-- Remove a worker whose process shuts down or has ended. The next run of the reaper requeues the sessions
-- that it has left.
-- ARGV: worker_id
-- Result: 1
remove_worker(worker_id, now_ms())
return 1
