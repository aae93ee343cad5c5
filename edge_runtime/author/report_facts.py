"""What a report is made of, as plain values; None stands for what nobody measured, and nothing here measures anything."""

from dataclasses import dataclass

Range = tuple[float, float]


@dataclass(frozen=True, slots=True)
class ChannelFact:
    """One channel: its contract, and what the goldens do with it; ranges are in ``unit``, None where it is no number.

    ``seen`` is the lowest and highest golden value, ``inside`` and ``beyond`` the goldens that stay within the trained
    band, and those that leave it; ``golden_units`` the units in which the goldens give it.
    """

    name: str
    form: str
    unit: str
    when_undeclared: str
    trained: Range | None
    tolerated: Range | None
    physical: Range | None
    seen: Range | None
    inside: int
    beyond: int
    golden_units: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OutputFact:
    """One answer: what it means, its unit, its labels and the levels of its flags, in words."""

    name: str
    meaning: str
    form: str
    unit: str
    labels: tuple[str, ...]
    flags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Metric:
    """One figure on the test split, of the source model, of the bundle, or of both; None where it has none."""

    name: str
    unit: str
    float32: float | None
    bundle: float | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """One output of one variant on the test split, case by case: numbers in ``unit``, or labels.

    ``quantized`` says whether the bundle's model holds other numbers than the source model.
    """

    variant: str
    output: str
    unit: str
    quantized: bool
    cases: int
    metrics: tuple[Metric, ...]
    float32: tuple[float, ...] | tuple[str, ...]
    bundle: tuple[float, ...] | tuple[str, ...]
    truth: tuple[float, ...] | tuple[str, ...] | None
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeError:
    """How far one node's int8 output is from its float output, as a share of the float output's own spread.

    What the nodes before it cost is part of it, as in service.
    """

    node: str
    operator: str
    error: float


@dataclass(frozen=True, slots=True)
class Recipe:
    """One way to make the model that was tried: times of one case in ms, size in bytes, a metric, the verdict in words."""

    name: str
    p50_ms: float | None
    p99_ms: float | None
    size_bytes: int | None
    metric: str
    verdict: str
    chosen: bool


@dataclass(frozen=True, slots=True)
class ToleranceFact:
    """How far an answer may be off on one provider, in words, and where that comes from."""

    variant: str
    provider: str
    limit: str
    evidence: str


@dataclass(frozen=True, slots=True)
class MutantClass:
    """One class of mistakes: how many count, how many each stage noticed first, how many the answers alone notice."""

    name: str
    must: bool
    total: int
    by_stage: tuple[tuple[str, int], ...]
    by_answer: int


@dataclass(frozen=True, slots=True)
class Mutation:
    """The mutation matrix of one golden set.

    ``survivors`` are by name what the answers do not notice; ``tolerated`` counts those of no concern, since they lie
    within the bundle's tolerance, ``equivalent`` those left out, ``unjudged`` those there was no time for.
    """

    classes: tuple[MutantClass, ...]
    survivors: tuple[str, ...]
    tolerated: int
    equivalent: int
    unjudged: int


@dataclass(frozen=True, slots=True)
class ConfusableUnit:
    """The share, 0 to 1, of a channel's bands that passes unseen when a source sends it in ``sibling``."""

    channel: str
    unit: str
    sibling: str
    tolerated: float
    trained: float


@dataclass(frozen=True, slots=True)
class Proof:
    """How near the bundle's two halves are to what the source framework answered, over ``cases`` cases."""

    cases: int
    tensor: float
    output: float
    limit: float
    between_batch_sizes: float


@dataclass(frozen=True, slots=True)
class FalseAlarm:
    """One flag of ``[plausibility]`` and the shares, 0 to 1, of the author's own data that carry it; None where unknown."""

    flag: str
    train: float | None
    test: float | None


@dataclass(frozen=True, slots=True)
class ReportFacts:
    """Everything one page says; an optional part that is None is said to be not measured."""

    id: str
    version: str
    security_version: int
    description: str
    limits: str
    window: str
    needs: tuple[tuple[str, str], ...]
    channels: tuple[ChannelFact, ...]
    outputs: tuple[OutputFact, ...]
    goldens: int
    faults: tuple[tuple[str, str], ...]
    tolerances: tuple[ToleranceFact, ...]
    confusable: tuple[ConfusableUnit, ...]
    provenance: tuple[tuple[str, str], ...]
    digests: tuple[tuple[str, str, int], ...]
    digest: str
    inputs: tuple[tuple[str, str], ...] | None = None
    tools: tuple[tuple[str, str], ...] | None = None
    proof: Proof | None = None
    comparisons: tuple[Comparison, ...] | None = None
    nodes: tuple[NodeError, ...] | None = None
    recipes: tuple[Recipe, ...] | None = None
    mutation: Mutation | None = None
    warnings: tuple[str, ...] | None = None
    false_alarms: tuple[FalseAlarm, ...] = ()
