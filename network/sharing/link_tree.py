"""The tree of shared links, of one direction or of both, made from a topology."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from network.links.rate import Rate
from network.sharing.flow import NUMBER, LinkState, SharedLink, as_rate

Routes = dict[str | None, tuple[LinkState, ...]]  # by the name of a device's link, from there to the root


def links_of(capacity: float | Rate, shared: Mapping[str, SharedLink]) -> dict[str | None, LinkState]:
    """Returns the links of one direction, by name; None is the root.  Raises ValueError unless they form a tree with
    positive capacities in which no link is below one of airtime."""
    if isinstance(capacity, NUMBER) and not capacity > 0:
        raise ValueError(f"capacity is {capacity} bytes/s; a shared link needs a positive one")
    root = LinkState(None, as_rate(capacity), None)
    links: dict[str | None, LinkState] = {None: root}
    for name, each in shared.items():
        if isinstance(each.capacity, NUMBER) and not each.capacity > 0:
            raise ValueError(f"link {name!r} has a capacity of {each.capacity}; a shared link needs a positive one")
        links[name] = LinkState(name, as_rate(each.capacity), None, each.airtime)
    for name, each in shared.items():
        if each.parent is not None and each.parent not in shared:
            raise ValueError(f"link {name!r} has the parent {each.parent!r}; the shared links are {sorted(shared)}")
        parent = links[each.parent]
        if parent.airtime:
            raise ValueError(f"link {name!r} is below {each.parent!r}, whose airtime only devices can share")
        links[name].parent = parent
    for name in shared:
        above, seen = links[name], {name}
        while above.parent is not None and above.parent is not root:
            above = above.parent
            if above.name in seen:
                raise ValueError(f"link {name!r} is below itself; links must form a tree towards the root")
            seen.add(str(above.name))
    return links


def routes_of(links: Mapping[str | None, LinkState]) -> Routes:
    return {name: tuple(_upwards(link)) for name, link in links.items()}


def _upwards(link: LinkState | None) -> Iterator[LinkState]:
    while link is not None:
        yield link
        link = link.parent


def doubled(
    forth: Mapping[str | None, LinkState], back: Mapping[str | None, LinkState]
) -> tuple[Routes, list[LinkState]]:
    """Merges two directions into one tree: puts each link of `back` directly above the link of the same name in
    `forth`, its twin.

    Returns the routes of flows that go back, and the links that were added.  An airtime link is not doubled: one link
    serves both directions.
    """
    _check_twins(forth, back)
    routes = routes_of(back)
    own: list[LinkState] = []
    for name, twin in back.items():
        link = forth[name]
        if link.airtime:
            routes[name] = (link, *routes[name][1:])
            continue
        link.twin, twin.twin = twin, link
        link.parent, twin.parent = twin, link.parent
        own.append(twin)
    return routes, own


def _check_twins(forth: Mapping[str | None, LinkState], back: Mapping[str | None, LinkState]) -> None:
    for name in {**forth, **back}:
        if name not in forth or name not in back or _place(forth[name]) != _place(back[name]):
            raise ValueError(f"link {name!r} needs a twin of its parent and airtime in the other direction")


def _place(link: LinkState) -> tuple[str | None, bool]:
    return (None if link.parent is None else link.parent.name), link.airtime


def find_ways(links: Collection[LinkState]) -> None:
    """Stores in each link of a tree the links above and below it, because a search at each change would have to examine
    the whole tree."""
    for link in links:
        link.above = tuple(_upwards(link))
    for link in sorted(links, key=lambda link: len(link.above), reverse=True):
        for above in link.above:
            above.below.append(link)
