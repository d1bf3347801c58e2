"""Lists the assumptions about the links of a scenario that are shown with its results, one line each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from network.links.synth import named
from scenarios.builders import recordings
from scenarios.schema import link_keys
from scenarios.schema.hardware import Group
from scenarios.schema.scenario import Scenario

TCP = {"tcp", "windows"}  # the models that use TCP's settings


def assumptions(scenario: Scenario) -> Iterator[str]:
    """Yields a sentence for each assumption about links: about recordings, about generated rates of radios, about
    different network models in one scenario, and about keys that have no effect.

    Raises BadScenario for recordings that cannot be read.
    """
    everything = _links(scenario)
    for called, said in everything:
        if said.trace:
            with recordings.told(called):
                yield from (f"{called}: {text}" for text in recordings.notes(said))
        if said.radio and not isinstance(said, link_keys.Links):
            yield f"{called}: its generated rates are those of one phone, used here as a capacity that devices share"
    yield from _radios([said for _, said in everything])
    yield from _unused(scenario)
    yield from _buffers(scenario)
    models = sorted(_models(scenario))
    if len(models) > 1:
        yield f"links of the models {' and '.join(models)} share the server's link, but their shares cannot be compared"


def _links(scenario: Scenario) -> Sequence[tuple[str, link_keys.AnyLink]]:
    """Returns all links of the scenario, each with its name for messages."""
    return [
        *((group.name or group.profile, group.link) for group in scenario.fleet),
        *((f"topology.{name}", said) for name, said in scenario.topology.items()),
        ("server.link", scenario.server.link),
    ]


def _models(scenario: Scenario) -> set[link_keys.NetworkModel]:
    return {_model(group, scenario) for group in scenario.fleet}


def _model(group: Group, scenario: Scenario) -> link_keys.NetworkModel:
    """Returns the network model of the group's links.  If the scenario's model is windows, it is windows for all of
    them, because only shared links have queues."""
    if scenario.network_model == "windows":
        return "windows"
    return group.link.model or scenario.network_model


def _radios(said: Sequence[link_keys.AnyLink]) -> Iterator[str]:
    """Yields a sentence for each kind of radio among the links that has numbers which nobody has measured."""
    users: dict[str, list[link_keys.AnyLink]] = {}
    for each in said:
        if each.radio:
            users.setdefault(each.radio, []).append(each)
    for radio, of in users.items():
        assumed = {what for what, source in named(radio).sources.items() if "assumed" in source}
        if not any(isinstance(each, link_keys.Links) and each.latency_ms is None for each in of):
            assumed.discard("latency_ms")
        if "rates_mbit_s" in assumed:
            yield f"radio {radio}: its rates are assumed, not measured"
        elif assumed:
            yield f"radio {radio}: its rates were measured, other numbers are assumed ({', '.join(sorted(assumed))})"


def _unused(scenario: Scenario) -> Iterator[str]:
    """Yields a sentence for each key about TCP senders that has no effect, because no link, or not the group's, uses
    TCP."""
    for group in scenario.fleet:
        model = _model(group, scenario)
        if group.link.loss and model not in TCP:
            yield f"{group.name or group.profile}: loss is not used, because links of the model {model} lose nothing"
    fields = link_keys.Transport.model_fields
    keys = [key for key, value in scenario.network if key != "model" and value != fields[key].default]
    if keys and not TCP & _models(scenario):
        yield f"network: {', '.join(keys)} is not used, because no link is of the model tcp or windows"


def _buffers(scenario: Scenario) -> Iterator[str]:
    """Yields a sentence for each key about buffers that has no effect, because of the network model or because all
    flows share a link equally."""
    models = _models(scenario)
    if "windows" in models:
        return
    for called, said in _links(scenario):
        if not isinstance(said, link_keys.Links) and said.kind:
            yield f"{called}: kind is not used, because only the model windows has queues by kind"
    if "tcp" in models and scenario.network.congestion != "bbr":
        return
    why = "flows of bbr share equally" if "tcp" in models else "no link is of the model tcp or windows"
    for called, said in _links(scenario):
        if not isinstance(said, link_keys.Links) and said.buffer_kb:
            yield f"{called}: buffer_kb is not used, because {why}"
