#!/usr/bin/python3
# Misfortunes of ignition's commands: sources that shrink, change or cannot be read, disks that fill,
# signals. Each ends with an error that names the file, the right exit code and no output left.
#
# usage: faults_test.py IGNITION LIBRARY [unittest arguments]      LIBRARY: tests/support/faults.cc
import errno
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import old_artifact

IGNITION, LIBRARY = sys.argv.pop(1), os.path.abspath(sys.argv.pop(1))
NANO = pathlib.Path(__file__).resolve().parents[2] / "models/nano"
KEPT = 1 << 16  # of a file that shrinks: its header and little else
NO_ID = ("--artifact-id", "00" * 16)


class Command:
    """Words of a command; SOURCES and OUT stand in them for folders. It reads the files named."""

    def __init__(self, words, reads, writes=True):
        self.words, self.reads, self.writes = words.split(), reads, writes

    def name(self):
        return " ".join(word for word in self.words if "/" not in word)


WEIGHTS = "nano/model.safetensors"
COMMANDS = [
    Command("build SOURCES/nano --recipe q8 --output OUT/a.ninfer", [WEIGHTS]),
    Command("build SOURCES/nano --recipe nvfp4 --output OUT/a.ninfer", [WEIGHTS]),
    Command("build SOURCES/nano --output OUT/a.ninfer --max-file-bytes 2M", [WEIGHTS]),
    Command("build SOURCES/nano --recipe q4 --calibration SOURCES/nano.calibration --output OUT/a.ninfer", [WEIGHTS]),
    Command("quantize SOURCES/exact.ninfer --recipe q4 --output OUT/a.ninfer", ["exact.ninfer"]),
    Command("quantize SOURCES/q8.ninfer --recipe keep --output OUT/a.ninfer", ["q8.ninfer"]),
    Command("reshard SOURCES/q8.ninfer --output OUT/a.ninfer", ["q8.ninfer"]),
    Command("reshard SOURCES/split.ninfer --output OUT/a.ninfer", ["split.ninfer.part-0001"]),
    Command("extract SOURCES/q8.ninfer LARGEST --output OUT/words", ["q8.ninfer"]),
    Command("extract SOURCES/q8.ninfer LARGEST --decode --output OUT/n.safetensors", ["q8.ninfer"]),
    Command("calibrate SOURCES/nano --text SOURCES/text --limit 64 --output OUT/c", [WEIGHTS]),
    Command("calibrate SOURCES/exact.ninfer --text SOURCES/text --limit 64 --output OUT/c", ["exact.ninfer"]),
    Command("logits SOURCES/nano --tokens 1,2,3 --output OUT/l.safetensors", [WEIGHTS]),
    Command("eval perplexity SOURCES/nano --text SOURCES/text --limit 64 --output OUT/e", [WEIGHTS]),
    Command("eval perplexity SOURCES/q8.ninfer --text SOURCES/text --limit 64 --output OUT/e", ["q8.ninfer"]),
    Command("verify SOURCES/q8.ninfer", ["q8.ninfer"], writes=False),
    Command("verify SOURCES/split.ninfer", ["split.ninfer.part-0001"], writes=False),
    Command("verify SOURCES/q8.ninfer --deep --source SOURCES/nano", ["q8.ninfer", WEIGHTS], writes=False),
    Command("diff SOURCES/q8.ninfer SOURCES/exact.ninfer", ["q8.ninfer", "exact.ninfer"], writes=False),
]
if old_artifact.GOLDEN.exists():
    COMMANDS.append(Command(f"convert SOURCES/old.ninfer --source {old_artifact.GOLDEN} --output OUT/a.ninfer",
                            ["old.ninfer"]))


def ignition(*words, **settings):
    environment = dict(os.environ, LD_PRELOAD=LIBRARY, **{k: str(v) for k, v in settings.items()})
    return subprocess.run([IGNITION, *map(str, words)], capture_output=True, text=True, timeout=300, env=environment)


class Faults(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.root)
        cls.whole = cls.root / "whole"
        cls.whole.mkdir()
        shutil.copytree(NANO, cls.whole / "nano", ignore=shutil.ignore_patterns("train", "expected*", "greedy*"))
        (cls.whole / "text").write_text("What is the capital of France? " * 20)
        for words in (("build", NANO, "--output", cls.whole / "exact.ninfer", *NO_ID),
                      ("build", NANO, "--recipe", "q8", "--output", cls.whole / "q8.ninfer", *NO_ID),
                      ("reshard", cls.whole / "q8.ninfer", "--max-file-bytes", "2M", "--output",
                       cls.whole / "split.ninfer"),
                      ("calibrate", NANO, "--text", cls.whole / "text", "--output", cls.whole / "nano.calibration")):
            done = ignition(*words)
            assert done.returncode == 0, done.stderr
        objects = json.loads(ignition("inspect", cls.whole / "q8.ninfer", "--objects", "--json").stdout)
        cls.largest = max(objects["result"]["objects"], key=lambda o: o["bytes"])["id"]
        if old_artifact.GOLDEN.exists():
            old_artifact.old_file(2, cls.whole / "old.ninfer", fused=True)

    def setUp(self):
        self.sources, self.out = self.root / "sources", self.root / "out"

    def attempt(self, command, out=None, **settings):
        """Runs the command on fresh copies of what it reads."""
        shutil.rmtree(self.sources, ignore_errors=True)
        shutil.rmtree(self.out, ignore_errors=True)
        self.out.mkdir()
        # Copies, not links: what a fault does to a file must not reach the next attempt.
        used = {pathlib.Path(word).parts[1] for word in command.words if word.startswith("SOURCES/")}
        for name in {name for name in os.listdir(self.whole) for stem in used if name.startswith(stem)}:
            copy = shutil.copytree if (self.whole / name).is_dir() else shutil.copy
            self.sources.mkdir(exist_ok=True)
            copy(self.whole / name, self.sources / name)
        words = [word.replace("SOURCES", str(self.sources)).replace("OUT", str(out or self.out))
                 .replace("LARGEST", self.largest) for word in command.words]
        return ignition(*words, **settings)

    def calls(self, command, call, path):
        """How many such calls a run without misfortune makes."""
        count = self.root / "count"
        count.unlink(missing_ok=True)
        done = self.attempt(command, FAULT_CALL=call, FAULT_PATH=path, FAULT_COUNT=count)
        self.assertIn(done.returncode, (0, 1) if command.words[0] == "diff" else (0,), done.stderr)
        return count.stat().st_size if count.exists() else 0

    def points(self, command, call, path):
        n = self.calls(command, call, path)
        return sorted({1, (n + 1) // 2, n}) if n else []

    def expect(self, done, code, *words):
        self.assertEqual(done.returncode, code, done.stderr + done.stdout)
        self.assertEqual(done.stderr.count("error: "), 1, done.stderr)
        self.assertIn("\nhint: ", done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertEqual(list(self.out.rglob("*")), [])

    def test_sources_that_shrink_are_named(self):
        for command in COMMANDS:
            for source in command.reads:
                met = 0
                for call in ("mmap", "pread", "madvise"):
                    path = "" if call == "madvise" else source
                    for at in self.points(command, call, path):
                        met += 1
                        with self.subTest(command.name(), source=source, call=call, at=at):
                            done = self.attempt(command, FAULT_CALL=call, FAULT_PATH=path, FAULT_AT=at,
                                                FAULT_SHRINK=f"{self.sources / source}:{KEPT}")
                            self.expect(done, 4, source)
                self.assertGreater(met, 0, command.name())

    def test_sources_that_are_written_to_are_named(self):
        for command in COMMANDS:
            early = command.words[0] in ("build", "quantize", "reshard", "extract", "convert")
            for source in command.reads:
                call, path = ("pwrite", "/out/") if early else ("madvise", "")
                if command.words[0] == "verify" and "--deep" not in command.words:
                    call, path = "pread", source
                for at in self.points(command, call, path)[1:] or [1]:
                    with self.subTest(command.name(), source=source, call=call, at=at):
                        done = self.attempt(command, FAULT_CALL=call, FAULT_PATH=path, FAULT_AT=at,
                                            FAULT_TOUCH=self.sources / source)
                        self.expect(done, 4, source, "was written to while it was read")

    def test_errors_of_reading_are_named(self):
        for command in COMMANDS:
            for source in command.reads:
                folder = source.split("/")[0]
                for at in self.points(command, "pread", f"sources/{folder}"):
                    with self.subTest(command.name(), source=source, at=at):
                        done = self.attempt(command, FAULT_CALL="pread", FAULT_PATH=f"sources/{folder}", FAULT_AT=at,
                                            FAULT_ERRNO=errno.EIO)
                        self.expect(done, 4, folder, os.strerror(errno.EIO))

    def test_full_disks_leave_nothing(self):
        for command in COMMANDS:
            for call, number in (("pwrite", errno.ENOSPC), ("fsync", errno.EIO)):
                # Files alone: that a folder cannot be synced undoes nothing.
                points = self.points(command, call, ".tmp")
                self.assertEqual(bool(points), command.writes, command.name())
                for at in points:
                    with self.subTest(command.name(), call=call, at=at):
                        done = self.attempt(command, FAULT_CALL=call, FAULT_PATH=".tmp", FAULT_AT=at,
                                            FAULT_ERRNO=number)
                        self.expect(done, 3, str(self.out), os.strerror(number))

    def test_signals_leave_nothing(self):
        for command in COMMANDS:
            if command.words[0] not in ("build", "quantize", "reshard", "convert"):
                continue
            for number in (signal.SIGINT, signal.SIGTERM):
                for at in self.points(command, "pwrite", "/out/")[:2]:
                    with self.subTest(command.name(), signal=number, at=at):
                        done = self.attempt(command, FAULT_CALL="pwrite", FAULT_PATH="/out/", FAULT_AT=at,
                                            FAULT_SIGNAL=int(number))
                        self.expect(done, 128 + number)

    def test_a_small_file_system_fills(self):
        small = self.root / "small"
        small.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8k", "none", small], capture_output=True).returncode:
            self.skipTest("no tmpfs can be mounted here")
        self.addCleanup(subprocess.run, ["umount", small], check=True)
        for command in COMMANDS:
            if command.writes and command.words[0] != "eval":  # whose records are few
                with self.subTest(command.name()):
                    self.expect(self.attempt(command, out=small), 3, str(small), os.strerror(errno.ENOSPC))
                    self.assertEqual(list(small.rglob("*")), [])


if __name__ == "__main__":
    unittest.main()
