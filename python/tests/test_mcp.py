"""kasuri mcp, asked by the protocol's own client for Python; and its SQL, which strangers may have written."""

import asyncio
import os

import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


@pytest.fixture
def asked(command, recording):
    def ask(*calls):
        """The tools' names, and for each call whether it failed and what it said."""

        async def session():
            server = StdioServerParameters(command=str(command), args=["mcp"], cwd=recording.parent, env=dict(os.environ))
            async with stdio_client(server) as pipes, ClientSession(*pipes) as client:
                await client.initialize()
                tools = [tool.name for tool in (await client.list_tools()).tools]
                answers = [await client.call_tool(name, arguments) for name, arguments in calls]
                return tools, [(a.is_error, "\n".join(block.text for block in a.content)) for a in answers]

        return asyncio.run(session())

    return ask


def test_the_protocols_own_client_gets_answers(asked, recording):
    name = {"recording": recording.name}
    tools, answers = asked(("list_recordings", {}), ("explain", name), ("account", name | {"json": True}))
    assert {"explain", "account", "call_paths", "locks", "critical_path", "compare", "sql"} <= set(tools)
    assert not {"record", "try_remedies"} & set(tools)
    assert recording.name in answers[0][1]
    assert answers[1][1].startswith("# Where the CPU time of ")
    assert '"kasuri.stat/1"' in answers[2][1] and '"cursor": "' in answers[2][1]
    assert not any(failed for failed, _ in answers)


def test_sql_reads_the_recording_and_nothing_else(asked, recording):
    secret = recording.parent / "secret"
    secret.write_text("hidden")

    def sql(query):
        return ("sql", {"recording": recording.name, "query": query})

    bad = [
        f"SELECT * FROM read_text('{secret}')",
        f"FROM '{secret}'",
        f"SELECT * FROM glob('{recording.parent}/*')",
        f"COPY (SELECT 1) TO '{secret}.out'",
        f"ATTACH '{secret}.db'",
        ".shell id",
        "\n .shell id",
        "SELECT 1;\n.shell id",
        ".safe_mode",
        "SET enable_external_access = true",
        "SELECT getenv('HOME')",
        "INSTALL httpfs",
        "",
    ]
    good = ["SELECT COUNT(*) AS n FROM thread", "account_by_class", "SELECT 1 AS a; SELECT 2 AS b"]
    _, answers = asked(*map(sql, bad + good))
    for query, (failed, text) in zip(bad, answers):
        assert failed and "hidden" not in text and "uid=" not in text, f"{query}: {text}"
    for query, (failed, text) in zip(good, answers[len(bad) :]):
        assert not failed and text, f"{query}: {text}"
    assert sorted(path.name for path in recording.parent.iterdir()) == [recording.name, "secret"]
