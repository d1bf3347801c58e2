"""Programs of the algorithms that are independent of the product: float64, one device after another, written from the
papers and docs/design/algorithms.md.

Only the draws are the product's: the orders of examples, the seeds of dropout, the chances of drawn labels, the orders
of a placebo and the parts of a shared set.  An algorithm's options are read from the product's object, `how`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil
from typing import Any

import numpy as np
import torch
from torch import Tensor

from algorithms.algorithm import Party, Training
from tests.algorithms.oracle_steps import Net, Walk, importance, rate_of, replaced, sgd

Springs = Sequence[tuple[Tensor, Tensor]]  # stiffness k and anchor a of each, ½ k (θ - a)² in each coordinate


class FedAvg:
    """McMahan et al. 2017, Alg. 1 (§3), with whatever springs a subclass adds to the local loss."""

    def __init__(self, net: Net, how: Any, theta: Tensor) -> None:
        self.net, self.how, self.theta, self.training = net, how, theta, how.training
        self.sizes: dict[str, int] = {}  # of the last training of each device, as all that follows
        self.models: dict[str, Tensor] = {}
        self.walks: dict[str, Walk] = {}
        self.sprung: dict[str, Springs | None] = {}
        self.stale: Mapping[str, int] = {}  # staleness of devices' replies; 0 of all others

    def open(self, server: Party, asked: Sequence[str]) -> None:
        """Opens a round."""

    def springs(self, device: Party) -> Springs | None:
        """Returns the springs of a device; None without a penalty."""
        return None

    def walk(self, device: Party) -> Walk:
        """Trains the device."""
        springs = self.sprung[device.name] = self.springs(device)
        return sgd(self.net, self.theta, device, self.training, lambda theta: pulled(springs or (), theta))

    def train(self, device: Party) -> Tensor:
        """Returns the model of a device after its training."""
        name, walk = device.name, self.walk(device)
        self.sizes[name], self.walks[name], self.models[name] = len(device.y), walk, walk.places[-1]
        return self.models[name]

    def mean(self, counted: Sequence[str]) -> Tensor:
        """Returns the mean of the models, weighted by examples."""
        return sum(self.sizes[name] * self.models[name] for name in counted) / sum(self.sizes[name] for name in counted)

    def close(self, server: Party, counted: Sequence[str]) -> None:
        """Closes a round, in which the replies of these devices arrived."""
        self.theta = self.mean(counted)

    def kinds(self) -> Mapping[str, Tensor]:
        """Returns the server's state."""
        return {"weights": self.theta}

    def told(self, device: Party) -> dict[str, float]:
        """Returns what a device with springs reports: η · steps · k of the coordinates (median, 99th percentile and
        largest), η · max k (§10), and the springs' share of the loss in the last epoch."""
        if (springs := self.sprung.get(device.name)) is None:
            return {}
        walk, k = self.walks[device.name], sum((stiff for stiff, _ in springs), self.net.zeros())
        ordered, rate, steps = sorted(k.tolist()), rate_of(self.training, device.round), len(walk.slopes)
        ranks = {"median": ceil(0.5 * len(k)) - 1, "p99": ceil(0.99 * len(k)) - 1, "max": -1}
        reached = {name: rate * steps * ordered[rank] for name, rank in ranks.items()}
        rest = torch.where(k > 0, sum((stiff * anchor for stiff, anchor in springs), self.net.zeros()) / k, 0)
        value = energy(springs, walk.places[-1]) - energy(springs, rest)  # above its minimum
        last = walk.losses[-(steps // self.training.epochs) :]
        share = value / (value + sum(last) / len(last))
        return reached | {"step": rate * ordered[-1], "penalty_share": share}


def pulled(springs: Springs, theta: Tensor) -> Tensor:
    """Returns the gradient of the springs."""
    return sum((stiff * (theta - anchor) for stiff, anchor in springs), torch.zeros_like(theta))


def energy(springs: Springs, theta: Tensor) -> float:
    """Returns Σ ½ k (θ - a)²."""
    return sum(float((stiff * (theta - anchor) ** 2).sum()) / 2 for stiff, anchor in springs)


class FedProx(FedAvg):
    """Li et al. 2020: (μ/2) ‖θ - θ_t‖²."""

    def springs(self, device: Party) -> Springs | None:
        return [(self.how.mu * torch.ones_like(self.theta), self.theta)] if self.how.mu else None


class Stale:
    """Weights of stale replies: Xie et al. 2019, §5.2."""

    def weight(self, name: str) -> float:
        how, s = self.how, self.stale.get(name, 0)
        known = {"constant": 1.0, "polynomial": (1 + s) ** -how.a, "hinge": 1 / (1 + how.a * max(0, s - how.b))}
        return known[how.staleness]

    def change(self, name: str) -> Tensor:
        """Returns the change of a device, which started from the current model here."""
        return self.models[name] - self.theta


class FedAsync(Stale, FedProx):
    """Xie et al. 2019, Alg. 1, with FedProx's term: the oldest replies first."""

    def close(self, server: Party, counted: Sequence[str]) -> None:
        for name in sorted(counted, key=lambda name: (-self.stale.get(name, 0), name)):
            share = self.how.alpha * self.weight(name)
            self.theta = (1 - share) * self.theta + share * self.models[name]


class FedBuff(Stale, FedAvg):
    """Nguyen et al. 2022, Alg. 1 and 2."""

    def close(self, server: Party, counted: Sequence[str]) -> None:
        over = len(counted) if self.how.divisor == "replies" else sum(map(self.weight, counted))
        self.theta = self.theta + self.how.server_lr * sum(self.weight(k) * self.change(k) for k in counted) / over


class FADAS(Stale, FedAvg):
    """Wang et al. 2024, Alg. 1; with `divide` as its authors' code."""

    def __init__(self, net: Net, how: Any, theta: Tensor) -> None:
        super().__init__(net, how, theta)
        self.m, self.v, self.largest = net.zeros(), net.zeros(), net.zeros()

    def close(self, server: Party, counted: Sequence[str]) -> None:
        how, delay = self.how, max(self.stale.get(name, 0) for name in counted)
        delta = sum(map(self.change, counted)) / len(counted)
        self.m = how.beta1 * self.m + (1 - how.beta1) * delta
        self.v = how.beta2 * self.v + (1 - how.beta2) * delta**2
        self.largest = torch.maximum(self.largest, self.v)
        rate = how.server_lr
        if delay > how.tau_c:
            rate = {"minimum": min(rate, 1 / delay), "divide": rate / delay, "none": rate}[how.delayed]
        self.theta = self.theta + rate * self.m / (self.largest.sqrt() + how.epsilon)

    def kinds(self) -> Mapping[str, Tensor]:
        return {"weights": self.theta, "momentum": self.m, "variance": self.v, "largest": self.largest}


class CA2FL(Stale, FedAvg):
    """Wang et al., ICLR 2024, Alg. 2: the mean over all devices is taken anew each time."""

    def __init__(self, net: Net, how: Any, theta: Tensor) -> None:
        super().__init__(net, how, theta)
        self.h: dict[str, Tensor] = {}

    def close(self, server: Party, counted: Sequence[str]) -> None:
        now = {name: self.change(name) for name in counted}
        mean = sum(self.h.values(), self.net.zeros()) / server.devices
        v = mean + sum(change - self.h.get(name, 0) for name, change in now.items()) / len(now)
        self.theta, self.h = self.theta + self.how.server_lr * v, self.h | now

    def kinds(self) -> Mapping[str, Tensor]:
        return {"weights": self.theta, "kept": sum(self.h.values(), self.net.zeros())}


class FedCL(FedAvg):
    """Yao and Sun 2020, Alg. 1 and Eq. 1-3 (§4): λ Σ Ω (θ - θ_t)²."""

    def __init__(self, net: Net, how: Any, theta: Tensor) -> None:
        super().__init__(net, how, theta)
        self.begin, self.path, self.omega = theta, net.zeros(), net.zeros()
        self.held: dict[str, Tensor] = {}  # the last Ω that each device received
        self.counted: set[str] = set()
        # The server that sends Ω to devices that lack it has it before the round begins.
        self.early = how.fallback == "catch_up" or (how.fallback, how.first) == ("keep_last", "send")

    def estimate(self, server: Party, t: int) -> None:
        omega = torch.relu(self.path) / ((self.theta - self.begin) ** 2 + self.how.damping)
        if self.how.importance != "si":
            omega = importance(self.net, self.theta, server, self.how.importance)
        self.omega = replaced(self.net, omega, self.how.placebo, server.seed, t)

    def open(self, server: Party, asked: Sequence[str]) -> None:
        if server.round == 0 or (server.round % self.how.interval == 0 and not self.early):
            self.estimate(server, server.round)

    def known(self, device: Party) -> Tensor | None:
        """Returns the Ω that a device uses."""
        how, name = self.how, device.name
        lacks = how.fallback == "catch_up" or (self.early and name not in self.counted)
        if device.round % how.interval == 0 or lacks:
            self.held[name] = self.omega
            return self.omega
        if how.fallback == "local_estimate":
            own = importance(self.net, self.theta, device, how.importance)
            return replaced(self.net, own, how.placebo, device.seed, device.round)
        if how.fallback == "keep_last" and name in self.held:
            return self.held[name]
        one = how.fallback == "identity" or (how.fallback, how.first) == ("keep_last", "identity")
        return torch.ones_like(self.theta) if one else None

    def springs(self, device: Party) -> Springs | None:
        omega = self.known(device)
        return None if omega is None else [(2 * self.how.strength * omega, self.theta)]

    def close(self, server: Party, counted: Sequence[str]) -> None:
        before, slope = self.theta, self.net.gradient(self.theta, server.x, server.y)
        super().close(server, counted)
        self.path = self.path - slope * (self.theta - before)
        self.counted |= set(counted)
        if self.early and (server.round + 1) % self.how.interval == 0:
            self.estimate(server, server.round + 1)


class FedCurv(FedAvg):
    """Shoham et al. 2019, Eq. 3 (§5): λ Σ_{j≠s} (θ - θ̂_j)ᵀ diag(Î_j) (θ - θ̂_j)."""

    def __init__(self, net: Net, how: Any, theta: Tensor) -> None:
        super().__init__(net, how, theta)
        self.fishers: dict[str, Tensor] = {}  # Î of the last training of each device
        self.parts: dict[str, tuple[Tensor, Tensor, int]] | None = None  # Î_j, θ̂_j and their round; None: no round yet

    def springs(self, device: Party) -> Springs | None:
        if self.parts is None:
            return None
        others = (part for name, part in self.parts.items() if name != device.name)
        return [(2 * self.how.strength * fisher, theta) for fisher, theta, _ in others]

    def train(self, device: Party) -> Tensor:
        theta = super().train(device)
        fisher = importance(self.net, theta, device, self.how.fisher, self.training.batch)
        fisher = replaced(self.net, fisher, self.how.placebo, device.seed, device.round)
        least = fisher.sort(descending=True).values[ceil(self.how.keep * len(fisher)) - 1]
        self.fishers[device.name] = torch.where(fisher >= least, fisher, 0)
        return theta

    def close(self, server: Party, counted: Sequence[str]) -> None:
        super().close(server, counted)
        old = self.parts if self.parts and self.how.participation == "counted" else {}
        self.parts = old | {name: (self.fishers[name], self.models[name], server.round) for name in counted}
        if self.how.max_age:
            self.parts = {n: part for n, part in self.parts.items() if server.round - part[2] <= self.how.max_age}

    def kinds(self) -> Mapping[str, Tensor]:
        if self.parts is None:
            return super().kinds()
        centre = self.theta if self.how.centred is True else 0
        u = sum(fisher for fisher, _, _ in self.parts.values())
        v = sum(fisher * (theta - centre) for fisher, theta, _ in self.parts.values())
        return {"weights": self.theta, "fisher": u, "fisher_theta": v}


class AgentImportance(FedAvg):
    """Kim et al. 2020, Eq. 1, 2 and 4 (§7, readings 19 to 23 and 33), and the walk of Chaudhry et al. 2018."""

    def __init__(self, net: Net, how: Any, theta: Tensor) -> None:
        super().__init__(net, how, theta)
        self.fisher: Tensor | None = net.zeros() if how.from_zero and (how.ewc or how.weighted) else None  # F_t
        self.sent: dict[str, Tensor] = {}

    def cut(self, values: Tensor) -> Tensor:
        """Returns the values with 0 below the threshold, a fraction of the largest of each layer."""
        layers = self.net.layers(values)
        return torch.cat([torch.where(part >= self.how.threshold * part.max(), part, 0) for part in layers])

    def springs(self, device: Party) -> Springs | None:
        held = self.how.ewc and self.fisher is not None
        return [(self.how.strength * self.cut(self.fisher), self.theta)] if held else None

    def of_layers(self, values: Tensor) -> Tensor:
        """Returns each layer divided by its sum."""
        return torch.cat([part / (part.sum() or 1) for part in self.net.layers(values)])

    def score(self, walk: Walk) -> Tensor:
        """Returns s: in each window relu(Δℓ / (½ F_run Δθ² + ξ)); the last one may be shorter."""
        score, window, running = self.net.zeros(), self.how.window, walk.slopes[0] ** 2
        for start in range(0, len(walk.slopes), window):
            gain = self.net.zeros()
            for k in range(start, min(start + window, len(walk.slopes))):
                running = 0.1 * running + 0.9 * walk.slopes[k] ** 2
                gain -= walk.slopes[k] * (walk.places[k + 1] - walk.places[k])
            moved = walk.places[k + 1] - walk.places[start]
            score += torch.relu(gain / (running * moved**2 / 2 + self.how.damping))
        return score

    def train(self, device: Party) -> Tensor:
        theta, walk, how = super().train(device), self.walks[device.name], self.how
        found = importance(self.net, theta, device, how.fisher)
        if how.importance == "rwalk":
            score = self.score(walk)
            found = found / found.max() + score / score.max() if how.normalise else found + score
        found = replaced(self.net, found, how.placebo, device.seed, device.round)
        if self.fisher is not None and how.weigh_by == "ema":
            found = how.gamma * self.cut(self.fisher) + (1 - how.gamma) * found
        self.sent[device.name] = self.cut(found)
        return theta

    def close(self, server: Party, counted: Sequence[str]) -> None:
        by_examples = self.mean(counted)
        shares = {
            name: torch.cat([part / (part.sum() or 1) for part in self.net.layers(self.sent[name])]) for name in counted
        }
        total = sum(shares.values())
        weighed = sum(shares[name] * self.models[name] for name in counted) / total
        self.theta = torch.where(total > 0, weighed, by_examples) if self.how.weighted else by_examples
        fisher = sum(self.sent[name] for name in counted) / len(counted)
        if self.how.weigh_by == "raw" and self.fisher is not None:
            fisher = self.how.gamma * self.fisher + (1 - self.how.gamma) * fisher
        self.fisher = fisher if self.how.ewc or self.how.weighted else None

    def kinds(self) -> Mapping[str, Tensor]:
        return {"weights": self.theta} | ({} if self.fisher is None else {"fisher": self.fisher})


class SCAFFOLD(FedAvg):
    """Karimireddy et al. 2020, Alg. 1: c_i is the mean gradient of the device's K steps (option II; with K = 1 and one
    batch it is option I's, the gradient at θ_t)."""

    def __init__(self, net: Net, how: Any, theta: Tensor) -> None:
        super().__init__(net, how, theta)
        self.controls: dict[str, Tensor] = {}  # c_i of devices that were counted
        self.new: dict[str, Tensor] = {}

    def walk(self, device: Party) -> Walk:
        mean = sum(self.controls.values(), self.net.zeros()) / device.devices
        correction = mean - self.controls.get(device.name, 0)
        walk = sgd(self.net, self.theta, device, self.training, lambda theta: correction)
        # With momentum m gradient k moves the weights in all later steps, too: 1 + m + ... + m^(K-1-k) times.
        K, m, decay = len(walk.slopes), self.training.momentum, self.training.weight_decay
        effects = [sum(m**later for later in range(K - k)) for k in range(K)]
        steps = zip(effects, walk.slopes, walk.places[:-1], strict=True)
        weighed = sum(effect * (slope + decay * place) for effect, slope, place in steps)
        self.new[device.name] = weighed / sum(effects)
        return walk

    def close(self, server: Party, counted: Sequence[str]) -> None:
        self.theta = self.theta + self.how.server_lr * (self.mean(counted) - self.theta)
        if rate_of(self.training, server.round):
            self.controls |= {name: self.new[name] for name in counted}

    def kinds(self) -> Mapping[str, Tensor]:
        return {"weights": self.theta, "control": sum(self.controls.values(), self.net.zeros())}


class FedNova(FedAvg):
    """Wang et al. 2020, Eq. 6 and 7: gradient k of τ has moved the weights 1 + ρ + ... + ρ^(τ-1-k) times."""

    def close(self, server: Party, counted: Sequence[str]) -> None:
        m, n = self.training.momentum, sum(self.sizes[name] for name in counted)
        taken = {name: len(self.walks[name].slopes) for name in counted}
        reach = {name: sum(m**later for k in range(K) for later in range(K - k)) for name, K in taken.items()}
        shares = {name: self.sizes[name] / n for name in counted}
        effective = sum(shares[name] * reach[name] for name in counted)
        normalised = sum(shares[name] * (self.theta - self.models[name]) / reach[name] for name in counted)
        self.theta = self.theta - effective * normalised


class FedDyn(FedAvg):
    """Acar et al. 2021, Alg. 1."""

    def __init__(self, net: Net, how: Any, theta: Tensor) -> None:
        super().__init__(net, how, theta)
        self.h, self.slopes, self.new = net.zeros(), dict[str, Tensor](), dict[str, Tensor]()

    def springs(self, device: Party) -> Springs | None:
        return [(self.how.alpha * torch.ones_like(self.theta), self.theta)]

    def walk(self, device: Party) -> Walk:
        springs = self.sprung[device.name] = self.springs(device)
        own = self.slopes.get(device.name, self.net.zeros())
        walk = sgd(self.net, self.theta, device, self.training, lambda theta: pulled(springs, theta) - own)
        self.new[device.name] = own - self.how.alpha * (walk.places[-1] - self.theta)
        return walk

    def close(self, server: Party, counted: Sequence[str]) -> None:
        gone = sum(self.models[name] - self.theta for name in counted)
        self.h = self.h - self.how.alpha / server.devices * gone
        self.theta = sum(self.models[name] for name in counted) / len(counted) - self.h / self.how.alpha
        self.slopes |= {name: self.new[name] for name in counted}

    def kinds(self) -> Mapping[str, Tensor]:
        return {"weights": self.theta, "h": self.h}


class Ditto(FedAvg):
    """Li et al. 2021, Alg. 1; a device's own model is what its training is compared by."""

    def __init__(self, net: Net, how: Any, theta: Tensor) -> None:
        super().__init__(net, how, theta)
        self.own: dict[str, Tensor] = {}

    def train(self, device: Party) -> Tensor:
        super().train(device)
        spring = [(self.how.strength * torch.ones_like(self.theta), self.theta)]
        start = self.own.get(device.name, self.theta)
        walk = sgd(self.net, start, device, self.training, lambda theta: pulled(spring, theta))
        self.own[device.name] = walk.places[-1]
        return walk.places[-1]


class FedAvgM(FedAvg):
    """Hsu et al. 2019, §4.3."""

    def __init__(self, net: Net, how: Any, theta: Tensor) -> None:
        super().__init__(net, how, theta)
        self.m = net.zeros()

    def close(self, server: Party, counted: Sequence[str]) -> None:
        self.m = self.how.beta * self.m + self.mean(counted) - self.theta
        self.theta = self.theta + self.how.server_lr * self.m


class FedAdam(FedAvg):
    """Reddi et al. 2021, Alg. 2, with v_{-1} = τ²."""

    def __init__(self, net: Net, how: Any, theta: Tensor) -> None:
        super().__init__(net, how, theta)
        self.m, self.v = net.zeros(), how.tau**2

    def second(self, delta: Tensor) -> Tensor:
        return self.how.beta2 * self.v + (1 - self.how.beta2) * delta**2

    def close(self, server: Party, counted: Sequence[str]) -> None:
        delta = self.mean(counted) - self.theta
        self.m = self.how.beta1 * self.m + (1 - self.how.beta1) * delta
        self.v = self.second(delta)
        self.theta = self.theta + self.how.server_lr * self.m / (self.v.sqrt() + self.how.tau)


class FedYogi(FedAdam):
    def second(self, delta: Tensor) -> Tensor:
        return self.v - (1 - self.how.beta2) * delta**2 * torch.sign(self.v - delta**2)


class FedShare(FedAvg):
    """Zhao et al. 2018, §4.1: each device also trains on its part of the server's examples."""

    def open(self, server: Party, asked: Sequence[str]) -> None:
        self.server, self.asked = server, sorted(asked)

    def train(self, device: Party) -> Tensor:
        n, names = len(self.server.y), self.server.fleet
        some = np.arange(n)
        if self.how.split == "per_round":
            names, some = self.asked, np.random.default_rng(self.server.seed).permutation(n)
        if self.how.split != "whole":
            some = some[: n // len(names) * len(names)][list(names).index(device.name) :: len(names)]
        x, y = torch.cat([device.x, self.server.x[some]]), torch.cat([device.y, self.server.y[some]])
        theta = super().train(replace(device, x=x, y=y))
        self.sizes[device.name] = len(device.y)
        return theta


class FedMeta(FedAvg):
    """Yao et al. 2019, Alg. 2 and Eq. 20, with FedAvg's clients (§8, readings 27 and 28)."""

    def close(self, server: Party, counted: Sequence[str]) -> None:
        super().close(server, counted)
        matched = self.how.eta_meta == "matched"
        rate = rate_of(self.training, server.round) if matched else self.how.eta_meta
        n, epochs = len(server.y), self.training.epochs if self.how.meta == "E_epochs" else 1
        if self.how.meta in ("epoch", "E_epochs"):
            plain = Training(epochs, self.training.batch, rate)
            self.theta = sgd(self.net, self.theta, server, plain).places[-1]
            return
        # One pass at rate 0: the gradients of all batches at θ.
        slopes = sgd(self.net, self.theta, server, Training(1, self.training.batch, 0.0)).slopes
        starts = range(0, n, self.training.batch)
        sizes = [min(self.training.batch, n - start) for start in starts]
        total = sum(size * slope for size, slope in zip(sizes, slopes, strict=True))
        self.theta = self.theta - rate * total / (n if self.how.meta == "one_step" else 1)


class Continual(FedAvg):
    """An Bian 2018, Algorithms 0 to 2 (§6): cycles of FedAvg that end with a retraining of all devices."""

    def __init__(self, net: Net, how: Any, theta: Tensor) -> None:
        super().__init__(net, how, theta)
        self.personal = net.named(how.personal)  # 1 for θ^pe
        self.own: dict[str, Tensor] = {}  # θ^pe of each device of Algorithm 2

    def open(self, server: Party, asked: Sequence[str]) -> None:
        how, t = self.how, server.round
        if t == 0 and how.pretrain:
            whole = replace(self.training, epochs=how.pretrain)
            self.theta = sgd(self.net, self.theta, server, whole).places[-1]
        self.apart = how.variant == "alg2" and t >= self.training.per_cycle
        block = self.training.per_cycle // (how.inner if self.apart else 1)
        self.retrains = how.variant != "baseline" and (t + 1) % block == 0
        self.idle = how.variant == "baseline" and how.average and (t + 1) % block == 0

    def walk(self, device: Party) -> Walk:
        shared, theta = 1 - self.personal, self.theta
        if self.apart:
            theta = shared * theta + self.personal * self.own.get(device.name, 0)
        only = self.personal if self.retrains and self.how.variant != "alg0" else shared if self.apart else 1
        epochs = 0 if self.idle else self.how.retrain_epochs if self.retrains else self.training.epochs
        walk = sgd(self.net, theta, device, replace(self.training, epochs=epochs), only=only)
        if self.retrains or not self.apart:
            self.own[device.name] = walk.places[-1]
        return walk

    def close(self, server: Party, counted: Sequence[str]) -> None:
        mean, shared = self.mean(counted), 1 - self.personal
        # Algorithm 2 leaves θ^pe on the devices from the first retraining on.
        left = self.how.variant == "alg2" and (self.apart or self.retrains)
        self.theta = shared * mean + self.personal * self.theta if left else mean


class Some(FedAvg):
    """Springs of some devices only, each of its own stiffness."""

    def springs(self, device: Party) -> Springs | None:
        return None if device.name == "b" else [(torch.full_like(self.theta, len(device.y) / 25), self.theta)]


class Towards0(FedAvg):
    """A pull of one length in each tensor, towards 0."""

    def walk(self, device: Party) -> Walk:
        return sgd(self.net, self.theta, device, self.training, self.pull)

    def pull(self, theta: Tensor) -> Tensor:
        return torch.cat([0.2 * part / part.norm() for part in self.net.layers(theta)])
