-- Events that are missing from each run, by cause. No rows: none are.
SELECT machine, run, cause, COUNT(*) AS gaps, CAST(SUM(count) AS BIGINT) AS events
FROM loss
GROUP BY machine, run, cause
ORDER BY machine, run, events DESC, cause
