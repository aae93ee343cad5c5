"""store.json, the pointer: by bundle id what serves, what was confirmed and what is on trial; it opens no bundle.

An earlier release reads what a later one wrote: a field that it does not know is kept and handed on as it stands, unless
``must_understand`` names it.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from edge_runtime.bundle.durable import replace_whole
from edge_runtime.errors import ConfigurationError

STATE_NAME: Final = "store.json"
_SCHEMA: Final = "edge-runtime/store/1"
_MAX_BYTES: Final = 1024 * 1024
_UNDERSTOOD: Final[frozenset[str]] = frozenset()
"""What this release understands of what a later one may list in ``must_understand``: there is nothing yet."""

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Id = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")]
Stage = Literal["running", "passed"]

_KEPT: Final = ConfigDict(frozen=True, extra="allow", defer_build=True)


class TrialState(BaseModel):
    """What is on trial: ``starts`` are those since it last stopped in order or passed, each counted before it began."""

    model_config = _KEPT

    stage: Stage = "running"
    since: str
    starts: Annotated[int, Field(ge=0)] = 0


class RolledBack(BaseModel):
    """The last activation came to nothing: which bundle, why, and when."""

    model_config = _KEPT

    digest: Digest
    reason: str
    time: str


class Slot(BaseModel):
    """The bundles of one id: ``serial`` counts the changes of ``active``; ``previous`` was confirmed before ``confirmed``."""

    model_config = _KEPT

    active: Digest
    serial: Annotated[int, Field(ge=1)] = 1
    confirmed: Digest | None = None
    previous: Digest | None = None
    trial: TrialState | None = None
    rolled_back: RolledBack | None = None

    @property
    def held(self) -> set[str]:
        """What must stay in the store."""
        return {one for one in (self.active, self.confirmed, self.previous) if one is not None}


class StoreState(BaseModel):
    """The whole file."""

    model_config = _KEPT

    schema_: Literal["edge-runtime/store/1"] = Field(alias="schema", default=_SCHEMA)
    must_understand: tuple[str, ...] = ()
    bundles: dict[Id, Slot] = {}
    config_digest: str = Field(default="", description="of the device file that was last served")

    def with_slot(self, identity: str, slot: Slot) -> "StoreState":
        """The same, but for one id."""
        return self.model_copy(update={"bundles": {**self.bundles, identity: slot}})


def read_state(folder: Path) -> StoreState:
    """Read the state of the store ``folder``: an empty one, where there is no file yet.

    Raises:
        ConfigurationError: it cannot be read, is damaged, or says what this release does not understand and must.

    """
    path = folder / STATE_NAME
    try:
        with path.open("rb") as stream:
            state = StoreState.model_validate_json(stream.read(_MAX_BYTES))
    except FileNotFoundError:
        return StoreState()
    except OSError as error:
        raise _unreadable(path, error.strerror or type(error).__name__, "run this as the user that serves") from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "its start"
        todo = "restore it; or remove it, then activate and confirm a staged bundle anew"
        raise _unreadable(path, f"at {where}: {first['msg']}", todo) from error
    unknown = sorted(set(state.must_understand) - _UNDERSTOOD)
    if unknown:
        raise _unreadable(
            path, f"{', '.join(unknown)[:200]}, which this release does not understand", "install the later release"
        )
    return state


def write_state(folder: Path, state: StoreState) -> None:
    """Put ``state`` in place, at once and whole; raises DeviceError."""
    replace_whole(folder / STATE_NAME, state.model_dump_json(by_alias=True, indent=2).encode() + b"\n")


def activated(slot: Slot | None, digest: str, now: str) -> Slot:
    """``digest`` is to serve from now on: on trial, unless it is the one that was confirmed."""
    if slot is None:
        return Slot(active=digest, trial=TrialState(since=now))
    trial = None if digest == slot.confirmed else TrialState(since=now)
    update = {"active": digest, "serial": slot.serial + 1, "trial": trial, "rolled_back": None}
    return slot.model_copy(update=update)


def confirmed(slot: Slot) -> Slot:
    """What serves has proven itself, and is what a later one falls back to."""
    previous = slot.previous if slot.confirmed in (None, slot.active) else slot.confirmed
    return slot.model_copy(update={"confirmed": slot.active, "previous": previous, "trial": None, "rolled_back": None})


def fallen_back(slot: Slot, reason: str, now: str) -> Slot:
    """Back to the confirmed bundle, which there must be; the trial is over and its reason kept."""
    told = RolledBack(digest=slot.active, reason=reason[:500], time=now)
    return slot.model_copy(
        update={"active": slot.confirmed, "serial": slot.serial + 1, "trial": None, "rolled_back": told}
    )


def in_trial(slot: Slot, change: Callable[[TrialState], dict[str, object]]) -> Slot:
    """The same with its trial changed; where there is none, as it was."""
    if slot.trial is None:
        return slot
    return slot.model_copy(update={"trial": slot.trial.model_copy(update=change(slot.trial))})


def _unreadable(path: Path, found: str, todo: str) -> ConfigurationError:
    # Going on without it would serve what was rolled back, or nothing: a person has to look.
    return ConfigurationError(
        subject=f"store {path}", found=found, expected="the file as edge-runtime bundle wrote it", todo=todo
    )
