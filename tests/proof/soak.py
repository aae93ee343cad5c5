"""A device for as long as one likes, with a fault of the field every few seconds: `python -m tests.proof.soak --help`."""

import argparse
import random
import tempfile
import time
from pathlib import Path

from tests.proof.faults import OF_THE_BROKER, OF_THE_DEVICE, inflict
from tests.proof.field import Field

KINDS = ["windowed", "stateful", "stateless"]
RATE_HZ = 100
EVERY_S = 5.0
MORTAL_SHARE = 1 / 3
"""Of the time, at its beginning: in which the program itself is killed too."""
WARM_UP_S = 300.0
"""Of a process: memory is counted from here on."""
MAX_GROWTH_BYTES = 1 << 20
"""In ten minutes."""
MAX_DESCRIPTORS = 4
"""More than at the first look: a connection under way, a file that is being written."""


def soak(
    folder: Path, *, minutes: float, seed: int, protocol: str = "5", every_s: float = EVERY_S, keepalive_s: int = 5
) -> None:
    """Serve for so long with a random fault every ``every_s``, then hold all ledgers to what was seen; prints figures."""
    chance = random.Random(seed)
    faults = [*OF_THE_BROKER, *OF_THE_DEVICE]
    print(f"{minutes} minutes, seed {seed}, MQTT {protocol}, {RATE_HZ} samples/s and a port", flush=True)
    with Field(folder, KINDS, protocol=protocol, rate_hz=RATE_HZ, keepalive_s=keepalive_s, serial=True) as field:
        field.flows()
        memory = _Memory(field)
        begun = time.monotonic()
        count = losses = 0
        while (now := time.monotonic()) < begun + 60 * minutes:
            # Later the program lives on: for what it holds of memory to be told.
            may_die = now - begun < 60 * minutes * MORTAL_SHARE
            name = chance.choice([one for one in faults if may_die or one != "program killed"])
            back_s = inflict(field, name, chance)
            count, losses = count + 1, losses + (back_s is not None)
            back = "" if back_s is None else f", back after {back_s:.2f} s"
            print(f"{now - begun:7.1f} s, {field.rss_bytes / 1e6:6.2f} MB: {name}{back}", flush=True)
            memory.look()
            time.sleep(max(0.0, now + every_s - time.monotonic()))
            memory.look()
        told = field.check(losses)
    print(f"{count} faults, {losses} losses of a connection or a process\n{told}\n{memory.told()}", flush=True)
    memory.check()


class _Memory:
    """What each process of the program held of memory and descriptors, once it had warmed up and until it was killed."""

    def __init__(self, field: Field) -> None:
        self._field = field
        self._of: dict[int, list[tuple[float, int, int]]] = {}
        self._begun: dict[int, float] = {}

    def look(self) -> None:
        field, now = self._field, time.monotonic()
        begun = self._begun.setdefault(field.kills, now)
        if now - begun >= WARM_UP_S:
            self._of.setdefault(field.kills, []).append((now, field.rss_bytes, field.descriptors))

    def told(self) -> str:
        looks = [
            f"process {one}: {(seen[-1][0] - seen[0][0]) / 60:.1f} min, {seen[-1][1] / 1e6:.1f} MB, grew"
            f" {(seen[-1][1] - seen[0][1]) / 1e6:.2f} MB, descriptors {seen[0][2]} to {max(look[2] for look in seen)}"
            for one, seen in self._of.items()
        ]
        return "\n".join(looks) or f"no process lived longer than {WARM_UP_S:.0f} s"

    def check(self) -> None:
        for seen in self._of.values():
            tens = max(1.0, (seen[-1][0] - seen[0][0]) / 600)
            assert seen[-1][1] - seen[0][1] < MAX_GROWTH_BYTES * tens
            assert max(look[2] for look in seen) <= seen[0][2] + MAX_DESCRIPTORS


def main() -> None:
    words = argparse.ArgumentParser(prog="scripts/soak", description=__doc__)
    words.add_argument("--minutes", type=float, default=30.0)
    words.add_argument("--seed", type=int, default=None)
    words.add_argument("--protocol", choices=("5", "3.1.1"), default="5")
    words.add_argument("--every", type=float, default=EVERY_S, help="seconds from one fault to the next")
    asked = words.parse_args()
    seed = asked.seed if asked.seed is not None else random.SystemRandom().randrange(1 << 32)
    with tempfile.TemporaryDirectory() as folder:
        soak(Path(folder) / "field", minutes=asked.minutes, seed=seed, protocol=asked.protocol, every_s=asked.every)


if __name__ == "__main__":
    main()
