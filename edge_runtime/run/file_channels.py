"""The folders that a line's payloads may name files in, opened for its channels; it reads no file itself."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from edge_runtime.flow.number_file import NumberFiles, most_bytes
from edge_runtime.sources.named_file import open_folder
from edge_runtime.spec.binding import ChannelBinding
from edge_runtime.spec.inputs import Channel


def file_channels(
    channels: Iterable[Channel], bound: Mapping[str, ChannelBinding], folder: Path
) -> dict[str, NumberFiles]:
    """Every channel with ``read = "file"`` -> its files; a relative path begins in ``folder``.

    Raises ConfigurationError where a channel's folder is none.
    """
    files = {}
    for channel in channels:
        binding = bound[channel.name]
        if binding.folder is None or binding.dtype is None:
            continue
        read = open_folder(
            folder / binding.folder,
            subject=f"channel {channel.name}, folder",
            max_bytes=most_bytes(binding.dtype, channel.shape),
        )
        files[channel.name] = NumberFiles(read, channel.shape)
    return files
