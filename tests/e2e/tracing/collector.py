"""A collector of traces that speaks OTLP over gRPC.

Its messages are made from proto/opentelemetry in a pool of their own, so that
an installed package of OpenTelemetry is in nobody's way.
"""

import concurrent.futures
import pathlib
import tempfile
import threading

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_tools import protoc

import stubs
from servers import until

PACKAGE = "opentelemetry.proto.collector.trace.v1"


def _message_classes():
    """The classes of TraceService's request and response."""
    protos = stubs.SOURCE_DIR / "proto"
    service = protos / "opentelemetry/proto/collector/trace/v1/trace_service.proto"
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "set"
        arguments = ["protoc", f"-I{protos}", "--include_imports"]
        arguments += [f"--descriptor_set_out={out}", str(service)]
        assert protoc.main(arguments) == 0
        files = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    return [
        message_factory.GetMessageClass(
            pool.FindMessageTypeByName(f"{PACKAGE}.ExportTraceService{word}")
        )
        for word in ("Request", "Response")
    ]


REQUEST, RESPONSE = _message_classes()


def value(one):
    """The Python value of an attribute's."""
    kind = one.WhichOneof("value")
    if kind == "array_value":
        return [value(item) for item in one.array_value.values]
    return getattr(one, kind)


class Span:
    """A span that came, with the name of the service it came from."""

    def __init__(self, message, service):
        self.service = service
        self.name = message.name
        self.kind = message.kind
        self.trace = message.trace_id.hex()
        self.id = message.span_id.hex()
        self.parent = message.parent_span_id.hex()
        self.state = message.trace_state
        self.begin = message.start_time_unix_nano
        self.end = message.end_time_unix_nano
        self.is_error = message.status.code == 2
        self.attributes = {a.key: value(a.value) for a in message.attributes}

    def __repr__(self):
        return f"{self.service} {self.name} {self.id} of {self.parent}"


class Collector:
    """Takes spans, or while it hangs or refuses them, nothing; a context manager.

    `tls` are the server's credentials; without them it speaks plain text.
    """

    def __init__(self, port=0, hangs=False, refuses=False, tls=None):
        self._lock = threading.Lock()
        self._may_answer = threading.Event()
        if not hangs:
            self._may_answer.set()
        self._refuses = refuses
        self._spans = []
        self.raw = b""  # all that came, as it came
        self.calls = 0
        handler = grpc.unary_unary_rpc_method_handler(
            self._export, response_serializer=RESPONSE.SerializeToString
        )
        self._server = grpc.server(concurrent.futures.ThreadPoolExecutor(8))
        self._server.add_generic_rpc_handlers(
            (
                grpc.method_handlers_generic_handler(
                    f"{PACKAGE}.TraceService", {"Export": handler}
                ),
            )
        )
        address = f"127.0.0.1:{port}"
        self.port = (
            self._server.add_secure_port(address, tls)
            if tls
            else self._server.add_insecure_port(address)
        )
        self.url = f"{'https' if tls else 'http'}://localhost:{self.port}"
        self._server.start()

    def _export(self, data, context):
        with self._lock:
            self.calls += 1
        self._may_answer.wait()
        if self._refuses:
            context.abort(grpc.StatusCode.PERMISSION_DENIED, "go away")
        request = REQUEST.FromString(data)
        with self._lock:
            self.raw += data
            for group in request.resource_spans:
                names = {a.key: value(a.value) for a in group.resource.attributes}
                for scope in group.scope_spans:
                    for span in scope.spans:
                        self._spans.append(Span(span, names["service.name"]))
        return RESPONSE()

    def spans(self):
        """All that have come."""
        with self._lock:
            return list(self._spans)

    def of(self, trace, n_spans):
        """The spans of a trace, in the order of their begins, once they are so many."""

        def found():
            mine = [span for span in self.spans() if span.trace == trace]
            return mine if len(mine) >= n_spans else None

        mine = until(found, 60, f"{n_spans} spans of {trace}")
        return sorted(mine, key=lambda span: (span.begin, span.end))

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self._may_answer.set()
        self._server.stop(None).wait()
