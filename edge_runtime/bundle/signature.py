"""model.sig: who vouches for exactly these files; it decides no policy alone, reads no disk and holds no key.

The format is that of OpenSSF Model Signing v1.0 with a key: a Sigstore bundle v0.3 around a DSSE envelope around an
in-toto statement. What is accepted is narrower than the format, because a device needs less: every file of the bundle
and none else, by SHA-256, in one flat folder, signed once, by a key that names itself.
"""

import hashlib
from collections.abc import Mapping
from typing import Final, NoReturn

from edge_runtime.bundle.judgement import SignedBy
from edge_runtime.bundle.names import SIGNATURE_NAME, require_names, shown
from edge_runtime.bundle.signature_file import (
    Envelope,
    encode_envelope,
    encode_statement,
    parse_envelope,
    parse_statement,
    pre_authentication,
    refuse,
)
from edge_runtime.errors import BundleError

_NAMED_FAULTS: Final = 5


def sign(files: Mapping[str, bytes], private_key_pem: bytes, password: bytes | None = None) -> bytes:
    """Return the bytes of model.sig over all `files` (name -> bytes) but a model.sig that is among them.

    Equal files and key give equal bytes where `cryptography` can (43 and later, with OpenSSL 3.2 and later).

    Raises
    ------
    BundleError
        for a name that no bundle may use.
    ConfigurationError
        without the extra `signing`.
    UsageError
        for a key that cannot be used or a password that does not fit it.

    """
    from edge_runtime.bundle import ecdsa  # noqa: PLC0415 -- see there

    require_names(files, "to be signed")
    key = ecdsa.private_key(private_key_pem, password)
    payload = statement(files)
    made = ecdsa.sign(key, pre_authentication(payload))
    return encode_envelope(Envelope(payload, made, ecdsa.hint(key.public_key())))


def check(signature: bytes, files: Mapping[str, bytes], keys: Mapping[str, bytes]) -> SignedBy:
    """Check that `signature` (of model.sig) was made by one of `keys` (name -> PEM) over exactly `files`.

    A model.sig among `files` is passed over; every other file must be signed, and every signed file be there.

    Raises
    ------
    BundleError
        in one line each: too large, no JSON, another format or version, several signatures, corrupt base64, a key that
        is not trusted, a payload the key did not sign, files signed in another way than whole and by SHA-256, odd or
        doubled names, and, all in one line, files that are missing, not signed or of other content.
    ConfigurationError
        for a trusted key that is none, and without the extra `signing`.

    """
    from edge_runtime.bundle import ecdsa  # noqa: PLC0415 -- see there

    envelope = parse_envelope(signature)
    trusted = {name: ecdsa.public_key(keys[name], f"trusted key {shown(name)}") for name in sorted(keys)}
    name = next((name for name, key in trusted.items() if ecdsa.hint(key) == envelope.hint), None)
    if name is None:
        _refuse_key(envelope.hint, list(trusted))
    if not ecdsa.verify(trusted[name], envelope.made, pre_authentication(envelope.payload)):
        found = f"a signature that the key {shown(name)}, which it names, did not make over what it says"
        refuse(SIGNATURE_NAME, found, "the statement as it was signed")
    _require_same(parse_statement(envelope.payload), _digests(files))
    return SignedBy(key=name, hint=envelope.hint)


def statement(files: Mapping[str, bytes]) -> bytes:
    """Return what a signature over all `files` (name -> bytes) but a model.sig among them is made over."""
    return encode_statement(_digests(files))


def _digests(files: Mapping[str, bytes]) -> dict[str, str]:
    return {name: hashlib.sha256(data).hexdigest() for name, data in files.items() if name != SIGNATURE_NAME}


def _require_same(signed: Mapping[str, str], present: Mapping[str, str]) -> None:
    faults = []
    for name in sorted(signed.keys() | present.keys()):
        if name not in present:
            faults.append(f"{shown(name)} missing")
        elif name not in signed:
            faults.append(f"{shown(name)} not signed")
        elif present[name] != signed[name]:
            faults.append(f"{shown(name)} with other content")
    if faults:
        more = f" and {len(faults) - _NAMED_FAULTS} more" if len(faults) > _NAMED_FAULTS else ""
        refuse(SIGNATURE_NAME, ", ".join(faults[:_NAMED_FAULTS]) + more, "exactly the files and contents it signs")


def _refuse_key(hint: str, trusted: list[str]) -> NoReturn:
    shortened = " ..." if len(trusted) > _NAMED_FAULTS else ""
    names = ", ".join(shown(name) for name in trusted[:_NAMED_FAULTS]) + shortened
    raise BundleError(
        subject=SIGNATURE_NAME, found=f"a signature of the key {hint}, which this device does not trust",
        expected=f"one of a trusted key ({names or 'there is none'})",
        todo="have a trusted key sign the bundle, or put that public key among the trusted ones if you know whose it is",
    )  # fmt: skip
