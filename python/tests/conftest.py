"""What the tests look at: a program of this repository, recorded now, and a small fleet that is made up."""

import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def needs(condition, why):
    """Skips, and says why; fails where everything has to be there."""
    if condition:
        return
    if os.environ.get("CI") == "true":
        pytest.fail(why)
    pytest.skip(f"skipped: {why}")


@pytest.fixture(scope="session")
def command():
    from kasuri import _command

    return _command.path()


@pytest.fixture(scope="session")
def recording(command, tmp_path_factory):
    program = ROOT / "build/examples/quake"
    needs(program.exists(), f"{program} is not built; make c")
    out = tmp_path_factory.mktemp("recording") / "quake.kasuri"
    subprocess.run([command, "record", "-q", "-o", out, "--", program, "-n", "40"], check=True, stdout=subprocess.DEVNULL)
    return out


@pytest.fixture(scope="session")
def fleet(tmp_path_factory):
    out = tmp_path_factory.mktemp("fleet")
    make = ["cargo", "run", "-q", "--locked", "--example", "fleet", "--", out, "60"]
    subprocess.run(make, check=True, cwd=ROOT)
    return out
