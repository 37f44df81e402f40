"""The book with all twenty-three chapters: it builds, and its first page lists them.

Those to come, 09 to 23, are dummies in a copy of the book.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tools.chapters import ROOT
from tools.check.pages import parsed

PARTS = {
    "Inside real models": "kv-cache rotary-positions grouped-query real-weights "
    "latent-attention cross-attention flash-attention long-texts serving",
    "Trust it, speed it up, ship it": "health-checks pitfalls performance export "
    "many-devices inside-heads",
}
TO_COME = re.compile(r" \*To come:\*\n\n(?:- .+\n)+")
LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "_build", "node_modules", "reports")
CHAPTER = """---
jupytext: {{text_representation: {{extension: .md, format_name: myst}}}}
kernelspec: {{display_name: Python 3, language: python, name: python3}}
---

({name})=
# {title}

After this chapter you can say what {title} is.

**Time:** 1 minute.

```{{code-cell}} ipython3
print("chapter", {number})
```

## Recap
"""


def make(folder: Path) -> list[str]:
    """Copy the book into a folder, with all chapters; gives the names of the new."""
    shutil.copytree(ROOT, folder, ignore=LEFT_OUT)
    toc = yaml.safe_load((folder / "_toc.yml").read_text(encoding="utf-8"))
    index = (folder / "book/index.md").read_text(encoding="utf-8")
    made: list[str] = []
    for place, (caption, names) in enumerate(PARTS.items(), start=1):
        stops, files, first = "", [], 9 + len(made)
        for number, name in enumerate(names.split(), start=first):
            stem, title = f"{number:02}-{name}", name.replace("-", " ").capitalize()
            text = CHAPTER.format(name=name, title=title, number=number)
            (folder / f"chapters/{stem}.md").write_text(text, encoding="utf-8")
            stops += f"{number}. {{doc}}`{title} <../chapters/{stem}>` as a dummy\n"
            files.append({"file": f"chapters/{stem}.md"})
            made.append(stem)
        index = TO_COME.sub(f"\n\n{stops}", index, count=1)
        part = {"caption": caption, "numbered": True, "chapters": files}
        toc["parts"].insert(place, part)
    (folder / "book/index.md").write_text(index, encoding="utf-8")
    (folder / "_toc.yml").write_text(yaml.safe_dump(toc, sort_keys=False), "utf-8")
    return made


@pytest.mark.slow
def test_first_page_lists_all_chapters_to_come(tmp_path: Path) -> None:
    made = make(tmp_path / "book")
    assert len(made) == 15
    for tool in ("tools.record", "tools.site"):
        command = [sys.executable, "-m", tool]
        subprocess.run(command, cwd=tmp_path / "book", check=True)
    site = tmp_path / "book/_build/html"
    links = parsed(site / "book/index.html").select(".road ol a")
    assert [Path(str(link["href"])).stem for link in links][8:] == made
    page = (site / "chapters/09-kv-cache.html").read_text(encoding="utf-8")
    assert '<span class="section-number">9' in page
