# Starts and stops `flare run` for tests, and speaks HTTP to it.
import http.client
import json
import re
import signal
import subprocess
import threading

PATIENCE_S = 120


class Server:
    """A `flare run` on a free port; `lines` holds what it wrote to stderr."""

    def __init__(self, flare, *flags):
        self.process = subprocess.Popen([flare, "run", "--port", "0", *flags], stderr=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.lines = []
        self.ready = None
        for line in self.process.stderr:
            self.lines.append(line.rstrip("\n"))
            self.ready = re.fullmatch(r"ready https?://([^ ]+):(\d+) model=(\S+) ranks=(\d+) concurrency=(\d+)",
                                      self.lines[-1])
            if self.ready:
                break
        if not self.ready:
            raise AssertionError("no ready line:\n" + "\n".join(self.lines))
        self.port = int(self.ready[2])
        self.reader = threading.Thread(target=self._read_rest, daemon=True)
        self.reader.start()

    def _read_rest(self):
        for line in self.process.stderr:
            self.lines.append(line.rstrip("\n"))

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)

    def request(self, method, path, body=None, headers=None):
        """Status, headers, parsed body."""
        connection = self.connect()
        headers = dict(headers or {})
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
            headers.setdefault("Content-Type", "application/json")
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        text = response.read()
        connection.close()
        return response.status, response.headers, json.loads(text) if text else None

    def chat(self, **body):
        return self.request("POST", "/v1/chat/completions", body)

    def open(self, path, body):
        """A posted request: connection and response, unread."""
        connection = self.connect()
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        return connection, connection.getresponse()

    def open_stream(self, **body):
        """A running chat stream: connection and response."""
        return self.open("/v1/chat/completions", dict(body, stream=True))

    def named_stream(self, path, body):
        """The events of a stream that names them: (name, data)."""
        connection, response = self.open(path, body)
        assert response.status == 200, response.read()
        assert response.headers["Content-Type"].startswith("text/event-stream"), response.headers
        text = response.read().decode()
        connection.close()
        assert text.endswith("\n\n"), text[-200:]
        found = []
        for event in text[:-2].split("\n\n"):
            if event.startswith(":"):
                continue
            name, data = event.split("\n")
            assert name.startswith("event: ") and data.startswith("data: "), event
            found.append((name[len("event: "):], json.loads(data[len("data: "):])))
        return found

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.wait()

    def wait(self):
        code = self.process.wait(PATIENCE_S)
        self.reader.join(PATIENCE_S)
        self.process.stdout.close()
        self.process.stderr.close()
        return code

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.wait()


def events(response):
    """The data of every event of a stream, parsed; "[DONE]" as it stands."""
    for line in response:
        line = line.decode().rstrip("\n")
        if line.startswith("data: "):
            data = line[len("data: "):]
            yield data if data == "[DONE]" else json.loads(data)
