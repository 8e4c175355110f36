-- Annotated work by name: how often, how long, how much of it on a CPU, median and 99th percentile.
SELECT
    machine, run, name, kind,
    COUNT(*) AS slices,
    COUNT(DISTINCT thread_id) AS threads,
    CAST(SUM(dur_ns) AS BIGINT) AS total_ns,
    CAST(SUM(on_cpu_ns) AS BIGINT) AS on_cpu_ns,
    percentile_cont(0.5) WITHIN GROUP (ORDER BY dur_ns) AS p50_ns,
    percentile_cont(0.99) WITHIN GROUP (ORDER BY dur_ns) AS p99_ns,
    MAX(dur_ns) AS max_ns
FROM slice
WHERE kind IN ('work', 'task')
GROUP BY machine, run, name, kind
ORDER BY machine, run, total_ns DESC, name, kind
