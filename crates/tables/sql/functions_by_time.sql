-- Functions that threads of the program ran or were blocked in: time in the function itself, that and what it calls, and blocked below it; most of its own time first. Needs samples of call paths.
WITH paths AS (
    SELECT
        s.machine, s.run, s.path_id,
        SUM(CASE WHEN s.kind = 'on_cpu' THEN s.weight_ns ELSE 0 END) AS on_cpu_ns,
        SUM(CASE WHEN s.kind IN ('blocked', 'blocked_read', 'lock_wait') THEN s.weight_ns ELSE 0 END) AS blocked_ns
    FROM sample AS s
    JOIN thread AS t USING (machine, run, thread_id)
    WHERE t.is_target AND s.path_id IS NOT NULL
    GROUP BY s.machine, s.run, s.path_id
),
-- Of a recursion the innermost call only, so that no time counts twice.
calls AS (
    SELECT
        c.machine, c.run, c.path_id, MIN(c.depth) AS depth,
        COALESCE(f.readable, f.function, '') AS function, COALESCE(f.module, '') AS module
    FROM stack_frame AS c
    JOIN frame AS f USING (machine, run, frame_id)
    GROUP BY c.machine, c.run, c.path_id, COALESCE(f.readable, f.function, ''), COALESCE(f.module, '')
)
SELECT
    c.machine, c.run, c.function, c.module,
    CAST(SUM(CASE WHEN c.depth = 0 THEN p.on_cpu_ns ELSE 0 END) AS BIGINT) AS self_ns,
    CAST(SUM(p.on_cpu_ns) AS BIGINT) AS total_ns,
    CAST(SUM(p.blocked_ns) AS BIGINT) AS blocked_ns
FROM calls AS c
JOIN paths AS p USING (machine, run, path_id)
GROUP BY c.machine, c.run, c.function, c.module
ORDER BY machine, run, self_ns DESC, total_ns DESC, function, module
