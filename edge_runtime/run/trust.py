"""Whose bundle it is: model.sig against a device's policy and keys; it parses nothing else of the bundle."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from edge_runtime.bundle.judgement import Judgement, SignedBy, judge
from edge_runtime.bundle.names import SIGNATURE_NAME
from edge_runtime.bundle.trusted_keys import read_keys
from edge_runtime.bundle.verify import VerifiedBundle
from edge_runtime.errors import BundleError, ConfigurationError, DeviceError

if TYPE_CHECKING:
    from edge_runtime.run.config import LoadedConfig
    from edge_runtime.spec.device_config import SignaturePolicy


@dataclass(frozen=True, slots=True)
class Trust:
    """A device's policy and its keys, file name -> PEM; None where it names no folder of keys.

    An empty folder is not None: whoever took the last key away trusts nobody, which is not the same as not asking.
    """

    policy: "SignaturePolicy" = "if_present"
    keys: Mapping[str, bytes] | None = None


def read_trust(loaded: "LoadedConfig") -> Trust:
    """Read the policy and the keys of a device file; the keys are judged once there is a signature to check.

    Raises:
        ConfigurationError: a folder of keys that lies in a bundle or cannot be read, and what ``read_keys`` refuses.

    """
    signature = loaded.config.signature
    if signature.keys is None or signature.policy == "off":
        return Trust(signature.policy)
    from edge_runtime.run.store import store_folder  # noqa: PLC0415 -- for those who have keys

    folder = loaded.resolve(signature.keys)
    for line in loaded.config.line:
        bundle = loaded.bundle_place(line) or store_folder(loaded)
        if folder.resolve().is_relative_to(bundle.resolve()):
            raise ConfigurationError(
                subject=f"{loaded.path}, signature.keys", found=f"{folder}, inside the bundle of line {line.name}",
                expected="a folder of this device: a bundle must not bring the keys that it is judged by",
                todo="copy the keys of those who may sign into a folder of their own",
            )  # fmt: skip
    return Trust(signature.policy, read_keys(folder))


def who_signed(bundle: VerifiedBundle, made: bytes | None, trust: Trust) -> SignedBy | Judgement:
    """Do with ``made``, the bytes of model.sig, what the policy asks for; a Judgement says why nothing was checked.

    Raises what ``signer_of`` does.
    """
    judgement = judge(trust.policy, signature_present=made is not None, keys_present=trust.keys is not None)
    return judgement if judgement.action == "skip" else signer_of(bundle, made, trust.keys)


def signer_of(bundle: VerifiedBundle, made: bytes | None, keys: Mapping[str, bytes] | None) -> SignedBy:
    """Whose signature ``made`` is, over the very bytes of ``bundle`` that would be loaded.

    Raises:
        BundleError: a signature that does not hold, or none, or nobody to trust.
        ConfigurationError: a trusted key that is none; the extra `signing` is missing.
        DeviceError: this machine computes ECDSA wrongly.

    """
    if made is None or keys is None:
        judgement = judge("required", signature_present=made is not None, keys_present=keys is not None)
        raise BundleError(
            subject=f"bundle {bundle.origin}", found=judgement.reason, expected=f"a {SIGNATURE_NAME} by a trusted key",
            todo="have it signed (edge-runtime sign), see docs/signing.md",
        )  # fmt: skip
    from edge_runtime.bundle import ecdsa  # noqa: PLC0415 -- see there
    from edge_runtime.bundle.signature import check  # noqa: PLC0415 -- its models, for bundles that have one to check

    if not ecdsa.known_answer():
        raise DeviceError(
            subject="ECDSA", found="a wrong verdict on a known signature", expected="the published one",
            todo="this machine or its OpenSSL computes wrongly; replace it",
        )  # fmt: skip
    return check(made, bundle.signed_files, keys)


def forged(bundle: VerifiedBundle, trust: Trust) -> tuple[bytes, Trust]:
    """A model.sig right in everything but its ECDSA value, and a trust that must look at it: only that check can tell.

    Where the bundle has one to be checked it is that one, the last byte of its value changed; else the published
    signature of another text, by a key that is trusted for this once.
    """
    from edge_runtime.bundle import ecdsa  # noqa: PLC0415 -- see there
    from edge_runtime.bundle.signature import statement  # noqa: PLC0415 -- as above
    from edge_runtime.bundle.signature_file import Envelope, encode_envelope, parse_envelope  # noqa: PLC0415 -- as above

    if bundle.signature is None or trust.keys is None or trust.policy == "off":
        name = "known-answer.pub"
        key = ecdsa.public_key(ecdsa.KNOWN_KEY, name)
        planted = Envelope(statement(bundle.signed_files), ecdsa.KNOWN_SIGNATURE, ecdsa.hint(key))
        return encode_envelope(planted), Trust("required", {name: ecdsa.KNOWN_KEY})
    envelope = parse_envelope(bundle.signature)
    made = envelope.made[:-1] + bytes(byte ^ 1 for byte in envelope.made[-1:])
    return encode_envelope(replace(envelope, made=made)), trust
