"""kasuri.open: the tables and answers are those of the command."""

import json
import pathlib
import re
import subprocess

import pytest

import kasuri


@pytest.fixture(scope="module")
def run(recording):
    return kasuri.open(recording)


@pytest.fixture(scope="module")
def stat(command, recording):
    return json.loads(subprocess.run([command, "stat", "--json", recording], check=True, capture_output=True).stdout)


def test_account_is_what_stat_says(run, stat):
    expected = {row["class"]: row["ns"] for row in stat["account"]["classes"]}
    account = run.account()
    assert {name: round(s * 1e9) for name, s in account.items()} == expected
    assert round(sum(account.values()) * 1e9) == stat["capacity_ns"]
    assert run.summary()["account"] == stat["account"]


def test_every_table_has_its_columns_in_arrow_pandas_and_polars(run):
    arrow_names = {"BIGINT": "int64", "INTEGER": "int32", "DOUBLE": "double", "BOOLEAN": "bool", "VARCHAR": "string"}
    from kasuri import _fleet

    for table in _fleet.schema()["tables"]:
        expected = [(c["name"], arrow_names[c["type"]]) for c in table["columns"]]
        arrow = run.table(table["name"])
        assert [(f.name, str(f.type)) for f in arrow.schema] == expected
        assert [f.nullable for f in arrow.schema] == [c["nullable"] for c in table["columns"]]
        pandas, polars = run.pandas(table["name"]), run.polars(table["name"])
        assert len(pandas) == arrow.num_rows == polars.height
        assert list(pandas.columns) == polars.columns == arrow.column_names
    assert set(run.tables) >= {"event", "slice", "thread", "process", "cpu", "thread_state", "wakeup", "lock", "account", "loss"}


def test_slices_are_those_of_stat(run, stat):
    slices = run.pandas("slice")
    targets = run.pandas("thread").query("is_target").thread_id
    work = slices[(slices.kind == "work") & slices.thread_id.isin(targets)].groupby("name").dur_ns.agg(["count", "sum"])
    expected = {a["name"]: (a["count"], a["total_ns"]) for a in stat["annotations"] if a["kind"] == "work"}
    assert {name: (row["count"], row["sum"]) for name, row in work.iterrows()} == expected
    assert len(expected) > 2


def test_sql_answers_by_name_and_by_text(run, stat):
    rows = run.sql("account_by_class").df()
    assert dict(zip(rows["class"], rows["ns"])) == {row["class"]: row["ns"] for row in stat["account"]["classes"]}
    ((count,),) = run.sql("SELECT COUNT(*) FROM slice WHERE kind = 'work'").fetchall()
    assert count == sum(a["count"] for a in stat["annotations"] if a["kind"] == "work")
    for name in kasuri.queries():
        run.sql(name).fetchall()


def test_what_is_wrong_is_said_in_the_commands_words(tmp_path, run):
    with pytest.raises(kasuri.Error, match="nowhere.kasuri: cannot open"):
        kasuri.open(tmp_path / "nowhere.kasuri")
    bad = tmp_path / "bad.kasuri"
    bad.write_bytes(b"not a recording")
    with pytest.raises(kasuri.Error, match="bad.kasuri: "):
        kasuri.open(bad)
    with pytest.raises(kasuri.Error, match="no table of that name; there are run"):
        run.table("nothing")


def test_plot_has_the_colours_of_the_report():
    from kasuri import _plot

    palette = pathlib.Path(__file__).parents[2] / "viewer/src/draw/palette.ts"
    text = palette.read_text(encoding="utf-8")
    light = dict(re.findall(r"^  (\w+): \[0x([0-9a-f]{6}), 0x[0-9a-f]{6}\],$", text, re.M))
    meaning = {"disk_sleep": "io"}  # a thread in uninterruptible sleep waits for input or output
    for state, colour in _plot.STATES.items():
        assert colour.lower() == "#" + light[meaning.get(state, state)], state
    names = re.search(r"const MUTED: Rgb\[\] = \[(.*)\];", text).group(1).replace("0x", "#").split(", ")
    assert set(map(str.lower, _plot.WORK)) <= set(names)
    assert len(set(_plot.WORK)) == len(_plot.WORK)


def test_plot_draws_each_thread(run):
    import matplotlib

    matplotlib.use("Agg")
    ax = run.plot(threads=2)
    threads = [label.get_text() for label in ax.get_yticklabels()]
    assert len(threads) == 2 and len(ax.collections) > 2
    legend = {text.get_text() for text in ax.get_legend().get_texts()}
    assert "smvp" in legend
    whole = ax.get_xlim()
    part = run.plot(start=0.0, end=0.001).get_xlim()
    assert whole[1] > 0 and part[1] > 0


def test_a_notebook_shows_the_report(run, tmp_path):
    frame = run._repr_html_()
    assert frame.startswith("<iframe srcdoc=") and "&lt;!doctype html" in frame.lower()
    page = run.report(tmp_path / "run.html")
    assert (tmp_path / "run.html").read_text(encoding="utf-8") == page
