#!/bin/sh
# greenboot, required: another code than 0 makes the boot a red one. greenboot then reboots, and after its attempts rolls back.
# What no new system can mend, a port that is unplugged or a broker that is away, is not looked at here.
set -u
exec timeout -k 5 "${EDGE_RUNTIME_TIMEOUT:-120}" "${EDGE_RUNTIME:-edge-runtime}" selftest \
  --config "${EDGE_RUNTIME_CONFIG:-/etc/edge-runtime/device.toml}" --tier required
