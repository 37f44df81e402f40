"""After the tests: how many of the twelve parts are right, and which comes next."""

import re
from collections import defaultdict

PART = re.compile(r"test_part_(\d+)_(\w+?)(?:\[|$)")


def pytest_terminal_summary(terminalreporter):
    outcomes, names = defaultdict(set), {}
    for outcome, reports in terminalreporter.stats.items():
        for report in reports:
            if found := PART.search(getattr(report, "nodeid", "")):
                outcomes[int(found[1])].add(outcome)
                names[int(found[1])] = found[2].replace("_", " ")
    outcomes = {part: it - {""} for part, it in sorted(outcomes.items())}
    right = [part for part, it in outcomes.items() if it == {"passed"}]
    bar = "".join("■" if part in right else "·" for part in outcomes)
    terminalreporter.section("your model")
    terminalreporter.write_line(f"{bar}  parts done: {len(right)} of {len(outcomes)}")
    if left := [part for part in outcomes if part not in right]:
        terminalreporter.write_line(f"next: part {left[0]}, {names[left[0]]}")
    else:
        terminalreporter.write_line("All of it is yours. Chat with it: python model.py")
