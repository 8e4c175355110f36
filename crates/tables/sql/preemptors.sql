-- Who took the CPU from threads of the program while they could still run, and for how long they then waited.
SELECT
    p.machine, p.run, b.process, b.name AS thread, b.is_target AS own_thread,
    COUNT(*) AS preemptions,
    COUNT(DISTINCT p.thread_id) AS threads,
    CAST(SUM(p.dur_ns) AS BIGINT) AS waited_ns,
    MAX(p.dur_ns) AS max_ns
FROM thread_state AS p
JOIN thread AS t USING (machine, run, thread_id)
JOIN thread AS b ON b.machine = p.machine AND b.run = p.run AND b.thread_id = p.by_thread_id
WHERE p.state = 'preempted' AND t.is_target
GROUP BY p.machine, p.run, b.process, b.name, b.is_target
ORDER BY machine, run, waited_ns DESC, process, thread
