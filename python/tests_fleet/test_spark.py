"""Every query that comes with kasuri, its text unchanged, in DuckDB and on a Spark cluster of two worker processes: equal answers."""

import math
import pathlib
import shutil
import subprocess
import sys

import pytest

import kasuri

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests"))
from conftest import ROOT, command, fleet, needs, recording  # noqa: E402, F401: fixtures


@pytest.fixture(scope="module")
def runs(command, fleet, recording, tmp_path_factory):  # noqa: F811
    """Sixty runs that are made up, and a real one of another machine."""
    folder = tmp_path_factory.mktemp("runs") / "all"
    shutil.copytree(fleet, folder)
    subprocess.run([command, "export", "--format", "parquet", "-o", folder, "--machine", "desk 1", "--run", "1e3", recording], check=True)
    return folder


@pytest.fixture(scope="module")
def spark():
    needs(shutil.which("java"), "no java; Spark needs Java 17")
    from pyspark.sql import SparkSession

    session = (
        # Two workers, each a process of its own with one core.
        SparkSession.builder.master("local-cluster[2,1,1024]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    yield session
    session.stop()


def test_the_cluster_has_two_workers(spark):
    hosts = spark.sparkContext.parallelize(range(64), 16).map(lambda _: __import__("os").getppid()).distinct().collect()
    assert len(hosts) == 2


@pytest.fixture(scope="module")
def duckdb(runs):
    return kasuri.Fleet(runs)


@pytest.fixture(scope="module")
def views(spark, runs):
    return kasuri.register(spark, runs)


def test_both_have_the_same_tables(spark, duckdb, views):
    assert views == duckdb.names
    for name in views:
        columns = [(d[0]) for d in duckdb.sql(f"FROM {name} LIMIT 0").description]
        assert spark.table(name).columns == columns, name


@pytest.mark.parametrize("name", sorted(kasuri.queries()))
def test_answers_are_equal(spark, duckdb, views, name):
    text = kasuri.queries()[name]
    ours, theirs = duckdb.sql(text), spark.sql(text)
    assert ours.columns == theirs.columns
    same(ours.fetchall(), [tuple(row) for row in theirs.collect()])


def test_a_text_of_the_users_own_too(spark, duckdb, views):
    text = """
        SELECT machine, run, tid, CAST(floor(start_ns / 100000) AS BIGINT) AS bucket,
               COUNT(*) FILTER (WHERE state = 'sleeping') AS sleeps,
               percentile_cont(0.5) WITHIN GROUP (ORDER BY dur_ns) AS median_ns
        FROM thread_state GROUP BY ALL
    """
    rows = duckdb.sql(text).fetchall()
    assert len(rows) > 100
    same(rows, [tuple(row) for row in spark.sql(text).collect()])


def same(ours, theirs):
    def key(row):
        return [str(value) for value in row if not isinstance(value, float)]

    ours, theirs = sorted(ours, key=key), sorted(theirs, key=key)
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs):
        for x, y in zip(a, b):
            # Sums of floating-point numbers depend on the order in which they are added.
            close = isinstance(x, float) and isinstance(y, float) and math.isclose(x, y, rel_tol=1e-12, abs_tol=1e-15)
            assert close or (x == y and type(x) is type(y)), (a, b)
