#!/usr/bin/python3
# The dashboard of `flare run` on a pseudo-terminal: that it draws, and gives the terminal back on any exit.
#
# usage: dashboard_test.py FLARE [unittest arguments]
import fcntl
import http.client
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import unittest

PATIENCE_S = 120
FLARE = sys.argv.pop(1)
NANO = pathlib.Path(__file__).resolve().parents[2] / "models/nano"
TAKES, LEAVES, SHOWS_CURSOR = "\x1b[?1049h", "\x1b[?1049l", "\x1b[?25h"  # xterm's
SECRET = "xylophone-9481"


class Terminal:
    """A `flare run` whose standard streams are a terminal of that size."""

    def __init__(self, *flags, term="xterm", columns=80, rows=24):
        self.master, slave = os.openpty()
        self.resize(columns, rows)
        self.modes = termios.tcgetattr(self.master)

        def begin():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        self.process = subprocess.Popen([FLARE, "run", "--port", "0", *flags], stdin=slave, stdout=slave,
                                        stderr=slave, preexec_fn=begin,
                                        env=dict(os.environ, TERM=term, LC_ALL="C.UTF-8"))
        os.close(slave)
        self.bytes = b""
        self.changed = threading.Condition()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        self.port = int(self.until(r"ready http://[^ ]*:(\d+) ")[1])

    def _read(self):
        while True:
            try:
                data = os.read(self.master, 65536)
            except OSError:  # the last one that had it open is gone
                data = b""
            with self.changed:
                self.bytes += data
                self.changed.notify_all()
            if not data:
                return

    def text(self):
        return self.bytes.decode(errors="replace")

    def until(self, pattern, begin=0):
        """The match of a pattern in what comes behind `begin` characters."""
        with self.changed:
            found = self.changed.wait_for(lambda: re.search(pattern, self.text()[begin:]) or not self.reader.is_alive(),
                                          PATIENCE_S)
        found = re.search(pattern, self.text()[begin:])
        assert found, f"{pattern!r} never came: {self.text()!r}"
        return found

    def resize(self, columns, rows):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def post(self, body):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
        return connection, connection.getresponse()

    def wait(self):
        code = self.process.wait(PATIENCE_S)
        self.modes_after = termios.tcgetattr(self.master)
        self.reader.join(PATIENCE_S)
        return code

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.reader.join(PATIENCE_S)
        os.close(self.master)


class Dashboard(unittest.TestCase):
    def terminal(self, *flags, **settings):
        terminal = Terminal(*flags, **settings)
        self.addCleanup(terminal.close)
        return terminal

    def assert_given_back(self, terminal):
        text = terminal.text()
        self.assertEqual(text.count(TAKES), 1)
        self.assertEqual(text.count(LEAVES), 1, text[-300:])
        self.assertGreater(text.index(LEAVES), text.index(TAKES))
        self.assertIn(SHOWS_CURSOR, text[text.rindex("\x1b[?25l"):])
        self.assertEqual(terminal.modes_after, terminal.modes)
        return text[text.index(LEAVES) + len(LEAVES):]

    def test_it_draws_and_a_stop_signal_gives_the_terminal_back(self):
        terminal = self.terminal()
        terminal.until(re.escape(TAKES))
        for part in ("http://127.0.0.1", "Queue", "Decode", "Prefill", "Pages", "Memory", "Running", "models/nano, cpu"):
            terminal.until(part)
        self.assertNotEqual(termios.tcgetattr(terminal.master), terminal.modes)  # no echo
        connection, response = terminal.post({"messages": [{"role": "user", "content": SECRET}], "max_tokens": 30})
        self.assertEqual(response.status, 200)
        response.read()
        connection.close()
        connection, response = terminal.post({"messages": SECRET})
        self.assertEqual(response.status, 400)
        connection.close()
        terminal.until("invalid_type")  # the last errors
        terminal.process.send_signal(signal.SIGTERM)
        self.assertEqual(terminal.wait(), 0)
        after = self.assert_given_back(terminal)
        self.assertRegex(after, r"draining: 0 running")
        self.assertRegex(after, r"info  stopped")
        self.assertNotIn(SECRET, terminal.text())

    def test_it_follows_the_size_of_the_terminal(self):
        terminal = self.terminal(columns=100, rows=30)
        terminal.until("Running")
        for columns, rows in ((40, 10), (10, 3), (1, 1), (200, 60)):
            seen = len(terminal.text())
            terminal.resize(columns, rows)
            terminal.until(r"[^\x00]", begin=seen)
        terminal.until("Running", begin=seen)
        terminal.process.send_signal(signal.SIGINT)
        self.assertEqual(terminal.wait(), 0)
        self.assert_given_back(terminal)

    def test_the_second_signal_gives_it_back_too(self):
        terminal = self.terminal("--drain-timeout", "1000")
        terminal.until("Running")
        connection, response = terminal.post({"messages": [{"role": "user", "content": "Hello!"}], "stream": True,
                                              "ignore_eos": True, "max_tokens": 100000})
        response.readline()
        terminal.process.send_signal(signal.SIGTERM)
        terminal.until("draining")
        terminal.process.send_signal(signal.SIGTERM)
        self.assertEqual(terminal.wait(), 143)
        self.assertIn("draining", self.assert_given_back(terminal))
        response.close()
        connection.close()

    def test_a_defect_gives_it_back_too(self):
        terminal = self.terminal()
        terminal.until("Running")
        terminal.process.send_signal(signal.SIGABRT)
        self.assertEqual(terminal.wait(), -signal.SIGABRT)
        self.assert_given_back(terminal)

    def test_a_model_that_shrinks_gives_it_back_too(self):
        with tempfile.TemporaryDirectory() as folder:
            copy = shutil.copytree(NANO, pathlib.Path(folder, "nano"), ignore=shutil.ignore_patterns("train"))
            terminal = self.terminal(str(copy))
            terminal.until("Running")
            os.truncate(copy / "model.safetensors", 4096)
            with self.assertRaises((OSError, http.client.HTTPException)):
                terminal.post({"messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 2})
            self.assertEqual(terminal.wait(), 4)
            self.assertIn("its bytes are gone", self.assert_given_back(terminal))

    def test_there_is_none_where_none_is_wanted(self):
        for flags, settings in ((("--no-dashboard",), {}), ((), {"term": "dumb"}), ((), {"term": "no-such-term"})):
            terminal = self.terminal(*flags, **settings)
            connection, response = terminal.post({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2})
            self.assertEqual(response.status, 200)
            connection.close()
            terminal.process.send_signal(signal.SIGTERM)
            self.assertEqual(terminal.wait(), 0)
            self.assertRegex(terminal.text(), r"info  draining")
            self.assertNotIn("\x1b[?", terminal.text())
            self.assertEqual(terminal.modes_after, terminal.modes)


if __name__ == "__main__":
    unittest.main()
