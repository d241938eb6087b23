"""Reflection v1: a client that knows no proto finds them all."""

import grpc
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool
from grpc_reflection.v1alpha import reflection_pb2 as alpha
from grpc_reflection.v1alpha import reflection_pb2_grpc as alpha_grpc

import stubs
from servers import CALL_SECONDS, Planner, Worker, refused
from stubs import reflection as v1

NOT_FOUND = grpc.StatusCode.NOT_FOUND.value[0]
INVALID = grpc.StatusCode.INVALID_ARGUMENT.value[0]
MAX_REQUEST_BYTES = 4096
Request = v1.ServerReflectionRequest


@pytest.fixture(scope="module")
def worker():
    with Worker() as server:
        yield server


def ask(server, *requests):
    """The answers to the requests of one stream."""
    stub = stubs.ReflectionStub(server.channel)
    return list(stub.ServerReflectionInfo(iter(requests), timeout=CALL_SECONDS))


def listed(server):
    (reply,) = ask(server, Request(list_services=""))
    return [service.name for service in reply.list_services_response.service]


def files(reply):
    """The files of an answer."""
    parse = descriptor_pb2.FileDescriptorProto.FromString
    return [
        parse(data)
        for data in reply.file_descriptor_response.file_descriptor_proto
    ]


@pytest.mark.parametrize("start", [Planner, Worker])
def test_both_versions_list_the_same_services(start):
    with start() as server:
        stub = alpha_grpc.ServerReflectionStub(server.channel)
        request = alpha.ServerReflectionRequest(list_services="")
        reply = next(stub.ServerReflectionInfo(iter([request])))
        services = reply.list_services_response.service
        names = listed(server)
        assert sorted(names) == sorted(service.name for service in services)
        assert len(set(names)) == len(names)
        assert "grpc.health.v1.Health" in names
        assert "grpc.reflection.v1.ServerReflection" in names
        assert "grpc.reflection.v1alpha.ServerReflection" in names


@pytest.mark.parametrize("start", [Planner, Worker])
def test_every_service_of_ours_can_be_rebuilt_from_its_answer(start):
    with start() as server:
        names = [name for name in listed(server) if name.startswith("plimsoll.")]
        assert names
        known = descriptor_pool.Default()
        for name in names:
            (reply,) = ask(server, Request(file_containing_symbol=name))
            pool = descriptor_pool.DescriptorPool()
            for file in reversed(files(reply)):
                pool.AddSerializedFile(file.SerializeToString())
            found = pool.FindServiceByName(name)
            expected = known.FindServiceByName(name)
            assert set(found.methods_by_name) == set(expected.methods_by_name)
            for method, of_ours in found.methods_by_name.items():
                of_protos = expected.methods_by_name[method]
                assert of_ours.input_type.full_name == of_protos.input_type.full_name
                assert of_ours.server_streaming == of_protos.server_streaming


@pytest.mark.parametrize(
    "symbol",
    [
        "plimsoll.v1.AdminService.Drain",
        "plimsoll.v1.DrainRequest",
        "plimsoll.v1.DrainRequest.wait",
        "plimsoll.v1.RequestState",
        "plimsoll.v1.REQUEST_STATE_PARKED",
    ],
)
def test_any_symbol_leads_to_its_file(worker, symbol):
    (reply,) = ask(worker, Request(file_containing_symbol=symbol))
    assert files(reply)[0].name == "plimsoll/v1/admin.proto"


def test_a_file_comes_with_all_that_it_imports(worker):
    name = "plimsoll/v1/admin.proto"
    request = Request(file_by_filename=name, host="a host")
    (reply,) = ask(worker, request)
    assert (reply.valid_host, reply.original_request) == ("a host", request)
    found = files(reply)
    assert found[0].name == name
    names = [file.name for file in found]
    assert len(set(names)) == len(names)
    for file in found:
        assert set(file.dependency) <= set(names)
    expected = descriptor_pb2.FileDescriptorProto()
    stubs.admin.DESCRIPTOR.CopyToProto(expected)
    assert found[0] == expected


UNKNOWN = [
    Request(file_by_filename="plimsoll/v1/no_such.proto"),
    Request(file_by_filename="../../etc/passwd"),
    Request(file_by_filename=""),
    Request(file_containing_symbol="plimsoll.v1.NoSuchService"),
    Request(file_containing_symbol="plimsoll.v1.DrainRequest."),
    Request(file_containing_symbol="..."),
    Request(file_containing_symbol=""),
    Request(all_extension_numbers_of_type="plimsoll.v1.NoSuchMessage"),
    Request(
        file_containing_extension=v1.ExtensionRequest(
            containing_type="plimsoll.v1.DrainRequest", extension_number=1
        )
    ),
    Request(
        file_containing_extension=v1.ExtensionRequest(
            containing_type="nothing", extension_number=-1
        )
    ),
]


def test_what_is_unknown_is_an_answer_and_the_stream_goes_on(worker):
    last = Request(file_by_filename="plimsoll/v1/model.proto")
    *unknown, known = ask(worker, *UNKNOWN, last)
    assert len(unknown) == len(UNKNOWN)
    for request, reply in zip(UNKNOWN, unknown):
        assert reply.original_request == request
        assert reply.error_response.error_code == NOT_FOUND, request
        assert reply.error_response.error_message
    assert files(known)[0].name == "plimsoll/v1/model.proto"


def test_a_request_for_nothing_is_an_error(worker):
    (reply,) = ask(worker, Request())
    assert reply.error_response.error_code == INVALID


def test_messages_without_extensions_say_so(worker):
    name = "plimsoll.v1.DrainRequest"
    (reply,) = ask(worker, Request(all_extension_numbers_of_type=name))
    answer = reply.all_extension_numbers_response
    assert reply.HasField("all_extension_numbers_response")
    assert answer.base_type_name == name
    assert not answer.extension_number


def sized(n_bytes):
    """A request of so many bytes."""
    request = Request(file_containing_symbol="x" * (n_bytes - 3))
    assert request.ByteSize() == n_bytes
    return request


def test_a_request_is_taken_up_to_its_limit(worker):
    (reply,) = ask(worker, sized(MAX_REQUEST_BYTES))
    assert reply.error_response.error_code == NOT_FOUND
    with refused(grpc.StatusCode.INVALID_ARGUMENT):
        ask(worker, sized(MAX_REQUEST_BYTES + 1))
    assert listed(worker)
