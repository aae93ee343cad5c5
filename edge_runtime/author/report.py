"""report.html: one page about one bundle, its limits first; it shows what it is given and measures nothing."""

from collections.abc import Iterator
from html import escape

from edge_runtime.author.report_compare import compared
from edge_runtime.author.report_facts import ChannelFact, OutputFact, Range, ReportFacts
from edge_runtime.author.report_html import (
    absent,
    band,
    heading,
    items,
    key_figures,
    number,
    page,
    paragraph,
    section,
    table,
    unit,
)
from edge_runtime.author.report_trials import mutation, node_errors, recipes

_NAMED_UNITS = 4


def render(facts: ReportFacts) -> bytes:
    """The page as UTF-8: self-contained, without script, the same bytes for the same facts.

    Raises:
        DeviceError: the plotting library of the extra ``author`` is not installed.

    """
    return page(f"{facts.id} {facts.version}", _body(facts)).encode()


def _body(facts: ReportFacts) -> Iterator[str]:
    yield f"<header>\n<h1>{_title(facts)}</h1>\n{paragraph(facts.description, 'lead')}\n</header>"
    yield from _limits(facts)
    yield key_figures(_figures(facts))
    yield _promise(facts)
    yield compared(facts.comparisons)
    yield _proof(facts)
    yield node_errors(facts.nodes)
    yield recipes(facts.recipes)
    yield _tolerances(facts)
    yield _coverage(facts)
    yield mutation(facts.mutation)
    yield _units(facts)
    if facts.false_alarms:
        yield _false_alarms(facts)
    yield _warnings(facts)
    yield _origin(facts)
    yield _files(facts)


def _title(facts: ReportFacts) -> str:
    return f"{escape(facts.id)} <small>version {escape(facts.version)}</small>"


def _limits(facts: ReportFacts) -> Iterator[str]:
    yield (
        f'<p class="limits" role="note"><strong>Limits.</strong> {escape(facts.limits)}. '
        "Every number on this page holds within these limits and says nothing beyond them.</p>"
    )


def _figures(facts: ReportFacts) -> Iterator[tuple[str, str]]:
    several = len(facts.comparisons or ()) > 1
    for one in facts.comparisons or ():
        if one.metrics:
            first = one.metrics[0]
            name = f"{first.name} on the test split" + (f", {one.variant} {one.output}" if several else "")
            yield name, f"{number(first.bundle)} {unit(first.unit)}".strip()
            if one.quantized and first.float32 is not None:
                yield "the same of the float32 model", f"{number(first.float32)} {unit(first.unit)}".strip()
    yield "goldens", f"{facts.goldens} cases"
    yield "size of the bundle", _bytes(sum(size for _, _, size in facts.digests))
    if facts.mutation is not None:
        total = sum(one.total for one in facts.mutation.classes)
        noticed = sum(one.by_answer for one in facts.mutation.classes)
        yield "mistakes the goldens notice", f"{noticed} of {total}"


def _promise(facts: ReportFacts) -> str:
    return section(
        "What goes in, what comes out",
        paragraph(facts.window),
        table(
            "Channels, in the units of the contract",
            ("channel", "unit", "trained", "tolerated", "physical", "undeclared unit"),
            [_channel(one) for one in facts.channels],
            kinds="ttnnnt",
        ),
        paragraph(
            "Outside the physical band a sample is refused. Outside the trained or the tolerated band it is answered, and "
            "the answer is flagged.", "note",
        ),
        table(
            "Answers",
            ("answer", "unit", "meaning", "flags or labels"),
            [(one.name, unit(one.unit) or "none", one.meaning, _marks(one)) for one in facts.outputs],
            kinds="ttll",
        ),
        table("What it needs of a device", ("need", "limit"), facts.needs, kinds="tn") if facts.needs else "",
    )  # fmt: skip


def _channel(one: ChannelFact) -> tuple[str, ...]:
    shown = (unit(one.unit) or "none") if one.form == "number" else one.form
    return one.name, shown, _range(one.trained), _range(one.tolerated), _range(one.physical), one.when_undeclared


def _marks(output: OutputFact) -> str:
    return "; ".join(output.flags) or ", ".join(output.labels) or "none"


def _proof(facts: ReportFacts) -> str:
    title = "Against the framework it was trained in"
    if facts.proof is None:
        return section(title, absent("No build record was given."))
    one = facts.proof
    return section(
        title,
        paragraph(
            f"The framework answered {one.cases} cases. The build gave the same raw values to the contract's steps and to "
            f"the exported model, and held both halves against what the framework had recorded."
        ),
        table(
            "Largest difference of all cases",
            ("what", "found", "allowed"),
            [
                ("input tensors, after the contract's steps", number(one.tensor), number(one.limit)),
                ("float32 outputs, in the tensor's own units", number(one.output), number(one.limit)),
                ("outputs between batch sizes", number(one.between_batch_sizes), "the tolerance below"),
            ],
            kinds="tnn",
        ),
    )


def _tolerances(facts: ReportFacts) -> str:
    return section(
        "Tolerances and their evidence",
        paragraph("How far a golden's answer may be from the stored one on a device, and why so far."),
        table(
            "By variant and provider",
            ("variant", "provider", "may be off by", "evidence"),
            [(one.variant, one.provider, one.limit, one.evidence) for one in facts.tolerances],
            kinds="tttl",
        ),
    )


def _coverage(facts: ReportFacts) -> str:
    numbers = [one for one in facts.channels if one.physical is not None]
    bands = [
        band(
            f"{one.name}, {_range(one.physical)} {unit(one.unit)}", one.physical,
            [(kind, pair) for kind, pair in (("tolerated", one.tolerated), ("trained", one.trained), ("seen", one.seen)) if pair],
        )
        for one in numbers if one.physical
    ]  # fmt: skip
    key = (
        '<p class="note" aria-hidden="true"><span class="key physical"></span>physical<span class="key tolerated"></span>'
        'tolerated<span class="key trained"></span>trained<span class="key seen"></span>where the goldens are</p>'
    )
    rows = [
        (
            one.name, unit(one.unit), _range(one.seen), str(one.inside), str(one.beyond),
            ", ".join(unit(code) or "1" for code in one.golden_units),
        )
        for one in numbers
    ]  # fmt: skip
    return section(
        "What the goldens cover",
        paragraph(
            f"{facts.goldens} stored cases go from raw values to the answer on every device at every start. A model is "
            "proven where they are, and nowhere else."
        ),
        key + "".join(bands) if bands else "",
        table(
            "By channel",
            ("channel", "unit", "goldens from, to", "within trained", "beyond trained", "given in the units"),
            rows,
            kinds="ttnnnl",
        )
        if rows
        else "",
        heading("Faults that must be refused"),
        table("One each, put into a golden", ("fault", "refused as"), facts.faults)
        if facts.faults
        else absent("The bundle has no case that must be refused."),
    )


def _units(facts: ReportFacts) -> str:
    title = "Units that could be confused"
    if not any(one.physical for one in facts.channels):
        return section(title, paragraph("No channel has a unit."))
    passing = [one for one in facts.confusable if max(one.tolerated, one.trained) > 0]
    if not passing:
        return section(
            title, paragraph("No reading in another unit of its kind would lie in its channel's physical band.")
        )
    policy = {one.name: one.when_undeclared for one in facts.channels}
    rows = []
    for channel, undeclared in policy.items():
        some = sorted((one for one in passing if one.channel == channel), key=lambda one: -one.tolerated)[:_NAMED_UNITS]
        rows += [
            (
                one.channel,
                unit(one.unit),
                unit(one.sibling) or "a share of 1",
                f"{one.tolerated:.0%}",
                f"{one.trained:.0%}",
                undeclared,
            )
            for one in some
        ]
    return section(
        title,
        paragraph(
            "If a source sends a channel in another unit and nobody says so, this share of its band still lies within the "
            "physical band: no range check can notice it. That is why a unit that nobody declared is refused, unless the "
            "author wrote 'assume'."
        ),
        table(
            f"The {_NAMED_UNITS} worst of each channel",
            ("channel", "unit", "read in", "of the tolerated band", "of the trained band", "undeclared unit"),
            rows,
            kinds="tttnnt",
        ),
    )


def _false_alarms(facts: ReportFacts) -> str:
    def share(value: float | None) -> str:
        return "cannot be told" if value is None else f"{value:.2%}"

    return section(
        "What is flagged against training",
        paragraph(
            "A flag changes no number and refuses nothing. The author's own data were played sample by sample; what is "
            "flagged there is a false alarm, and more than one in a hundred wears its reader out."
        ),
        table(
            "Answers that carry the flag",
            ("flag", "training data", "test data"),
            [(one.flag, share(one.train), share(one.test)) for one in facts.false_alarms],
            kinds="tnn",
        ),
    )


def _warnings(facts: ReportFacts) -> str:
    title = "Warnings of the build"
    if facts.warnings is None:
        return section(title, absent("No build record was given."))
    return section(title, items(facts.warnings) if facts.warnings else paragraph("None."))


def _origin(facts: ReportFacts) -> str:
    return section(
        "Where it comes from", table("As the author states it", ("what", "stated"), facts.provenance, kinds="tl")
    )


def _files(facts: ReportFacts) -> str:
    rows = [(name, digest, _bytes(size)) for name, digest, size in facts.digests]
    return section(
        "Digests",
        paragraph(
            f"The bundle is the one whose SHA256SUMS has this SHA-256; security version {facts.security_version}."
        ),
        f"<p><code>{facts.digest}</code></p>",
        table("Its files", ("file", "SHA-256", "size"), rows, kinds="tcn"),
        table("What it was built from", ("file", "SHA-256"), facts.inputs, kinds="tc")
        if facts.inputs is not None
        else absent("No build record was given: the files it was built from are not known here."),
        table("Built with", ("tool", "version"), facts.tools)
        if facts.tools is not None
        else absent("No build record was given: the tools are not known here."),
    )


def _range(pair: Range | None) -> str:
    return f"{number(pair[0])} to {number(pair[1])}" if pair else "\N{EM DASH}"


def _bytes(size: int) -> str:
    kilo = 1000
    return f"{size} B" if size < kilo else f"{size / kilo:.1f} kB" if size < kilo * kilo else f"{size / kilo**2:.1f} MB"
