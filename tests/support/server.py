"""A web server on 127.0.0.1 that can be made to misbehave."""

import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Server(ThreadingHTTPServer):
    """Serves `files` by name below its `address`, with support for ranges."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server_port}/mirror"
        self.files: dict[str, bytes] = {}
        self.requests: list[tuple[str, str, str | None]] = []  # method, name, Range
        self.ranges = True
        self.etags = False  # whether responses have an ETag, without which no ranges are sent
        self.break_after: list[int] = []  # the next responses to GET stop after so many bytes
        self.stalls: list[float] = []  # the next responses to GET are delayed by so many seconds
        self.status: list[int] = []  # the next responses to GET are these errors
        self.lies: dict[str, int] = {}  # bytes to add to the claimed length of a file
        self.encodings: dict[str, str] = {}  # the Content-Encoding that is declared for a file
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def handle_error(self, request, client_address):
        """Ignore errors: clients may disconnect."""

    @property
    def gets(self) -> list[tuple[str, str | None]]:
        return [
            (name, range_header) for method, name, range_header in self.requests if method == "GET"
        ]


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def do_HEAD(self):
        self.answer(body=False)

    def do_GET(self):
        self.answer(body=True)

    def answer(self, body: bool):
        server, name, range_header = (
            self.server,
            self.path.removeprefix("/mirror/"),
            self.headers["Range"],
        )
        server.requests.append((self.command, name, range_header))
        if body and server.status:
            return self.send_error(server.status.pop(0))
        if name not in server.files:
            return self.send_error(404)
        content = server.files[name]
        claimed, mark = (
            len(content) + server.lies.get(name, 0),
            f'"{hash(content)}"' if server.etags else None,
        )
        resumes = range_header and server.ranges and self.headers["If-Range"] == mark
        start = int(re.fullmatch(r"bytes=(\d+)-", range_header)[1]) if resumes else 0
        if start and start >= len(content):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{claimed}")
            return self.end_headers()
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{claimed - 1}/{claimed}")
        self.send_header("Content-Length", str(claimed - start))
        if mark:
            self.send_header("ETag", mark)
        if name in server.encodings:
            self.send_header("Content-Encoding", server.encodings[name])
        self.end_headers()
        if body:
            time.sleep(server.stalls.pop(0) if server.stalls else 0)
            end = server.break_after.pop(0) if server.break_after else len(content)
            self.wfile.write(content[start : min(start + end, claimed)])
        return None
