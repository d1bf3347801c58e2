"""Computes a digest of this machine's arithmetic: machines with equal digests compute the same bits."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from algorithms import models
from algorithms.training.dropout import counter_based
from algorithms.training.seeding import seeded
from emulator.lab.lab import CPU, Lab
from emulator.messages.store import Store

# (m, k, n) of (m, k) @ (k, n): small, odd, thin, and larger than any cache line, vector or block
PRODUCTS = ((1, 1, 1), (3, 5, 7), (17, 33, 9), (64, 784, 10), (1, 513, 129), (127, 255, 191))
MANY = 100_000  # arguments of each function
STEPS, BATCH = 3, 16


def probe(lab: Lab, store: Store) -> str:  # noqa: ARG001  it is a job (see lab/jobs.py)
    """Returns the SHA-256, in hex, of the bits that the operations of training give in a worker, with its threads and
    settings.

    On a GPU it also covers the names of its model and libraries, because they may choose other algorithms for tensors
    of other shapes than those tried here.
    """
    sha256 = hashlib.sha256(_hardware(lab.on).encode())
    for tensor in _results(lab.on):
        sha256.update(str((tensor.dtype, tuple(tensor.shape))).encode())
        sha256.update(tensor.detach().contiguous().cpu().numpy().data)
    return sha256.hexdigest()


def _hardware(place: str) -> str:
    """Returns a description of a GPU and its libraries; "" for a CPU, which only the results of operations tell from
    others."""
    if place == CPU:
        return ""
    gpu = torch.cuda.get_device_properties(place)
    libraries = torch.version.cuda, torch.backends.cudnn.version()  # type: ignore[no-untyped-call]
    return repr((gpu.name, gpu.major, gpu.minor, gpu.multi_processor_count, gpu.total_memory, *libraries))


def _results(place: str) -> Iterator[Tensor]:
    """Yields the results of random draws, products, functions, layers and training steps.  Random numbers are drawn on
    the CPU, as in training."""
    generator = Generator().manual_seed(1)
    yield torch.randperm(1001, generator=generator)
    yield torch.normal(0.0, 1.0, (1001,), generator=generator)
    yield torch.rand(1001, generator=generator)
    seeded(2)  # dropout draws from torch's own generator
    yield F.dropout(torch.ones(1001), 0.2)
    for m, k, n in PRODUCTS:
        yield torch.randn(m, k, generator=generator).to(place) @ torch.randn(k, n, generator=generator).to(place)
    x = torch.randn(MANY, generator=generator).to(place)
    yield from (torch.exp(x), torch.tanh(x), torch.log_softmax(x.view(-1, 10), 1), x.sum(), x.double().sum())
    yield from _layers(generator, place)
    # Some processors sum these in another order in bfloat16, though not in float32.
    factors = torch.randn(64, 129, generator=generator), torch.randn(129, 33, generator=generator)
    images, kernels = torch.randn(7, 3, 13, 13, generator=generator), torch.randn(8, 3, 5, 5, generator=generator)
    for combined, (a, b) in ((torch.matmul, factors), (F.conv2d, (images, kernels))):
        yield combined(a.to(place, torch.bfloat16), b.to(place, torch.bfloat16)).float()
    for model in ("mnist-cnn", "mlp"):
        yield from _training(model, generator, place)


def _layers(generator: Generator, place: str) -> Iterator[Tensor]:
    """Yields the outputs and gradients of a convolution, a batch normalisation and a recurrent layer."""
    seeded(3)  # for the layers' initial weights
    images, texts = (7, 3, 13, 13), (5, 9, 11)
    layers = (nn.Conv2d(3, 8, 5, padding=2), images), (nn.BatchNorm2d(3), images), (nn.GRU(11, 13), texts)
    for layer, shape in layers:
        output = layer.to(place)(torch.randn(shape, generator=generator).to(place))
        output = output[0] if isinstance(output, tuple) else output
        torch.autograd.backward(output.square().sum())
        yield output
        yield from (p.grad for p in layer.parameters() if p.grad is not None)


def _training(model: str, generator: Generator, place: str) -> Iterator[Tensor]:
    """Yields the parameters of a model after a few steps of SGD, taken as local.sgd takes them, but without
    torch.optim, which takes longer to load than all of this."""
    network = counter_based(models.build(model, 4).to(place))
    parameters = list(network.parameters())
    for parameter in parameters:
        if parameter.dim() == 4:
            parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)
    x = torch.randn(BATCH, *models.input_shape(model), generator=generator).to(place)
    y = torch.randint(0, 10, (BATCH,), generator=generator).to(place)
    for step in range(STEPS):
        seeded(step)
        loss = models.cross_entropy(network(x), y).mean()
        for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
            parameter.data.sub_(gradient, alpha=0.1)
    yield from parameters
