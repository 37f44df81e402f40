"""What stands behind a test: the text of all that it uses, read and not imported."""

import ast
import json
import re
from functools import cache

from tests.running import ROOT


@cache
def text_of(name):
    """Give the text of a file, none if it is gone."""
    path = ROOT / name
    return path.read_text(encoding="utf-8") if path.is_file() else ""


@cache
def texts_of(file):
    """Give the texts of a test's file and of its helpers; of a notebook, its code."""
    if file.endswith(".ipynb"):
        cells = json.loads(text_of(file))["cells"]
        return ["".join(it["source"]) for it in cells if it["cell_type"] == "code"]
    found, more = {}, {file}
    while more := more - found.keys():
        found |= {name: text_of(name) for name in more}
        whole = "\n".join(found[name] for name in more)
        more = {f"tests/{it}.py" for it in re.findall(r"\btests[./](\w+)", whole)}
        if re.search(r"^from benchmarks", whole, re.MULTILINE):
            more |= {f"benchmarks/{it.name}" for it in ROOT.glob("benchmarks/*.py")}
    return [*found.values()]


@cache
def parts_of(file):
    """Give for each part of a test's file its text, and that of all that it uses."""
    lines, parts, uses = text_of(file).splitlines(), {}, {}
    for node in ast.parse(text_of(file)).body:
        if isinstance(node, ast.ImportFrom):
            for it in node.names:
                parts[it.asname or it.name] = _imported(node.module, it.name)
            continue
        names = [it for it in ast.walk(node) if isinstance(it, ast.Name)]
        local = {it.id for it in names if isinstance(it.ctx, ast.Store)}
        used = {it.id for it in names} - local
        above = [it.lineno for it in getattr(node, "decorator_list", [])]
        own = {getattr(node, "name", None)}
        if own == {None}:
            targets = getattr(node, "targets", [getattr(node, "target", node)])
            own = {it.id for t in targets for it in ast.walk(t) if it in names}
        for name in own:
            text = lines[min([node.lineno, *above]) - 1 : node.end_lineno]
            parts[name] = "\n".join([parts.get(name, ""), *text])
            uses[name] = uses.get(name, set()) | used
    found = {}
    for name in uses:
        seen, more = set(), {name}
        while more := (more & parts.keys()) - seen:
            seen |= more
            more = set().union(*(uses.get(it, ()) for it in more))
        found[name] = "\n".join(parts[it] for it in seen)
    return found


def _imported(module, name):
    """Give the text of what is imported from a helper, and of all that is behind it."""
    helper = (module or "").replace(".", "/") + ".py"
    return parts_of(helper).get(name, "") if helper.startswith("tests/") else ""
