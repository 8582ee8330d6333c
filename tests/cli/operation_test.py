#!/usr/bin/python3
# How `flare run` is operated: where it listens, what it tells a service manager, its configuration, what it
# reads again, and `flare doctor`.
#
# usage: operation_test.py FLARE [unittest arguments]
import http.client
import json
import os
import pathlib
import queue
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import unittest

from flare_process import PATIENCE_S, Server

FLARE = sys.argv.pop(1)
CHAT = json.dumps({"messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 1})
JSON = {"Content-Type": "application/json"}


class Run:
    """A `flare run` with these flags alone; its lines on stderr come one by one."""

    def __init__(self, *flags, environment=None, **keywords):
        self.process = subprocess.Popen([FLARE, "run", *flags], stderr=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env=dict(os.environ, **(environment or {})), **keywords)
        self.lines = queue.Queue()
        self.seen = []
        threading.Thread(target=self._read, daemon=True).start()
        self.ready = self.line("ready ")

    def _read(self):
        for line in self.process.stderr:
            self.lines.put(line.rstrip("\n"))
        self.lines.put(None)
        self.process.stderr.close()

    def line(self, part):
        """The next line that holds `part`."""
        while True:
            line = self.lines.get(timeout=PATIENCE_S)
            if line is None:
                raise AssertionError("no line with " + part + ":\n" + "\n".join(self.seen))
            self.seen.append(line)
            if part in line:
                return line

    @property
    def port(self):
        return int(re.search(r":(\d+)[ ,]", self.ready)[1])

    def get(self, path="/v1/models", **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        status = connection.getresponse().status
        connection.close()
        return status

    def cached(self, question):
        """How many tokens of the question were known."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        connection.request("POST", "/v1/chat/completions", json.dumps(
            {"messages": [{"role": "user", "content": 9 * question}], "max_tokens": 2}), JSON)
        usage = json.load(connection.getresponse())["usage"]
        connection.close()
        return usage["prompt_tokens_details"]["cached_tokens"]

    def reload(self):
        """What it says about it."""
        self.process.send_signal(signal.SIGHUP)
        return self.line("reload")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(PATIENCE_S)
        self.process.stdout.close()
        return code

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=PATIENCE_S)
        self.unix_path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.unix_path)


class Operation(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)

    def start(self, *flags, **keywords):
        run = Run(*flags, **keywords)
        self.addCleanup(run.kill)
        return run

    def write(self, name, text, mode=0o600):
        path = self.folder / name
        path.write_text(text)
        path.chmod(mode)
        return path

    def refused(self, *flags, environment=None):
        done = subprocess.run([FLARE, "run", *flags], capture_output=True, text=True, timeout=PATIENCE_S,
                              env=dict(os.environ, **(environment or {})))
        return done.returncode, done.stderr


class Listening(Operation):
    def test_a_unix_socket_for_this_user_alone(self):
        path = str(self.folder / "s")
        run = self.start("--listen", "unix:" + path)
        self.assertIn(f"ready unix:{path} ", run.ready)
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        connection = UnixConnection(path)
        connection.request("POST", "/v1/chat/completions", CHAT, JSON)
        self.assertEqual(connection.getresponse().status, 200)
        connection.close()
        self.assertEqual(run.stop(), 0)
        self.assertFalse(os.path.exists(path))
        both = self.start("--listen", "unix:" + path, "--port", "0")
        self.assertEqual(both.get(), 200)
        both.process.kill()  # its socket stays, and does not stand in the way
        both.process.wait()
        self.assertEqual(self.start("--listen", "unix:" + path).stop(), 0)
        again = self.start("--listen", "unix:" + path)
        code, said = self.refused("--listen", "unix:" + path)
        self.assertEqual(code, 9, said)
        self.assertIn("another server may listen there (it answers)", said)
        self.assertEqual(again.stop(), 0)
        self.assertEqual(self.refused("--listen", path)[0], 2)
        self.assertEqual(self.refused("--listen", "unix:" + str(self.write("file", "")))[0], 8)

    @unittest.skipUnless(shutil.which("openssl"), "openssl is not installed")
    def test_tls_and_its_reload(self):
        def identity(name):
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                            "-subj", "/CN=" + name, "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2",
                            "-keyout", self.folder / "key.pem", "-out", self.folder / "cert.pem"],
                           check=True, capture_output=True)

        def ask():
            context = ssl.create_default_context(cafile=self.folder / "cert.pem")
            connection = http.client.HTTPSConnection("127.0.0.1", run.port, timeout=PATIENCE_S, context=context)
            connection.request("POST", "/v1/chat/completions", CHAT, JSON)
            status = connection.getresponse().status
            connection.close()
            return status

        identity("one")
        flags = ("--port", "0", "--tls-cert", str(self.folder / "cert.pem"), "--tls-key")
        run = self.start(*flags, str(self.folder / "key.pem"))
        self.assertIn("ready https://127.0.0.1:", run.ready)
        self.assertEqual(ask(), 200)
        identity("two")
        self.assertRaises(ssl.SSLError, ask)  # the old one is still in use
        self.assertIn("reloaded", run.reload())
        self.assertEqual(ask(), 200)
        (self.folder / "key.pem").write_text("no key")
        self.assertIn("certificate kept", run.reload())
        self.assertEqual(ask(), 200)
        self.assertEqual(run.stop(), 0)
        self.assertEqual(self.refused(*flags, "/no/such/key")[0], 3)
        self.assertEqual(self.refused("--tls-cert", "x")[0], 2)

    def test_sockets_of_a_service_manager_and_what_it_is_told(self):
        manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(manager.close)
        manager.bind(str(self.folder / "notify"))
        manager.settimeout(PATIENCE_S)
        with socket.socket() as listening:
            listening.bind(("127.0.0.1", 0))
            listening.listen()
            # The shell gives the socket its number and itself the process's.
            run = Run.__new__(Run)
            os.set_inheritable(listening.fileno(), True)
            shell = f'exec 3<&{listening.fileno()}; LISTEN_FDS=1 LISTEN_PID=$$ exec "{FLARE}" run --port 1'
            run.process = subprocess.Popen(["bash", "-c", shell], pass_fds=[listening.fileno()], text=True,
                                           stderr=subprocess.PIPE, stdout=subprocess.PIPE,
                                           env=dict(os.environ, NOTIFY_SOCKET=str(self.folder / "notify")))
            run.lines, run.seen = queue.Queue(), []
            threading.Thread(target=run._read, daemon=True).start()
            self.addCleanup(run.kill)
            run.ready = run.line("ready ")
            self.assertEqual(run.port, listening.getsockname()[1])
            self.assertEqual(run.get(), 200)
        self.assertEqual(manager.recv(1000), b"STATUS=loading the model")
        self.assertTrue(manager.recv(1000).startswith(b"READY=1\nSTATUS=serving at http://127.0.0.1:"))
        run.reload()
        self.assertRegex(manager.recv(1000), rb"^RELOADING=1\nMONOTONIC_USEC=\d+$")
        self.assertEqual(manager.recv(1000), b"READY=1")
        self.assertEqual(run.stop(), 0)
        self.assertEqual(manager.recv(1000), b"STOPPING=1")


class Reloading(Operation):
    def test_keys_origins_hosts_and_log_level(self):
        keys = self.write("keys", "old\n")
        config = self.write("c.toml", "[serving]\ncors_origin = 'https://a.example'\nlog_level = 'info'\n")
        run = self.start("--port", "0", "--api-key-file", str(keys), "--config", str(config))
        self.assertEqual((run.get(x_api_key="old"), run.get(x_api_key="new")), (200, 401))
        self.assertEqual(run.get(x_api_key="old", Origin="https://b.example"), 403)
        keys.write_text("new\n")
        config.write_text("[serving]\ncors_origin = ['https://b.example', 'https://c.example']\n"
                          "allowed_host = 'box.example'\n")
        self.assertEqual(run.get(x_api_key="new", Host="box.example"), 403)
        self.assertIn("reloaded", run.reload())
        self.assertEqual((run.get(x_api_key="old"), run.get(x_api_key="new")), (401, 200))
        self.assertEqual(run.get(x_api_key="new", Origin="https://b.example"), 200)
        self.assertEqual(run.get(x_api_key="new", Origin="https://a.example"), 403)
        self.assertEqual(run.get(x_api_key="new", Host="box.example"), 200)

    def test_a_bad_file_keeps_the_old_value_and_says_so_once(self):
        keys = self.write("keys", "secret-key\n")
        config = self.write("c.toml", "[serving]\nallowed_host = 'box.example'\n")
        run = self.start("--port", "0", "--api-key-file", str(keys), "--config", str(config))
        keys.chmod(0o666)
        said = run.reload()
        self.assertIn("keys kept", said)
        self.assertNotIn("secret-key", said)
        keys.chmod(0o600)
        config.write_text("[serving\n")
        self.assertIn("c.toml:1", run.reload())
        self.assertEqual(run.get(x_api_key="secret-key", Host="box.example"), 200)
        # What is wrong in one part stands in no other's way, and is forgotten.
        config.write_text("[serving]\nallowed_host = 'box.example'\ncors_origin = 'no origin'\nlog_level = 'loud'\n")
        self.assertIn("log level kept", run.reload())
        self.assertIn("origins kept", run.line("reload"))
        config.write_text("[serving\n")
        keys.write_text("new-key\n")
        self.assertIn("configuration kept", run.reload())
        self.assertIn("configuration kept", run.reload())  # the reload before is over
        self.assertEqual(run.get(x_api_key="new-key", Host="box.example"), 200)
        self.assertEqual(run.stop(), 0)

    def test_a_bad_origin_keeps_no_revoked_key(self):
        keys = self.write("keys", "old\n")
        config = self.write("c.toml", "[serving]\nallowed_host = 'box.example'\n")
        run = self.start("--port", "0", "--api-key-file", str(keys), "--config", str(config))
        keys.write_text("new\n")
        config.write_text("[serving]\ncors_origin = 'no origin'\nallowed_host = 'other.example'\n")
        self.assertIn("origins kept", run.reload())
        self.assertEqual((run.get(x_api_key="old"), run.get(x_api_key="new")), (401, 200))
        keys.write_text("")  # no keys: all are wrong, and the origin that needs some is none
        config.write_text("[serving]\ncors_origin = '*'\nallowed_host = 'third.example'\n")
        self.assertIn("keys kept", run.reload())
        run.process.send_signal(signal.SIGHUP)
        run.line("keys kept")  # what the reload before did is done
        self.assertEqual((run.get(x_api_key="new"), run.get(x_api_key="new", Host="third.example")), (200, 200))
        self.assertEqual(run.get(x_api_key="new", Host="box.example"), 403)
        self.assertEqual(run.get(x_api_key="new", Origin="https://any.example"), 200)

    def test_a_configuration_that_no_server_would_start_with_changes_nothing(self):
        config = self.write("c.toml", "[serving]\nallowed_host = 'box.example'\n")
        run = self.start("--port", "0", "--config", str(config))
        for text, complaint in (("[serving]\nallowed_hosts = 'new.example'\n", "did you mean 'allowed_host'"),
                                ("[serving]\nallowed_host = 'new.example'\nmax_pending = 'many'\n", "an integer"),
                                ("[servin]\nallowed_host = 'new.example'\n", "did you mean [serving]"),
                                ("[serving]\nallowed_host = 'new.example'\ntls_cert = 'a'\n", "--tls-key")):
            config.write_text(text)
            said = run.reload()
            self.assertIn("configuration kept", said)
            self.assertIn(complaint, said)
            self.assertEqual(run.get(Host="box.example"), 200)
            self.assertEqual(run.get(Host="new.example"), 403)
        self.assertEqual(run.stop(), 0)

    def test_what_needs_a_restart_is_named(self):
        config = self.write("c.toml", "[serving]\nmax_pending = 5\nlog_format = 'text'\n")
        run = self.start("--port", "0", "--config", str(config), "--max-context", "512")
        config.write_text("[serving]\nmax_pending = 6\nport = 1\nallowed_host = 'box.example'\n"
                          "[defaults]\nmax_context = 600\n")
        named = {run.reload().split("reload: ")[1], run.line("reload: ").split("reload: ")[1]}
        self.assertEqual(named, {f"{flag} is another now, which needs a restart"
                                 for flag in ("--log-format", "--max-pending")})
        self.assertIn("reloaded", run.line("reload"))  # --port and --max-context are the command line's
        self.assertEqual(run.get(Host="box.example"), 200)
        self.assertEqual(run.stop(), 0)

    def test_files_that_cannot_be_read_hold_nothing_up(self):
        keys = self.write("keys", "key\n")
        config = self.write("c.toml", "[serving]\n")
        run = self.start("--port", "0", "--api-key-file", str(keys), "--config", str(config))

        def remove(path):
            path.rmdir() if path.is_dir() else path.unlink(missing_ok=True)

        for path, part in ((keys, "keys"), (config, "configuration")):
            text = path.read_text()
            for make in (path.mkdir, lambda: os.mkfifo(path, 0o600), lambda: path.symlink_to("/dev/zero"),
                         lambda: path.write_bytes(b"\xff" * 5000), lambda: None):
                remove(path)
                make()
                self.assertIn(f"reload: {part} kept as before: {path}", run.reload())
                self.assertEqual(run.get(x_api_key="key"), 200)
            remove(path)
            self.write(path.name, text)
        self.assertIn("reloaded", run.reload())
        self.assertEqual(run.stop(), 0)


class Configuration(Operation):
    def test_flags_rank_above_the_environment_and_that_above_the_file(self):
        config = self.write("c.toml", "[serving]\nport = 0\nmodel_id = ['one', 'two']\nlog_level = 'loud'\n"
                                      "[defaults]\nmax_concurrency = 3\nmax_context = 600\n"
                                      "[models.nano]\nmax_concurrency = 2\n[models.other]\nmax_context = 700\n")
        run = self.start(environment={"FLARE_CONFIG": str(config), "FLARE_LOG": "warn"})
        self.assertIn("model=one ranks=1 concurrency=2", run.ready)
        self.assertEqual(run.get("/v1/models/two"), 200)
        run.kill()
        run = self.start("--config", str(config), "--model-id", "mine", "--max-concurrency", "1", "--log-level", "info")
        self.assertIn("model=mine ranks=1 concurrency=1", run.ready)
        run.kill()
        self.assertEqual(self.refused("--config", str(config))[0], 2)  # "loud", which nothing overrules

    def test_parts_and_factors_may_stand_there_as_numbers(self):
        config = self.write("c.toml", "[serving]\nport = 0\nprefill_slowdown = 1.5\n[defaults]\nmemory_limit = 0.5\n")
        run = self.start("--config", str(config))
        self.assertEqual(run.stop(), 0)

    def test_the_default_file_may_be_missing_and_a_named_one_may_not(self):
        (self.folder / "flare").mkdir()
        self.write("flare/config.toml", "[serving]\nport = 0\nmodel_id = 'by-default'\n")
        run = self.start(environment={"XDG_CONFIG_HOME": str(self.folder)})
        self.assertIn("model=by-default", run.ready)
        run.kill()
        self.assertEqual(self.refused("--config", "/no/such/file")[0], 3)

    def test_limits_of_memory_stand_in_serving_too(self):
        config = self.write("c.toml", "[serving]\nport = 0\nmemory_limit = '300M'\nkv_cache_limit = 'context'\n"
                                      "cors_origin = []\n[defaults]\nmemory_limit = '1K'\n")
        run = self.start("--config", str(config))
        self.assertEqual(run.stop(), 0)

    def test_flags_that_say_nothing_or_do_not_apply_are_refused(self):
        for flags, words in (
                (["--cache-dir", ""], "--cache-dir is empty"), (["--api-key-file", ""], "--api-key-file is empty"),
                (["--isa", ""], "--isa is empty"), (["--cache-disk", "1G"], "--cache-dir, which is not given"),
                (["--cache-dir", str(self.folder / "c"), "--no-prefix-reuse"], "one of them expected"),
                (["--tls-key", "k"], "both expected"),
                (["--model-id", ""], "--model-id"), (["--model-id", "a\nb"], "is no name of a model"),
                (["--model-id", "a", "--model-id", "b c"], "'b c' is no name of a model"),
                (["--deterministic=maybe"], "'maybe', no value expected"), (["--no-web=5"], "no value expected"),
                (["--kv-cache-limit", "all"], "is 'all', expected concurrency, context, memory or SIZE"),
                (["--memory-limit=-0.5"], "is '-0.5', expected SIZE (4G), all but -SIZE, or a part"),
                (["--memory-limit", "nan"], "is 'nan', expected SIZE (4G), all but -SIZE, or a part")):
            with self.subTest(flags=flags):
                code, said = self.refused("--port", "0", *flags)
                self.assertEqual(code, 2, said)
                self.assertIn(words, said)
        self.assertFalse((self.folder / "c").exists())

    def test_errors_name_file_line_and_the_closest_key(self):
        for text, line, words in (
                ("[serving]\nprot = 1\n", 2, "did you mean 'port'?"),
                ("[servin]\nport = 1\n", 2, "did you mean [serving]?"),
                ("port = 1\n", 1, "stands in no known table"),
                ("[serving]\n\nport = 'x'\n", 3, "expected an integer"),
                ("[serving]\nport = 99999\n", 2, "99999"),
                ("[serving]\nany_model = 1\n", 2, "expected true or false"),
                ("[serving]\nhost = ['a', 'b']\n", 2, "expected a string"),
                ("[serving]\nport = 1\nport = 2\n", 3, ""),
                ("[serving]\nport = 1.5\n", 2, "expected an integer"),
                ("[serving]\nprefill_slowdown = nan\n", 2, "nan is no finite number"),
                ("[serving]\nprefill_slowdown = 0.5\n", 2, "0.5 not in range"),
                ("[models.nano]\nport = 1\n", 2, "'port' is no key of [models]\nhint: it is one of [serving]"),
                ("[serving]\nmax_context = 512\n", 2, "it is one of [defaults]"),
                ("[serving]\napi_key_file = ''\n", 2, "is empty"),
                ("[serving]\nmodel_id = ['a', '']\n", 2, "is empty"),
                ("[models.other]\nmax_context = 'x'\n", 2, "expected an integer"),
                ("[serving.inner]\nport = 1\n", 2, "stands in no table")):
            with self.subTest(text=text):
                config = self.write("c.toml", text)
                code, said = self.refused("--config", str(config))
                self.assertEqual(code, 2, said)
                self.assertIn(f"{config}:{line}: ", said)
                self.assertIn(words, said)


class CacheFolder(Operation):
    @unittest.skipIf(subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode,
                     "mounting is not allowed here")
    def test_one_that_is_read_only_is_refused(self):
        # In a name space of mounts that ends with the process.
        steps = (f"mount --bind {self.folder} {self.folder}", f"mount -o remount,bind,ro {self.folder}",
                 f'exec "{FLARE}" run --port 0 --cache-dir {self.folder}/cache')
        done = subprocess.run(["unshare", "-m", "sh", "-c", " && ".join(steps)], capture_output=True, text=True,
                              timeout=PATIENCE_S)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertRegex(done.stderr, "error: --cache-dir .*: Read-only file system\nhint: ")

    def test_one_that_goes_away_is_given_up_and_nobody_notices(self):
        run = self.start("--port", "0", "--cache-dir", str(self.folder / "cache"))
        self.assertEqual(run.cached("What was said before?"), 0)
        shutil.rmtree(self.folder / "cache")
        run.cached("Another question, which is not there yet.")
        # Of the first question, if the folder went while its entry was written, or of the second.
        self.assertRegex(run.line("prefixes are kept in memory alone"), "an entry cannot be (made|written): ")
        self.assertGreater(run.cached("What was said before?"), 0)
        self.assertEqual(run.stop(), 0)


class Doctor(Operation):
    def doctor(self, *flags, environment=None):
        done = subprocess.run([FLARE, "doctor", *flags], capture_output=True, text=True, timeout=PATIENCE_S,
                              env=dict(os.environ, XDG_CONFIG_HOME="/nonexistent", **(environment or {})))
        return done.returncode, done.stdout, done.stderr

    def checks(self, *flags):
        code, out, err = self.doctor("--json", *([] if "--port" in flags else ["--port", "0"]), *flags)
        self.assertEqual(err, "")
        return code, {check["check"]: check for check in json.loads(out)["result"]["checks"]}

    def test_one_line_a_check_and_a_remedy_where_it_is_not_ok(self):
        code, checks = self.checks()
        self.assertEqual(code, 1 if any(check["state"] == "problem" for check in checks.values()) else 0)
        for name in ("configuration", "cpu", "cores", "numa", "cgroup", "memory", "huge pages", "lock limit",
                     "open files", "model", "port", "keys"):
            self.assertIn(name, checks)
        for check in checks.values():
            self.assertIn(check["state"], ("ok", "warning", "problem"))
            self.assertEqual("remedy" in check, check["state"] != "ok", check)
        self.assertEqual([checks[name]["state"] for name in ("configuration", "model", "port", "keys")], ["ok"] * 4)
        code, out, _ = self.doctor("--port", "0")
        self.assertGreaterEqual(len(out.splitlines()), len(checks))

    def test_problems_are_found_and_end_with_1(self):
        bad = self.write("keys", "key\n", 0o666)
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            for flags, name in ((["/no/such/model"], "model"),
                                (["--api-key-file", str(bad)], "keys"),
                                (["--host", "0.0.0.0"], "keys"),
                                (["--port", str(taken.getsockname()[1])], "port"),
                                (["--tls-cert", "/no/such", "--tls-key", "/no/such"], "certificate"),
                                (["--config", "/no/such"], "configuration")):
                with self.subTest(flags=flags):
                    code, checks = self.checks(*flags)
                    self.assertEqual((code, checks[name]["state"]), (1, "problem"), checks[name])

    def test_it_looks_at_what_the_configuration_names(self):
        keys = self.write("keys", "a\nb\n")
        config = self.write("c.toml", f"[serving]\napi_key_file = '{keys}'\nhost = '0.0.0.0'\n")
        code, checks = self.checks("--config", str(config))
        self.assertIn("2 keys", checks["keys"]["fact"])
        config.write_text("[serving]\nprot = 1\n")
        code, checks = self.checks("--config", str(config))
        self.assertEqual((code, checks["configuration"]["state"]), (1, "problem"))
        self.assertIn("port", checks["configuration"]["remedy"])


if __name__ == "__main__":
    unittest.main()
