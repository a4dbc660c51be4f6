"""The control plane of one run: what happens around the offering of a schedule."""
