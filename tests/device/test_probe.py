"""The machine as made-up kernel files show it, and never a crash where they show less."""

from dataclasses import fields, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edge_runtime.device.probe import FreeMemory, Machine, free_memory, has_vnni, needs_x64_quant_precision, probe
from tests.device import trees


def test_an_x86_machine_with_vnni(tmp_path: Path) -> None:
    machine = probe(trees.vnni(tmp_path))
    assert machine == Machine(
        architecture="x86_64",
        cpu_model="Example CPU @ 2.00GHz",
        isa=frozenset({"sse4_1", "avx2", "avx512f", "avx512_vnni"}),
        cores=2,
        memory_total_mb=8192,
        memory_available_mb=4096,
        memory_limit_mb=None,
        memory_left_mb=None,
        kernel="6.1.0-30-amd64",
        glibc=None,
        device_tree_model=None,
        firmware="Example Inc. 1.4.2",
        boot_id="5f0c0a8e-0000-4000-8000-00000000000a",
        clock_synchronised=True,
    )
    assert has_vnni(machine)


def test_a_haswell_has_no_vnni(tmp_path: Path) -> None:
    machine = probe(trees.haswell(tmp_path))
    assert machine.isa == {"sse4_1", "avx2"}
    assert not has_vnni(machine)


def test_a_raspberry_pi_5(tmp_path: Path) -> None:
    machine = probe(trees.pi5(tmp_path))
    assert (machine.architecture, machine.cpu_model, machine.cores) == ("aarch64", "Cortex-A76", 4)
    assert machine.isa == {"asimddp"}
    assert machine.device_tree_model == "Raspberry Pi 5 Model B Rev 1.0"
    assert machine.firmware is None
    assert machine.clock_synchronised is None


def test_a_jetson_orin(tmp_path: Path) -> None:
    machine = probe(trees.orin(tmp_path))
    assert (machine.architecture, machine.cpu_model, machine.cores) == ("aarch64", "Cortex-A78AE", 6)
    assert machine.device_tree_model == "NVIDIA Jetson Orin Nano Developer Kit"
    assert machine.firmware == "R36 (release), REVISION: 4.3, GCID: 1, BOARD: generic, EABI: aarch64"


def test_an_empty_root_knows_nothing(tmp_path: Path) -> None:
    assert probe(tmp_path) == Machine()


def test_this_machine_is_probed_too() -> None:
    machine = probe()
    assert machine.architecture
    assert machine.cores


def test_a_feature_counts_only_where_every_core_has_it(tmp_path: Path) -> None:
    text = trees.ARM_LINE.format(n=0, flags="asimd asimddp i8mm", part="0xd05")
    text += trees.ARM_LINE.format(n=1, flags="asimd asimddp", part="0xd0b")
    machine = probe(trees.write(tmp_path, {"proc/cpuinfo": text}))
    assert machine.isa == {"asimddp"}
    assert machine.cpu_model == "Cortex-A55 + Cortex-A76"


def test_an_unknown_core_is_named_by_its_numbers(tmp_path: Path) -> None:
    text = trees.ARM_LINE.format(n=0, flags="asimd", part="0xfff")
    assert probe(trees.write(tmp_path, {"proc/cpuinfo": text})).cpu_model == "ARM implementer 0x41 part 0xfff"


def test_32_bit_x86_is_not_taken_for_64_bit(tmp_path: Path) -> None:
    text = trees.X86_LINE.format(n=0, model="Old", flags="fpu sse4_1")
    assert probe(trees.write(tmp_path, {"proc/cpuinfo": text})).architecture == "x86"


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "536870912\n"}, 512),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n"}, None),
        (
            {
                "proc/self/cgroup": "0::/system.slice/edge.service\n",
                "sys/fs/cgroup/system.slice/memory.max": "268435456\n",
                "sys/fs/cgroup/system.slice/edge.service/memory.max": "1073741824\n",
            },
            256,
        ),
        ({"proc/self/cgroup": "0::/../../elsewhere\n", "sys/fs/cgroup/memory.max": "134217728\n"}, 128),
        (
            {
                "proc/self/cgroup": "4:cpu,memory:/box\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
                "sys/fs/cgroup/memory/box/memory.limit_in_bytes": "67108864\n",
            },
            64,
        ),
        ({"proc/self/cgroup": "nonsense"}, None),
    ],
)
def test_the_smallest_limit_of_the_control_groups_counts(
    tmp_path: Path, files: dict[str, str], limit: int | None
) -> None:
    assert probe(trees.write(tmp_path, files)).memory_limit_mb == limit


SERVICE = "sys/fs/cgroup/system.slice/edge.service/"
STAT_V2 = "anon 41943040\nfile 62914560\nshmem 10485760\ninactive_file 31457280\nactive_file 20971520\nslab_reclaimable 1048576\n"
STAT_V1 = "cache 99\ninactive_file 1\nactive_file 1\ntotal_inactive_file 10485760\ntotal_active_file 5242880\n"


@pytest.mark.parametrize(
    ("files", "left"),
    [
        # 256 MiB, of which 110 are used, of which 51 are cache that the kernel would give up; its tmpfs is not.
        ({"memory.max": "268435456\n", "memory.current": "115343360\n", "memory.stat": STAT_V2}, 197),
        ({"memory.max": "268435456\n", "memory.current": "115343360\n"}, 146),
        ({"memory.max": "268435456\n", "memory.current": "536870912\n"}, 0),
        ({"memory.max": "268435456\n", "memory.current": "1048576\n", "memory.stat": STAT_V2}, 256),
        ({"memory.max": "268435456\n", "memory.current": "many\n"}, None),
        ({"memory.max": "268435456\n"}, None),
        ({"memory.max": "max\n", "memory.current": "115343360\n"}, None),
        ({"memory.max": "268435456\n", "memory.current": "115343360\n", "memory.stat": "nonsense\nanon\n"}, 146),
    ],
)
def test_what_a_control_group_has_left(tmp_path: Path, files: dict[str, str], left: int | None) -> None:
    tree = {"proc/self/cgroup": "0::/system.slice/edge.service\n"}
    tree |= {f"{SERVICE}{name}": text for name, text in files.items()}
    assert probe(trees.write(tmp_path, tree)).memory_left_mb == left
    assert free_memory(tmp_path).left_mb == left


def test_the_group_with_the_least_left_counts_not_the_one_with_the_smallest_limit(tmp_path: Path) -> None:
    tree = {
        "proc/self/cgroup": "0::/system.slice/edge.service\n",
        "sys/fs/cgroup/system.slice/memory.max": str(512 << 20),
        "sys/fs/cgroup/system.slice/memory.current": str(480 << 20),
        f"{SERVICE}memory.max": str(256 << 20),
        f"{SERVICE}memory.current": str(100 << 20),
    }
    machine = probe(trees.write(tmp_path, tree))
    assert (machine.memory_limit_mb, machine.memory_left_mb) == (256, 32)


def test_what_a_control_group_of_version_1_has_left(tmp_path: Path) -> None:
    tree = {
        "proc/self/cgroup": "4:cpu,memory:/box\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        "sys/fs/cgroup/memory/memory.usage_in_bytes": "104857600\n",
        "sys/fs/cgroup/memory/box/memory.limit_in_bytes": "67108864\n",
        "sys/fs/cgroup/memory/box/memory.usage_in_bytes": "41943040\n",
        "sys/fs/cgroup/memory/box/memory.stat": STAT_V1,
    }
    assert probe(trees.write(tmp_path, tree)).memory_left_mb == 39


def test_free_memory_is_read_anew(tmp_path: Path) -> None:
    assert free_memory(trees.vnni(tmp_path)) == FreeMemory(4096, None)
    trees.write(tmp_path, {"proc/meminfo": "MemTotal:  8388608 kB\nMemAvailable:  1048576 kB\n"})
    assert free_memory(tmp_path) == FreeMemory(1024, None)
    assert free_memory(tmp_path / "none") == FreeMemory(None, None)


def test_quant_precision_is_for_x86_without_vnni_and_wide_weights_alone(tmp_path: Path) -> None:
    old = probe(trees.haswell(tmp_path / "haswell"))
    assert needs_x64_quant_precision(old, seven_bit_weights=False)
    assert not needs_x64_quant_precision(old, seven_bit_weights=True)
    assert not needs_x64_quant_precision(probe(trees.vnni(tmp_path / "vnni")), seven_bit_weights=False)
    assert not needs_x64_quant_precision(probe(trees.pi5(tmp_path / "pi")), seven_bit_weights=False)
    assert not needs_x64_quant_precision(replace(old, isa=frozenset({"avx_vnni"})), seven_bit_weights=False)


def test_where_the_features_are_unknown_the_right_kernel_is_taken() -> None:
    assert needs_x64_quant_precision(Machine(architecture="x86_64"), seven_bit_weights=False)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cpuinfo=st.binary(max_size=200), meminfo=st.binary(max_size=80), cgroup=st.binary(max_size=80))
def test_no_content_crashes_it(tmp_path: Path, cpuinfo: bytes, meminfo: bytes, cgroup: bytes) -> None:
    trees.write(tmp_path, {"proc/cpuinfo": "", "proc/meminfo": "", "proc/self/cgroup": ""})
    (tmp_path / "proc/cpuinfo").write_bytes(cpuinfo)
    (tmp_path / "proc/meminfo").write_bytes(meminfo)
    (tmp_path / "proc/self/cgroup").write_bytes(cgroup)
    probe(tmp_path)


def test_a_folder_in_a_files_place_is_no_crash(tmp_path: Path) -> None:
    for name in ("proc/cpuinfo", "proc/meminfo", "etc/nv_tegra_release", "proc/device-tree/model"):
        (tmp_path / name).mkdir(parents=True)
    found = probe(tmp_path)
    assert all(getattr(found, field.name) is None for field in fields(found))
