"""What was tried on the way to a bundle, and how strong its goldens are, as sections of one report."""

from edge_runtime.author.chart import bars
from edge_runtime.author.report_facts import Mutation, NodeError, Recipe
from edge_runtime.author.report_html import absent, figure, items, number, paragraph, section, table

_MOST_NODES = 15
_MOST_SURVIVORS = 20
_SHOWN = 20


def node_errors(nodes: tuple[NodeError, ...] | None) -> str:
    """Which nodes lose most in int8."""
    title = "Error by node"
    if nodes is None:
        return section(title, absent("Nobody compared the model node by node."))
    if not nodes:
        return section(title, paragraph("No node of the bundle's model is quantized."))
    worst = sorted(nodes, key=lambda one: (-one.error, one.node))[:_MOST_NODES]
    names = [_short(one.node) for one in worst]
    # A bar has its place by its name: two nodes whose ends are alike must not share one.
    rows = [
        (name if names.count(name) == 1 else f"{at + 1} {name}", one.error)
        for at, (name, one) in enumerate(zip(names, worst, strict=True))
    ]
    return section(
        title,
        paragraph(
            f"How far each node's int8 output is from its float32 output, root mean square as a share of the latter's "
            f"spread; the {len(worst)} largest of {len(nodes)}. What the nodes before it cost is part of it. A node "
            "that stands out is a candidate to be left in float."
        ),
        figure(
            bars(
                rows, x="difference, share of the spread", label="Bars: the int8 error of each node, the largest first"
            ),
            "The largest first.",
        ),
        table(
            "The same in numbers",
            ("node", "operator", "share of the spread"),
            [(one.node, one.operator, f"{one.error:.2%}") for one in worst],
            kinds="ltn",
        ),
    )


def recipes(tried: tuple[Recipe, ...] | None) -> str:
    """Every way the model was made, with times and verdicts."""
    title = "Recipes and their latency"
    if tried is None:
        return section(title, absent("No other recipe was tried, and no time was taken."))
    rows = [
        (
            one.name,
            number(one.p50_ms),
            number(one.p99_ms),
            "\N{EM DASH}" if one.size_bytes is None else f"{one.size_bytes / 1000:.1f}",
            one.metric,
            f"{'chosen; ' if one.chosen else ''}{one.verdict}",
        )
        for one in tried
    ]
    timed = [(_short(one.name), one.p50_ms) for one in tried if one.p50_ms is not None]
    return section(
        title,
        paragraph("One case at a time on the machine that built the bundle; another machine has other times."),
        table(
            "Recipes tried",
            ("recipe", "median, ms", "99 %, ms", "size, kB", "metric", "verdict"),
            rows,
            kinds="tnnnnl",
            chosen=next((at for at, one in enumerate(tried) if one.chosen), None),
        ),
        figure(
            bars(timed, x="median time of one case, ms", label="Bars: the median time of each recipe"),
            "Shorter is faster.",
        )
        if timed
        else "",
    )


def mutation(found: Mutation | None) -> str:
    """Which mistakes the goldens notice."""
    title = "Mistakes the goldens notice"
    if found is None:
        return section(title, absent("`edge-runtime mutate` was not run on this bundle."))
    stages = list(dict.fromkeys(stage for one in found.classes for stage, _ in one.by_stage))
    rows = [
        (
            one.name,
            str(one.total),
            *(str(dict(one.by_stage).get(stage, 0)) for stage in stages),
            f"{one.by_answer} ({one.by_answer / one.total:.0%})" if one.total else "0",
            "all" if one.must else "99 %",
        )
        for one in found.classes
    ]
    left = found.survivors[:_MOST_SURVIVORS]
    more = f" The first {len(left)} of {len(found.survivors)}:" if len(found.survivors) > len(left) else ""
    return section(
        title,
        paragraph(
            "One mistake at a time was put into the line, and the goldens were run through it. The columns in the middle "
            "say at which stage a mistake was noticed first; by the answer is what somebody sees who has only the answers."
        ),
        table(
            f"{found.equivalent} mistakes that change no answer are left out",
            ("class", "mistakes", *stages, "by the answer", "demanded"),
            rows,
            kinds="tn" + "n" * len(stages) + "nn",
        ),
        paragraph(
            f"{found.tolerated} of them move the answer by less than the bundle's own tolerance, so that it cannot notice "
            "them; a stage before it does.",
            "note",
        )
        if found.tolerated
        else "",
        paragraph(f"There was no time to judge {found.unjudged} more.", "note") if found.unjudged else "",
        paragraph(f"Not noticed by the answer.{more}") + items(left) if left else paragraph("Every one was noticed."),
    )


def _short(name: str) -> str:
    """The end of a long name, where exporters put what tells nodes apart; a picture must keep room for its bars."""
    return name if len(name) <= _SHOWN else f"\N{HORIZONTAL ELLIPSIS}{name[-_SHOWN + 1 :]}"
