-- Locks, most waited for first: how often taken, how long held and waited for, how much of the CPU time inside.
SELECT
    machine, run, pid, name, kind, threads, holds, contended, wait_ns, wait_max_ns,
    hold_ns, hold_cpu_ns, hold_max_ns, lock_ratio, wait_ratio
FROM lock
ORDER BY machine, run, wait_ns DESC, hold_ns DESC, lock_id
