"""Contexts in which networks have the derivatives that fused kernels lack."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel


@contextmanager
def unfused_attention() -> Iterator[None]:
    """A context in which attention is computed as its single products: its fused forms have no second derivatives, and
    torch.func.vmap loops over them, with a warning."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # which nn.MultiheadAttention takes in eval mode if it is frozen
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


@contextmanager
def twice_differentiable() -> Iterator[None]:
    """A context in which recurrent layers have gradients in eval mode, and they and attention second derivatives.

    On CUDA, cuDNN's GRU and LSTM support neither ("derivative for '_cudnn_rnn_backward' is not implemented"), so here
    they run on torch's own kernels, forward passes included; attention is unfused.  It changes no other layers.  For
    UGA's keep-trace passes and for importance.
    """
    before = torch.backends.cudnn.enabled
    torch.backends.cudnn.enabled = False  # cudnn.flags() would also change other settings, such as the precision
    try:
        with unfused_attention():
            yield
    finally:
        torch.backends.cudnn.enabled = before
