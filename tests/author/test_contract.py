from pathlib import Path

import pytest

from edge_runtime.author.contract import Contract, load_contract
from edge_runtime.author.mistake import models_in
from edge_runtime.errors import ConfigurationError
from edge_runtime.spec.steps import Step
from tests.author.conftest import Pack

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("name", ["frost", "dewpoint", "digits"])
def test_the_examples_load(name: str) -> None:
    assert load_contract(EXAMPLES / name / "contract.toml").id == name


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            'unit = "Cel"\ntol',
            'unit = "TODO"\ntol',
            "input.0.channel.0.unit: found TODO; expected the unit the values are in",
        ),
        ('licence = "CC0-1.0"', 'licence = "todo"', "provenance.licence: found TODO"),
        ("tolerated = [-30", "tolerrated = [-30", "unknown key 'tolerrated'; expected 'tolerated' perhaps"),
        ("security_version = 1", "securityversion = 1", "unknown key 'securityversion'; expected 'security_version'"),
        ("std = [10.0", "stds = [10.0", "unknown key 'stds'; expected 'std' perhaps"),
        ("on = 2.0", "onn = 2.0", "unknown key 'onn'; expected 'on' perhaps"),
        ('side = "below"', 'sides = "below"', "unknown key 'sides'; expected 'side' perhaps"),
        ("period_s = 60", "period = 60", "unknown key 'period'; expected 'period_s' perhaps"),
        (
            "memory_mb = 2000",
            "zzz = 1\nmemory_mb = 2000",
            "unknown key 'zzz'; expected one of latency_p99_ms,",
        ),
        ('unit = "Cel"\ntol', 'unit = "C"\ntol', "input.0.channel.0.unit: found 'C'; expected a UCUM unit"),
        ('unit = "Cel"\npost', 'unit = "degC"\npost', "output.0.unit: found 'degC'"),
        ("count = 24", "count = 23", "goldens.count: found 23; expected greater"),
        ('unit = "Cel"\ntol', "tol", "input.0.channel.0.unit: found nothing; expected the unit its values are in"),
        ("physical = [-60, 60]", "", "input.0.channel.0.physical: found nothing; expected [lowest, highest]"),
        (
            "physical = [-60, 60]",
            'unknown = "x"\nphysical = [-60, 60]',
            "unknown: found 'x'; expected one of its categories",
        ),
        ("count = 24", "count = 24\nsamples = 6", "goldens.samples: found 6; expected only with a [[state]]"),
        (
            "[needs]",
            '[[variant]]\nname = "cpu_int8"\nprecision = "int8"\n[needs]',
            "variant: found two called cpu_int8",
        ),
        (
            "[needs]",
            '[[state]]\ninput = "h"\noutput = "g"\n[needs]',
            "input.0.tensor: found nothing; expected the name",
        ),
        ("[needs]", '[preprocess_onnx]\nfile = "p.onnx"\n[needs]', "preprocess_onnx: found steps beside it"),
        (
            'values = "train"',
            'values = { air_temperature = "a" }',
            "data.train.values: found no array for relative_humidity",
        ),
        ('target = "train_y"', 'target = { lows = "train_y" }', "unknown key 'lows'; expected 'low' perhaps"),
        ('raw = "raw"', 'raw = { air_temperatur = "a" }', "reference.raw.air_temperatur: found unknown key"),
        (
            'precision = "int8"',
            'precision = "int4"',
            "precision: found 'int4'; expected 'int8' perhaps; it may be 'int8'",
        ),
        (
            'version = "1.2.3"',
            'version = "1.2"',
            "version: found '1.2'; expected three numbers, major.minor.patch: '1.2.0'",
        ),
        (
            'name = "air_temperature"',
            'name = "pH"',
            "name: found 'pH'; expected lower case, digits and underscores, a letter first: 'ph' perhaps",
        ),
        (
            'id = "tiny"',
            'id = "My Model"',
            "id: found 'My Model'; expected lower case, digits and hyphens: 'my-model' perhaps",
        ),
        ('id = "tiny"', 'id = "--"', "id: found '--'; expected lower case, digits and hyphens; correct it"),
        (
            '"destandardize"',
            '"denormalize"',
            "output.0.postprocess.0.step: found 'denormalize'; expected 'destandardize' perhaps",
        ),
        (
            'step = "destandardize", ',
            "",
            "output.0.postprocess.0.step: found nothing; expected which of its kinds this is",
        ),
        ("std = 5.0", 'std = "x"', "destandardize.std: found 'x'; expected a number, without quotes"),
        ("batch_sizes = [1, 2, 4]", "batch_sizes = []", "batch_sizes: found []; expected at least 1 in the list"),
        ('description = "two', 'descriptio = "two', "unknown key 'descriptio'; expected 'description' perhaps"),
        ("tolerated = [-30, 50]", "tolerated = [-30]", "input.0.channel.0.tolerated.1: found nothing"),
        ("[window]\nlength = 3\nperiod_s = 60\n", "", "window: found no [window]"),
        ('axes = ["batch", "channel", "time"]', 'axes = ["channel", "batch", "time"]', "input.0.axes: found"),
        ('axes = ["case", "channel", "time"]', 'axes = ["case", "time", "time"]', "data.axes: found"),
        (
            'step = "standardize"',
            'step = "fit"',
            "input.0.preprocess.0.step: found 'fit'; expected 'filter' perhaps; it may be",
        ),
        ("count = 24", 'count = 24\nunits = { air_temperature = ["m"] }', "found 'm' (m measures length"),
        ("count = 24", 'count = 24\nunits = { air_temperature = ["[degF]"] }', "found '[degF]' first; expected 'Cel'"),
        ("count = 24", 'count = 24\nunits = { air_temp = ["Cel"] }', "expected 'air_temperature' perhaps"),
        ("count = 24", "count = = 24", "no valid TOML"),
    ],
)
def test_each_mistake_is_one_line_naming_file_and_key(pack: Pack, old: str, new: str, words: str) -> None:
    pack.edit(old, new)
    with pytest.raises(ConfigurationError) as caught:
        load_contract(pack.contract)
    line = str(caught.value)
    assert line.startswith(str(pack.contract))
    assert words in line
    assert "\n" not in line


def test_a_missing_key_is_named(pack: Pack) -> None:
    pack.edit('exporter = "onnx.helper"\n', "")
    with pytest.raises(ConfigurationError, match=r"provenance\.exporter: found nothing; expected a value for exporter"):
        load_contract(pack.contract)


def test_a_contract_without_a_reference_says_how_to_make_one(pack: Pack) -> None:
    text = pack.contract.read_text()
    first, last = text.index("[reference]"), text.index("[[input]]")
    pack.contract.write_text(text[:first] + text[last:])
    with pytest.raises(
        ConfigurationError, match=r"reference: found nothing; .*author\.record_reference\(answer, raw"
    ) as caught:
        load_contract(pack.contract)
    assert "correct it" not in str(caught.value)


@pytest.mark.parametrize(("text", "found"), [("", "nothing"), ('tensor = "TODO"\n', "TODO")])
def test_a_reference_without_its_tensor_says_how_to_record_one(pack: Pack, text: str, found: str) -> None:
    pack.edit('tensor = "tensor"\n', text)
    with pytest.raises(ConfigurationError) as caught:
        load_contract(pack.contract)
    line = str(caught.value)
    assert f"reference.tensor: found {found}; expected" in line
    assert "lambda raw: (predict(raw), tensor(raw))" in line
    assert "scaler inside the graph the tensor is the raw values" in line


def _lines(pack: Pack) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        load_contract(pack.contract)
    return [line.removeprefix(f"{pack.contract}, ") for line in map(str, (caught.value, *caught.value.others))]


def test_every_mistake_of_a_contract_is_told_in_one_run_and_each_once(pack: Pack) -> None:
    for old, new in (
        ('licence = "CC0-1.0"', 'licence = "TODO"'), ('unit = "Cel"\ntol', 'unit = "TODO"\ntol'),
        ("physical = [0, 105]", 'physical = ["TODO", "TODO"]'), ("tolerated = [-30", "tolerrated = [-30"),
        ('version = "1.2.3"', 'version = "1.2"'), ('target = "train_y"', "target = 5"), ("memory_mb = 2000\n", ""),
        ('exporter = "onnx.helper"\n', ""), ("on = 2.0", 'on = "cold"'),
    ):  # fmt: skip
        pack.edit(old, new)
    assert [line.partition(";")[0] for line in _lines(pack)] == [
        "provenance.licence: found TODO", "input.0.channel.0.unit: found TODO",
        "input.0.channel.1.physical: found TODO",
        "input.0.channel.0.tolerrated: found unknown key 'tolerrated'", "version: found '1.2'",
        "provenance.exporter: found nothing", "data.train.target.str: found 5", "output.0.flags.0.on: found 'cold'",
        "needs.memory_mb: found nothing",
    ]  # fmt: skip


def test_what_does_not_fit_is_told_beside_what_is_todo(pack: Pack) -> None:
    pack.edit('unit = "%"', 'unit = "TODO"')
    pack.edit('unit = "Cel"\npost', 'unit = "degC"\npost')
    pack.edit('axes = ["case", "channel", "time"]', 'axes = ["case", "time", "time"]')
    pack.edit("count = 24", 'count = 24\nunits = { air_temp = ["Cel"], relative_humidity = ["m"] }')
    pack.edit("physical = [-60, 60]\n", "")
    assert [line.partition(":")[0] for line in _lines(pack)] == [
        "input.0.channel.1.unit", "input.0.channel.0.physical", "output.0.unit", "data.axes", "goldens.units.air_temp",
    ]  # fmt: skip


def test_a_misspelt_channel_is_not_told_as_one_that_is_absent_too(pack: Pack) -> None:
    pack.edit('raw = "raw"', 'raw = { air_temperatur = "a", relative_humidity = "b" }')
    (line,) = _lines(pack)
    assert "'air_temperature' perhaps" in line


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ('licence = "CC0-1.0"', 'licence = "todo: ask"', "provenance.licence: found 'todo: ask'; expected a few words"),
        ('meaning = "a temperature"', 'meaning = "x"', "output.0.meaning: found 'x'; expected a few words"),
        ('meaning = "a temperature"', 'meaning = " "', "output.0.meaning: found ''; expected a few words"),
        ('limits = "a test"', 'limits = "still ToDo"', "provenance.limits: found 'still ToDo'; expected what the numbers"),
        (
            "[needs]", '[tolerance]\nkind = "exact"\nevidence = "TODO measure"\n[needs]',
            "tolerance.evidence: found 'TODO measure'",
        ),
    ],
)  # fmt: skip
def test_a_text_that_says_nothing_is_no_text(pack: Pack, old: str, new: str, found: str) -> None:
    pack.edit(old, new)
    (line,) = _lines(pack)
    assert line.startswith(found)


@pytest.mark.parametrize("text", ["a method", "ok", "autodoc", "metodología"])
def test_any_other_text_is_the_authors_own(pack: Pack, text: str) -> None:
    pack.edit('meaning = "a temperature"', f'meaning = "{text}"')
    assert load_contract(pack.contract).output[0].meaning == text


def test_a_checkpoint_digest_that_is_todo_says_how_to_make_one(pack: Pack) -> None:
    digest = load_contract(pack.contract).provenance.checkpoint_sha256
    pack.edit(digest, "TODO")
    (line,) = _lines(pack)
    assert line.startswith(
        "provenance.checkpoint_sha256: found TODO; expected 64 hex digits, for instance from: sha256sum checkpoint.pt;"
    )


def test_no_file_and_no_text_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="No such file"):
        load_contract(tmp_path / "contract.toml")
    (tmp_path / "contract.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigurationError, match="no valid TOML"):
        load_contract(tmp_path / "contract.toml")


def test_the_page_on_contracts_shows_the_frost_contract_and_names_every_key() -> None:
    page = (EXAMPLES.parent / "docs" / "contract.md").read_text()
    assert f"```toml\n{(EXAMPLES / 'frost' / 'contract.toml').read_text()}```\n" in page
    explained = page.partition("## Keys")[2].partition("## The flagship")[0]
    steps = set(models_in(Step))  # docs/steps.md names their keys, and has a test of its own
    models = [Contract]
    while models:
        for name, field in models.pop().model_fields.items():
            assert name in explained, name
            models += [one for one in models_in(field) if one not in steps]
