"""Made-up /proc and /sys of four machines, shaped as their kernels show them; none is a copy of a real one."""

from pathlib import Path

X86_LINE = "processor\t: {n}\nvendor_id\t: GenuineIntel\nmodel name\t: {model}\nflags\t\t: {flags}\n\n"
ARM_LINE = (
    "processor\t: {n}\nBogoMIPS\t: 108.00\nFeatures\t: {flags}\nCPU implementer\t: 0x41\nCPU architecture: 8\n"
    "CPU variant\t: 0x4\nCPU part\t: {part}\nCPU revision\t: 1\n\n"
)
HASWELL_FLAGS = "fpu lm sse4_1 sse4_2 avx fma avx2 bmi2"
VNNI_FLAGS = f"{HASWELL_FLAGS} avx512f avx512_vnni"
PI5_FLAGS = "fp asimd evtstrm aes crc32 atomics fphp asimdhp asimddp"


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def x86(root: Path, flags: str, model: str = "Example CPU  @ 2.00GHz", cores: int = 2) -> Path:
    return write(
        root,
        {
            "proc/cpuinfo": "".join(X86_LINE.format(n=n, model=model, flags=flags) for n in range(cores)),
            "proc/meminfo": "MemTotal:        8388608 kB\nMemFree:   1000 kB\nMemAvailable:    4194304 kB\n",
            "proc/sys/kernel/osrelease": "6.1.0-30-amd64\n",
            "proc/sys/kernel/arch": "x86_64\n",
            "proc/sys/kernel/random/boot_id": "5f0c0a8e-0000-4000-8000-00000000000a\n",
            "sys/class/dmi/id/bios_vendor": "Example Inc.\n",
            "sys/class/dmi/id/bios_version": "1.4.2\n",
            "run/systemd/timesync/synchronized": "",
        },
    )


def vnni(root: Path) -> Path:
    return x86(root, VNNI_FLAGS)


def haswell(root: Path) -> Path:
    return x86(root, HASWELL_FLAGS)


def pi5(root: Path) -> Path:
    return write(
        root,
        {
            "proc/cpuinfo": "".join(ARM_LINE.format(n=n, flags=PI5_FLAGS, part="0xd0b") for n in range(4))
            + "Revision\t: d04170\nModel\t\t: Raspberry Pi 5 Model B Rev 1.0\n",
            "proc/meminfo": "MemTotal:        8254304 kB\nMemAvailable:    7000000 kB\n",
            "proc/sys/kernel/osrelease": "6.6.31+rpt-rpi-2712\n",
            "proc/device-tree/model": "Raspberry Pi 5 Model B Rev 1.0\0",
        },
    )


def orin(root: Path) -> Path:
    flags = "fp asimd evtstrm aes sha1 sha2 crc32 atomics asimdhp asimddp uscat"
    return write(
        root,
        {
            "proc/cpuinfo": "".join(ARM_LINE.format(n=n, flags=flags, part="0xd42") for n in range(6)),
            "proc/meminfo": "MemTotal:        7802112 kB\nMemAvailable:    5000000 kB\n",
            "proc/sys/kernel/osrelease": "5.15.148-tegra\n",
            "proc/sys/kernel/arch": "aarch64\n",
            "proc/device-tree/model": "NVIDIA Jetson Orin Nano Developer Kit\0",
            "etc/nv_tegra_release": "# R36 (release), REVISION: 4.3, GCID: 1, BOARD: generic, EABI: aarch64\nmore\n",
        },
    )


def gpus(root: Path) -> Path:
    """A card of NVIDIA's, a GPU in the processor and an NPU, each with what its driver shows."""
    write(
        root,
        {
            "sys/class/drm/card0/device/vendor": "0x10de\n",
            "sys/class/drm/card0/device/device": "0x24b0\n",
            "sys/class/drm/card0-DP-1/device/vendor": "0xffff\n",
            "sys/class/drm/card1/device/vendor": "0x8086\n",
            "sys/class/drm/card1/device/device": "0x9a49\n",
            "sys/class/drm/renderD128/device/vendor": "0x8086\n",
            "sys/class/accel/accel0/device/vendor": "0x8086\n",
            "sys/class/accel/accel0/device/device": "0x7d1d\n",
            "sys/module/nvidia/version": "570.86.10\n",
            "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.10  Mon Jan  6\nGCC\n",
            "proc/driver/nvidia/gpus/0000:01:00.0/information": "Model: \t\t NVIDIA RTX A4000\nIRQ:   \t\t 151\n",
        },
    )
    for node, driver in (("drm/card0", "nvidia"), ("drm/card1", "i915"), ("accel/accel0", "intel_vpu")):
        link = root / "sys/class" / node / "device/driver"
        link.unlink(missing_ok=True)
        link.symlink_to(f"../../../../bus/pci/drivers/{driver}")
    return root
