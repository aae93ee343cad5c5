"""How the machine stood at one moment, for reports and status; no answer depends on it."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class MachineState:
    """Temperatures (degrees Celsius), clocks (MHz), power (W) and GPUs (load_percent, mhz, memory_used_mb) by name.

    What is not there is not known. ``strains`` says in words what slows the machine down, or is near to it; ``is_slowed``
    whether heat or power do so now.
    """

    strains: tuple[str, ...] = ()
    is_slowed: bool = False
    temperatures: Mapping[str, float] = field(default_factory=dict)
    cpu_mhz: Mapping[str, float] = field(default_factory=dict)
    watts: Mapping[str, float] = field(default_factory=dict)
    gpus: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def as_text(self) -> str:
        """The main figures and every strain on one line."""
        parts = []
        if self.temperatures:
            hottest = max(self.temperatures, key=self.temperatures.__getitem__)
            parts.append(f"{self.temperatures[hottest]:.1f} C at most ({hottest})")
        if self.cpu_mhz:
            parts.append(f"{max(self.cpu_mhz.values()):.0f} MHz")
        parts += [f"{watts:.3g} W {name}" for name, watts in self.watts.items()]
        parts += [
            f"{name} {told['load_percent']:g} % busy" for name, told in self.gpus.items() if "load_percent" in told
        ]
        return "; ".join([", ".join(parts) or "no figures", *self.strains])
