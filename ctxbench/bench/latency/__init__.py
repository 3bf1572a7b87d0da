"""How long one request takes: by step, cold and warm, as the catalog grows; indexing and peak memory.

`measure` runs every configuration in fresh child processes, several rounds of all configurations in turns, and keeps
every sample.
"""

from ctxbench.bench.latency.latency_results import (
    PARTS_OF_A_STEP,
    STATES,
    WHOLE,
    Beside,
    LatencyResult,
    Summary,
    Timings,
    Trial,
    needed_for,
    summarise,
)
from ctxbench.bench.latency.measurement import LatencySettings, measure
from ctxbench.bench.latency.trial_inputs import grown, requests_like

__all__ = [
    "PARTS_OF_A_STEP",
    "STATES",
    "WHOLE",
    "Beside",
    "LatencyResult",
    "LatencySettings",
    "Summary",
    "Timings",
    "Trial",
    "grown",
    "measure",
    "needed_for",
    "requests_like",
    "summarise",
]
