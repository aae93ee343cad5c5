"""The execution providers a profile may name, and the options each takes; whether one works here is not known to it."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, NamedTuple


class Provider(NamedTuple):
    """One of ONNX Runtime's providers: which distributions bring it, and the option keys it may be given.

    ``home`` says whether it is part of an onnxruntime, comes in a library of its own that the profile names, or either.

    Left out are keys that hand over pointers or callbacks, those that load code or engines from a path
    (``trt_extra_plugin_lib_paths``, ``trt_ep_context_file_path``, ``load_config``): what a profile says is data; and
    those that follow from the bundle (``trt_int8_enable``, ``trt_profile_min_shapes``): spec/provider_options says them.
    """

    distribution: str
    options: frozenset[str]
    home: Literal["part", "library", "either"] = "part"


CPU: Final = "CPUExecutionProvider"
CUDA: Final = "CUDAExecutionProvider"
TENSORRT: Final = "TensorrtExecutionProvider"
TENSORRT_RTX: Final = "NvTensorRTRTXExecutionProvider"
WEBGPU: Final = "WebGpuExecutionProvider"

# Keys as ONNX Runtime's own pages for each provider list them; OpenVINO's and WebGPU's as found in onnxruntime-openvino
# 1.24.1 and onnxruntime-ep-webgpu 0.4.0.
PROVIDERS: Final[Mapping[str, Provider]] = MappingProxyType(
    {
        CPU: Provider("any distribution of onnxruntime", frozenset()),
        "OpenVINOExecutionProvider": Provider(
            "onnxruntime-openvino (pip install 'edge-runtime[openvino]'), or onnxruntime-ep-openvino and `library`",
            frozenset(
                {
                    "device_type", "precision", "num_of_threads", "num_streams", "model_priority",
                    "enable_opencl_throttling", "disable_dynamic_shapes", "enable_qdq_optimizer",
                }
            ),
            home="either",
        ),
        CUDA: Provider(
            "onnxruntime-gpu (pip install 'edge-runtime[gpu]'), on a Jetson the vendor's wheel",
            frozenset(
                {
                    "device_id", "gpu_mem_limit", "arena_extend_strategy", "cudnn_conv_algo_search",
                    "do_copy_in_default_stream", "cudnn_conv_use_max_workspace", "cudnn_conv1d_pad_to_nc1d",
                    "enable_cuda_graph", "prefer_nhwc", "use_tf32", "use_ep_level_unified_stream",
                    "enable_skip_layer_norm_strict_mode", "tunable_op_enable", "tunable_op_tuning_enable",
                    "tunable_op_max_tuning_duration_ms",
                }
            ),
        ),
        TENSORRT: Provider(
            "onnxruntime-gpu (pip install 'edge-runtime[gpu]') and TensorRT, on a Jetson the vendor's wheel",
            frozenset(
                {
                    "device_id", "trt_max_workspace_size", "trt_max_partition_iterations", "trt_min_subgraph_size",
                    "trt_fp16_enable", "trt_bf16_enable", "trt_dla_enable", "trt_dla_core",
                    "trt_force_timing_cache", "trt_engine_hw_compatible",
                    "trt_layer_norm_fp32_fallback", "trt_builder_optimization_level",
                    "trt_auxiliary_streams", "trt_tactic_sources", "trt_sparsity_enable", "trt_cuda_graph_enable",
                    "trt_force_sequential_engine_build", "trt_context_memory_sharing_enable",
                    "trt_detailed_build_log",
                }
            ),
        ),
        TENSORRT_RTX: Provider(
            "the library of onnxruntime-ep-nv-tensorrt-rtx, which the profile names with `library`",
            frozenset(
                {
                    "nv_max_workspace_size", "nv_max_shared_mem_size", "nv_detailed_build_log", "enable_cuda_graph",
                }
            ),
            home="library",
        ),
        WEBGPU: Provider(
            "the library of onnxruntime-ep-webgpu, which the profile names with `library`",
            frozenset({"preferredLayout", "powerPreference", "enableGraphCapture", "validationMode"}),
            home="library",
        ),
    }
)  # fmt: skip

CACHES: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "OpenVINOExecutionProvider": MappingProxyType({"cache_dir": "{folder}"}),
        "TensorrtExecutionProvider": MappingProxyType(
            {
                "trt_engine_cache_enable": "1", "trt_engine_cache_path": "{folder}",
                "trt_timing_cache_enable": "1", "trt_timing_cache_path": "{folder}",
            }
        ),
        TENSORRT_RTX: MappingProxyType({"nv_runtime_cache_path": "{folder}"}),
    }
)  # fmt: skip
"""By provider that can keep files between boots, the options which make it do so in ``{folder}``."""

CACHE_KEYS: Final = frozenset(key for keys in CACHES.values() for key in keys) | {"trt_engine_cache_prefix"}
"""What a profile may not say: where such files lie, and what they are called, is the runtime's own matter."""


def cache_options(provider: str, folder: str) -> dict[str, str]:
    """The options with which ``provider`` keeps its files in ``folder``, an absolute path.

    Raises:
        KeyError: it keeps none.

    """
    return {key: text.replace("{folder}", folder) for key, text in CACHES[provider].items()}
