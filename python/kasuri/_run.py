"""One recording."""

import html
import json
import os
import tempfile
from pathlib import Path
from typing import Any, Optional

import pyarrow
import pyarrow.parquet

from . import _command, _fleet


def open(path: "os.PathLike[str] | str", salvage: bool = False) -> "Run":  # noqa: A001: what such modules call it
    """The recording, or another tool's trace, at `path`. `salvage`: what can be read of a damaged one."""
    return Run(path, salvage)


class Run:
    """A recording. Tables are read when first asked for, and kept."""

    def __init__(self, path: "os.PathLike[str] | str", salvage: bool = False):
        self.path = Path(path)
        self._salvage = ["--salvage"] if salvage else []
        self._folder = tempfile.TemporaryDirectory(prefix="kasuri-")
        self._tables: "dict[str, pyarrow.Table]" = {}
        self._views: Any = None
        # Says at once what is wrong with the file; `run` also costs the analyses that most users want anyway.
        self.table("run")

    def __repr__(self) -> str:
        run = self.table("run").to_pylist()[0]
        return f"<kasuri.Run {self.path.name}: {run['command'] or 'whole system'}, {run['wall_ns'] / 1e6:.1f} ms, {run['n_cpus']} CPUs>"

    @property
    def tables(self) -> "list[str]":
        """Names of the tables; docs/sql.md says what is in them."""
        return [table["name"] for table in _fleet.schema()["tables"]]

    def table(self, name: str) -> pyarrow.Table:
        """A table as Arrow."""
        if name not in self._tables:
            if name not in self.tables:
                raise _command.Error(f"{name}: no table of that name; there are {', '.join(self.tables)}")
            arguments = ["export", "--format", "parquet", "--machine", "-", "--run", "-", "--table", name]
            _command.run(*arguments, "-o", self._folder.name, *self._salvage, str(self.path))
            file = Path(self._folder.name, name, "machine=-", "run=-", f"{name}.parquet")
            self._tables[name] = pyarrow.parquet.read_table(file, partitioning=None)
        return self._tables[name]

    def pandas(self, name: str) -> Any:
        """A table as a pandas data frame; what can be missing has pandas' own nullable types, so that whole numbers stay whole."""
        import pandas

        types = {
            pyarrow.int64(): pandas.Int64Dtype(),
            pyarrow.int32(): pandas.Int32Dtype(),
            pyarrow.bool_(): pandas.BooleanDtype(),
            pyarrow.string(): pandas.StringDtype(),
        }
        return self.table(name).to_pandas(types_mapper=types.get)

    def polars(self, name: str) -> Any:
        """A table as a polars data frame."""
        import polars

        return polars.from_arrow(self.table(name))

    def sql(self, query: str) -> Any:
        """Answers SQL, or a query by its name, over this run's tables: a DuckDB relation, with .df(), .pl(), .arrow(), .fetchall()."""
        import duckdb

        if self._views is None:
            self._views = duckdb.connect()
        known = {q["name"]: q["sql"] for q in _fleet.schema()["queries"]}
        for name in _fleet.needed(query):
            if name in known:
                self._views.execute(f'CREATE OR REPLACE TEMPORARY VIEW "{name}" AS {known[name]}')
            else:
                self.table(name)
                files = Path(self._folder.name, name, "*", "*", "*.parquet")
                self._views.execute(_fleet.view(name, f"read_parquet('{files}', hive_partitioning = true)"))
        return self._views.sql(f'SELECT * EXCLUDE (machine, run) FROM "{query}"' if query in known else query)

    def summary(self) -> "dict[str, Any]":
        """Everything that `kasuri stat --json` prints; docs/schema describes it."""
        return json.loads(_command.run("stat", "--json", *self._salvage, str(self.path)))

    def account(self) -> "dict[str, float]":
        """Where the CPU time went: seconds by class; they add up to CPUs times wall time."""
        ns: "dict[str, int]" = {}
        for row in self.table("account").to_pylist():
            ns[row["class"]] = ns.get(row["class"], 0) + row["ns"]
        return {name: sum_ns / 1e9 for name, sum_ns in sorted(ns.items(), key=lambda item: -item[1])}

    def plot(self, threads: Optional[int] = 16, start: float = 0.0, end: Optional[float] = None, ax: Any = None) -> Any:
        """Draws threads over time: states as thin bars, the outermost annotations above them. Returns matplotlib's axes.

        `start`, `end`: seconds from the recording's first moment. `threads`: only the busiest of the program's.
        """
        from . import _plot

        return _plot.gantt(self, threads, start, end, ax)

    def report(self, path: "os.PathLike[str] | str | None" = None) -> str:
        """The interactive report as HTML, also written to `path`."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(path or Path(folder, "report.html"))
            _command.run("report", "-o", str(file), *self._salvage, str(self.path))
            return file.read_text(encoding="utf-8")

    def _repr_html_(self) -> str:
        """The report, in a frame of a notebook."""
        page = html.escape(self.report(), quote=True)
        return f'<iframe srcdoc="{page}" style="width:100%;height:720px;border:0" title="{html.escape(self.path.name)}"></iframe>'
