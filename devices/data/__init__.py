"""Readers of data sets, one a file."""

import devices.data.tv  # noqa: F401  users' readers and networks may import torchvision beside a CPU-only torch, too
