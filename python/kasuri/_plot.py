"""A Gantt chart by matplotlib, for papers and notebooks; the report is the one to explore."""

from typing import Any, Optional

# The report's colours (viewer/src/draw/palette.ts), so that a colour means the same here: a state's own, and for work those
# of names. A test compares them.
STATES = {
    "running": "#009E73",
    "woken": "#56B4E9",
    "preempted": "#1C4FA3",
    "disk_sleep": "#B0479F",
    "sleeping": "#E3E7EE",
}
WAITS = {"barrier", "join", "cond", "io", "wait", "lock_wait"}
WORK = ["#6F74C4", "#DDCC77", "#CC6677", "#44AA99", "#C9907A", "#4E9A5B", "#B56BA8", "#9C9A58"]


def gantt(run: Any, threads: Optional[int], start: float, end: Optional[float], ax: Any) -> Any:
    import matplotlib.pyplot
    from matplotlib.patches import Patch

    info = run.table("run").to_pylist()[0]
    origin = info["start_ns"]
    first, last = origin + int(start * 1e9), origin + int((end if end is not None else info["wall_ns"] / 1e9) * 1e9)
    rows = [t for t in run.table("thread").to_pylist() if t["is_target"] and t["end_ns"] > first and t["start_ns"] < last]
    rows.sort(key=lambda t: -t["on_cpu_ns"])
    rows = sorted(rows[:threads], key=lambda t: (t["pid"], t["start_ns"], t["thread_id"]))
    row_of = {t["thread_id"]: at for at, t in enumerate(rows)}
    if ax is None:
        _, ax = matplotlib.pyplot.subplots(figsize=(12, 1.2 + 0.45 * max(len(rows), 1)), layout="constrained")
    scale, unit = _unit(last - first)

    def draw(table: str, kept: Any, colour: Any, low: float, height: float) -> "set[str]":
        """Bars of one height, one call for each row and colour; equal neighbours closer than a pixel are one bar."""
        data = run.table(table)
        bars: "dict[tuple[int, str], list[list[float]]]" = {}
        names = set()
        for item in data.select(kept["columns"]).to_pylist():
            at = row_of.get(item["thread_id"])
            if at is None or item["end_ns"] <= first or item["start_ns"] >= last or not kept["where"](item):
                continue
            name = item[kept["by"]]
            a, b = max(item["start_ns"], first), min(item["end_ns"], last)
            spans = bars.setdefault((at, name), [])
            if spans and a - spans[-1][1] < (last - first) / 4000:
                spans[-1][1] = max(spans[-1][1], b)
            else:
                spans.append([a, b])
            names.add(name)
        for (at, name), spans in bars.items():
            ranges = [((a - origin) / scale, (b - a) / scale) for a, b in spans]
            ax.broken_barh(ranges, (at + low, height), facecolors=colour(name), linewidth=0)
        return names

    times = ["thread_id", "start_ns", "end_ns"]
    states = draw("thread_state", {"columns": [*times, "state"], "by": "state", "where": lambda i: i["state"] in STATES}, STATES.get, 0.62, 0.22)
    totals: "dict[str, int]" = {}
    for item in run.table("slice").select([*times, "name", "kind"]).to_pylist():
        inside_ns = min(item["end_ns"], last) - max(item["start_ns"], first)
        if item["thread_id"] in row_of and item["kind"] == "work" and inside_ns > 0:
            totals[item["name"]] = totals.get(item["name"], 0) + inside_ns
    ranked = sorted(totals, key=lambda name: -totals[name])
    palette = {name: WORK[min(at, len(WORK) - 1)] for at, name in enumerate(ranked)}
    columns = [*times, "name", "kind", "depth"]
    draw("slice", {"columns": columns, "by": "name", "where": lambda i: i["kind"] == "work" and i["depth"] == 0}, palette.get, 0.12, 0.46)
    draw("slice", {"columns": columns, "by": "name", "where": lambda i: i["kind"] == "work" and i["depth"] > 0}, palette.get, 0.24, 0.34)
    waits = draw("slice", {"columns": columns, "by": "kind", "where": lambda i: i["kind"] in WAITS}, lambda _: "#000000", 0.40, 0.18)
    ax.set_ylim(max(len(rows), 1), 0)
    ax.set_xlim((first - origin) / scale, (last - origin) / scale)
    ax.set_yticks([at + 0.5 for at in range(len(rows))], [f"{t['name']} {t['tid']}" for t in rows])
    ax.set_xlabel(f"time [{unit}]")
    ax.set_title(info["command"] or "whole system", fontsize=10, loc="left")
    legend = [Patch(color=palette[name], label=name) for name in ranked[: len(WORK)]]
    legend += [Patch(color="#000000", label="annotated wait")] if waits else []
    legend += [Patch(color=colour, label=name) for name, colour in STATES.items() if name in states]
    if legend:
        ax.legend(handles=legend, loc="upper left", bbox_to_anchor=(1.03, 1.0), fontsize=8, frameon=False)
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    ax.tick_params(axis="y", length=0)
    return ax


def _unit(ns: int) -> "tuple[float, str]":
    for scale, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "us")):
        if ns >= 2 * scale:
            return scale, unit
    return 1.0, "ns"
