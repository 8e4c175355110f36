-- Where the CPU time went, by class, as kasuri stat shows it; share is of all CPU time there was.
SELECT
    machine, run, class, is_useful,
    CAST(SUM(ns) AS BIGINT) AS ns,
    SUM(cpus) AS cpus,
    CAST(SUM(ns) AS DOUBLE) / MAX(capacity_ns) AS share
FROM account
JOIN run USING (machine, run)
GROUP BY machine, run, class, is_useful
ORDER BY machine, run, ns DESC, class
