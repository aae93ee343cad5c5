"""Runs the program in a process of its own for each line that it is given, loaded already: to be killed without mercy or wait.

A line is a command line of `edge-runtime`. It says "pid N" once the process of it is there, "ended N CODE" once that is
gone, a signal as a negative code.
"""

import os
import sys
from importlib import import_module

program = import_module("edge_runtime.__main__")  # what must stand before a native library loads is its affair
for name, value in program._BEFORE_NATIVE_LIBRARIES.items():
    os.environ.setdefault(name, value)
# What serving and the store load lazily, and none of which begins a thread of its own.
for module in (
    "onnxruntime", "edge_runtime.cli", "edge_runtime.run.serve", "edge_runtime.run.exchange", "edge_runtime.run.supply",
    "edge_runtime.run.store_command", "edge_runtime.spec.device_config", "edge_runtime.sources.watched_folder",
):  # fmt: skip
    import_module(module)
main = import_module("edge_runtime.cli").main


def _say(text: str) -> None:
    os.write(1, text.encode() + b"\n")


for line in sys.stdin:
    child = os.fork()
    if not child:
        os.dup2(2, 1)
        sys.stdin = open(os.devnull)  # noqa: SIM115, PTH123
        code = main(line.split())
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    _say(f"pid {child}")
    _say(f"ended {child} {os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}")
