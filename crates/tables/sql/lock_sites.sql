-- Places in the program that wait for locks, most time first, with the 99th percentile of the waits.
SELECT
    w.machine, w.run, l.name AS lock_name, w.site,
    COUNT(*) AS requests,
    COUNT(*) FILTER (WHERE w.dur_ns >= 300) AS contended,
    CAST(SUM(w.dur_ns) AS BIGINT) AS wait_ns,
    percentile_cont(0.99) WITHIN GROUP (ORDER BY w.dur_ns) AS wait_p99_ns,
    MAX(w.dur_ns) AS wait_max_ns
FROM lock_wait AS w
JOIN lock AS l USING (machine, run, lock_id)
GROUP BY w.machine, w.run, l.name, w.site
ORDER BY machine, run, wait_ns DESC, lock_name, site
