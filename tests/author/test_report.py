import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from edge_runtime.author.mutate import KindScore, MutationScore
from edge_runtime.author.report import render
from edge_runtime.author.report_facts import ReportFacts
from edge_runtime.author.report_gather import gather, mutation_facts
from edge_runtime.author.report_html import NOT_MEASURED, number, unit
from edge_runtime.bundle.read import read_files
from edge_runtime.errors import BundleError
from tests.author.report_facts import OPTIONAL, facts_of, whole
from tests.rig.bundles import FROST, ROOT

VOID = {"meta", "br", "hr", "img", "input", "link"}


class Page(HTMLParser):
    """Tags that open and close as they must, every attribute, and the text."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.text: list[str] = []
        self.feed(data.decode())
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.text.append(data)

    @property
    def said(self) -> str:
        return " ".join(" ".join(self.text).split())


TINY = [f"tiny/{one.name}" for one in sorted((ROOT / "examples" / "tiny").glob("*/"))]


@pytest.mark.parametrize("name", ["frost", "dewpoint", "digits", *TINY])
def test_a_shipped_bundle_has_a_whole_page_without_outside_requests(name: str) -> None:
    data = render(facts_of(name))
    page = Page(data)
    assert len(data) < 2_000_000
    assert not {tag for tag, _, _ in page.attributes} & {"script", "link", "img", "iframe", "object", "base", "form"}
    assert not [one for one in page.attributes if one[1] in {"src", "href", "srcset", "action", "data"}]
    assert not re.search(rb"url\(|@import|https?://(?!www\.w3\.org)", data)
    assert ("meta", "content", "default-src 'none'; style-src 'unsafe-inline'") in page.attributes


def test_equal_facts_are_equal_bytes() -> None:
    assert render(whole()) == render(replace(whole()))
    assert render(whole()) != render(replace(whole(), version="1.0.1"))


def test_the_limits_stand_before_every_number() -> None:
    said = Page(render(facts_of("frost"))).said
    assert said.index("Limits. one station, one composite year") < re.search(r"\d\.\d{3} °C", said).start()


def test_what_the_frost_page_says() -> None:
    said = Page(render(facts_of("frost"))).said
    for words in (
        "mean absolute error on the test split 1.588 °C",
        "distance to float32, mean — 0.1146 °C",
        "distance to float32, largest — 1.178 °C",
        "frost flag as float32 has it — 99.28 %",
        "air_temperature °C \N{MINUS SIGN}16.7 to 35.6 \N{MINUS SIGN}30 to 45 \N{MINUS SIGN}60 to 60 refuse",
        "frost: on below 2 Cel, off again at 2.5 Cel",
        "The framework answered 64 cases.",
        "cpu_int8 CPUExecutionProvider nothing: equal integer kernels",
        "air_temperature °C °F 61% 62% refuse",
        "relative_humidity % a share of 1 100%",
        "a unit of another quantity, wind_speed wrong_dimension",
        "the input holds -3.47 to 4.57",
        "TMY3 station 723170 Greensboro NC",
    ):
        assert words in said, words


def test_goldens_are_counted_in_the_contracts_own_unit() -> None:
    first = facts_of("frost").channels[0]
    assert first.seen == pytest.approx((-30.0, 45.0))
    assert first.golden_units == ("Cel", "[degF]", "K")
    assert first.inside + first.beyond == facts_of("frost").goldens
    assert first.beyond >= 2


def test_a_float_bundle_is_said_to_be_the_float_model() -> None:
    facts = facts_of("dewpoint")
    said = Page(render(facts)).said
    assert "The bundle holds the float32 model itself" in said
    assert "distance to float32" not in said
    assert facts.comparisons[0].quantized is False


def test_labels_are_a_table_of_which_for_which() -> None:
    facts = facts_of("digits")
    one = facts.comparisons[0]
    said = Page(render(facts)).said
    assert len(one.labels) == 10
    assert "How often which label ( true , by row)".replace(" , ", ", ").replace("( ", "(") in said
    right = sum(ours == true for ours, true in zip(one.bundle, one.truth, strict=True)) / one.cases
    assert one.metrics[0].bundle == pytest.approx(100 * right)
    many = replace(one, labels=tuple(map(str, range(30))))
    assert "30 labels are too many" in Page(render(replace(facts, comparisons=(many,)))).said


@pytest.mark.parametrize("part", OPTIONAL)
def test_what_is_not_given_is_said(part: str) -> None:
    full, without = whole(), replace(whole(), **{part: None})
    before, after = (Page(render(facts)).said.count(NOT_MEASURED) for facts in (full, without))
    assert (before, after) == (0, 1)


def test_without_pack_and_record_a_bundle_alone_has_its_page() -> None:
    said = Page(render(gather(read_files(FROST)))).said
    assert said.count(NOT_MEASURED) == len(OPTIONAL)
    assert "24 samples, 3600 s apart, give one answer" in said


def test_the_trials_are_shown_where_they_are_given() -> None:
    said = Page(render(whole())).said
    for words in (
        "the 15 largest of 20",
        "u8s8_per_channel_reduce_range 0.021 0.034 25.1 1.588 °C chosen; every gate passed",
        "u8s8_per_channel — — 25.1 1.59 °C refused: saturates without VNNI",
        "constant-1 42 38 2 40 (95%) 99 %",
        "unit 15 15 0 15 (100%) all",
        "There was no time to judge 1 more.",
        "standardize std[2] 1 % up",
        "mistakes the goldens notice 55 of 57",
    ):
        assert words in said, words


def test_texts_of_an_author_stay_texts() -> None:
    evil = '<script>alert("x")</script>&amp;'
    facts = replace(
        whole(), id=evil, description=evil, limits=evil, warnings=(evil,), provenance=((evil, evil),), window=evil
    )
    facts = replace(facts, comparisons=(replace(facts.comparisons[0], output=evil, unit=evil),))
    page = Page(render(facts))
    assert not [tag for tag, _, _ in page.attributes if tag == "script"]
    assert page.said.count('<script>alert("x")</script>&amp;') > 6


def test_every_picture_has_words_and_every_table_a_caption() -> None:
    data = render(whole()).decode()
    assert data.count("<svg") == data.count('role="img" aria-label="') == data.count("<figcaption>") > 5
    assert data.count("<table>") == data.count("<caption>")
    assert data.count("<th") > data.count("<tr")
    assert "<td></td>" not in data.replace("<td></td></tr>", "")


def without_test_truth(facts: ReportFacts) -> ReportFacts:
    return replace(facts, comparisons=(replace(facts.comparisons[0], truth=None),))


def test_without_truth_there_are_no_errors_to_show() -> None:
    said = Page(render(without_test_truth(facts_of("frost")))).said
    assert "no true values" in said
    assert "Errors against the truth" not in said


def test_the_score_of_mutate_is_taken_over() -> None:
    kind = KindScore("unit", must=True, total=3, by_stage={"tensor": 2}, by_answer=1)
    score = MutationScore(
        cases=24,
        kinds=(kind,),
        survivors=("a", "b"),
        unseen=(),
        tolerated=("f",),
        equivalent=("c",),
        beyond=("d",),
        unjudged=("e",),
    )
    found = mutation_facts(score)
    assert found.classes[0].by_stage == (("tensor", 2),)
    assert (found.tolerated, found.equivalent, found.unjudged, found.survivors) == (1, 2, 1, ("a", "b"))


def test_files_that_are_no_bundle_are_refused() -> None:
    with pytest.raises(BundleError):
        gather({"manifest.json": b"{}"})


MINUS = "\N{MINUS SIGN}"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "\N{EM DASH}"),
        (-0.0, "0"),
        (-3.46, f"{MINUS}3.46"),
        (2.384e-7, f"2.384e{MINUS}7"),
        (1500.0, "1500"),
        (20000.0, "20000"),
        (-1e9, f"{MINUS}1e+09"),
        (float("nan"), "nan"),
    ],
)
def test_numbers(value: float | None, shown: str) -> None:
    assert number(value) == shown


@pytest.mark.parametrize(
    ("code", "shown"), [("1", ""), ("Cel", "°C"), ("W/m2", "W/m²"), ("[in_i'Hg]", "inHg"), ("[gal_us]", "[gal_us]")]
)
def test_units(code: str, shown: str) -> None:
    assert unit(code) == shown
