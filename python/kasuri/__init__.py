"""Open recordings of parallel programs: tables, the account, SQL, a picture.

    import kasuri
    run = kasuri.open("run.kasuri")
    run.table("slice"), run.account(), run.sql("FROM top_waits").df(), run.plot()
"""

from ._command import Error
from ._fleet import Fleet, queries, register
from ._run import Run, open

__all__ = ["Error", "Fleet", "Run", "open", "queries", "register"]
