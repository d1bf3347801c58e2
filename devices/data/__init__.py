"""Readers of data sets, one in each file."""

import devices.data.tv  # noqa: F401  users' readers and networks may import torchvision beside a CPU-only torch, too
