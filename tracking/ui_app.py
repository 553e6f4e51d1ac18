"""MLflow's pages as `ablate ui` serves them: its assistant stays closed until somebody opens it.

On a local address MLflow opens the assistant in every browser that it does not know yet, over a quarter of the page. It
has no setting for that, so its first page says that this has been done.
"""

from collections.abc import Awaitable, Callable
from typing import Any

NAME = "ablate"  # of the entry point in the group `mlflow.app`, by which `mlflow server --app-name` finds `app`
ONCE = "mlflow.assistant.fab.autoOpenedOnFirstLoad_v1"
SCRIPT = f"<script>localStorage.setItem('{ONCE}', 'true')</script>".encode()
VALIDATORS = (b"if-none-match", b"if-modified-since", b"etag", b"last-modified", b"content-length")
Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]


def app() -> "FirstPage":
    """A factory, since importing MLflow's server takes seconds."""
    from mlflow.server.fastapi_app import app as pages

    return FirstPage(pages)


class FirstPage:
    """The app with our script in its first page."""

    def __init__(self, pages: App) -> None:
        self._pages = pages

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != "/":
            await self._pages(scope, receive, send)
            return
        start, body = Message(), list[bytes]()

        async def collect(message: Message) -> None:
            if message["type"] == "http.response.start":
                start.update(message)
            else:
                body.append(message.get("body", b""))

        await self._pages(scope | {"headers": _whole(scope["headers"])}, receive, collect)
        page = b"".join(body).replace(b"<head>", b"<head>" + SCRIPT, 1)
        length = (b"content-length", str(len(page)).encode())
        await send(start | {"headers": [*_whole(start["headers"]), length]})
        await send({"type": "http.response.body", "body": page})


def _whole(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Without the headers by which a browser asks for, or keeps, the unchanged page."""
    return [(name, value) for name, value in headers if name.lower() not in VALIDATORS]
