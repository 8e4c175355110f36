-- Runs in the order in which they were made: the share of CPU time lost to lock waits, its mean over this run and the nine before on that machine, and the commit.
SELECT
    r.machine, r.run, c.value AS commit_id, r.start_realtime_ns,
    COALESCE(a.lock_wait_ns, 0) AS lock_wait_ns,
    COALESCE(a.lock_wait_ns, 0) / CAST(r.capacity_ns AS DOUBLE) AS lock_wait_share,
    AVG(COALESCE(a.lock_wait_ns, 0) / CAST(r.capacity_ns AS DOUBLE)) OVER (
        PARTITION BY r.machine ORDER BY r.start_realtime_ns, r.run ROWS BETWEEN 9 PRECEDING AND CURRENT ROW
    ) AS mean_of_10
FROM run AS r
LEFT JOIN (
    SELECT machine, run, CAST(SUM(ns) AS BIGINT) AS lock_wait_ns FROM account WHERE class = 'lock_wait' GROUP BY machine, run
) AS a ON a.machine = r.machine AND a.run = r.run
LEFT JOIN (SELECT machine, run, value FROM label WHERE key = 'commit') AS c ON c.machine = r.machine AND c.run = r.run
WHERE r.capacity_ns > 0
ORDER BY r.machine, r.start_realtime_ns, r.run
