"""A fault that `--inject NAME` plants, and the check that must notice it; a drill that none noticed has not passed."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from edge_runtime.errors import DeviceError, UsageError
from edge_runtime.spec.report import LEFT_OUT, Check

QUANT_PRECISION: Final = "quant_precision"

# What `--inject NAME` can corrupt the input of: every check, and the one option of a session that is right or wrong by
# the processor (withheld, it is `golden_output` that must notice).
INJECTABLE: Final = (
    "hash_known_answer", "files", "signature", "manifest", "rollback_floor", "onnxruntime", "compatibility", "headroom",
    "provider", "placement", "units", "bindings", "goldens", "golden_tensor", "golden_output", "golden_answer",
    "golden_batches", "negative_goldens", "latency", "provider_choice", "memory", "memory_limit",
    "provider_cache", QUANT_PRECISION,
)  # fmt: skip


class Drill:
    """What is planted in one boot, nothing where ``inject`` is None, and whether it was noticed on any provider."""

    def __init__(self, inject: str | None) -> None:
        """Raise UsageError where there is no check of that name to inject into."""
        if inject is not None and inject not in INJECTABLE:
            raise UsageError(
                subject="--inject", found=repr(inject), expected=f"one of {', '.join(INJECTABLE)}",
                todo="see docs/selftest.md",
            )  # fmt: skip
        self.inject = inject
        self._must_notice = "golden_output" if inject == QUANT_PRECISION else inject
        # Where there is no option to withhold, the check of the session refuses the drill itself.
        self._may_notice = {self._must_notice, "provider" if inject == QUANT_PRECISION else None}
        self._noticed = False

    @property
    def withholds(self) -> bool:
        """Whether the session is to be made without the option that a processor needs for int8."""
        return self.inject == QUANT_PRECISION

    def failed(self, name: str) -> None:
        """A check has failed."""
        self._noticed |= name in self._may_notice

    def told(self, checks: Iterable[Check]) -> list[Check]:
        """The checks; where none noticed what was planted, the one that had to has failed, whatever else it found."""
        return [self._unnoticed(one) if one.id == self._must_notice and not self._noticed else one for one in checks]

    @staticmethod
    def _unnoticed(check: Check) -> Check:
        if check.hint == LEFT_OUT:  # it has not run, for another has failed
            return check
        return replace(
            check, status="fail", measured=f"planted, and not noticed: {check.measured}", limit="a refusal, in a drill",
            hint=check.hint or "this machine, or this bundle, cannot show what the drill is for", code=DeviceError.exit_code,
        )  # fmt: skip
