-- Load imbalance of annotations that several threads execute, over their sums: (max - mean) / max of the threads' busy times, and the CPU time it cost.
WITH busy AS (
    SELECT
        s.machine, s.run, s.pid, s.name, s.thread_id, s.tid,
        COUNT(*) AS slices,
        CAST(SUM(COALESCE(s.on_cpu_ns, s.dur_ns)) AS BIGINT) AS busy_ns
    FROM slice AS s
    JOIN thread AS t USING (machine, run, thread_id)
    WHERE t.is_target AND s.kind = 'work'
    GROUP BY s.machine, s.run, s.pid, s.name, s.thread_id, s.tid
)
SELECT
    machine, run, pid, name,
    COUNT(*) AS threads,
    CAST(SUM(slices) AS BIGINT) AS slices,
    MAX(busy_ns) AS max_busy_ns,
    AVG(busy_ns) AS mean_busy_ns,
    (MAX(busy_ns) - AVG(busy_ns)) / MAX(busy_ns) AS imbalance,
    COUNT(*) * (MAX(busy_ns) - AVG(busy_ns)) AS cost_ns
FROM busy
GROUP BY machine, run, pid, name
HAVING COUNT(*) > 1 AND MAX(busy_ns) > 0
ORDER BY machine, run, cost_ns DESC, pid, name
