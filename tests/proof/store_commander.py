"""Runs `edge-runtime bundle` commands one after another in one process, as fast as they are asked for, until it is killed."""

import sys

from edge_runtime.cli import main

for line in sys.stdin:
    code = main(["bundle", *line.split(), "--config", "device.toml"])
    sys.stdout.write(f"done {code}\n")
    sys.stdout.flush()
