"""What a policy makes of a bundle before its signature is looked at, and what may come of that; it looks at none itself."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from edge_runtime.bundle.names import SIGNATURE_NAME

if TYPE_CHECKING:
    from edge_runtime.spec.device_config import SignaturePolicy


@dataclass(frozen=True, slots=True)
class SignedBy:
    """Whose signature holds: `key` as the device names it, `hint` (64 hex digits) as every device does."""

    key: str
    hint: str


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a policy makes of a bundle before its signature is looked at; `reason` is for a person, empty for `check`.

    `check`: hand it to the function of that name in bundle/signature, which is the end of a bundle whose signature does
    not hold. `skip`: serve the bundle, and say "not checked" with the reason. `refuse`: do not serve it.
    """

    action: Literal["check", "skip", "refuse"]
    reason: str = ""


def judge(policy: "SignaturePolicy", *, signature_present: bool, keys_present: bool) -> Judgement:
    """Decide what becomes of a bundle with or without model.sig on a device with or without trusted keys.

    Under `if_present` a signature of an unknown key is refused too: which key signed is itself told by the signature
    only, so a bad one could always pass for an unknown one.
    """
    if policy == "off":
        return Judgement("skip", "signatures switched off on this device")
    if signature_present and keys_present:
        return Judgement("check")
    reason = f"no {SIGNATURE_NAME}" if not signature_present else "no trusted key on this device"
    return Judgement("refuse" if policy == "required" else "skip", reason)
