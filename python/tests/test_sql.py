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
