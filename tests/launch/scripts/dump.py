"""Writes what a script can see of its own process."""

import json
import os
import sys
from pathlib import Path

seen = {
    "environment": dict(os.environ),
    "argv": sys.argv,
    "path": sys.path,
    "file": __file__,
    "name": __name__,
    "main": sorted(name for name in vars(sys.modules["__main__"]) if name.startswith("__")),
    "cwd": str(Path.cwd()),
    "unbuffered": [sys.stdout.write_through, sys.stderr.write_through],
    "session": os.getsid(0) == os.getpid(),
    "stdin": sys.stdin.read(),
    "encoding": [sys.stdout.encoding, sys.stdout.errors, sys.stderr.encoding, sys.stderr.errors],
}
print(json.dumps(seen))
