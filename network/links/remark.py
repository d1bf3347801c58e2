"""A remark on a recording, with numbers that can be combined with those of other recordings."""

from __future__ import annotations

from collections.abc import Sequence


class Remark(str):
    """A sentence with percentages, made from `form`, which has {} where each of the `shares` (0 to 1) is inserted."""

    __slots__ = ("form", "shares")
    form: str
    shares: tuple[float, ...]

    @classmethod
    def of(cls, form: str, *shares: float) -> Remark:
        made = cls(form.format(*(f"{share:.0%}" for share in shares)))
        made.form, made.shares = form, shares
        return made


def together(remarks: Sequence[str]) -> str:
    """Returns one sentence for remarks that differ only in their percentages, each shown as a range: `41 to 45%`.  If
    the first remark is a plain string, returns that."""
    shares = [each.shares for each in remarks if isinstance(each, Remark)]
    first = remarks[0]
    return first.form.format(*map(_range, zip(*shares, strict=True))) if isinstance(first, Remark) else first


def _range(shares: Sequence[float]) -> str:
    low, high = (f"{100 * share:.0f}" for share in (min(shares), max(shares)))
    return f"{low}%" if low == high else f"{low} to {high}%"
