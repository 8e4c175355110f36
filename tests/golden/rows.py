# SPDX-License-Identifier: MIT OR Apache-2.0
"""JSON of which people read the changes: what fits in a line is one line."""
import json

WIDTH = 500


def rows(value, depth=0):
    flat = json.dumps(value)
    if depth + len(flat) <= WIDTH or not isinstance(value, (dict, list)) or not value:
        return flat
    pad = "\n" + " " * (depth + 1)
    if isinstance(value, dict):
        inside = (f"{json.dumps(str(key))}: {rows(item, depth + 1)}" for key, item in value.items())
        return "{" + pad + ("," + pad).join(inside) + "\n" + " " * depth + "}"
    return "[" + pad + ("," + pad).join(rows(item, depth + 1) for item in value) + "\n" + " " * depth + "]"
