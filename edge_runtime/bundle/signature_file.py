"""The spelling of model.sig, bytes to values and back; it knows no key and compares no file.

A Sigstore bundle v0.3 holds a DSSE envelope v1, that an in-toto statement v1, that the predicate of OpenSSF Model
Signing v1.0. An unknown key is refused but in the predicate, the one object whose format says to pass it over.
"""

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NoReturn, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from edge_runtime.bundle.names import SIGNATURE_NAME, name_fault, shown
from edge_runtime.errors import BundleError
from edge_runtime.spec.fault import expected_by, is_missing
from edge_runtime.spec.frozen import Sha256

# A bundle of 64 files with names of 100 characters takes 30 KiB as the reference program spells it.
MAX_SIGNATURE_BYTES: Final = 256 * 1024

_MEDIA_TYPE: Final = "application/vnd.dev.sigstore.bundle.v0.3+json"
_PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
_STATEMENT_TYPE: Final = "https://in-toto.io/Statement/v1"
_PREDICATE_TYPE: Final = "https://model_signing/signature/v1.0"
_STATEMENT: Final = f"{SIGNATURE_NAME}, signed statement"


@dataclass(frozen=True, slots=True)
class Envelope:
    """What model.sig says: `made`, a DER signature by the key named `hint`, over the PAE of `payload`, the statement."""

    payload: bytes
    made: bytes
    hint: str


def encode_envelope(envelope: Envelope) -> bytes:
    """Return the bytes of model.sig, without a blank or a line end."""
    signatures = [{"sig": base64.b64encode(envelope.made).decode(), "keyid": ""}]
    payload = base64.b64encode(envelope.payload).decode()
    return _compact(
        {
            "mediaType": _MEDIA_TYPE,
            "verificationMaterial": {"publicKey": {"hint": envelope.hint}, "tlogEntries": []},
            "dsseEnvelope": {"payload": payload, "payloadType": _PAYLOAD_TYPE, "signatures": signatures},
        }
    )


def parse_envelope(data: bytes) -> Envelope:
    """Read model.sig, in whatever order and with whatever blanks.

    Raises
    ------
    BundleError
        naming the place, for too many bytes, no JSON, a key twice, an unknown key, another type or version, more or
        less than one signature, no hint and corrupt base64.

    """
    if len(data) > MAX_SIGNATURE_BYTES:
        refuse(SIGNATURE_NAME, f"{len(data)} bytes", f"at most {MAX_SIGNATURE_BYTES}")
    sigstore = _parse(_SigstoreBundle, data, SIGNATURE_NAME)
    return Envelope(
        payload=_decode(sigstore.envelope.payload, "dsseEnvelope.payload"),
        made=_decode(sigstore.envelope.signatures[0].sig, "dsseEnvelope.signatures.0.sig"),
        hint=sigstore.material.public_key.hint,
    )


def pre_authentication(payload: bytes) -> bytes:
    """Return what is signed in place of the bare payload: the PAE of DSSE v1."""
    return b"DSSEv1 %d %s %d %s" % (len(_PAYLOAD_TYPE), _PAYLOAD_TYPE.encode(), len(payload), payload)


def encode_statement(digests: Mapping[str, str]) -> bytes:
    """Return the statement over `digests` (name -> SHA-256 in hex), sorted by name."""
    ordered = sorted(digests.items())
    resources = [{"name": name, "algorithm": "sha256", "digest": digest} for name, digest in ordered]
    serialization = {
        "method": "files",
        "hash_type": "sha256",
        "allow_symlinks": False,
        # Not for us: other verifiers would count the signature as a file too many.
        "ignore_paths": [SIGNATURE_NAME],
    }
    return _compact(
        {
            "_type": _STATEMENT_TYPE,
            # The format wants a name. The folder's would make equal bundles differ.
            "subject": [{"name": "bundle", "digest": {"sha256": _root([digest for _, digest in ordered])}}],
            "predicateType": _PREDICATE_TYPE,
            "predicate": {"serialization": serialization, "resources": resources},
        }
    )


def parse_statement(payload: bytes) -> dict[str, str]:
    """Return name -> SHA-256 in hex of the files that a statement lists.

    Raises
    ------
    BundleError
        naming the place, for whatever `parse_envelope` refuses, for files taken in another way than whole and by
        SHA-256, links allowed, a name that no bundle may use, a file listed twice, and a digest of the whole that is
        not that of its files.

    """
    statement = _parse(_Statement, payload, _STATEMENT)
    if statement.predicate.serialization.allow_symlinks:
        refuse(f"{_STATEMENT}, predicate.serialization.allow_symlinks", "True", "False: a bundle holds no link")
    resources = statement.predicate.resources
    for resource in resources:
        fault = "is that of the signature" if resource.name == SIGNATURE_NAME else name_fault(resource.name)
        if fault is not None:
            expected = "names of files that a bundle may hold"
            refuse(_STATEMENT, f"a file {shown(resource.name)} whose name {fault}", expected)
    digests = {resource.name: resource.digest for resource in resources}
    if len(digests) != len(resources):
        refuse(_STATEMENT, "a file listed twice", "each file once")
    if statement.subject[0].digest.sha256 != _root([resource.digest for resource in resources]):
        refuse(_STATEMENT, "a digest of the whole that is not the digest of its files", "one that is")
    return digests


def refuse(subject: str, found: str, expected: str, cause: Exception | None = None) -> NoReturn:
    """Raise the BundleError of a signature that does not hold."""
    raise BundleError(
        subject=subject, found=found, expected=expected, todo="fetch the bundle again, or have it signed again"
    ) from cause


def _root(digests: list[str]) -> str:
    return hashlib.sha256(bytes.fromhex("".join(digests))).hexdigest()


def _compact(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode("ascii")


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)


class _Hint(_Part):
    hint: Sha256


class _Material(_Part):
    public_key: _Hint = Field(alias="publicKey")
    tlog_entries: list[Any] = Field(alias="tlogEntries", default_factory=list, max_length=0)


class _Signature(_Part):
    sig: str
    keyid: Literal[""] | None = None


class _Envelope(_Part):
    payload: str
    payload_type: Literal["application/vnd.in-toto+json"] = Field(alias="payloadType")
    signatures: list[_Signature] = Field(min_length=1, max_length=1)


class _SigstoreBundle(_Part):
    media_type: Literal["application/vnd.dev.sigstore.bundle.v0.3+json"] = Field(alias="mediaType")
    material: _Material = Field(alias="verificationMaterial")
    envelope: _Envelope = Field(alias="dsseEnvelope")


class _Digests(_Part):
    sha256: Sha256


class _Subject(_Part):
    name: str
    digest: _Digests


class _Serialization(_Part):
    method: Literal["files"]
    hash_type: Literal["sha256"]
    allow_symlinks: bool
    # The reference program always writes some. Whatever they name, a file that is not signed is refused.
    ignore_paths: list[str] = Field(default_factory=list)


class _Resource(_Part):
    name: str
    algorithm: Literal["sha256"]
    digest: Sha256


class _Predicate(_Part):
    # "Any other field should be ignored by verifiers adhering to v1.0", says the format of this object, and of no other.
    model_config = ConfigDict(extra="ignore")

    serialization: _Serialization
    resources: list[_Resource]


class _Statement(_Part):
    type_: Literal["https://in-toto.io/Statement/v1"] = Field(alias="_type")
    subject: list[_Subject] = Field(min_length=1, max_length=1)
    predicate_type: Literal["https://model_signing/signature/v1.0"] = Field(alias="predicateType")
    predicate: _Predicate


_Model = TypeVar("_Model", bound=_Part)


def _parse(model: type[_Model], data: bytes, place: str) -> _Model:
    try:
        raw = json.loads(data.decode("utf-8"), object_pairs_hook=_no_doubles, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        refuse(place, f"no valid JSON ({shown(str(error))})", "a JSON object in UTF-8", error)
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join([place] + [str(part) if isinstance(part, int) else shown(part)[1:-1] for part in first["loc"]])
        found = "nothing" if is_missing(first) else _told(first["input"])
        refuse(where.replace(f"{place}.", f"{place}, ", 1), found, expected_by(first), error)


def _told(value: object) -> str:
    """Show a value that may be deep, long and meant to confuse a terminal."""
    if isinstance(value, dict | list):
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)}"
    return shown(value) if isinstance(value, str) else shown(str(value))[1:-1]


def _no_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _decode(text: str, place: str) -> bytes:
    """Decode base64 in its one spelling: the bits that padding leaves over would be free to change otherwise."""
    try:
        data = binascii.a2b_base64(text.encode("ascii"), strict_mode=True)
    except ValueError as error:
        refuse(f"{SIGNATURE_NAME}, {place}", "no base64", "base64 with its padding", error)
    if base64.b64encode(data).decode() != text:
        refuse(f"{SIGNATURE_NAME}, {place}", "base64 in another spelling", "base64 with its padding, no bit left over")
    return data
