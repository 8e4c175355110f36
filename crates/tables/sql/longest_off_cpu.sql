-- The longest times that threads of the program were off a CPU although they could run, with who had it: twenty of each run.
SELECT machine, run, tid, thread, state, start_ns, dur_ns, cpu, by_process, by_thread
FROM (
    SELECT
        s.machine, s.run, s.tid, t.name AS thread, s.state, s.start_ns, s.dur_ns, s.cpu,
        b.process AS by_process, b.name AS by_thread,
        ROW_NUMBER() OVER (PARTITION BY s.machine, s.run ORDER BY s.dur_ns DESC, s.state_id) AS dur_rank
    FROM thread_state AS s
    JOIN thread AS t USING (machine, run, thread_id)
    LEFT JOIN thread AS b ON b.machine = s.machine AND b.run = s.run AND b.thread_id = s.by_thread_id
    WHERE s.state IN ('woken', 'preempted') AND t.is_target
) AS waits
WHERE dur_rank <= 20
ORDER BY machine, run, dur_ns DESC, start_ns, tid
