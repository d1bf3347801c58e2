"""The GPUs that a command may use, and torch's settings for them."""

from __future__ import annotations

import os

from emulator.lab.lab import CPU
from scenarios.text.faults import BadScenario

AUTO = "auto"
WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"  # cuBLAS repeats its bits only with a fixed workspace; read when CUDA starts


def found(said: str) -> tuple[str, ...]:
    """Returns the devices that `--device` with the value `said` stands for: ("cpu",), or GPUs of one model, such as
    ("cuda:0", "cuda:1").

    "auto" is the first GPU, or the CPU if there is no GPU.  Raises BadScenario for an invalid list, for GPUs of
    different models, and for GPUs that this computer lacks.
    """
    if said == CPU:
        return (CPU,)
    import torch

    os.environ.setdefault(WORKSPACE, ":4096:8")
    if said == AUTO:
        return ("cuda:0",) if torch.cuda.is_available() else (CPU,)
    places = tuple("cuda:0" if each == "cuda" else each for each in said.split(","))
    for each in places:
        if not (each.startswith("cuda:") and each[5:].isdecimal()):
            raise BadScenario(f"--device {said}: {each!r} is no device; it must be cpu, cuda, cuda:0,cuda:1 or auto")
    if len(set(places)) < len(places):
        raise BadScenario(f"--device {said} names a GPU twice; name each once, and give more --workers to share it")
    if not torch.cuda.is_available():
        raise BadScenario(f"--device {said}: there is no CUDA here: {_installed()}; use --device cpu")
    _check_these(said, places)
    return places


def _check_these(said: str, places: tuple[str, ...]) -> None:
    import torch

    count = torch.cuda.device_count()
    for each in places:
        if int(each[5:]) >= count:
            raise BadScenario(f"--device {said}: there is no {each}; this computer has cuda:0 to cuda:{count - 1}")
    models = {model(each): each for each in reversed(places)}
    if len(models) > 1:  # results would depend on the assignment of jobs to workers
        told = " and ".join(f"{place} is {name}" for name, place in reversed(models.items()))
        raise BadScenario(f"--device {said}: {told}; results of two models differ, so name GPUs of one")


def _installed() -> str:
    """Returns a description of the installed torch build, for the error message that there is no CUDA."""
    import torch

    if torch.version.cuda is None:
        return f"torch {torch.__version__} is installed, which is built without it"
    return f"torch {torch.__version__} is installed, for CUDA {torch.version.cuda}, and finds no GPU or no driver"


def model(place: str) -> str:
    """Returns the name of the GPU's model, as its driver states it."""
    import torch

    return torch.cuda.get_device_name(place)


def use(place: str) -> None:
    """Makes this process compute on this device, in full float32 and with repeatable bits; does nothing for the CPU."""
    if place == CPU:
        return
    import torch

    os.environ.setdefault(WORKSPACE, ":4096:8")
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = False  # a benchmark would choose algorithms by measured times
    torch.cuda.set_device(place)
