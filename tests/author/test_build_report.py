"""What a finished build hands to its page."""

from dataclasses import replace

from edge_runtime.author.build import build
from edge_runtime.author.build_report import report_of
from edge_runtime.author.gate import Measured
from edge_runtime.author.trials import SearchRecord, Trial
from tests.author.conftest import Pack
from tests.author.searching import demands


def test_what_a_search_tried_stands_on_the_page_with_each_refusal(pack: Pack) -> None:
    made = build(pack.contract, None, lambda _: None, strengthens=False)
    assert b"u8s8_probe" not in report_of(made)
    seen = Measured(metric=0.125, metric_float32=0.115, loss=0.01, flags_agree=1.0)
    trials = (
        Trial(recipe="u8s8_probe", verdict="winner", size_bytes=1234, measured={"low": seen}, latency_us={1: 2500.0}),
        Trial(recipe="s8s8_probe", verdict="refused", refusals=("the loss is 9 Cel, at most 1 is allowed",)),
    )
    record = made.record.model_copy(update={"search": SearchRecord(trials=trials, winner="u8s8_probe")})
    source = made.source._replace(contract=made.source.contract.model_copy(update={"gates": demands()}))
    page = report_of(replace(made, record=record, source=source)).decode()
    for words in ("u8s8_probe", "mae 0.125", "2.5", "s8s8_probe", "the loss is 9 Cel, at most 1 is allowed"):
        assert words in page


def test_without_a_score_the_page_says_that_none_was_made(pack: Pack) -> None:
    made = build(pack.contract, None, lambda _: None, strengthens=False)
    assert b"mistakes the goldens notice" not in report_of(made)
