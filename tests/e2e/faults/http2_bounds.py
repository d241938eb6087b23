"""What hostile frames may cost a server; the manifests leave room for it."""

MIB = 1 << 20
# 10,000 resets were seen to take 219 MiB.
MAX_GROWTH_BYTES = 448 * MIB
MAX_CPU_SECONDS = 10
# FloodWatch ends a connection at 64 MiB, and looks ten times a second.
MAX_FLOOD_GROWTH_BYTES = 256 * MIB
