-- What threads of the program waited for, by kind and name, most time first: barriers, joins, conditions, I/O, locks.
SELECT
    s.machine, s.run, s.kind, s.name,
    COUNT(*) AS waits,
    COUNT(DISTINCT s.thread_id) AS threads,
    CAST(SUM(s.dur_ns) AS BIGINT) AS wait_ns,
    MAX(s.dur_ns) AS max_ns
FROM slice AS s
JOIN thread AS t USING (machine, run, thread_id)
WHERE t.is_target AND s.kind NOT IN ('work', 'task', 'lock_hold')
GROUP BY s.machine, s.run, s.kind, s.name
ORDER BY machine, run, wait_ns DESC, kind, name
