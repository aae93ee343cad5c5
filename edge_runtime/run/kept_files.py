"""What the providers of one boot may keep for the next, and the check that tells of it; no file of it is served unproven."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from edge_runtime.device.fingerprint import cache_key
from edge_runtime.errors import DeviceError
from edge_runtime.run.checks import NotChecked
from edge_runtime.spec.device_profile import ProviderChoice
from edge_runtime.spec.providers import cache_options
from edge_runtime.spec.report import LEFT_OUT

if TYPE_CHECKING:
    from edge_runtime.device.provider_cache import ProviderCache

KEPT_FILES_CHANGE: Final = frozenset({"provider", "placement", "golden_output", "golden_batches", "latency"})
"""The checks that files which a provider has kept can make fail: they are what its session runs, and nothing else is.

Latency too: a provider that compiles by trial keeps what was the fastest in a hot or a busy moment.
"""

_WANTED: Final = "the files of the last boot that passed, or none"
_TODO: Final = "nothing, it was dropped and the session made without it; if it comes again, test the disk"
_DROPPED: Final = "nothing, it was dropped; if it comes again, take `cache` off this provider in the profile"


class KeptFiles:
    """The caches of the providers that a boot tries, by fingerprint; without ``state``, or in a drill, there are none."""

    def __init__(self, state: Path | None, *, drill: bool) -> None:
        self._state = state
        self._drill = drill
        self._caches: dict[str, ProviderCache] = {}
        self._key = ""
        self._why = ("nothing kept", "a drill keeps nothing" if drill else "there is no state folder to keep it in")
        self._faults: list[DeviceError] = []

    @property
    def under_trial(self) -> str:
        """The key of what the session now under trial may keep; empty where it may not."""
        return self._key

    @property
    def warm(self) -> bool:
        """Whether the session now under trial was made with files of an earlier boot."""
        return self._key in self._caches and self._caches[self._key].warm

    def offered(self, choice: ProviderChoice, bundle: str | None, environment: Mapping[str, str]) -> ProviderChoice:
        """The choice with the options that make its provider keep files, where it may and can; it is now under trial.

        ``bundle``: its id, None where no session will be made. ``environment``: the fingerprint with this choice.
        """
        self._key = ""
        if not choice.cache or bundle is None or self._drill or self._state is None:
            return choice
        key = cache_key(environment)
        if key not in self._caches:
            self._take(self._state, choice.name, bundle, key)
        if key not in self._caches:
            return choice
        self._key = key
        options = choice.options | cache_options(choice.name, str(self._caches[key].folder))
        return choice.model_copy(update={"options": options})

    def distrust(self, reason: str) -> None:
        """The session made with what an earlier boot kept was refused: drop that, so that the next is made from nothing."""
        cache = self._caches[self._key]
        self._fault_of_files(cache, reason)
        try:
            cache.drop()
        except DeviceError as error:
            self._faults.append(error)
            self._caches.pop(self._key).close()

    def refuse(self) -> None:
        """What is under trial does not serve: of its files stay those that an earlier boot passed with, and no others."""
        cache = self._caches.pop(self._key, None)
        if cache is not None:
            self._end(cache, cache.leave)

    def break_off(self, key: str, reason: str) -> None:
        """The session of ``key`` passed and failed after all: nothing that it has used or written is kept."""
        cache = self._caches.pop(key, None)
        if cache is not None:
            if cache.warm:
                self._fault_of_files(cache, reason)
            self._end(cache, cache.drop)

    def settle(self, passed: bool, *, inject: bool) -> tuple[bool, str, str]:  # noqa: FBT001 -- a check's own form
        """What was kept is what the last boot that passed had kept; what this one keeps, it keeps only if it passed."""
        if inject:
            self._plant()
        told = []
        for key, cache in list(self._caches.items()):
            self._key = key
            if not passed:
                self.refuse()
                continue
            try:
                told.append(f"{cache.provider}: {cache.keep()}")
            except DeviceError as error:
                self._faults.append(error)
        if self._faults:
            raise self._faults[0]
        if not passed:
            raise NotChecked("nothing kept", LEFT_OUT)
        if not told:
            raise NotChecked(*self._why)
        return True, "; ".join(told), _WANTED

    def close(self) -> None:
        """Let other boots at it; what was not settled stays without a listing, and is dropped by the next."""
        for cache in self._caches.values():
            cache.close()
        self._caches.clear()

    def _take(self, state: Path, provider: str, bundle: str, key: str) -> None:
        from edge_runtime.device.own_folder import NoCacheHere  # noqa: PLC0415 -- only where it is asked for
        from edge_runtime.device.provider_cache import ProviderCache  # noqa: PLC0415 -- as above

        self._why = ("nothing kept", f"{provider} does not serve, or may not")
        try:
            cache = ProviderCache(state, bundle=bundle, provider=provider, key=key)
        except NoCacheHere as nothing:
            self._why = ("nothing kept", f"{nothing.found}: {nothing.todo}")
        except DeviceError as error:
            self._faults.append(error)
        else:
            self._caches[key] = cache
            if cache.damaged is not None:
                self._fault(provider, cache.damaged)

    def _end(self, cache: "ProviderCache", by: Callable[[], None]) -> None:
        try:
            by()
        except DeviceError as error:
            self._faults.append(error)
        finally:
            cache.close()

    def _fault_of_files(self, cache: "ProviderCache", reason: str) -> None:
        self._fault(cache.provider, f"{reason}; with what an earlier boot had kept, byte for byte", _DROPPED)

    def _fault(self, provider: str, found: str, todo: str = _TODO) -> None:
        subject = f"what {provider} had kept"
        self._faults.append(DeviceError(subject=subject, found=found, expected=_WANTED, todo=todo))

    def _plant(self) -> None:
        """A drill: a file whose sum is not the one that was listed."""
        from edge_runtime.device.file_sums import difference  # noqa: PLC0415 -- only where it is asked for

        differs = difference({"injected": (1, "0" * 64)}, {"injected": (1, "1" * 64)})
        if differs is not None:
            self._fault("a provider", differs)
