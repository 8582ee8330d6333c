#!/usr/bin/python3
# Programs that may have little data memory (RLIMIT_DATA), from hardly enough to print their help up
# to enough to serve: each run ends with an exit code that is documented, soon, and never by a signal.
#
# usage: little_memory_test.py FLARE IGNITION [unittest arguments]
import http.client
import json
import re
import resource
import signal
import subprocess
import sys
import threading
import unittest

FLARE, IGNITION = sys.argv.pop(1), sys.argv.pop(1)
MB = 10**6
STACK = 8 * MB  # of every thread: the walk's steps are smaller, so that each thread is refused once
PATIENCE_S = 120
DOES_NOT_FIT = 7
REQUEST = {"messages": [{"role": "user", "content": "What is the capital of France?"}], "max_tokens": 8}


def limited(n_bytes):
    def limit():
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_STACK, (STACK, STACK))
        resource.setrlimit(resource.RLIMIT_DATA, (n_bytes, n_bytes))
    return limit


class LittleMemory(unittest.TestCase):
    def expect_refusal(self, code, errors):
        self.assertEqual(code, DOES_NOT_FIT, errors)
        self.assertEqual(errors.count("error: "), 1, errors)
        self.assertIn("\nhint: ", errors)

    def test_help_needs_little(self):
        for program in (FLARE, IGNITION):
            with self.subTest(program):
                done = subprocess.run([program, "--help"], capture_output=True, text=True, timeout=PATIENCE_S,
                                      preexec_fn=limited(8 * MB))
                self.assertEqual(done.returncode, 0, done.stderr)

    def serve(self, n_bytes):
        """Exit code, what it wrote, whether it answered; asks once it is ready, then stops it."""
        process = subprocess.Popen([FLARE, "run", "--port", "0", "--threads", "2"], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True, preexec_fn=limited(n_bytes))
        watch = threading.Timer(PATIENCE_S, process.kill)  # a hang then reads as exit code -9
        watch.start()
        lines, status = [], None
        for line in process.stderr:
            lines.append(line)
            if ready := re.match(r"ready http://127.0.0.1:(\d+) ", line):
                status = self.ask(int(ready[1]))
                process.send_signal(signal.SIGTERM)
        code = process.wait()
        watch.cancel()
        process.stderr.close()
        return code, "".join(lines), status

    def ask(self, port):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
        try:
            connection.request("POST", "/v1/chat/completions", json.dumps(REQUEST),
                               {"Content-Type": "application/json"})
            return connection.getresponse().status
        finally:
            connection.close()

    def test_a_server_serves_or_says_what_it_lacks(self):
        codes = []
        for megabytes in range(4, 181, 4):
            with self.subTest(megabytes=megabytes):
                code, errors, status = self.serve(megabytes * MB)
                codes.append(code)
                if status is None:
                    self.expect_refusal(code, errors)
                else:
                    self.assertIn(status, (200, 500, 503), errors)
                    self.assertEqual(code, 0, errors)
        self.assertEqual((codes[0], codes[-1]), (DOES_NOT_FIT, 0), codes)


if __name__ == "__main__":
    unittest.main()
