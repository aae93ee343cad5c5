#!/bin/sh
# greenboot, wanted: a failure is logged and nothing else comes of it. Ports, memory, the provider that was chosen.
set -u
exec timeout -k 5 "${EDGE_RUNTIME_TIMEOUT:-120}" "${EDGE_RUNTIME:-edge-runtime}" selftest \
  --config "${EDGE_RUNTIME_CONFIG:-/etc/edge-runtime/device.toml}" --tier wanted
