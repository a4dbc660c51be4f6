"""Memory for what is still incomplete, shared by all answers of one process."""

from __future__ import annotations

__all__ = ["Room"]

ROOM_BYTES = 512 << 20
SMALL_BYTES = 64 << 10


class Room:
    """What answers may hold together of events and bodies that are not whole yet.

    Each answer has its own caps; a thousand of them at once would still fill the
    machine. Small holdings are not counted, so that honest answers never notice.

    Args:
        limit_bytes: for all of them.
    """

    __slots__ = ("_left",)

    def __init__(self, limit_bytes: int = ROOM_BYTES) -> None:
        self._left = limit_bytes

    def settle(self, counted: int, held: int) -> tuple[int, bool]:
        """Count what one answer holds now.

        Args:
            counted: what was counted for it before.
            held: bytes it holds now.

        Returns:
            What is counted for it from now on, and whether there is room.
        """
        now = held if held > SMALL_BYTES else 0
        self._left += counted - now
        return now, self._left >= 0 or not now
