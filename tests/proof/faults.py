"""What can happen to a device at work: each does it, waits, and mends it; it checks nothing."""

import random
import time
from collections.abc import Callable

from tests.proof.field import Field

Fault = Callable[[Field, random.Random], float | None]
"""Gives when, on the monotonic clock, the way to the broker was whole again; None where it never was broken."""


def inflict(field: Field, name: str, chance: random.Random) -> float | None:
    """Let it happen: how many seconds after its end the broker had said welcome; None where no connection was lost."""
    before = len(field.witness.welcomes)
    whole = (OF_THE_BROKER | OF_THE_DEVICE)[name](field, chance)
    return None if whole is None else field.back_s(before, whole)


def stop(field: Field, chance: random.Random) -> float:
    field.broker.term()
    return _start(field, chance)


def kill(field: Field, chance: random.Random) -> float:
    field.broker.kill()
    return _start(field, chance)


def wipe(field: Field, chance: random.Random) -> float:
    field.broker.kill()
    field.broker.wipe()
    return _start(field, chance)


def _start(field: Field, chance: random.Random) -> float:
    time.sleep(chance.uniform(0, 2))
    field.broker.start()
    return time.monotonic()


def freeze(field: Field, chance: random.Random) -> None:
    field.broker.freeze()
    time.sleep(chance.uniform(0.1, field.keepalive_s / 2))
    field.broker.thaw()


def freeze_long(field: Field, _: random.Random) -> float:
    """Longer than anybody waits for a sign of life."""
    field.broker.freeze()
    time.sleep(field.keepalive_s * 1.5 + 1)
    field.broker.thaw()
    return time.monotonic()


def cut(field: Field, _: random.Random) -> float:
    begun = time.monotonic()
    field.proxy.cut()
    return begun


def half_open(field: Field, _: random.Random) -> float:
    begun = time.monotonic()
    field.proxy.leave_half_open()
    return begun


def hold(field: Field, chance: random.Random) -> None:
    field.proxy.hold()
    time.sleep(chance.uniform(0.1, field.keepalive_s / 2))
    field.proxy.release()


def hold_long(field: Field, _: random.Random) -> float:
    field.proxy.hold()
    time.sleep(field.keepalive_s * 1.5 + 1)
    field.proxy.release()
    return time.monotonic()


def kill_program(field: Field, chance: random.Random) -> float:
    field.kill()
    time.sleep(chance.uniform(0, 0.5))
    field.start()
    return time.monotonic()


def disk_full(field: Field, chance: random.Random) -> None:
    field.fill_disk()
    time.sleep(chance.uniform(0.5, 4))
    field.free_disk()


def unplug(field: Field, chance: random.Random) -> None:
    if field.port is not None:
        field.port.unplug()
        time.sleep(chance.uniform(0, 3))
        field.port.replug()


OF_THE_BROKER: dict[str, Fault] = {
    "stopped": stop,
    "killed": kill,
    "wiped": wipe,
    "frozen": freeze,
    "frozen beyond the keepalive": freeze_long,
    "cut": cut,
    "half open": half_open,
    "held": hold,
    "held beyond the keepalive": hold_long,
}
OF_THE_DEVICE: dict[str, Fault] = {"program killed": kill_program, "disk full": disk_full, "unplugged": unplug}
