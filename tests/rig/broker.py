"""A mosquitto of the test's own, on a free port and in a folder of its own, with the faults a broker can have."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Self

from .need import need

PATIENCE_S = 20.0


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Broker:
    """mosquitto, started; ``extra`` is added to its configuration. To be used in a ``with`` block, which kills it.

    Its session store survives ``term`` and, with ``autosave_on_changes``, a kill.
    """

    def __init__(self, folder: Path, extra: str = "", *, port: int | None = None) -> None:
        program = shutil.which("mosquitto", path=os.environ.get("PATH", "") + ":/usr/sbin")
        need(program, "mosquitto")
        self.port = port or free_port()
        self.folder = folder
        self.log_file = folder / "mosquitto.log"
        self._program = str(program)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "store").mkdir(exist_ok=True)
        folder.chmod(0o777)
        (folder / "store").chmod(0o777)
        listener = "" if "listener " in extra else f"listener {self.port} 127.0.0.1\n"
        login = "" if "allow_anonymous" in extra else "allow_anonymous true\n"
        self._config = folder / "mosquitto.conf"
        self._config.write_text(
            f"{listener}{login}persistence true\npersistence_location {folder}/store/\n"
            f"log_timestamp false\n{'' if os.geteuid() else 'user root'}\n{extra.format(port=self.port)}\n"
        )
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Start it, and return once it listens. Raises RuntimeError with its log where it does not."""
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen([self._program, "-c", str(self._config)], stdout=log, stderr=log)
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline and self._process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1) as link:
                # Where nobody listens the kernel may take this very port for our end: then it is connected to itself.
                if link.getsockname() != link.getpeername():
                    return
            time.sleep(0.01)
        msg = f"mosquitto did not come up: {self.log}"
        raise RuntimeError(msg)

    def term(self) -> None:
        """Stop it in order: it saves its sessions."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill it: what it had not saved is gone."""
        self._end(signal.SIGKILL)

    def freeze(self) -> None:
        """Let it hang with its connections open."""
        self._send(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self._send(signal.SIGCONT)

    def wipe(self) -> None:
        """Remove what it has saved; to be called while it is down."""
        for file in (self.folder / "store").iterdir():
            file.unlink()

    @property
    def log(self) -> str:
        """What it has logged so far; its first line names its version."""
        return self.log_file.read_text(errors="replace")

    def _send(self, number: int) -> None:
        if self._process is not None:
            self._process.send_signal(number)

    def _end(self, number: int) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGCONT)
            self._process.send_signal(number)
            self._process.wait(PATIENCE_S)
