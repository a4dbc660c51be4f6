"""GPUs through NVML: what each one tells, and what it refuses to tell.

Every call may fail by itself, and a failure takes nothing else with it: the field
is None, the reason is kept, and a field that will never come is not asked again.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from loadgen.telemetry.samples import DeviceAbout, GpuAbout, GpuSample
from loadgen.telemetry.visible import visible

__all__ = ["Device", "Nvml", "NvmlMissingError", "import_pynvml"]

_WORDS = {
    1: "not initialised",
    3: "not supported",
    4: "no permission",
    6: "not found",
    9: "no driver",
    10: "timed out",
    12: "no library",
    13: "not in this library",
    15: "lost",
    16: "needs a reset",
    17: "refused by the operating system",
    18: "driver/library mismatch",
    25: "another version of the call",
}
_LOST = frozenset({15, 16})
_NEVER = frozenset({3, 4, 13, 25})
_TIMED_OUT = 10
_MIB = 1 << 20
PID_MAX = 1 << 22

_THROTTLES = {
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "thermal, software",
    0x40: "thermal, hardware",
    0x80: "power brake",
}


class NvmlMissingError(Exception):
    """There is no NVML to ask, and why, in two or three words."""


class _LostError(Exception):
    """The device is gone."""


def import_pynvml() -> Any:
    """The binding.

    Raises:
        NvmlMissingError: none is installed.
    """
    try:
        import pynvml
    except ImportError:
        raise NvmlMissingError("no binding") from None
    return pynvml


class Device:
    """One GPU or slice and the fields it still tells."""

    def __init__(self, nvml: Any, handle: Any, about: DeviceAbout) -> None:
        self._nvml = nvml
        self._handle = handle
        self.about = about
        self.refused: dict[str, str] = {}
        self.memory_version: int | None = 2
        self.lost = False

    def described(self) -> DeviceAbout:
        """With what was learnt by asking."""
        fields = {name: getattr(self.about, name) for name in _ABOUT}
        memory = None if "memory" in self.refused else self.memory_version
        return DeviceAbout(**fields, memory_version=memory, refused=dict(self.refused))

    def sample(
        self, number: int, now_ns: Callable[[], int], *, all_of_it: bool
    ) -> GpuSample:
        """Ask everything once; a lost device says so and is asked no more.

        Args:
            number: the device's place in the list.
            now_ns: CLOCK_MONOTONIC.
            all_of_it: with the slow questions too: processes and ECC.
        """
        at_ns = now_ns()
        fields: dict[str, Any] = {}
        try:
            fields |= self._memory()
            fields |= self._others()
            if all_of_it:
                fields |= self._slow()
        except _LostError:
            fields, self.lost = {"lost": True}, True
        return GpuSample(at_ns=at_ns, took_ns=now_ns() - at_ns, device=number, **fields)

    def _ask(self, field: str, question: Callable[[], Any]) -> Any:
        if field in self.refused:
            return None
        try:
            return question()
        except self._nvml.NVMLError as error:
            code = int(error.value)
            if code in _LOST:
                raise _LostError from None
            if code in _NEVER:
                self.refused[field] = words(code)
            return None
        except (AttributeError, TypeError):
            self.refused[field] = "not in this binding"
            return None

    def _memory(self) -> dict[str, int]:
        info = None
        if self.memory_version == 2:
            version = getattr(self._nvml, "nvmlMemory_v2", None)
            info = self._ask(
                "memory_v2",
                lambda: self._nvml.nvmlDeviceGetMemoryInfo(self._handle, version),
            )
            if "memory_v2" in self.refused:
                self.memory_version = 1
        if self.memory_version == 1:
            info = self._ask(
                "memory", lambda: self._nvml.nvmlDeviceGetMemoryInfo(self._handle)
            )
        if info is None:
            return {}
        told = {
            "used_bytes": int(info.used),
            "free_bytes": int(info.free),
            "total_bytes": int(info.total),
        }
        if self.memory_version == 2:
            told["reserved_bytes"] = int(info.reserved)
        return told

    def _others(self) -> dict[str, Any]:
        nvml, handle = self._nvml, self._handle
        rates = self._ask(
            "utilization", lambda: nvml.nvmlDeviceGetUtilizationRates(handle)
        )
        power_mw = self._ask("power", lambda: nvml.nvmlDeviceGetPowerUsage(handle))
        reasons = self._ask(
            "throttle", lambda: nvml.nvmlDeviceGetCurrentClocksEventReasons(handle)
        )
        return {
            "utilization_pct": None if rates is None else int(rates.gpu),
            "power_w": None if power_mw is None else power_mw / 1000,
            "sm_mhz": self._ask(
                "sm_clock",
                lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
            ),
            "temperature_c": self._ask("temperature", self._temperature),
            "throttle": None if reasons is None else _throttles(int(reasons)),
        }

    def _temperature(self) -> int:
        nvml, sensor = self._nvml, self._nvml.NVML_TEMPERATURE_GPU
        try:
            return int(nvml.nvmlDeviceGetTemperatureV(self._handle, sensor))
        except (AttributeError, nvml.NVMLError_FunctionNotFound):
            return int(nvml.nvmlDeviceGetTemperature(self._handle, sensor))

    def _slow(self) -> dict[str, Any]:
        nvml, handle = self._nvml, self._handle
        listed = self._ask(
            "processes", lambda: nvml.nvmlDeviceGetComputeRunningProcesses(handle)
        )
        return {
            "processes": None if listed is None else self._processes(listed),
            "ecc": self._ask(
                "ecc",
                lambda: nvml.nvmlDeviceGetTotalEccErrors(
                    handle,
                    nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
                    nvml.NVML_VOLATILE_ECC,
                ),
            ),
        }

    def _processes(self, listed: list[Any]) -> dict[int, int] | None:
        """Memory by process; None where the list is not to be believed.

        A binding older than the driver reads the fields shuffled: process ids
        that cannot be, and memory of a few bytes.
        """
        told = {int(one.pid): one.usedGpuMemory for one in listed}
        known = {pid: int(used) for pid, used in told.items() if used is not None}
        if any(pid > PID_MAX or used < _MIB for pid, used in known.items()):
            self.refused["processes"] = "not plausible: binding and driver differ"
            return None
        if told and not known:
            self.refused["processes"] = "listed without their memory"
            return None
        return known


_ABOUT = ("index", "logical", "uuid", "name", "mig", "slice_of")


class Nvml:
    """NVML, initialised.

    Args:
        nvml: the module ``pynvml``.
        environment: names the GPUs that are to be seen.

    Raises:
        NvmlMissingError: no library, no driver, or one that does not answer.
    """

    def __init__(self, nvml: Any, environment: Mapping[str, str]) -> None:
        self._nvml = nvml
        self._environment = environment
        self._events: Any = None
        self.notes: list[str] = []
        try:
            nvml.nvmlInit()
        except nvml.NVMLError as error:
            raise NvmlMissingError(words(int(error.value))) from None
        self.devices = list(self._found())
        self._listen()

    def about(self, at_ns: int) -> GpuAbout:
        """All there is to say of it, once a first sample was taken."""
        return GpuAbout(
            at_ns=at_ns,
            status="ok" if self.devices else "no devices",
            driver=self._told(self._nvml.nvmlSystemGetDriverVersion),
            library=self._told(self._nvml.nvmlSystemGetNVMLVersion),
            binding=binding_of(self._nvml, self.notes),
            devices=[device.described() for device in self.devices],
            notes=list(dict.fromkeys(self.notes)),
        )

    def events(self) -> list[int]:
        """Xid errors since the last time; waits for nothing."""
        found: list[int] = []
        while self._events is not None and len(found) < 16:
            try:
                event = self._nvml.nvmlEventSetWait_v2(self._events, 0)
            except self._nvml.NVMLError as error:
                if error.value != _TIMED_OUT:
                    self._events = None
                break
            found.append(int(event.eventData))
        return found

    def _listen(self) -> None:
        nvml = self._nvml
        try:
            self._events = nvml.nvmlEventSetCreate()
            for device in self.devices:
                if device.about.slice_of is None:
                    nvml.nvmlDeviceRegisterEvents(
                        device._handle, nvml.nvmlEventTypeXidCriticalError, self._events
                    )
        except (nvml.NVMLError, AttributeError):
            self._events = None

    def _found(self) -> Iterator[Device]:
        handles = dict(self._handles())
        gpus = [
            (
                self._told(self._nvml.nvmlDeviceGetUUID, handle) or "",
                self._told(self._nvml.nvmlDeviceGetName, handle) or "",
            )
            for handle in handles.values()
        ]
        seen = visible(self._environment, gpus)
        if seen.note:
            self.notes.append(seen.note)
        listed = list(handles) if seen.indices is None else list(seen.indices)
        for logical, index in enumerate(listed):
            if index not in handles:
                continue
            number = None if seen.indices is None else logical
            yield from self._gpu(index, handles[index], number)
        for uuid in seen.uuids:
            handle = self._told(self._nvml.nvmlDeviceGetHandleByUUID, uuid.encode())
            if handle is not None:
                name = self._told(self._nvml.nvmlDeviceGetName, handle)
                yield Device(
                    self._nvml,
                    handle,
                    DeviceAbout(index=None, uuid=uuid, name=name, slice_of=""),
                )

    def _handles(self) -> Iterator[tuple[int, Any]]:
        count = self._told(self._nvml.nvmlDeviceGetCount) or 0
        for index in range(count):
            try:
                yield index, self._nvml.nvmlDeviceGetHandleByIndex(index)
            except self._nvml.NVMLError as error:
                self.notes.append(f"GPU {index}: {words(int(error.value))}")

    def _gpu(self, index: int, handle: Any, logical: int | None) -> Iterator[Device]:
        """A GPU, and its slices where it is cut into some."""
        nvml = self._nvml
        uuid = self._told(nvml.nvmlDeviceGetUUID, handle)
        mode = self._told(nvml.nvmlDeviceGetMigMode, handle)
        name = self._told(nvml.nvmlDeviceGetName, handle)
        mig = None if mode is None else bool(mode[0])
        about = DeviceAbout(index=index, logical=logical, uuid=uuid, name=name, mig=mig)
        yield Device(nvml, handle, about)
        if not mig:
            return
        for number in range(
            self._told(nvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0
        ):
            piece = self._told(nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, number)
            if piece is not None:
                yield Device(
                    nvml,
                    piece,
                    DeviceAbout(
                        index=index,
                        uuid=self._told(nvml.nvmlDeviceGetUUID, piece),
                        name=self._told(nvml.nvmlDeviceGetName, piece),
                        slice_of=uuid,
                    ),
                )

    def _told(self, question: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return question(*arguments)
        except (self._nvml.NVMLError, AttributeError, TypeError):
            return None


def words(code: int) -> str:
    """An NVML error in two or three words."""
    return _WORDS.get(code, f"NVML error {code}")


def _throttles(mask: int) -> list[str]:
    return [name for bit, name in _THROTTLES.items() if mask & bit]


def binding_of(nvml: Any, notes: list[str]) -> str:
    """Which file the module is; three packages install one of that name."""
    file = Path(str(getattr(nvml, "__file__", "?")))
    try:
        ours = importlib.metadata.distribution("nvidia-ml-py")
    except importlib.metadata.PackageNotFoundError:
        version, same = "unknown", False
    else:
        version = ours.version
        files = ours.files or []
        same = any(Path(str(ours.locate_file(one))) == file for one in files)
    if not same:
        notes.append(f"module pynvml is not from nvidia-ml-py but {file}")
    return f"nvidia-ml-py {version}, {file}" if same else str(file)
