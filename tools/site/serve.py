"""Show the site in a browser, and rebuild and reload it on every change.

Run as `python -m tools.site.serve`. The server and the script that reloads a page are
those of sphinx-autobuild; its own command cannot record what a change made stale.
"""

import contextlib
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import uvicorn
from sphinx_autobuild.filter import IgnoreFilter
from sphinx_autobuild.middleware import JavascriptInjectorMiddleware
from sphinx_autobuild.server import RebuildServer
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Mount, WebSocketRoute
from starlette.staticfiles import StaticFiles

from tools.site.build import ROOT

HOST, PORT = "127.0.0.1", 8000
# Not notebooks/: the rebuild itself writes there.
WATCHED = ("chapters", "book", "attention_lib", "_config.yml", "_toc.yml")


def rebuild(changed_paths: Sequence[Path]) -> None:
    """Record and build in a process of its own: this one would keep old modules."""
    for path in changed_paths:
        print(f"changed: {path.relative_to(ROOT)}", flush=True)
    subprocess.run([sys.executable, "-m", "tools.site.build"], cwd=ROOT, check=False)


def application(address: str) -> Starlette:
    """Return the server: the site, and a socket that tells its pages to reload."""
    ignored = IgnoreFilter([], [r"__pycache__", r"\.ipynb_checkpoints"])
    watcher = RebuildServer([ROOT / name for name in WATCHED], ignored, rebuild)
    site = StaticFiles(directory=ROOT / "_build/html", html=True)
    return Starlette(
        routes=[WebSocketRoute("/websocket-reload", watcher), Mount("/", app=site)],
        middleware=[Middleware(JavascriptInjectorMiddleware, ws_url=address)],
        lifespan=watcher.lifespan,
    )


def listen() -> socket.socket:
    """Take the usual port, or any free one when something has it already."""
    try:
        return socket.create_server((HOST, PORT))
    except OSError:
        return socket.create_server((HOST, 0))


def main() -> None:
    """Build once, then serve until interrupted."""
    rebuild([])
    (ROOT / "_build/html").mkdir(parents=True, exist_ok=True)
    with listen() as connection:
        address = f"{HOST}:{connection.getsockname()[1]}"
        print(f"Read the book at http://{address}; stop with Ctrl-C", flush=True)
        config = uvicorn.Config(application(address), log_level="warning")
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[connection])


if __name__ == "__main__":
    main()
