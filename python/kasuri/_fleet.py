"""Many runs: a folder that `kasuri export --format parquet` wrote, in DuckDB or in Spark."""

import functools
import json
import os
import re
from pathlib import Path
from typing import Any

from . import _command


@functools.lru_cache(maxsize=None)
def schema() -> "dict[str, Any]":
    """Tables with their columns, and the queries that come with kasuri, as the command knows them."""
    return json.loads(_command.run("sql", "--list", "--format", "json"))


def queries() -> "dict[str, str]":
    """The queries that come with kasuri: name to SQL, the same for DuckDB and Spark."""
    return {query["name"]: query["sql"] for query in schema()["queries"]}


def needed(text: str) -> "list[str]":
    """Tables and queries that a text mentions, each after those that it needs itself."""
    known = queries()
    names = [table["name"] for table in schema()["tables"]]
    words = set(re.findall(r"\w+", text.lower()))
    tables = [name for name in names if name in words]
    found: "list[str]" = []
    for name in (name for name in known if name in words):
        found += needed(known[name]) + [name]
    return list(dict.fromkeys(tables + found))


def view(name: str, source: str) -> str:
    """The statement that makes a table out of its files, in both engines."""
    columns = next(table["columns"] for table in schema()["tables"] if table["name"] == name)
    chosen = ", ".join(column["name"] for column in columns)
    return f"CREATE OR REPLACE TEMPORARY VIEW {name} AS SELECT machine, run, {chosen} FROM {source}"


def _present(folder: Path) -> "list[str]":
    names = [table["name"] for table in schema()["tables"]]
    present = [name for name in names if any(Path(folder, name).glob("machine=*"))]
    if not present:
        raise _command.Error(f"{folder}: no exported runs; `kasuri export --format parquet -o {folder} FILE` puts one there")
    return present


def register(spark: Any, folder: "os.PathLike[str] | str") -> "list[str]":
    """Makes the tables in `folder` and the queries views of a Spark session. Returns their names."""
    # A commit or a date is a name, not a number.
    spark.conf.set("spark.sql.sources.partitionColumnTypeInference.enabled", "false")
    made = []
    for name in _present(Path(folder)):
        spark.read.parquet(str(Path(folder, name))).createOrReplaceTempView(f"kasuri_{name}")
        spark.sql(view(name, f"kasuri_{name}"))
        made.append(name)
    return made + _register_queries(lambda sql: spark.sql(sql), made)


def _register_queries(execute: Any, tables: "list[str]") -> "list[str]":
    made = []
    for name, sql in queries().items():
        if all(used in tables for used in needed(sql)):
            execute(f"CREATE OR REPLACE TEMPORARY VIEW {name} AS {sql}")
            made.append(name)
    return made


class Fleet:
    """The runs below a folder, on this machine, in DuckDB."""

    def __init__(self, folder: "os.PathLike[str] | str"):
        import duckdb

        self.folder = Path(folder)
        self.connection = duckdb.connect()
        tables = _present(self.folder)
        for name in tables:
            files = str(Path(self.folder, name, "machine=*", "run=*", "*.parquet")).replace("'", "''")
            source = f"read_parquet('{files}', hive_partitioning = true, hive_types_autocast = false)"
            self.connection.execute(view(name, source))
        self.names = tables + _register_queries(self.connection.execute, tables)

    def sql(self, query: str) -> Any:
        """Answers SQL, or a query by its name: a DuckDB relation."""
        return self.connection.sql(queries().get(query, query))
