"""An aarch64 Python with the locked wheels, run by QEMU's user mode on a named processor; it installs nothing into the system.

Debian's own packages are unpacked into a folder, no root, chroot or binfmt needed; PyPI's wheels come by the hashes of
uv.lock. Both are fetched once, in some 10 s, and kept under ~/.cache/edge-runtime.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from .need import need

ROOT = Path(__file__).parents[2]
PROGRAM = "qemu-aarch64-static"
_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_SOURCE = f"deb [signed-by={_KEYRING}] http://deb.debian.org/debian bookworm main\n"
_PYTHON = "3.11"
_PACKAGES = (
    "libbz2-1.0", "libc6", "libcrypt1", "libexpat1", "libffi8", "libgcc-s1", "liblzma5", f"libpython{_PYTHON}-minimal",
    f"libpython{_PYTHON}-stdlib", "libssl3", "libstdc++6", "libuuid1", f"python{_PYTHON}-minimal", "zlib1g",
)  # fmt: skip
# Its own state and lists: the package database of the machine below is neither read nor written.
_APT = """\
Dir "{folder}/apt";
Dir::State::status "{folder}/apt/status";
APT::Architecture "arm64";
APT::Architectures {{ "arm64"; }};
APT::Sandbox::User "root";
Acquire::Languages "none";
"""
_PATIENCE_S = 600


@dataclass(frozen=True, slots=True)
class Processor:
    """A processor to emulate: QEMU's ``-cpu``, and what Linux says of it there in /proc/cpuinfo.

    onnxruntime reads that file as it is loaded, and crashes on an x86 one; a feature in it that ``cpu`` lacks would be
    an illegal instruction. ``part`` is the maker's number of the core.
    """

    name: str
    cpu: str
    part: int
    features: str
    maker: int = 0x41  # Arm


_V80 = "fp asimd aes pmull sha1 sha2 crc32 cpuid"
_V82 = f"{_V80} atomics fphp asimdhp asimdrdm lrcpc dcpop asimddp"
CORTEX_A72 = Processor("Cortex-A72", "cortex-a72", 0xD08, _V80)
# QEMU 7.2 knows no A78AE, the core of an Orin: an A76 executes, which has the same instructions for int8 (asimddp, no
# i8mm), and onnxruntime is told of an A78AE, by which it chooses among its kernels.
CORTEX_A78AE = Processor("Cortex-A78AE", "cortex-a76", 0xD42, _V82)
# All that QEMU has, under its own number, but for the matrix extension that no board of today has.
NEWEST = Processor("ARM implementer 0x00 part 0x051", "max,sme=off", 0x051, f"{_V82} sve i8mm bf16", 0x00)
PROCESSORS = (CORTEX_A72, CORTEX_A78AE, NEWEST)


def root() -> Path:
    """The folder with Debian's files and the wheels; made where it is not there yet, skipped with the reason where it cannot be."""
    need(shutil.which(PROGRAM), f"{PROGRAM} (Debian: apt-get install qemu-user-static)")
    wanted = _locked()
    digest = hashlib.sha256("\n".join((_SOURCE, *_PACKAGES, wanted)).encode()).hexdigest()[:12]
    kept = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "edge-runtime" / f"arm64-{digest}"
    if not kept.is_dir():
        for program in ("apt-get", "dpkg"):
            need(shutil.which(program), f"{program}, to make {kept} once, an aarch64 Python")
        need(_KEYRING.is_file(), f"{_KEYRING} (Debian: apt-get install debian-archive-keyring)")
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent, prefix=".arm64-") as place:
            _fill(Path(place), wanted)
            _put(Path(place) / "kept", kept)
    return kept


def start(processor: Processor, words: list[str], folder: Path) -> "subprocess.Popen[str]":
    """Start ``python WORDS`` on that processor, from the root of this repository; ``folder`` gets its /proc and /sys."""
    made, prefix = root(), folder / "prefix"
    for name in ("proc", "sys/devices/system/cpu"):
        (prefix / name).mkdir(parents=True, exist_ok=True)
    for name in ("lib", "usr"):
        if not (prefix / name).exists():
            (prefix / name).symlink_to(made / "debian" / name)
    (prefix / "proc/cpuinfo").write_text(
        f"processor\t: 0\nBogoMIPS\t: 108.00\nFeatures\t: {processor.features}\nCPU implementer\t: 0x{processor.maker:02x}\n"
        f"CPU architecture: 8\nCPU variant\t: 0x1\nCPU part\t: 0x{processor.part:03x}\nCPU revision\t: 0\n\n"
    )
    for name in ("possible", "present"):
        (prefix / "sys/devices/system/cpu" / name).write_text("0\n")
    path = os.pathsep.join([str(made / "wheels"), str(ROOT)])
    return subprocess.Popen(
        [PROGRAM, "-cpu", processor.cpu, "-L", prefix, made / f"debian/usr/bin/python{_PYTHON}", *words],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1", "STATE_DIRECTORY": str(folder)},
        text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def start_calls(processor: Processor, calls: list[list[str]], folder: Path) -> "subprocess.Popen[str]":
    """Make these calls of the program there, one after the other in one process; `emulated.codes` waits for it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "calls.json").write_text(json.dumps(calls))
    return start(processor, ["-m", "tests.rig.emulated", str(folder / "calls.json")], folder)


def _locked() -> str:
    """What uv.lock names for a device, with the hashes of each file."""
    uv = shutil.which("uv") or str(Path(sys.executable).with_name("uv"))
    command = [uv, "export", "--frozen", "--quiet", "--extra", "cpu", "--extra", "signing", "--no-default-groups"]
    done = subprocess.run(
        [*command, "--no-emit-project", "--no-header"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return done.stdout


def _fill(place: Path, wanted: str) -> None:
    for name in ("apt/etc/apt", "apt/var/lib/apt/lists/partial", "apt/var/cache/apt/archives/partial", "debs", "kept"):
        (place / name).mkdir(parents=True)
    (place / "apt/status").touch()
    (place / "apt/etc/apt/sources.list").write_text(_SOURCE)
    (place / "apt.conf").write_text(_APT.format(folder=place))
    (place / "wanted.txt").write_text(wanted)
    _fetch(["apt-get", "-qq", "update"], place)
    _fetch(["apt-get", "-qq", "download", *_PACKAGES], place)
    for package in (place / "debs").iterdir():
        subprocess.run(["dpkg", "-x", package, place / "kept/debian"], check=True)
    uv = shutil.which("uv") or str(Path(sys.executable).with_name("uv"))
    platform = ["--python-platform", "aarch64-manylinux_2_28", "--python-version", _PYTHON, "--only-binary", ":all:"]
    target = ["--target", str(place / "kept/wheels"), "--require-hashes", "--no-deps", "-r", str(place / "wanted.txt")]
    _fetch([uv, "pip", "install", "--quiet", "--python", sys.executable, *platform, *target], place)


def _fetch(command: list[str], place: Path) -> None:
    environment = {**os.environ, "APT_CONFIG": str(place / "apt.conf")}
    done = subprocess.run(
        command, cwd=place / "debs", env=environment, capture_output=True, text=True, check=False, timeout=_PATIENCE_S
    )
    need(done.returncode == 0, f"what `{' '.join(command[:3])}` fetches: {done.stderr.strip()[-500:]}")


def _put(made: Path, kept: Path) -> None:
    try:
        made.rename(kept)
    except OSError:
        if not kept.is_dir():  # else another run was faster, and made the same
            raise
