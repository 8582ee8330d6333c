#!/usr/bin/env python3
"""What clients that are idle, slow or hostile do to the others.

Small requests come one after the other, alone; then beside idle keep-alive connections and heads that never
end; then while a body of 1 GB and JSON of great depth are sent too. Prints how long the small ones took, how
the hostile ones ended, and the server's resident memory.

  flare run --port 8124 --max-connections 2000 --no-dashboard &
  bench/serving/crowd.py --port 8124 --pid $!
"""

import argparse
import collections
import http.client
import json
import pathlib
import re
import resource
import socket
import statistics
import threading
import time

CHAT = json.dumps({"messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 8, "temperature": 0})
HEAD = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "


class Crowd:
    def __init__(self, flags):
        self.port, self.pid = flags.port, flags.pid

    def socket(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=300)

    def ask(self, connection):
        begin = time.perf_counter()
        connection.request("POST", "/v1/chat/completions", CHAT, {"Content-Type": "application/json"})
        response = connection.getresponse()
        response.read()
        if response.status != 200:
            raise SystemExit(f"a small request got {response.status}")
        return (time.perf_counter() - begin) * 1e3

    def resident(self):
        if not self.pid:
            return "?"
        status = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        kilobytes = int(re.search(r"VmRSS:\s*(\d+)", status)[1])
        return f"{kilobytes / 1024:.1f} MiB"

    def measure(self, name, n):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        times = sorted(self.ask(connection) for _ in range(n))
        connection.close()
        print(f"{name:44} {n} small requests: median {statistics.median(times):.1f}, p99 "
              f"{times[min(n - 1, n * 99 // 100)]:.1f}, most {times[-1]:.1f} ms; resident {self.resident()}", flush=True)

    @staticmethod
    def status_of(s):
        """What it says; "closed" if nothing."""
        try:
            line = s.makefile("rb").readline().decode()
        except OSError:
            line = ""
        return line.split(" ")[1] if line.startswith("HTTP/") else "closed"

    def send(self, head, pieces):
        """Sends until the server has enough."""
        with self.socket() as s:
            try:
                s.sendall(head.encode())
                for piece in pieces:
                    s.sendall(piece)
            except OSError:
                pass
            return self.status_of(s)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--pid", type=int, help="of the server, for its memory")
    parser.add_argument("--idle", type=int, default=1000)
    parser.add_argument("--slow", type=int, default=200)
    parser.add_argument("--requests", type=int, default=200)
    flags = parser.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    crowd = Crowd(flags)
    crowd.measure("alone", flags.requests)
    idle = []
    for _ in range(flags.idle):
        idle.append(http.client.HTTPConnection("127.0.0.1", flags.port, timeout=300))
        idle[-1].request("GET", "/health")
        idle[-1].getresponse().read()
    slow = [crowd.socket() for _ in range(flags.slow)]
    for s in slow:
        s.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-A: ")
    crowd.measure(f"beside {flags.idle} idle, {flags.slow} slow", flags.requests)

    ended = collections.Counter()
    over = threading.Event()

    def hostile():
        gigabyte, depth = 1 << 30, 100_000
        while not over.is_set():
            ended["1 GB, said at once: " + crowd.send(HEAD + f"{gigabyte}\r\n\r\n", [b"a" * (1 << 20)] * 1024)] += 1
            chunk = b"100000\r\n" + b"a" * (1 << 20) + b"\r\n"
            ended["1 GB in chunks: " + crowd.send(HEAD.replace("Content-Length: ", "Transfer-Encoding: chunked") +
                                                  "\r\n\r\n", [chunk] * 1024)] += 1
            deep = b'{"messages": ' + b"[" * depth + b"]" * depth + b"}"
            ended[f"JSON {depth} deep: " + crowd.send(HEAD + f"{len(deep)}\r\n\r\n", [deep])] += 1

    thread = threading.Thread(target=hostile)
    thread.start()
    crowd.measure("and 1 GB bodies, JSON 100,000 deep", flags.requests)
    over.set()
    thread.join()
    for what, n in sorted(ended.items()):
        print(f"  {what} ({n} times)")
    print("  slow heads:", dict(collections.Counter(crowd.status_of(s) for s in slow)))
    served = collections.Counter()
    for connection in idle:
        try:
            connection.request("GET", "/health")
            served[connection.getresponse().status] += 1
        except (OSError, http.client.HTTPException):
            served["closed"] += 1
    print("  idle connections, asked again:", dict(served))


if __name__ == "__main__":
    main()
