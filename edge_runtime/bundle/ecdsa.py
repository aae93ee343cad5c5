"""ECDSA over P-256, P-384 and P-521, the one door to `cryptography`; it knows no file format but PEM.

Without the extra `signing` importing this module is a ConfigurationError that names it, so it is imported where a
signature is made or checked, and nowhere else.
"""

import hashlib
from typing import Final

from edge_runtime.errors import ConfigurationError, UsageError

try:
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
except ImportError as error:
    raise ConfigurationError(
        subject="signatures", found=f"no working `cryptography` ({error})",
        expected="the extra `signing`, which makes and checks them", todo="install edge-runtime[signing]",
    ) from error  # fmt: skip

# RFC 6979, appendix A.2.5: the key of its P-256 examples, and its signature of "sample" with SHA-256.
KNOWN_KEY: Final = b"""-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEYP7UuiVanTHJYet0xjVtaMBJuJI7
Yfps5mliLmDyn7Z5A/4QCLi8maQa6elWKLxk8vGyDC1+n1F3o8KU1EYimQ==
-----END PUBLIC KEY-----
"""
KNOWN_SIGNATURE: Final = bytes.fromhex(
    "3046"
    "022100efd48b2aacb6a8fd1140dd9cd45e81d69d2c877b56aaf991c34d0ea84eaf3716"
    "022100f7cb1c942d657c41d436c7a1b6e29f65f3e900dbb9aff4064dc4ab2f843acda8"
)
_KNOWN_TEXT: Final = b"sample"

# Each curve with its hash, as the signature format has it; it knows no other.
_HASHES: Final[dict[str, hashes.HashAlgorithm]] = {
    "secp256r1": hashes.SHA256(),
    "secp384r1": hashes.SHA384(),
    "secp521r1": hashes.SHA512(),
}
_CURVES: Final = "an ECDSA key on P-256, P-384 or P-521"
_PRIVATE_FORMATS: Final = (
    b"PRIVATE KEY-----",
    b"-----BEGIN EC PARAMETERS-----",  # what `openssl ecparam -genkey` writes first
)


def new_key(password: bytes | None = None) -> tuple[bytes, bytes]:
    """Make a P-256 key: the private PEM (PKCS#8, encrypted where there is a ``password``) and the public PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if password is not None:
        encryption = serialization.BestAvailableEncryption(password)
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
    return private, public_pem(key.public_key())


def private_key(pem: bytes, password: bytes | None) -> ec.EllipticCurvePrivateKey:
    """Read a private key.

    Raises
    ------
    UsageError
        for anything else, a curve that the format does not know, and a password that is missing, wrong or too much.

    """
    try:
        key = serialization.load_pem_private_key(pem, password)
    except TypeError as error:
        found, todo = "a key that is encrypted, and no password", "give its password"
        if password is not None:
            found, todo = "a password for a key that has none", "leave the password out"
        raise _no_private_key(found, todo) from error
    except (ValueError, UnsupportedAlgorithm) as error:
        found = "no private key in PEM" if password is None else "no private key in PEM, or one of another password"
        raise _no_private_key(found, "give the file that `edge-runtime keygen` wrote") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.curve.name not in _HASHES:
        raise _no_private_key(_kind(key), "make one with `edge-runtime keygen`")
    return key


def public_key(pem: bytes, subject: str) -> ec.EllipticCurvePublicKey:
    """Read a public key; ``subject`` is its name for a person.

    Raises
    ------
    ConfigurationError
        for a private key, several keys in one text, anything that is no key, and another kind or curve.

    """
    if any(mark in pem for mark in _PRIVATE_FORMATS):
        todo = "take it off this device, make another key, and put the public half of that here"
        raise _no_public_key(subject, "a PRIVATE key: whoever reads this device can sign as its owner", todo)
    if pem.count(b"-----BEGIN ") != 1:
        todo = "give each key a file of its own, as `edge-runtime keygen` writes it"
        raise _no_public_key(subject, f"{pem.count(b'-----BEGIN ')} PEM blocks", todo)
    try:
        key = serialization.load_pem_public_key(pem)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise _no_public_key(
            subject, "no public key in PEM", "give the .pub that `edge-runtime keygen` wrote"
        ) from error
    if not isinstance(key, ec.EllipticCurvePublicKey) or key.curve.name not in _HASHES:
        raise _no_public_key(subject, _kind(key), "make one with `edge-runtime keygen`")
    return key


def public_pem(key: ec.EllipticCurvePublicKey) -> bytes:
    """The PEM text of a public key in its one spelling, whatever text it was read from."""
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def hint(key: ec.EllipticCurvePublicKey) -> str:
    """By what a signature names its key: SHA-256 of the public PEM text, 64 lower-case hex digits."""
    return hashlib.sha256(public_pem(key)).hexdigest()


def sign(key: ec.EllipticCurvePrivateKey, data: bytes) -> bytes:
    """Sign ``data``: DER, the same bytes each time (RFC 6979) where cryptography and its OpenSSL can."""
    algorithm = _HASHES[key.curve.name]
    try:
        return key.sign(data, ec.ECDSA(algorithm, deterministic_signing=True))
    except (TypeError, UnsupportedAlgorithm):  # cryptography before 43; OpenSSL before 3.2
        return key.sign(data, ec.ECDSA(algorithm))


def verify(key: ec.EllipticCurvePublicKey, signature: bytes, data: bytes) -> bool:
    """Whether ``signature`` (DER) over ``data`` was made by the private half of ``key``."""
    try:
        key.verify(signature, data, ec.ECDSA(_HASHES[key.curve.name]))
    except InvalidSignature:
        return False
    return True


def known_answer(text: bytes = _KNOWN_TEXT) -> bool:
    """Whether ``verify`` takes the published signature for ``text`` and for no other: the known-answer test before use.

    One curve stands for all, as FIPS 140-3 IG 10.3.A has it: they differ in their constants, not in what computes.
    """
    key = public_key(KNOWN_KEY, "the key of RFC 6979")
    return verify(key, KNOWN_SIGNATURE, text) and not verify(key, KNOWN_SIGNATURE, text + b".")


def _kind(key: object) -> str:
    if isinstance(key, ec.EllipticCurvePrivateKey | ec.EllipticCurvePublicKey):
        return f"a key on the curve {key.curve.name}"
    return f"a key of another kind ({type(key).__name__})"


def _no_private_key(found: str, todo: str) -> UsageError:
    return UsageError(subject="the signing key", found=found, expected=_CURVES, todo=todo)


def _no_public_key(subject: str, found: str, todo: str) -> ConfigurationError:
    return ConfigurationError(
        subject=subject, found=found, expected=_CURVES.replace("an ECDSA", "one public ECDSA"), todo=todo
    )
