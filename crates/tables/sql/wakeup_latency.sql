-- From being woken to running, for each thread of the program: percentiles.
SELECT
    w.machine, w.run, w.tid, t.name AS thread,
    COUNT(*) AS wakeups,
    percentile_cont(0.5) WITHIN GROUP (ORDER BY w.latency_ns) AS p50_ns,
    percentile_cont(0.9) WITHIN GROUP (ORDER BY w.latency_ns) AS p90_ns,
    percentile_cont(0.99) WITHIN GROUP (ORDER BY w.latency_ns) AS p99_ns,
    MAX(w.latency_ns) AS max_ns
FROM wakeup AS w
JOIN thread AS t USING (machine, run, thread_id)
WHERE t.is_target AND w.latency_ns IS NOT NULL
GROUP BY w.machine, w.run, w.tid, t.name
ORDER BY machine, run, p99_ns DESC, tid, thread
