-- Each CPU: share of the time it ran the program, others, nobody.
SELECT
    c.machine, c.run, c.cpu,
    CAST(c.target_ns AS DOUBLE) / r.wall_ns AS target_share,
    CAST(c.other_ns AS DOUBLE) / r.wall_ns AS other_share,
    CAST(c.idle_ns AS DOUBLE) / r.wall_ns AS idle_share,
    c.switches
FROM cpu AS c
JOIN run AS r USING (machine, run)
WHERE r.wall_ns > 0
ORDER BY machine, run, cpu
