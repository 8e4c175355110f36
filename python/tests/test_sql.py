"""kasuri sql with a real DuckDB: formats, names, errors."""

import csv
import io
import json
import statistics
import subprocess

import pytest

import kasuri


def sql(command, *args, code=0):
    done = subprocess.run([command, "sql", *map(str, args)], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == code, done.stderr
    return done


def test_every_query_answers_without_a_word_on_stderr(command, recording, fleet):
    for name in kasuri.queries():
        for source in (recording, fleet):
            done = sql(command, source, name)
            assert done.stderr == "", name
            assert ("machine" in done.stdout.splitlines()[1]) == (source == fleet), name


def test_formats_hold_the_same_rows(command, recording, tmp_path):
    expected = json.loads(sql(command, "--format", "json", recording, "account_by_class").stdout)
    rows = list(csv.DictReader(io.StringIO(sql(command, "--format", "csv", recording, "account_by_class").stdout)))
    assert [(r["class"], int(r["ns"])) for r in rows] == [(r["class"], r["ns"]) for r in expected]
    out = tmp_path / "it's.parquet"
    sql(command, "--format", "parquet", "-o", out, recording, "account_by_class;")
    import pyarrow.parquet

    assert pyarrow.parquet.read_table(out)["ns"].to_pylist() == [r["ns"] for r in expected]
    out = tmp_path / "rows.csv"
    sql(command, "--format", "csv", "-o", out, recording, "account_by_class")
    assert list(csv.DictReader(out.open())) == rows
    assert json.loads(sql(command, "--format", "json", recording, "SELECT * FROM run WHERE false").stdout) == []


def test_mistakes_are_told(command, recording):
    assert 'Referenced column "nothing" not found' in sql(command, recording, "SELECT nothing FROM slice", code=1).stderr
    assert "use -o OUT.parquet" in sql(command, "--format", "parquet", recording, "FROM run", code=1).stderr
    assert "stdin is empty" in sql(command, recording, code=1).stderr


def test_stdin_may_hold_several_statements(command, recording):
    done = subprocess.run([command, "sql", "--format", "csv", recording], input="SELECT 1 AS a;\nSELECT 2 AS b;", capture_output=True, text=True)
    assert done.stdout.split() == ["a", "1", "b", "2"]


def test_a_fleet_finds_where_lock_waits_began(command, fleet):
    rows = json.loads(sql(command, "--format", "json", fleet, "lock_wait_trend").stdout)
    assert len(rows) == 60
    share = {(r["machine"], r["run"]): r["lock_wait_share"] for r in rows}
    slow = [s for (machine, run), s in share.items() if machine == "build-2" and run >= "night-0018"]
    fast = [s for (machine, run), s in share.items() if not (machine == "build-2" and run >= "night-0018")]
    assert len(slow) == 12 and statistics.mean(slow) > 1.5 * statistics.mean(fast)


def test_fleet_in_python_is_the_same(command, fleet):
    answers = kasuri.Fleet(fleet)
    expected = json.loads(sql(command, "--format", "json", fleet, "locks_by_wait").stdout)
    assert answers.sql("locks_by_wait").fetchall() == [tuple(row.values()) for row in expected]
    with pytest.raises(kasuri.Error, match="no exported runs"):
        kasuri.Fleet(fleet / "nowhere")


def flame(command, recording, *args):
    return json.loads(subprocess.run([command, "flame", "--json", *args, recording], check=True, capture_output=True).stdout)


def rows(command, recording, text):
    return json.loads(sql(command, "--format", "json", recording, text).stdout)


def test_samples_weigh_what_the_flame_graph_says(command, recording):
    """Samples with a path weigh as much as the flame graph of all threads; none weighs more than its thread's states, and wake-ups nothing."""
    weighed = """
        SELECT
            s.tid,
            CAST(SUM(CASE WHEN s.kind = 'on_cpu' THEN weight_ns ELSE 0 END) AS BIGINT) AS on_cpu,
            CAST(SUM(CASE WHEN s.kind = 'on_cpu' AND path_id IS NOT NULL THEN weight_ns ELSE 0 END) AS BIGINT) AS known,
            CAST(SUM(CASE WHEN s.kind NOT IN ('on_cpu', 'waker') THEN weight_ns ELSE 0 END) AS BIGINT) AS blocked
        FROM sample AS s JOIN thread AS t USING (thread_id) WHERE t.is_target GROUP BY s.tid
    """
    found = rows(command, recording, weighed)
    assert found
    tree = flame(command, recording)
    assert sum(r["known"] for r in found) == tree["ns"] - tree["unsampled_ns"]
    states = """
        SELECT
            tid,
            CAST(SUM(CASE WHEN state = 'running' THEN dur_ns ELSE 0 END) AS BIGINT) AS on_cpu,
            CAST(SUM(CASE WHEN state IN ('running', 'woken', 'preempted', 'unknown') THEN 0 ELSE dur_ns END) AS BIGINT) AS blocked
        FROM thread_state GROUP BY tid
    """
    of_states = {r["tid"]: r for r in rows(command, recording, states)}
    assert sum(of_states[r["tid"]]["on_cpu"] for r in found) >= sum(r["on_cpu"] for r in found) > 0
    for r in found:
        assert r["blocked"] <= of_states[r["tid"]]["blocked"], r
    waker = rows(command, recording, "SELECT CAST(COALESCE(SUM(weight_ns), 0) AS BIGINT) AS ns FROM sample WHERE kind = 'waker'")
    assert waker == [{"ns": 0}]


def test_paths_have_every_depth_and_functions_that_are_there(command, recording):
    """`stack_frame` has each depth of each path once, from 0 on; what it and `sample` refer to exists."""
    broken = """
        SELECT path_id FROM stack_frame GROUP BY path_id HAVING MIN(depth) <> 0 OR MAX(depth) <> COUNT(*) - 1 OR COUNT(DISTINCT depth) <> COUNT(*)
    """
    assert rows(command, recording, broken) == []
    for text in [
        "SELECT 1 FROM stack_frame LEFT JOIN frame USING (frame_id) WHERE frame.frame_id IS NULL",
        "SELECT 1 FROM sample LEFT JOIN stack_frame USING (path_id) WHERE path_id IS NOT NULL AND depth IS NULL",
        "SELECT 1 FROM stack_frame LEFT JOIN sample USING (path_id) WHERE sample_id IS NULL",
        "SELECT 1 FROM frame WHERE (function IS NULL) = (address IS NULL)",
    ]:
        assert rows(command, recording, text) == [], text
    assert rows(command, recording, "SELECT COUNT(*) AS n FROM stack_frame WHERE depth > 1")[0]["n"] > 0


def test_functions_by_time_is_the_flame_graph_turned_over(command, recording):
    """Own times of functions, added up from the tree; and the same of blocked time."""
    own, blocked = {}, {}
    for tree, times in [(flame(command, recording), own), (flame(command, recording, "--blocked"), blocked)]:
        for node in tree["nodes"]:
            if node["self_ns"] > 0:
                key = (node["frame"]["function"], node["frame"]["module"])
                times[key] = times.get(key, 0) + node["self_ns"]
    answer = rows(command, recording, "functions_by_time")
    found = {}
    for row in answer:
        key = (row["function"], row["module"].rsplit("/", 1)[-1])
        found[key] = found.get(key, 0) + row["self_ns"]
        assert row["total_ns"] >= row["self_ns"]
    assert {key: ns for key, ns in found.items() if ns > 0} == own
    assert own and max(row["blocked_ns"] for row in answer) <= sum(blocked.values())
