"""What a line needs of a model: the contract, the call itself and the steps before it; it holds no state."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from edge_runtime.flow.preprocess import make_preprocess
from edge_runtime.spec.manifest import Manifest
from edge_runtime.spec.variant import Variant


class Infer(Protocol):
    """The model: by input tensor name in, by output tensor name out, batch first, row for row."""

    def __call__(self, feeds: Mapping[str, NDArray[Any]], /) -> Mapping[str, NDArray[Any]]: ...  # noqa: D102


class Model(NamedTuple):
    """What a line needs of a model, resolved once at boot: steps before, the call itself, steps after."""

    manifest: Manifest
    variant: Variant
    digest: str
    infer: Infer
    prepare: Infer | None = None

    def preprocess(self) -> Callable[[NDArray[np.float64]], Mapping[str, NDArray[Any]]]:
        """A function from windows ``(batch, time, numbers)`` in contract units to the model's input tensors by name.

        Raises:
            ValueError: the steps do not fit the shapes that the manifest states.

        """
        own, prepare = self.manifest.preprocess_onnx, self.prepare
        if own is None or prepare is None:
            return make_preprocess(self.manifest)
        name, dtype, has_window = own.input, np.dtype(own.dtype), self.manifest.window is not None
        return lambda windows: prepare({name: (windows if has_window else windows[:, 0]).astype(dtype)})
