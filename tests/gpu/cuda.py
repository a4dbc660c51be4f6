"""As much of CUDA's driver library as it takes to hold memory and keep busy.

Through ctypes: the library comes with the driver, so nothing else need be there.
"""

from __future__ import annotations

import ctypes
from typing import Protocol

__all__ = ["Block", "Cuda", "CudaError", "Host", "Memory"]

Block = int
"""Where a block of memory begins."""


class CudaError(RuntimeError):
    """No driver, no device, or no memory left."""


class Memory(Protocol):
    """Something that holds blocks and can be made to write over them."""

    def enter(self) -> None:
        """Use it from this thread."""

    def take(self, size_bytes: int) -> Block: ...

    def give_back(self, block: Block) -> None: ...

    def write(self, block: Block, size_bytes: int, times: int) -> None:
        """Write over all of it so many times, and wait until that is done."""


class Cuda:
    """The first GPU, through its primary context.

    Raises:
        CudaError: there is none.
    """

    def __init__(self) -> None:
        try:
            self._library = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise CudaError(f"no CUDA driver: {error}") from None
        device = ctypes.c_int()
        self._context = ctypes.c_void_p()
        self._call("cuInit", ctypes.c_uint(0))
        self._call("cuDeviceGet", ctypes.byref(device), ctypes.c_int(0))
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), device)
        self.enter()

    def enter(self) -> None:
        self._call("cuCtxSetCurrent", self._context)

    def take(self, size_bytes: int) -> Block:
        block = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(block), ctypes.c_size_t(size_bytes))
        return block.value

    def give_back(self, block: Block) -> None:
        self._call("cuMemFree_v2", ctypes.c_uint64(block))

    def write(self, block: Block, size_bytes: int, times: int) -> None:
        words = ctypes.c_size_t(size_bytes // 4)
        for value in range(times):
            self._call("cuMemsetD32_v2", ctypes.c_uint64(block), value, words)
        self._call("cuCtxSynchronize")

    def _call(self, name: str, *arguments: object) -> None:
        code = getattr(self._library, name)(*arguments)
        if code:
            raise CudaError(f"{name} failed with {code}")


class Host:
    """The same on no GPU at all, so that the server can be tested anywhere."""

    def __init__(self) -> None:
        self.held: dict[Block, int] = {}
        self._next = 1

    def enter(self) -> None:
        """Any thread may use it."""

    def take(self, size_bytes: int) -> Block:
        self._next += 1
        self.held[self._next] = size_bytes
        return self._next

    def give_back(self, block: Block) -> None:
        del self.held[block]

    def write(self, block: Block, size_bytes: int, times: int) -> None:
        """Nothing to write to."""
