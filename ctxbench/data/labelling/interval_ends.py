"""Strata at totals other than the estimated one, and the totals at which an interval ends (`estimate` says why)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ctxbench.core.arrays import FloatArray


@dataclass(frozen=True, eq=False, kw_only=True)
class _Strata:
    """Strata with their shares.

    Attributes:
        shares: of the categories, shape (n_categories, n_strata); of a difference smoothed, of plus, minus and neither.
        size, n: of the strata; n is below size.
    """

    shares: FloatArray
    size: FloatArray
    n: FloatArray


@dataclass(frozen=True, eq=False, kw_only=True)
class Tilted(_Strata):
    """Strata whose shares are tilted towards higher or lower totals.

    Attributes:
        values: of the categories.
    """

    values: FloatArray

    def at(self, tilt: float) -> tuple[float, float]:
        """The expected total and the standard error of its estimate."""
        power = self.values * tilt
        shares = self.shares * np.exp(power - power.max())[:, None]
        shares /= shares.sum(axis=0)
        mean = self.values @ shares
        spread = np.maximum((self.values**2) @ shares - mean**2, 0.0)
        variance = self.size * (self.size - self.n) * spread / self.n
        return float((self.size * mean).sum()), math.sqrt(float(variance.sum()))

    @property
    def reach(self) -> float:
        """The tilt at which a category's share is as good as 0 or 1."""
        return _STEEPEST / max(float(self.values.max() - self.values.min()), 1e-9)


@dataclass(frozen=True, eq=False, kw_only=True)
class Shifted(_Strata):
    """Strata whose differences are shifted up or down; what one selector alone is complete for does not shrink.

    Attributes:
        gaps: observed shares of plus less those of minus.
    """

    gaps: FloatArray

    def at(self, shift: float) -> tuple[float, float]:
        """The expected total and the standard error of its estimate."""
        gaps = np.clip(self.gaps + shift * self._spread, -1.0, 1.0)
        differing = np.maximum(self.shares[0] + self.shares[1], np.abs(gaps))
        variance = self.size * (self.size - self.n) * (differing - gaps**2) / self.n
        return float((self.size * gaps).sum()), math.sqrt(float(variance.sum()))

    @property
    def _spread(self) -> FloatArray:
        return np.asarray(
            np.maximum(self.shares[0] + self.shares[1] - (self.shares[0] - self.shares[1]) ** 2, _FLATTEST)
        )

    @property
    def reach(self) -> float:
        """The shift at which all differences are 1, or -1."""
        return 2.0 / float(self._spread.min())


def end_of(strata: Tilted | Shifted, estimate: float, z: float) -> float:
    """The total, above `estimate` for z > 0, from which it is z standard errors away."""
    inner, outer = (-strata.reach, strata.reach) if z > 0 else (strata.reach, -strata.reach)
    for _ in range(_HALVINGS):
        middle = (inner + outer) / 2.0
        total, error = strata.at(middle)
        beyond = (total - estimate) / z > error if error > 0 else (total > estimate) == (z > 0)
        inner, outer = (inner, middle) if beyond else (middle, outer)
    return strata.at(outer)[0]


_FLATTEST = 1e-4  # variance below which a stratum does not lag behind
_STEEPEST = 40.0  # tilt at which a category's share is as good as 0 or 1
_HALVINGS = 60  # of the range in which an end is looked for
