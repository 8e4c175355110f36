-- What took CPU time from the program, by cause, most first: the ten largest of each run.
SELECT machine, run, loss_rank, class, note, name, process, thread, code, ns, cpus
FROM (
    SELECT
        *,
        ROW_NUMBER() OVER (PARTITION BY machine, run ORDER BY ns DESC, account_id) AS loss_rank
    FROM account
    WHERE NOT is_useful
) AS losses
WHERE loss_rank <= 10
ORDER BY machine, run, loss_rank
