"""Every lint of a model and its contract in one call, and the page about them; it refuses nothing itself."""

from collections.abc import Sequence

from onnx import ModelProto

from edge_runtime.author import (
    confusable,
    lint_answers,
    lint_behaviour,
    lint_contract,
    lint_integer,
    lint_ports,
    lint_structure,
    lint_weights,
)
from edge_runtime.author.confusable import Quantity, judge_units
from edge_runtime.author.lint_behaviour import Evidence, behaviour
from edge_runtime.author.lint_facts import Facts
from edge_runtime.author.lint_finding import MIN_REASON_CHARACTERS, Finding, Rule
from edge_runtime.author.lint_integer import integer
from edge_runtime.author.lint_ports import ports
from edge_runtime.author.lint_structure import structure
from edge_runtime.author.lint_weights import weights

_GROUPS: dict[str, tuple[Rule, ...]] = {
    "The graph": lint_structure.RULES,
    "The graph against the contract and the runtime": lint_ports.RULES,
    "Stored numbers": lint_weights.RULES,
    "int8": lint_integer.RULES,
    "What the model does": lint_behaviour.RULES,
    "What the bundle answers to the test data": lint_answers.RULES,
    "The contract against data and model": lint_contract.RULES,
    "Units": confusable.RULES,
}
RULES: dict[str, Rule] = {rule.id: rule for rules in _GROUPS.values() for rule in rules}
"""Every rule by its id; `judge` takes the ids as those that may be waived."""


def lint(
    model: ModelProto, facts: Facts, *, evidence: Evidence | None = None, quantities: Sequence[Quantity] = ()
) -> tuple[Finding, ...]:
    """Look at a model as it came from the exporter, or as the quantizer left it, against what its contract says.

    With ``evidence`` the model is run too, ``quantities`` are the channels to check for confusable units. Each finding
    stands once, errors first.

    Raises:
        DeviceError: from ``evidence.infer``, where the model does not run one case.

    """
    found = [*structure(model), *ports(model, facts), *weights(model, facts), *integer(model, facts)]
    if evidence is not None:
        found += behaviour(evidence, facts.batch_sizes)
    found += judge_units(quantities)
    return tuple(sorted(dict.fromkeys(found), key=lambda finding: finding.severity != "error"))


def page() -> str:
    """The text of docs/lint.md."""
    parts = [_HEAD]
    for title, rules in _GROUPS.items():
        parts.append(f"\n## {title}\n")
        parts += [
            f"\n### `{rule.id}` ({rule.severity})\n"
            f"- **What**: {rule.what}.\n- **Why**: {rule.why}.\n- **Fix**: {rule.fix}.\n"
            for rule in rules
        ]
    return "".join(parts)


_HEAD = f"""# Lint: what keeps a model from becoming a bundle

`edge-runtime build` looks at the model before it does anything with it. An *error* stops the build; a *warning* is
printed and recorded.

An error you can live with is waived in writing, in the contract; the bundle's record then carries your reason:

```toml
[waive]
dead-channel = "channels 3 and 9 are zero in the float model too: pruned on purpose"
```

A reason has {MIN_REASON_CHARACTERS} characters or more, and an unknown id is refused. A waiver does
not make a model run that the runtime cannot take.

This page is made from the code: `python -m tests.author.test_lint_page` writes it anew.
"""
