# SPDX-License-Identifier: Apache-2.0
"""What every engine makes of the bytes a silo sends, and says of a silo that sends none."""

from fedqa.errors import BoundaryError
from fedqa.federation import wire
from fedqa.federation.messages import Envelope, Refusal, Reply, Request


def reply_in(data: bytearray | memoryview) -> Reply | bytes:
    """The reply in these bytes; bytes that are none are passed on, for the guard says what is wrong with them."""
    try:
        message = wire.decode(data, len(data))
    except BoundaryError:
        return bytes(data)
    return bytes(data) if isinstance(message, Request) else message


def refusal(silo: str, code: str) -> Envelope:
    return Envelope(silo, Refusal(silo, code), 0)
