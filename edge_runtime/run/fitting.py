"""What of a lane follows from a bundle's contract and its device file, made before the lane takes it on; it opens nothing."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic_core import to_json

from edge_runtime.flow.contract import Contract
from edge_runtime.flow.decode import make_decoder
from edge_runtime.flow.decoder import Decoder
from edge_runtime.flow.encode import Encode, make_encoder
from edge_runtime.flow.line import max_streams
from edge_runtime.flow.publish import Suppress, make_suppress
from edge_runtime.flow.window import WindowRule
from edge_runtime.links.mqtt_port import MqttLink
from edge_runtime.run.file_channels import file_channels
from edge_runtime.spec.binding import ChannelBinding
from edge_runtime.spec.device_config import LineConfig
from edge_runtime.spec.manifest import Manifest
from edge_runtime.spec.outputs import Output
from edge_runtime.spec.payload import SparkplugDecode

if TYPE_CHECKING:
    from edge_runtime.flow.join import Join
    from edge_runtime.run.rebirths import Rebirths

_DEFAULT_FRESH_S: Final = 60.0
_FRESH_PERIODS: Final = 3e9


@dataclass(frozen=True, slots=True)
class Fitting:
    """The parts. ``key`` is the same for two bundles whose samples mean the same, so that windows may go on.

    ``fresh_ns`` is how long after a sample data still flows; ``is_memoryless``: no answer depends on an earlier sample.
    """

    key: str
    bound: dict[str, ChannelBinding]
    contract: Contract
    decoder: Decoder
    join: "Join | None"
    rebirths: "Rebirths | None"
    outputs: Sequence[Output]
    make_suppress: Callable[[], Suppress | None]
    fresh_ns: int
    is_memoryless: bool


def fit(
    config: LineConfig,
    manifest: Manifest,
    *,
    folder: Path,
    link: MqttLink | None,
    wall_ns: Callable[[], int],
    mono_ns: Callable[[], int],
    former: Fitting | None = None,
) -> Fitting:
    """Make the parts; what ``former`` knows of its senders (births, headers) goes on where the channels are the same.

    Raises:
        ConfigurationError: the file does not suit the contract, as a deadband for an output that is not there.

    """
    channels = manifest.channels
    bound = {channel.name: config.channels[channel.name] for channel in channels}
    contract, files = Contract(channels, bound), file_channels(channels, bound, folder)
    if former is not None and list(former.bound) == list(bound):
        decoder, rebirths = former.decoder, former.rebirths
    else:
        decoder = make_decoder(config.decode, bound, files)
        rebirths = _rebirths(config, decoder, link, wall_ns=wall_ns, mono_ns=mono_ns)
    join = None
    if config.joins:
        from edge_runtime.flow.join import Join  # noqa: PLC0415 -- for those whose messages do not bring all channels

        join = Join(config.decode, bound, contract, max_streams=max_streams(WindowRule(manifest)), files=files)
    window = manifest.window
    make = partial(make_suppress, config.publish, manifest.outputs)
    make()  # what it refuses is refused before anything is changed
    return Fitting(
        key=_key(manifest),
        bound=bound,
        contract=contract,
        decoder=decoder,
        join=join,
        rebirths=rebirths,
        outputs=manifest.outputs,
        make_suppress=make,
        fresh_ns=round((window.period_s if window and window.period_s else _DEFAULT_FRESH_S) * _FRESH_PERIODS),
        is_memoryless=(window is None or window.length == 1) and not manifest.state
        and not any(output.flags for output in manifest.outputs)
        and not any(one.when_absent == "last" for one in bound.values()),
    )  # fmt: skip


def encoders(config: LineConfig, fitting: Fitting, run_id: str) -> list[Encode]:
    """What writes an answer for each sink; raises ConfigurationError where a sink's map names what no answer has."""
    return [make_encoder(spec, run_id, fitting.outputs, config.decode.carry) for spec in config.sink]


def _key(manifest: Manifest) -> str:
    """A digest of all that decides what a stream holds: channels with ranges and policies, window, states, flags, watch."""
    window, watch = manifest.window, manifest.plausibility
    said = [
        [one.model_dump(mode="json") for one in manifest.channels],
        None if window is None else window.model_dump(mode="json"),
        [one.model_dump(mode="json") for one in manifest.state],
        [[output.name, [flag.name for flag in output.flags]] for output in manifest.outputs],
        None if watch is None else watch.model_dump(mode="json"),
    ]
    return hashlib.sha256(to_json(said)).hexdigest()


def _rebirths(
    config: LineConfig,
    decoder: Decoder,
    link: MqttLink | None,
    *,
    wall_ns: Callable[[], int],
    mono_ns: Callable[[], int],
) -> "Rebirths | None":
    decode = config.decode
    if not isinstance(decode, SparkplugDecode):
        return None
    from edge_runtime.run.rebirths import Rebirths  # noqa: PLC0415 -- for who has such nodes

    return Rebirths(decoder, link if decode.rebirth == "ask" else None, wall_ns=wall_ns, mono_ns=mono_ns)
