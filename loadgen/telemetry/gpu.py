"""The thread that asks NVML: its calls may block for seconds, and nobody waits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from loadgen.clock import Clock
from loadgen.telemetry.nvml import Nvml, NvmlMissingError
from loadgen.telemetry.pace import next_tick_ns
from loadgen.telemetry.samples import GpuAbout, GpuEnd, GpuEvent, SampleLog
from loadgen.units import NS_PER_MS, NS_PER_S

__all__ = ["PERIOD_NS", "GpuSampler"]

PERIOD_NS = 100 * NS_PER_MS
SLOW_EVERY = 10  # rounds between two looks at processes and ECC
FIRST_LIMIT_S = 2.0
END_LIMIT_S = 0.5


class GpuSampler:
    """All GPUs of this machine, on the grid, from one daemon thread.

    Args:
        bind: imports the binding; called in the thread.
        environment: names the GPUs that are to be seen.
        log: where samples go.
        clock: CLOCK_MONOTONIC.
        wait: sleeps for so many seconds and tells whether to stop; None: as long
            as ``end`` was not called.
    """

    def __init__(
        self,
        bind: Callable[[], Any],
        environment: Mapping[str, str],
        log: SampleLog,
        clock: Clock,
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        self._bind = bind
        self._environment = environment
        self._log = log
        self._clock = clock
        self._stop = threading.Event()
        self._wait = self._stop.wait if wait is None else wait
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self.run, name="nvml", daemon=True)
        self._rounds = 0
        self._skipped = 0
        self._longest_ns = 0

    def begin(self) -> None:
        """Start, and wait at most 2 s for a first look at the idle GPUs."""
        self._thread.start()
        self._ready.wait(FIRST_LIMIT_S)

    def end(self) -> None:
        """Stop; a call that hangs is left to itself after half a second."""
        self._stop.set()
        self._thread.join(END_LIMIT_S)
        if self._rounds or self._thread.is_alive():
            self._log.add(
                GpuEnd(
                    at_ns=self._clock.now_ns(),
                    rounds=self._rounds,
                    skipped=self._skipped,
                    longest_ns=self._longest_ns,
                    hung=self._thread.is_alive(),
                )
            )

    def run(self) -> None:
        """The thread's work; whatever goes wrong in it, the run goes on."""
        try:
            self._look()
        except NvmlMissingError as error:
            self._give_up(str(error))
        except Exception as error:  # noqa: BLE001 - a driver's faults are no reason to stop
            self._give_up(f"failed: {error!r}"[:200])
        finally:
            self._ready.set()

    def _give_up(self, why: str) -> None:
        self._log.add(GpuAbout(at_ns=self._clock.now_ns(), status=why))

    def _look(self) -> None:
        nvml = Nvml(self._bind(), self._environment)
        origin_ns = self._clock.now_ns()
        self._round(nvml)
        self._log.add(nvml.about(self._clock.now_ns()))
        self._ready.set()
        last_ns = origin_ns
        while not all(device.lost for device in nvml.devices):
            now_ns = self._clock.now_ns()
            tick_ns = next_tick_ns(now_ns, origin_ns, PERIOD_NS)
            self._skipped += (tick_ns - last_ns) // PERIOD_NS - 1
            last_ns = tick_ns
            if self._wait((tick_ns - now_ns) / NS_PER_S):
                return
            self._round(nvml)

    def _round(self, nvml: Nvml) -> None:
        began_ns = self._clock.now_ns()
        slow = self._rounds % SLOW_EVERY == 0
        for number, device in enumerate(nvml.devices):
            if not device.lost:
                sample = device.sample(number, self._clock.now_ns, all_of_it=slow)
                self._log.add(sample)
        for xid in nvml.events():
            self._log.add(GpuEvent(at_ns=self._clock.now_ns(), xid=xid))
        self._rounds += 1
        self._longest_ns = max(self._longest_ns, self._clock.now_ns() - began_ns)
