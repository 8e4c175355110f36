-- The program's threads: time on a CPU, ready, blocked; switches and preemptions.
SELECT
    machine, run, tid, name, process, on_cpu_ns, runnable_ns, blocked_ns, unknown_ns, switches, preemptions
FROM thread
WHERE is_target
ORDER BY machine, run, on_cpu_ns DESC, thread_id
