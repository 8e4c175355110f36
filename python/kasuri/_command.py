"""The `kasuri` command, which does the reading: found, and run."""

import functools
import os
import shutil
import subprocess
import sys
import sysconfig


class Error(Exception):
    """What the command could not do, in its words."""


@functools.lru_cache(maxsize=None)
def path() -> str:
    """$KASURI, else the command that this wheel installed, else the one on the PATH."""
    named = os.environ.get("KASURI")
    if named:
        return named
    beside = [
        os.path.join(folder, "kasuri")
        for folder in (sysconfig.get_path("scripts"), os.path.dirname(sys.executable))
        if folder
    ]
    for candidate in beside:
        if os.access(candidate, os.X_OK):
            return candidate
    found = shutil.which("kasuri")
    if found is None:
        raise Error("the kasuri command was not found; install the wheel, or set KASURI=/path/to/kasuri")
    return found


def run(*args: str) -> bytes:
    """Its stdout.

    Raises Error with its message when it fails.
    """
    done = subprocess.run([path(), *args], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode != 0:
        lines = done.stderr.decode(errors="replace").splitlines()
        errors = [line.removeprefix("kasuri: error: ") for line in lines if "error: " in line]
        raise Error("\n".join(errors or lines) or f"kasuri exited with {done.returncode}")
    return done.stdout
