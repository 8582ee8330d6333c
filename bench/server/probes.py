#!/usr/bin/python3
# How long GET /health takes while clients send large bodies, and alone.
#
# usage: probes.py FLARE [BODIES [MEGABYTES]]      (6 bodies of 48 MB)
import http.client
import json
import multiprocessing
import os
import pathlib
import platform
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/cli"))
from flare_process import Server  # noqa: E402


def main():
    n, megabytes = (int(word) for word in (sys.argv[2:] + ["6", "48"][len(sys.argv) - 2:])[:2])
    server = Server(sys.argv[1])
    body = json.dumps({"messages": [{"role": "user", "content": "x" * (megabytes * 1_000_000)}]})
    # Processes: threads of this one would wait for each other, and that would count.
    fork = multiprocessing.get_context("fork")
    statuses = fork.Queue()

    def post():
        statuses.put(server.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})[0])

    def probe(until):
        times = []
        connection = http.client.HTTPConnection("127.0.0.1", server.port)
        while not until():
            begin = time.monotonic()
            connection.request("GET", "/health")
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 200
            times.append((time.monotonic() - begin) * 1000)
            time.sleep(0.002)
        return sorted(times)

    def show(name, times):
        print(f"{name}: {len(times)} probes, median {times[len(times) // 2]:.2f} ms, "
              f"99 % {times[len(times) * 99 // 100]:.2f} ms, longest {times[-1]:.2f} ms")

    print(f"{platform.processor() or platform.machine()}, {len(os.sched_getaffinity(0))} hardware threads, "
          f"load {os.getloadavg()[0]:.1f}")
    end = time.monotonic() + 1
    show("alone", probe(lambda: time.monotonic() > end))
    clients = [fork.Process(target=post) for _ in range(n)]
    begin = time.monotonic()
    for client in clients:
        client.start()
    show(f"beside {n} bodies of {megabytes} MB", probe(lambda: not any(c.is_alive() for c in clients)))
    print(f"the bodies took {time.monotonic() - begin:.1f} s, answers {sorted(statuses.get() for _ in clients)}")
    server.stop()


main()
