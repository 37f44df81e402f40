"""Show the site in a browser, and rebuild and reload it on every change.

Run as `python -m tools.site.serve`. The server and the script that reloads a page are
those of sphinx-autobuild; its own command cannot record what a change made stale.
"""

import asyncio
import contextlib
import socket
import sys
from pathlib import Path

import uvicorn
import watchfiles
from sphinx_autobuild.filter import IgnoreFilter
from sphinx_autobuild.middleware import JavascriptInjectorMiddleware
from sphinx_autobuild.server import RebuildServer
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Mount, WebSocketRoute
from starlette.staticfiles import StaticFiles

from tools.chapters import ROOT
from tools.running import supervised

HOST, PORT = "127.0.0.1", 8000
LIMIT = 6 * 3600  # seconds for a build, which may have to record all chapters
# Not notebooks/: the rebuild itself writes there.
WATCHED = ("chapters", "book", "attention_lib", "_config.yml", "_toc.yml")
IGNORED = IgnoreFilter([], [r"__pycache__", r"\.ipynb_checkpoints"])


async def rebuild() -> None:
    """Record and build in a separate process: this one would keep old modules."""
    builder = await asyncio.create_subprocess_exec(
        *supervised([sys.executable, "-m", "tools.site"], LIMIT),
        cwd=ROOT,
        start_new_session=True,  # Ctrl-C is for the server, which passes it on
    )
    try:
        await builder.wait()
    finally:
        with contextlib.suppress(ProcessLookupError):
            builder.terminate()


class Watcher(RebuildServer):  # type: ignore[misc]
    """Rebuild without the pool of processes that would outlive a killed server."""

    def __init__(self, address: str) -> None:
        super().__init__([ROOT / name for name in WATCHED], IGNORED, lambda _: None)
        self.address = address

    async def watch(self) -> None:
        """Print where the book is once changes are watched, then rebuild on each."""
        said = False
        async for changes in watchfiles.awatch(
            *self.paths,
            watch_filter=lambda _, path: not IGNORED(path),
            rust_timeout=1000,
            yield_on_timeout=True,
        ):
            if not said:
                told = f"Read the book at http://{self.address}; stop with Ctrl-C"
                print(told, flush=True)
                said = True
            if not changes:
                continue
            for path in sorted({Path(path) for _, path in changes}):
                print(f"changed: {path.relative_to(ROOT)}", flush=True)
            await rebuild()
            self.flag.set()


def application(address: str) -> Starlette:
    """Return the server: the site, and a socket that tells its pages to reload."""
    watcher = Watcher(address)
    site = StaticFiles(directory=ROOT / "_build/html", html=True, follow_symlink=True)
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
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(rebuild())
        (ROOT / "_build/html").mkdir(parents=True, exist_ok=True)
        with listen() as connection:
            address = f"{HOST}:{connection.getsockname()[1]}"
            config = uvicorn.Config(application(address), log_level="warning")
            uvicorn.Server(config).run(sockets=[connection])


if __name__ == "__main__":
    main()
