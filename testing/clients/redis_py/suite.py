"""redis-py's own tests of connections, pipelines, pub/sub and accounts, against a server.

Argument: the folder of redis-py's source distribution. A test that fails must stand in suite_failures.txt, with the
reason; one that stands there and does not fail is a line to be removed.
"""

import os
import pathlib
import re
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
LIST = HERE / "suite_failures.txt"
FILES = ["test_connection.py", "test_connection_pool.py", "test_pipeline.py", "test_pubsub.py"]
# Of the tests of commands only those of accounts: most others are about collections.
ACCOUNTS = "test_commands.py::TestRedisCommands::test_acl_"
# Other tests use databases of their own in the sessions.
DATABASE = 9


def listed():
    """The tests that fail, and those that are not run, each with its reason."""
    failing, left_out = {}, {}
    for line in LIST.read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        test, _, reason = line.partition(" | ")
        found = left_out if test.startswith("! ") else failing
        test = test.removeprefix("! ")
        assert reason.strip(), f"{LIST.name}: no reason is given for {test}"
        assert test not in failing and test not in left_out, f"{LIST.name}: {test} is there twice"
        found[test] = reason.strip()
    return failing, left_out


class Outcomes:
    """What became of each test."""

    def __init__(self):
        self.of = {}
        self.said = {}

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.of[report.nodeid] = "failed"
            self.said[report.nodeid] = str(report.longrepr)
        elif report.skipped:
            self.of.setdefault(report.nodeid, "skipped")
        elif report.when == "call":
            self.of.setdefault(report.nodeid, "passed")


def main():
    source = pathlib.Path(sys.argv[1]).resolve()
    server = os.environ["RAMHOLD_RESP"].split(",")[0]
    os.chdir(source)
    outcomes = Outcomes()
    allowed, left_out = listed()
    arguments = ["-c", str(HERE / "suite.ini"), "--rootdir", str(source), "-p", "no:cacheprovider", "-q", "--no-header"]
    arguments += ["--tb=no", "--show-capture=no", "-W", "ignore", "--redis-url", f"redis://{server}/{DATABASE}"]
    # Those are for clients in cluster mode; the other sessions play that.
    arguments += ["-m", "not onlycluster"]
    arguments += [f"--deselect={test}" for test in left_out]
    text = (source / "tests" / "test_commands.py").read_text()
    names = re.findall(r"^    def test_acl_(\w+)\(", text, re.MULTILINE)
    chosen = FILES + [ACCOUNTS + name for name in dict.fromkeys(names)]
    code = pytest.main(arguments + [f"tests/{file}" for file in chosen], plugins=[outcomes])
    failed = {test for test, outcome in outcomes.of.items() if outcome == "failed"}
    for test in sorted(failed - allowed.keys()):
        print(f"  FAILED: {test}\n{outcomes.said[test][-2000:]}")
    for test in sorted(allowed.keys() - failed):
        print(f"  {LIST.name} is stale: {test} {outcomes.of.get(test, 'is no test any more')}")
    passed = sum(outcome == "passed" for outcome in outcomes.of.values())
    print(f"redis-py's own tests: {passed} passed, {len(failed)} failed, {len(allowed)} of them expected")
    # Anything else than passed or failed tests is a failure of the run itself.
    is_run = code in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) and passed > 0
    raise SystemExit(0 if is_run and failed == allowed.keys() else 1)


main()
