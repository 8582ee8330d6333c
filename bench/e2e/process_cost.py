"""Seconds, exit status and peak resident memory of one command.

The peak that the system tells of a process begins with that of the process which started it, so a
small interpreter stands between: a caller's own numbers would count as the command's otherwise.
"""
import json
import os
import subprocess
import sys
import time


def process_cost(command):
    """(seconds, peak resident bytes, exit status, what it wrote to stderr)."""
    done = subprocess.run([sys.executable, "-S", "-E", os.path.abspath(__file__), *map(str, command)],
                          capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{command[0]}: {done.stderr[-2000:]}")
    cost = json.loads(done.stdout)
    return cost["seconds"], cost["peak_bytes"], cost["status"], done.stderr


def main(command):
    begin = time.monotonic()
    # Standard output of the command goes nowhere.
    child = os.posix_spawnp(command[0], command, os.environ,
                            file_actions=[(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)])
    _, status, usage = os.wait4(child, 0)
    print(json.dumps(dict(seconds=time.monotonic() - begin, peak_bytes=usage.ru_maxrss * 1024,
                          status=os.waitstatus_to_exitcode(status))))


if __name__ == "__main__":
    main(sys.argv[1:])
