"""The sizes of a call that a server takes: at the limit, and one byte past it.

A worker's server is that of a planner.
"""

import grpc
import pytest
from grpc_health.v1 import health_pb2

from faults.test_http2_abuse import NAMES, Frames, block, headers
from mute_client import DATA, END_STREAM, frame
from servers import CALL_SECONDS, Planner, until

MAX_METADATA_BYTES = 16 << 10  # kMaxRequestMetadataBytes
MAX_MESSAGE_BYTES = 4 << 20  # kMaxMessageBytes
EMPTY_MESSAGE = b"\0" * 5


@pytest.fixture(scope="module")
def server():
    with Planner() as started:
        assert started.serving()
        yield started
        assert started.serving()


def metadata_of(n_bytes):
    """Names and values of a call that are so many bytes, as HTTP/2 counts them."""
    values = {**NAMES, "x-pad": ""}
    so_far = sum(len(name) + len(value) + 32 for name, value in values.items())
    return block(**{"x-pad": "a" * (n_bytes - so_far)})


@pytest.mark.parametrize("n_bytes", [MAX_METADATA_BYTES, MAX_METADATA_BYTES + 1])
def test_metadata_up_to_its_limit(server, n_bytes):
    with Frames(server.address) as client:
        client.acknowledge()
        client.send(headers(1, metadata_of(n_bytes)))
        client.send(frame(DATA, END_STREAM, 1, EMPTY_MESSAGE))
        reply = until(
            lambda: [(kind, data) for kind, stream, data in client.frames() if stream],
            what="the reply",
        )
    is_refused = b"metadata size exceeds limit" in reply[0][1]
    assert is_refused == (n_bytes > MAX_METADATA_BYTES)


@pytest.mark.parametrize(
    "n_bytes, code",
    [
        # The health service gets it, and takes no name that is so long.
        (MAX_MESSAGE_BYTES, grpc.StatusCode.INVALID_ARGUMENT),
        (MAX_MESSAGE_BYTES + 1, grpc.StatusCode.RESOURCE_EXHAUSTED),
    ],
)
def test_messages_up_to_their_limit(server, n_bytes, code):
    def request(n_letters):
        return health_pb2.HealthCheckRequest(service="a" * n_letters)

    n_beside = request(n_bytes).ByteSize() - n_bytes
    message = request(n_bytes - n_beside)
    assert message.ByteSize() == n_bytes
    with pytest.raises(grpc.RpcError) as caught:
        server.health.Check(message, timeout=CALL_SECONDS)
    assert caught.value.code() == code
