"""What the providers of one boot may keep for the next, and the check that tells of it; no file of it is served unproven."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from edge_runtime.device.fingerprint import cache_key
from edge_runtime.errors import DeviceError, EdgeRuntimeError
from edge_runtime.run.checks import NotChecked
from edge_runtime.spec.device_profile import ProviderChoice
from edge_runtime.spec.providers import cache_options
from edge_runtime.spec.report import LEFT_OUT

if TYPE_CHECKING:
    from edge_runtime.device.provider_cache import ProviderCache

KEPT_FILES_CHANGE: Final = frozenset({"provider", "placement", "golden_output", "golden_batches"})
"""The checks that files which a provider has kept can make fail: they are what its session runs, and nothing else is."""

_TODO = "nothing, it was dropped and the session made without it; if it comes again, test the disk"


class KeptFiles:
    """The cache of the provider under trial, one at a time; without ``state``, or in a drill, there is none."""

    def __init__(self, state: Path | None, *, drill: bool) -> None:
        self._state = state
        self._drill = drill
        self._cache: ProviderCache | None = None
        self._why: tuple[str, str] | None = None
        self._faults: list[EdgeRuntimeError] = []

    @property
    def warm(self) -> bool:
        """Whether the session now under trial was made with files of an earlier boot."""
        return self._cache is not None and self._cache.warm

    def offered(self, choice: ProviderChoice, bundle: str | None, environment: Mapping[str, str]) -> ProviderChoice:
        """The choice with the options that make its provider keep files, where it may and can.

        ``bundle``: its id, None where no session will be made. What an earlier provider of the list left is dropped.
        """
        if not choice.cache or bundle is None or self._drill or self._state is None:
            self._leave()
            return choice
        if self._cache is None or self._cache.provider != choice.name:
            self._leave()
            self._cache = self._taken(self._state, choice.name, bundle, cache_key(environment))
        if self._cache is None:
            return choice
        options = choice.options | cache_options(choice.name, str(self._cache.folder))
        return choice.model_copy(update={"options": options})

    def distrust(self, reason: str) -> None:
        """A session made with what an earlier boot kept was refused: drop it, so that the next one is made from nothing."""
        if self._cache is not None:
            self._fault(self._cache.provider, f"{reason}; with what an earlier boot had kept, byte for byte")
            self._drop(self._cache)

    def settle(self, passed: bool, *, inject: bool) -> tuple[bool, str, str]:  # noqa: FBT001 -- a check's own form
        """What was kept is what the last boot that passed had kept; what this one keeps, it keeps only if it passed."""
        limit = "the files of the last boot that passed, or none"
        if inject:
            self._planted()
        told = self._kept() if passed else None
        if not passed:
            self._leave()
        if self._faults:
            raise self._faults[0]
        if self._why is not None:
            raise NotChecked(*self._why)
        if self._drill or self._state is None:
            raise NotChecked(
                "nothing kept", "a drill keeps nothing" if self._drill else "there is no state folder to keep it in"
            )
        if not passed:
            raise NotChecked("nothing kept", LEFT_OUT)
        return True, told or "nothing: the provider that serves may not", limit

    def close(self) -> None:
        """Let other boots at it; what was not settled stays without a listing, and is dropped by the next."""
        if self._cache is not None:
            self._cache.close()
            self._cache = None

    def _taken(self, state: Path, provider: str, bundle: str, key: str) -> "ProviderCache | None":
        from edge_runtime.device.own_folder import NoCacheHere  # noqa: PLC0415 -- only where it is asked for
        from edge_runtime.device.provider_cache import ProviderCache  # noqa: PLC0415 -- as above

        try:
            cache = ProviderCache(state, bundle=bundle, provider=provider, key=key)
        except NoCacheHere as nothing:
            self._why = ("nothing kept", f"{nothing.found}: {nothing.todo}")
            return None
        except DeviceError as error:
            self._faults.append(error)
            return None
        if cache.damaged is not None:
            self._fault(provider, cache.damaged)
        return cache

    def _kept(self) -> str | None:
        if self._cache is None:
            return None
        try:
            return self._cache.keep()
        except DeviceError as error:
            self._faults.append(error)
            return None

    def _leave(self) -> None:
        """A provider that does not serve keeps what a boot that passed had kept, where that is not at fault, and no more."""
        cache, self._cache = self._cache, None
        if cache is None:
            return
        try:
            cache.leave()
        except DeviceError as error:
            self._faults.append(error)
        finally:
            cache.close()

    def _drop(self, cache: "ProviderCache") -> None:
        try:
            cache.drop()
        except DeviceError as error:
            self._faults.append(error)
            self.close()

    def _fault(self, provider: str, found: str) -> None:
        self._faults.append(
            DeviceError(
                subject=f"what {provider} had kept",
                found=found,
                expected="the files of the last boot that passed",
                todo=_TODO,
            )
        )

    def _planted(self) -> None:
        """A drill: a file's sum is not the one that was listed."""
        from edge_runtime.device.file_sums import difference  # noqa: PLC0415 -- as above

        differs = difference({"injected": (1, "0" * 64)}, {"injected": (1, "1" * 64)})
        if differs is not None:
            self._fault("a provider", differs)
