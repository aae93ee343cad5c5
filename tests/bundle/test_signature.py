"""model.sig: one key, exactly these files, and nothing that a changed byte could turn into trust."""

import base64
import hashlib
import json
import subprocess
import sys
from functools import cache

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa, utils
from hypothesis import example, given, settings
from hypothesis import strategies as st

from edge_runtime.bundle import ecdsa
from edge_runtime.bundle.judgement import Judgement, SignedBy, judge
from edge_runtime.bundle.signature import check, sign
from edge_runtime.bundle.signature_file import (
    MAX_SIGNATURE_BYTES,
    Envelope,
    encode_envelope,
    parse_envelope,
    pre_authentication,
)
from edge_runtime.bundle.write import sums
from edge_runtime.errors import BundleError, ConfigurationError, UsageError

CONTENT = {"manifest.json": b'{"schema": 1}\n', "model.onnx": bytes(range(256)) * 40, "labels.txt": b"a"}
FILES = {**CONTENT, "SHA256SUMS": sums(CONTENT)}


def pem(key, password=None):
    encryption = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return private, public


@cache
def pair(curve=ec.SECP256R1):
    return pem(ec.generate_private_key(curve()))


PRIVATE, PUBLIC = pair()
KEYS = {"ours.pub": PUBLIC}
GOOD = sign(FILES, PRIVATE)
HINT = hashlib.sha256(PUBLIC).hexdigest()
STATEMENT = json.loads(parse_envelope(GOOD).payload)


def signed(payload):
    """A model.sig over any payload at all, by the trusted key."""
    if not isinstance(payload, bytes):
        payload = json.dumps(payload).encode()
    made = ecdsa.sign(ecdsa.private_key(PRIVATE, None), pre_authentication(payload))
    return encode_envelope(Envelope(payload, made, HINT))


def changed(value, *path, to):
    """A copy of nested JSON with one place replaced, or added; `to` may be a function of what stood there."""
    copy = json.loads(json.dumps(value))
    inner = copy
    for part in path[:-1]:
        inner = inner[part]
    inner[path[-1]] = to(inner[path[-1]]) if callable(to) else to
    return copy


def listing(*resources, **serialization):
    """A statement, right in itself, over these (name, digest)."""
    root = hashlib.sha256(bytes.fromhex("".join(digest for _, digest in resources))).hexdigest()
    statement = changed(STATEMENT, "subject", 0, "digest", "sha256", to=root)
    statement["predicate"]["serialization"] |= serialization
    statement["predicate"]["resources"] = [
        {"name": name, "algorithm": "sha256", "digest": digest} for name, digest in resources
    ]
    return statement


OWN = tuple((name, hashlib.sha256(FILES[name]).hexdigest()) for name in sorted(FILES))


def refused(signature, files=FILES, keys=KEYS):
    with pytest.raises(BundleError) as caught:
        check(signature, files, keys)
    line = str(caught.value)
    assert line.isascii()
    assert line.isprintable()
    return line


def reaches(signature, files=FILES, keys=KEYS):
    """What becomes of it: who signed, or None where it is refused. Anything else is an error of the test."""
    try:
        return check(signature, files, keys)
    except BundleError:
        return None


# --- what holds


@pytest.mark.parametrize("curve", [ec.SECP256R1, ec.SECP384R1, ec.SECP521R1])
def test_round_trip(curve):
    private, public = pair(curve)
    signature = sign(FILES, private)
    keys = {"a.pub": ecdsa.new_key()[1], "own.pub": public, "z.pub": ecdsa.new_key()[1]}
    assert check(signature, FILES, keys) == SignedBy("own.pub", hashlib.sha256(public).hexdigest())
    assert signature == sign(dict(reversed(FILES.items())), private)
    assert signature.isascii()
    assert not any(character.isspace() for character in signature.decode())


def test_the_signature_itself_is_passed_over_on_both_sides():
    with_one = {**FILES, "model.sig": b"whatever"}
    assert sign(with_one, PRIVATE) == GOOD
    assert check(GOOD, with_one, KEYS) == SignedBy("ours.pub", HINT)


def test_what_is_written_is_what_the_format_says():
    outer = json.loads(GOOD)
    assert outer["mediaType"] == "application/vnd.dev.sigstore.bundle.v0.3+json"
    assert outer["verificationMaterial"] == {"publicKey": {"hint": HINT}, "tlogEntries": []}
    envelope = outer["dsseEnvelope"]
    assert envelope["payloadType"] == "application/vnd.in-toto+json"
    payload = base64.b64decode(envelope["payload"])
    made = base64.b64decode(envelope["signatures"][0]["sig"])
    serialization.load_pem_public_key(PUBLIC).verify(
        made, b"DSSEv1 28 application/vnd.in-toto+json %d " % len(payload) + payload, ec.ECDSA(hashes.SHA256())
    )
    assert json.loads(payload) == listing(*OWN)
    assert [resource["name"] for resource in STATEMENT["predicate"]["resources"]] == sorted(FILES)


def test_an_encrypted_key_signs_with_its_password():
    private, public = ecdsa.new_key(b"secret")
    assert b"ENCRYPTED" in private
    assert check(sign(FILES, private, b"secret"), FILES, {"k": public}).key == "k"


def test_a_new_key_is_a_p256_pair():
    private, public = ecdsa.new_key()
    assert check(sign(FILES, private), FILES, {"k": public}).hint == hashlib.sha256(public).hexdigest()
    assert serialization.load_pem_public_key(public).curve.name == "secp256r1"
    assert ecdsa.new_key()[0] != private


def test_a_nonce_of_chance_serves_where_no_other_can_be_had(monkeypatch):
    real = ec.ECDSA

    def without_determinism(algorithm):
        return real(algorithm)

    monkeypatch.setattr(ecdsa.ec, "ECDSA", without_determinism)
    first, second = sign(FILES, PRIVATE), sign(FILES, PRIVATE)
    assert first != second
    assert check(first, FILES, KEYS) == check(second, FILES, KEYS)


def test_a_public_key_is_the_same_key_in_any_spelling_of_its_file():
    text = b"the key of the build machine\r\n" + PUBLIC.replace(b"\n", b"\r\n")
    assert check(GOOD, FILES, {"k": text}) == SignedBy("k", HINT)


def test_blanks_order_and_fields_the_predicate_may_grow_change_nothing():
    spread = json.dumps(json.loads(GOOD), indent=2, sort_keys=True).encode() + b"\n"
    assert check(spread, FILES, KEYS) == SignedBy("ours.pub", HINT)
    grown = changed(STATEMENT, "predicate", "model_card", to={"any": ["thing", 1.5, None]})
    assert check(signed(json.dumps(grown, indent=2).encode()), FILES, KEYS) == SignedBy("ours.pub", HINT)
    for keyid in ("", None):
        outer = changed(json.loads(GOOD), "dsseEnvelope", "signatures", 0, "keyid", to=keyid)
        assert check(json.dumps(outer).encode(), FILES, KEYS).key == "ours.pub"
    outer = json.loads(GOOD)
    del outer["verificationMaterial"]["tlogEntries"]
    assert check(json.dumps(outer).encode(), FILES, KEYS).key == "ours.pub"


def test_the_twin_that_every_ecdsa_signature_has_says_the_same():
    """(r, n - s) holds wherever (r, s) does: the one change that passes, and it names the same key and files."""
    envelope = parse_envelope(GOOD)
    r, s = utils.decode_dss_signature(envelope.made)
    order = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
    twin = utils.encode_dss_signature(r, order - s)
    assert twin != envelope.made
    assert check(encode_envelope(Envelope(envelope.payload, twin, HINT)), FILES, KEYS) == SignedBy("ours.pub", HINT)


# --- every byte


def test_every_bit_of_the_signature_counts():
    """None of the spellings one bit away is accepted: no blank to change, no free bit in base64, no unknown key."""
    passed = [
        (place, bit)
        for place in range(len(GOOD))
        for bit in range(8)
        if reaches(GOOD[:place] + bytes([GOOD[place] ^ 1 << bit]) + GOOD[place + 1 :])
    ]
    assert passed == []


@pytest.mark.long
def test_every_other_value_of_every_byte_is_refused():
    passed = [
        (place, value)
        for place in range(len(GOOD))
        for value in range(256)
        if value != GOOD[place] and reaches(GOOD[:place] + bytes([value]) + GOOD[place + 1 :])
    ]
    assert passed == []


def test_every_truncation_and_repetition_is_refused():
    assert [length for length in range(len(GOOD)) if reaches(GOOD[:length])] == []
    assert reaches(GOOD + GOOD) is None
    assert reaches(GOOD + b"\0") is None


def test_every_byte_of_every_file_counts():
    for name, data in FILES.items():
        for place in {*range(min(len(data), 80)), len(data) - 1}:
            other = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
            assert f"'{name}' with other content" in refused(GOOD, {**FILES, name: other})


# --- the files


def test_a_planted_file():
    assert "'x.onnx' not signed; expected exactly the files" in refused(GOOD, {**FILES, "x.onnx": b""})


def test_a_missing_file_and_all_faults_in_one_line():
    fewer = {name: data for name, data in FILES.items() if name != "labels.txt"}
    line = refused(GOOD, {**fewer, "model.onnx": b"", "z": b""})
    assert "found 'labels.txt' missing, 'model.onnx' with other content, 'z' not signed;" in line
    assert "and 2 more" in refused(GOOD, {**FILES, **{f"p{number}": b"" for number in range(7)}})
    assert "missing" in refused(GOOD, {})


@pytest.mark.parametrize("ignored", [["x.onnx"], [".git", "x.onnx"], ["."], [""], ["*"], ["/"], [".."]])
def test_ignore_paths_hide_nothing(ignored):
    signature = signed(listing(*OWN, ignore_paths=ignored))
    assert check(signature, FILES, KEYS).key == "ours.pub"
    assert "'x.onnx' not signed" in refused(signature, {**FILES, "x.onnx": b"planted"})


# --- the key


def test_an_unknown_key_is_named_with_those_that_are_trusted():
    line = refused(GOOD, keys={"theirs.pub": ecdsa.new_key()[1]})
    assert f"found a signature of the key {HINT}, which this device does not trust" in line
    assert "('theirs.pub')" in line
    assert "there is none" in refused(GOOD, keys={})
    assert "..." in refused(GOOD, keys={f"{number}.pub": ecdsa.new_key()[1] for number in range(6)})


def test_the_hint_of_one_key_over_the_signature_of_another():
    other, public = ecdsa.new_key()
    outer = changed(json.loads(sign(FILES, other)), "verificationMaterial", "publicKey", "hint", to=HINT)
    line = refused(json.dumps(outer).encode(), keys={**KEYS, "other.pub": public})
    assert "a signature that the key 'ours.pub', which it names, did not make" in line


def test_a_signature_on_another_curve_than_its_key():
    private, _ = pair(ec.SECP384R1)
    outer = changed(json.loads(sign(FILES, private)), "verificationMaterial", "publicKey", "hint", to=HINT)
    assert "'ours.pub', which it names, did not make" in refused(json.dumps(outer).encode())


def test_the_right_key_with_the_wrong_hash():
    payload = parse_envelope(GOOD).payload
    key = serialization.load_pem_private_key(PRIVATE, None)
    made = key.sign(pre_authentication(payload), ec.ECDSA(hashes.SHA512()))
    assert "did not make over" in refused(encode_envelope(Envelope(payload, made, HINT)))


def test_the_bare_payload_signed_instead_of_its_pae():
    payload = parse_envelope(GOOD).payload
    made = ecdsa.sign(ecdsa.private_key(PRIVATE, None), payload)
    assert "did not make over" in refused(encode_envelope(Envelope(payload, made, HINT)))


@pytest.mark.parametrize("made", [b"", b"\0", b"0\x06\x02\x01\x00\x02\x01\x00", b"\xff" * 72])
def test_a_signature_that_is_no_number(made):
    payload = parse_envelope(GOOD).payload
    assert "did not make over" in refused(encode_envelope(Envelope(payload, made, HINT)))


def test_an_altered_payload():
    payload = parse_envelope(GOOD).payload.replace(b"labels", b"labelz")
    outer = changed(json.loads(GOOD), "dsseEnvelope", "payload", to=base64.b64encode(payload).decode())
    assert "did not make over what it says" in refused(json.dumps(outer).encode())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (PRIVATE, "a PRIVATE key"),
        (b"-----BEGIN EC PARAMETERS-----\n" + PUBLIC, "a PRIVATE key"),
        (PUBLIC + PUBLIC, "2 PEM blocks"),
        (b"", "0 PEM blocks"),
        (b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", "no public key in PEM"),
        (pem(ec.generate_private_key(ec.SECP256K1()))[1], "on the curve secp256k1"),
        (pem(ed25519.Ed25519PrivateKey.generate())[1], "a key of another kind"),
        (pem(rsa.generate_private_key(65537, 2048))[1], "a key of another kind"),
    ],
)
def test_a_trusted_key_that_is_none_is_the_device_files_fault(text, said):
    with pytest.raises(ConfigurationError, match=said) as caught:
        check(GOOD, FILES, {**KEYS, "bad.pub": text})
    assert "trusted key 'bad.pub'" in str(caught.value)


@pytest.mark.parametrize(
    ("private", "password", "said"),
    [
        (b"", None, "no private key in PEM;"),
        (b"nothing", b"x", "or one of another password"),
        (PUBLIC, None, "no private key in PEM"),
        (PRIVATE, b"x", "a password for a key that has none"),
        (pem(ec.generate_private_key(ec.SECP256R1()), b"right")[0], None, "encrypted, and no password"),
        (pem(ec.generate_private_key(ec.SECP256R1()), b"right")[0], b"wrong", "or one of another password"),
        (pem(ec.generate_private_key(ec.SECP256K1()))[0], None, "on the curve secp256k1"),
        (pem(ed25519.Ed25519PrivateKey.generate())[0], None, "a key of another kind"),
    ],
)
def test_a_key_that_cannot_sign_is_a_slip_of_whoever_gave_it(private, password, said):
    with pytest.raises(UsageError, match=said):
        sign(FILES, private, password)


def test_an_odd_name_is_not_signed():
    with pytest.raises(BundleError, match="is hidden"):
        sign({**FILES, ".git": b""}, PRIVATE)


# --- the envelope

OUTER = json.loads(GOOD)
SIGNATURES = ("dsseEnvelope", "signatures")


@pytest.mark.parametrize(
    ("path", "to", "said"),
    [
        (("mediaType",), "application/vnd.dev.sigstore.bundle.v0.2+json", "model.sig, mediaType: found '"),
        (("more",), 1, "model.sig, more: found 1; expected Extra inputs are not permitted"),
        (("verificationMaterial", "publicKey", "rawBytes"), "AA==", "verificationMaterial.publicKey.rawBytes"),
        (
            ("verificationMaterial", "publicKey"),
            {},
            "verificationMaterial.publicKey.hint: found nothing; expected a value for",
        ),
        (("verificationMaterial", "publicKey", "hint"), HINT.upper(), "expected 64 hexadecimal digits in lower case"),
        (("verificationMaterial", "publicKey", "hint"), HINT + "\n", "expected 64 hexadecimal digits in lower case"),
        (("verificationMaterial", "certificate"), {}, "verificationMaterial.certificate"),
        (("verificationMaterial", "tlogEntries"), [{}], "tlogEntries: found a list of 1"),
        (("dsseEnvelope",), [], "dsseEnvelope: found a list of 0"),
        (("dsseEnvelope", "payloadType"), "text/plain", "dsseEnvelope.payloadType: found 'text/plain'"),
        (("dsseEnvelope", "payload"), "****", "dsseEnvelope.payload: found no base64"),
        (("dsseEnvelope", "payload"), "A", "dsseEnvelope.payload: found no base64"),
        (("dsseEnvelope", "payload"), "AB==", "dsseEnvelope.payload: found base64 in another spelling"),
        (("dsseEnvelope", "payload"), "\u00c4\u00c4==", "dsseEnvelope.payload: found no base64"),
        (("dsseEnvelope", "payload"), lambda text: text + "\n", "dsseEnvelope.payload: found no base64"),
        ((*SIGNATURES, 0, "sig"), lambda text: text[:-4], "did not make over"),
        ((*SIGNATURES, 0, "sig"), lambda text: "-" + text[1:], "signatures.0.sig: found no base64"),
        ((*SIGNATURES, 0, "sig"), None, "signatures.0.sig: found None"),
        ((*SIGNATURES, 0, "keyid"), "k", "signatures.0.keyid"),
        (SIGNATURES, lambda both: both * 2, "dsseEnvelope.signatures: found a list of 2"),
        (SIGNATURES, [], "dsseEnvelope.signatures: found a list of 0"),
    ],
)
def test_an_envelope_that_is_another(path, to, said):
    assert said in refused(json.dumps(changed(OUTER, *path, to=to)).encode())


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "no valid JSON"),
        (b"null", "found None"),
        (b"[]", "model.sig: found a list of 0"),
        (b"\xef\xbb\xbf" + GOOD, "no valid JSON"),
        (GOOD.decode().encode("utf-16"), "no valid JSON"),
        (b'{"\xff": 1}', "no valid JSON"),
        (GOOD.replace(b'{"mediaType"', b'{"mediaType":"x","mediaType"'), "a key stands twice"),
        (GOOD.replace(b'"keyid":""', b'"keyid":"","keyid":""'), "a key stands twice"),
        (GOOD.replace(b'"keyid":""', b'"keyid":NaN'), "NaN is no JSON"),
        (b"[" * 100_000, "no valid JSON"),
        (b'{"a":' * 30_000, "no valid JSON"),
        (b"9" * 100_000, "no valid JSON"),
        (b'{"\\ud800\\u001b[2J": 1}', "model.sig: found '\\ud800\\x1b[2J'; expected Input"),
        (GOOD[:-1] + b',"\\u001b[2J":"\\u202e"}', "model.sig, \\x1b[2J: found '\\u202e'; expected Extra inputs"),
    ],
    ids=range(14),
)
def test_bytes_that_are_no_envelope(data, said):
    assert said in refused(data)


def test_a_deep_value_where_another_is_due_is_told_in_a_word():
    deep = GOOD.replace(b'"keyid":""', b'"keyid":' + b"[" * 700 + b"]" * 700)
    assert "found a list of 1" in refused(deep)


def test_too_large_is_refused_before_it_is_read():
    class Untouchable(bytes):
        __slots__ = ()

        def decode(self, *_):
            raise AssertionError("parsed")

    assert f"{100 << 20} bytes; expected at most {MAX_SIGNATURE_BYTES}" in refused(Untouchable(100 << 20))
    padded = GOOD + b" " * (MAX_SIGNATURE_BYTES - len(GOOD))
    assert check(padded, FILES, KEYS).key == "ours.pub"
    assert "bytes; expected at most" in refused(padded + b" ")


def test_the_largest_bundle_fits():
    files = {f"{number:02}{'n' * 98}": b"" for number in range(64)}
    signature = sign(files, PRIVATE)
    spread = json.dumps(json.loads(parse_envelope(signature).payload), indent=2).encode()
    assert len(signed(spread)) < MAX_SIGNATURE_BYTES / 4
    assert check(signed(spread), files, KEYS).key == "ours.pub"


# --- the statement, signed by a trusted key and still wrong

SERIALIZATION = ("predicate", "serialization")


@pytest.mark.parametrize(
    ("path", "to", "said"),
    [
        (("_type",), "https://in-toto.io/Statement/v0.1", "signed statement, _type"),
        (("predicateType",), "https://model_signing/Digests/v0.1", "signed statement, predicateType"),
        (("predicateType",), "https://model_signing/signature/v1.1", "signed statement, predicateType"),
        (("more",), 1, "signed statement, more: found 1; expected Extra inputs"),
        (("subject",), [], "subject: found a list of 0"),
        (("subject",), lambda one: one * 2, "subject: found a list of 2"),
        (("subject", 0, "digest"), {"sha512": "0" * 128}, "subject.0.digest.sha256"),
        (("subject", 0, "digest", "sha256"), "0" * 64, "a digest of the whole that is not the digest of its files"),
        (
            (*SERIALIZATION, "method"),
            "shards",
            "serialization.method: found 'shards'; expected Input should be 'files'",
        ),
        ((*SERIALIZATION, "shard_size"), 1000, "serialization.shard_size"),
        ((*SERIALIZATION, "hash_type"), "blake2b", "serialization.hash_type: found 'blake2b'"),
        ((*SERIALIZATION, "allow_symlinks"), True, "serialization.allow_symlinks: found True"),
        ((*SERIALIZATION, "allow_symlinks"), 0, "serialization.allow_symlinks: found 0"),
        ((*SERIALIZATION, "allow_symlinks"), "false", "serialization.allow_symlinks: found 'false'"),
        ((*SERIALIZATION, "ignore_paths"), "x", "serialization.ignore_paths"),
        (("predicate", "serialization"), None, "predicate.serialization"),
        (("predicate", "resources"), {}, "predicate.resources: found an object of 0"),
        (("predicate", "resources", 0, "algorithm"), "blake2b", "resources.0.algorithm: found 'blake2b'"),
        (("predicate", "resources", 0, "digest"), lambda text: text.upper(), "resources.0.digest"),
        (("predicate", "resources", 0, "digest"), lambda text: text[2:], "resources.0.digest"),
        (("predicate", "resources", 0, "size"), 3, "resources.0.size"),
    ],
)
def test_a_statement_that_is_another(path, to, said):
    assert said in refused(signed(changed(STATEMENT, *path, to=to)))


@pytest.mark.parametrize(
    "name",
    [".", "..", "", "/etc/passwd", "../labels.txt", "a/b", "a\\b", "C:x", ".git", "x\n", "\u00e4", "\ud800", "nul"],
)
def test_a_name_that_no_bundle_may_use(name):
    statement = listing(*OWN, (name, OWN[0][1]))
    line = refused(signed(statement), {**FILES, name: FILES[OWN[0][0]]})
    assert "signed statement: found a file '" in line
    assert "whose name" in line


def test_a_single_file_as_the_reference_names_it():
    data = b"the model"
    statement = listing((".", hashlib.sha256(data).hexdigest()))
    assert "a file '.' whose name is hidden" in refused(signed(statement), {".": data})


def test_the_signature_in_its_own_list():
    statement = listing(*OWN, ("model.sig", OWN[0][1]))
    assert "'model.sig' whose name is that of the signature" in refused(signed(statement))


def test_a_file_listed_twice():
    assert "a file listed twice" in refused(signed(listing(*OWN, OWN[0])))
    assert "a file listed twice" in refused(signed(listing(("labels.txt", "0" * 64), *OWN)))


def test_shards_that_name_a_file_and_a_range():
    statement = listing(*((f"{name}:0:10", digest) for name, digest in OWN), method="shards", shard_size=10)
    assert "serialization.method: found 'shards'" in refused(signed(statement))


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        (b"", "signed statement: found no valid JSON"),
        (b"[" * 50_000, "signed statement: found no valid JSON"),
        (b"\xff", "signed statement: found no valid JSON"),
        (json.dumps(STATEMENT).encode().replace(b'"name"', b'"name":"x","name"', 1), "a key stands twice"),
        (
            json.dumps(STATEMENT).encode().replace(b'"predicate":', b'"predicate":{},"predicate":', 1),
            "a key stands twice",
        ),
        (json.dumps(STATEMENT).encode()[:-1] + b', "x": Infinity}', "Infinity is no JSON"),
    ],
    ids=range(6),
)
def test_a_payload_that_is_no_statement(payload, said):
    assert said in refused(signed(payload))


# --- anything at all

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(["files", HINT]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


def places(value, path=()):
    yield path
    if isinstance(value, dict | list):
        for part, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(inner, (*path, part))


@given(st.binary(max_size=400))
@example(b"\xff\xfe")
def test_bytes_of_any_kind_end_in_a_refusal(data):
    assert reaches(data) is None


@given(st.sampled_from([path for path in places(OUTER) if path]), JSON)
def test_any_value_at_any_place_of_the_envelope_trusts_nobody_new(path, to):
    text = json.dumps(changed(OUTER, *path, to=to))
    outcome = reaches(text.encode())
    assert outcome in (None, SignedBy("ours.pub", HINT))
    if outcome and text != json.dumps(OUTER):
        assert path[-1] in ("keyid", "tlogEntries")


@settings(max_examples=200)
@given(st.sampled_from([path for path in places(STATEMENT) if path]), JSON)
def test_any_value_at_any_place_of_a_signed_statement_adds_no_file(path, to):
    signature = signed(changed(STATEMENT, *path, to=to))
    assert reaches(signature, {**FILES, "planted": b""}) is None
    assert reaches(signature, {**FILES, "labels.txt": b"b"}) is None
    if reaches(signature) is not None and json.dumps(changed(STATEMENT, *path, to=to)) != json.dumps(STATEMENT):
        assert path[:3] == (*SERIALIZATION, "ignore_paths") or path == ("subject", 0, "name")


@given(st.binary(max_size=200))
def test_a_signed_payload_of_any_bytes_ends_in_a_refusal(payload):
    assert reaches(signed(payload)) is None


@given(st.binary(max_size=120))
def test_a_signature_of_any_bytes_ends_in_a_refusal(made):
    assert reaches(encode_envelope(Envelope(parse_envelope(GOOD).payload, made, HINT))) is None


# --- policy


@pytest.mark.parametrize(
    ("policy", "present", "keys", "action", "reason"),
    [
        ("required", True, True, "check", ""),
        ("required", True, False, "refuse", "no trusted key on this device"),
        ("required", False, True, "refuse", "no model.sig"),
        ("required", False, False, "refuse", "no model.sig"),
        ("if_present", True, True, "check", ""),
        ("if_present", True, False, "skip", "no trusted key on this device"),
        ("if_present", False, True, "skip", "no model.sig"),
        ("if_present", False, False, "skip", "no model.sig"),
        ("off", True, True, "skip", "signatures switched off on this device"),
        ("off", False, False, "skip", "signatures switched off on this device"),
    ],
)
def test_what_a_policy_makes_of_it(policy, present, keys, action, reason):
    assert judge(policy, signature_present=present, keys_present=keys) == Judgement(action, reason)


# --- known answer


def test_the_known_answer_is_right_and_could_be_wrong(monkeypatch):
    assert ecdsa.known_answer()
    assert not ecdsa.known_answer(b"samplf")
    for verdict in (True, False):
        monkeypatch.setattr(ecdsa, "verify", lambda *_, verdict=verdict: verdict)
        assert not ecdsa.known_answer()


# --- without the extra


def test_importing_the_module_imports_no_cryptography():
    program = (
        "import sys; import edge_runtime.bundle.signature, edge_runtime.bundle.trusted_keys;"
        " sys.exit('cryptography' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_without_the_extra_one_line_names_it():
    program = (
        "import sys; sys.modules['cryptography'] = None; from edge_runtime.bundle.signature import check, sign\n"
        "for call in (lambda: sign({}, b''), lambda: check(b'', {}, {})):\n"
        "    try: call()\n"
        "    except Exception as error: print(type(error).__name__, error)\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    lines = ran.stdout.splitlines()
    assert len(lines) == 2
    for line in lines:
        assert line.startswith("ConfigurationError signatures: found no working `cryptography`")
        assert line.endswith("install edge-runtime[signing]")
