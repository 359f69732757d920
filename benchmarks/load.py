"""Requests per second, and the times of answers, of serving/service.py under load.

    TAGGER=runs/ner OMP_NUM_THREADS=2 uvicorn --app-dir=serving service:app &
    python benchmarks/load.py --text=data/polarity/rt-polarity.pos

A client sends its next text, a line of the file, when the last one is answered.
"""

import argparse
import json
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from itertools import chain, cycle
from pathlib import Path
from urllib.parse import urlsplit

CLIENTS = 1, 8, 32


def client(url: str, path: str, texts: Sequence[str], seconds: float) -> list[float]:
    """Send texts until the time is over. Returns the seconds that each answer took."""
    connection, times = HTTPConnection(urlsplit(url).netloc, timeout=300), []
    end = time.perf_counter() + seconds
    for text in cycle(texts):
        begin = time.perf_counter()
        if begin > end:
            return times
        try:
            connection.request("POST", path, json.dumps({"texts": [text]}), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            body = answer.read()
        except OSError as error:
            raise SystemExit(f"error: {url}: {error}") from error
        if answer.status != 200:
            raise SystemExit(f"error: {url}{path} answered {answer.status}: {body[:200]!r}")
        times.append(time.perf_counter() - begin)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--text", type=Path, required=True, metavar="FILE", help="a text per line")
    parser.add_argument("--seconds", type=float, default=30, metavar="X", help="of each measurement")
    args = parser.parse_args(argv)
    texts = list(filter(str.strip, args.text.read_text(encoding="utf-8", errors="replace").splitlines()))
    print("| | clients | requests/s | p50, ms | p99, ms |\n|---|---|---|---|---|")
    for path in ("/tag", "/vectors"):
        client(args.url, path, texts[:100], args.seconds / 10)  # warm up
        for n in CLIENTS:
            with ThreadPoolExecutor(n) as pool:
                parts = [texts[k::n] for k in range(n)]
                begin = time.perf_counter()
                results = list(pool.map(client, [args.url] * n, [path] * n, parts, [args.seconds] * n))
            duration, times = time.perf_counter() - begin, sorted(chain.from_iterable(results))
            p50, p99 = (1000 * times[int(share * len(times))] for share in (0.5, 0.99))
            print(f"| {path} | {n} | {len(times) / duration:.1f} | {p50:.0f} | {p99:.0f} |", flush=True)


if __name__ == "__main__":
    main()
