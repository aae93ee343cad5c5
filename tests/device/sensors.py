"""Made-up sensors of four machines, shaped as their kernels show them; none is a copy of a real one."""

from pathlib import Path

from tests.device.trees import write

_CPUFREQ = "sys/devices/system/cpu/cpufreq/policy{n}/"
_PI_FIRMWARE = "sys/devices/platform/soc@107c000000/soc@107c000000:firmware/get_throttled"


def clock(n: int, khz: int, allowed: int, most: int, governor: str, driver: str) -> dict[str, str]:
    path = _CPUFREQ.format(n=n)
    return {
        f"{path}scaling_cur_freq": f"{khz}\n", f"{path}scaling_max_freq": f"{allowed}\n",
        f"{path}cpuinfo_max_freq": f"{most}\n", f"{path}scaling_governor": f"{governor}\n",
        f"{path}scaling_driver": f"{driver}\n",
    }  # fmt: skip


def zone(n: int, kind: str, temp: str, *trips: tuple[str, str]) -> dict[str, str]:
    path = f"sys/class/thermal/thermal_zone{n}"
    files = {f"{path}/type": f"{kind}\n", f"{path}/temp": f"{temp}\n"}
    for at, (trip, limit) in enumerate(trips):
        files |= {f"{path}/trip_point_{at}_type": f"{trip}\n", f"{path}/trip_point_{at}_temp": f"{limit}\n"}
    return files


def pi5(root: Path, *, bits: str = "0", millidegrees: str = "61200", alarm: str = "0", khz: int = 2_400_000) -> Path:
    files = zone(0, "cpu-thermal", millidegrees, ("critical", "110000"), ("active", "50000"))
    files |= clock(0, khz, 2_400_000, 2_400_000, "ondemand", "cpufreq-dt")
    files |= {
        _PI_FIRMWARE: f"{bits}\n",
        "sys/class/hwmon/hwmon0/name": "cpu_thermal\n",
        "sys/class/hwmon/hwmon0/temp1_input": f"{millidegrees}\n",
        "sys/class/hwmon/hwmon1/name": "rpi_volt\n",
        "sys/class/hwmon/hwmon1/in0_lcrit_alarm": f"{alarm}\n",
        "sys/class/thermal/cooling_device0/type": "pwm-fan\n",
        "sys/class/thermal/cooling_device0/cur_state": "3\n",
        "sys/class/thermal/cooling_device0/max_state": "4\n",
    }
    return write(root, files)


def orin(root: Path, *, millidegrees: str = "52500", step: str = "0", alarm: str = "0", milliamps: str = "960") -> Path:
    files = zone(0, "cpu-thermal", millidegrees, ("critical", "104500"), ("hot", "102000"), ("passive", "99000"))
    files |= zone(1, "gpu-thermal", "-256000", ("critical", "104500"))
    files |= clock(0, 729_600, 1_510_400, 1_510_400, "schedutil", "tegra194-cpufreq")
    ina = "sys/class/hwmon/hwmon1/"
    files |= {
        "sys/class/thermal/cooling_device0/type": "thermal-cpufreq-0\n",
        "sys/class/thermal/cooling_device0/cur_state": f"{step}\n",
        "sys/class/thermal/cooling_device0/max_state": "12\n",
        f"{ina}name": "ina3221\n",
        f"{ina}in1_label": "VDD_IN\n", f"{ina}in1_input": "5000\n", f"{ina}curr1_input": f"{milliamps}\n",
        f"{ina}curr1_crit_alarm": f"{alarm}\n", f"{ina}curr1_max_alarm": "0\n",
        f"{ina}in2_label": "VDD_CPU_GPU_CV\n", f"{ina}in2_input": "4992\n", f"{ina}curr2_input": "200\n",
        f"{ina}in3_label": "NC\n", f"{ina}in3_input": "0\n", f"{ina}curr3_input": "0\n",
        f"{ina}curr4_input": "1160\n", f"{ina}in4_input": "4\n",
        "sys/class/devfreq/17000000.gpu/cur_freq": "306000000\n",
        "sys/class/devfreq/17000000.gpu/max_freq": "624750000\n",
        "sys/class/devfreq/17000000.gpu/device/load": "374\n",
        "sys/class/devfreq/15340000.vic/cur_freq": "115200000\n",
        "sys/class/devfreq/15340000.vic/device/load": "12\n",
    }  # fmt: skip
    return write(root, files)


def pc(
    root: Path, *, events: tuple[int, ...] = (0, 0), governor: str = "powersave", driver: str = "intel_pstate"
) -> Path:
    """An Intel machine of two cores with a disk, an AMD card and its own GPU."""
    files = zone(0, "x86_pkg_temp", "47000", ("passive", "-274000"), ("passive", "0"))
    files |= clock(0, 800_000, 4_200_000, 4_200_000, governor, driver)
    core = "sys/devices/system/cpu/cpu{}/thermal_throttle/"
    for n, count in enumerate(events):
        files |= {
            f"{core.format(n)}core_throttle_count": f"{count}\n",
            f"{core.format(n)}package_throttle_count": "0\n",
        }
    files |= {
        "sys/class/hwmon/hwmon0/name": "coretemp\n",
        "sys/class/hwmon/hwmon0/temp1_input": "48000\n",
        "sys/class/hwmon/hwmon0/temp1_label": "Package id 0\n",
        "sys/class/hwmon/hwmon0/temp1_crit": "100000\n",
        "sys/class/hwmon/hwmon0/temp2_input": "46000\n",
        "sys/class/hwmon/hwmon0/temp2_label": "Core 0\n",
        "sys/class/hwmon/hwmon1/name": "drivetemp\n",
        "sys/class/hwmon/hwmon1/temp1_input": "31000\n",
        "sys/class/hwmon/hwmon2/name": "amdgpu\n",
        "sys/class/hwmon/hwmon2/power1_average": "7000000\n",
        "sys/class/drm/card0/gt_act_freq_mhz": "350\n",
        "sys/class/drm/card0/gt_RP0_freq_mhz": "1300\n",
        "sys/class/drm/card0/gt/gt0/throttle_reason_status": "0\n",
        "sys/class/drm/card0-HDMI-A-1/status": "connected\n",
        "sys/class/drm/card1/device/gpu_busy_percent": "12\n",
        "sys/class/drm/card1/device/mem_info_vram_used": "1073741824\n",
        "sys/class/drm/card1/device/mem_info_vram_total": "8589934592\n",
        "sys/class/powercap/intel-rapl:0/name": "package-0\n",
        "sys/class/powercap/intel-rapl:0/energy_uj": "262143000000\n",
        "sys/class/powercap/intel-rapl:0/max_energy_range_uj": "262143328850\n",
        "sys/class/powercap/intel-rapl:0:0/name": "core\n",
        "sys/class/powercap/intel-rapl:0:0/energy_uj": "1000000\n",
    }
    return write(root, files)
