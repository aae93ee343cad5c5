"""The process entry: sets what must stand before a native library loads, then hands over; it decides nothing."""

import os
import sys

_BEFORE_NATIVE_LIBRARIES = {
    "ORT_DISABLE_TELEMETRY": "1",  # ONNX Runtime reads it once, at its import
    "OPENBLAS_NUM_THREADS": "1",  # numpy's BLAS would start one thread per core and keep their stacks
    "OMP_NUM_THREADS": "1",
    "PYDANTIC_DISABLE_PLUGINS": "__all__",  # else it reads every installed package's metadata, and runs whose code asks
}


def main() -> int:
    """Run the command line and return its exit code."""
    for name, value in _BEFORE_NATIVE_LIBRARIES.items():
        os.environ.setdefault(name, value)
    from edge_runtime import cli  # noqa: PLC0415 -- the environment above comes first

    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
