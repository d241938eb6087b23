"""Writes docs/api.md from the protos and their comments.

Usage: build/e2e-venv/bin/python scripts/api_page.py

It needs grpcio-tools. tests/e2e/clients/test_api_page.py fails when the page and
the protos differ.
"""

import pathlib
import sys
import tempfile

from google.protobuf import descriptor_pb2
from grpc_tools import protoc

SOURCE_DIR = pathlib.Path(__file__).resolve().parents[1]
PAGE = SOURCE_DIR / "docs" / "api.md"
PACKAGE = "plimsoll.v1"
FOLDER = "plimsoll/v1"

HEAD = """# API

`scripts/api_page.py` writes this page from [proto/plimsoll/v1](../proto/plimsoll/v1); a
test fails when they differ. Planner and worker also have `grpc.health.v1.Health` and
`grpc.reflection.v1.ServerReflection`. [service_config.json](../proto/plimsoll/v1/service_config.json)
says which calls a client may repeat.

"""

Field = descriptor_pb2.FieldDescriptorProto
File = descriptor_pb2.FileDescriptorProto
# Numbers of the fields that a path of a comment is made of.
MESSAGES = File.MESSAGE_TYPE_FIELD_NUMBER
ENUMS = File.ENUM_TYPE_FIELD_NUMBER
SERVICES = File.SERVICE_FIELD_NUMBER
METHODS = descriptor_pb2.ServiceDescriptorProto.METHOD_FIELD_NUMBER
FIELDS = descriptor_pb2.DescriptorProto.FIELD_FIELD_NUMBER
ONEOFS = descriptor_pb2.DescriptorProto.ONEOF_DECL_FIELD_NUMBER
VALUES = descriptor_pb2.EnumDescriptorProto.VALUE_FIELD_NUMBER


def read_protos():
    """The descriptors of all protos, with their comments, by file name."""
    protos = SOURCE_DIR / "proto"
    well_known = pathlib.Path(protoc.__file__).parent / "_proto"
    files = sorted(str(path) for path in (protos / FOLDER).glob("*.proto"))
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "descriptors"
        flags = [f"-I{protos}", f"-I{well_known}", "--include_source_info"]
        flags.append(f"--descriptor_set_out={out}")
        if protoc.main(["protoc", *flags, *files]) != 0:
            raise RuntimeError("protoc refuses the protos")
        found = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())
    return sorted(found.file, key=lambda file: file.name)


class Comments:
    """The comments of a file, by the path of what they are about."""

    def __init__(self, file):
        self._at = {tuple(where.path): where for where in file.source_code_info.location}

    def of(self, *path):
        """The comment before an element, as one line."""
        where = self._at.get(path)
        return _line(where.leading_comments) if where else ""

    def before(self, *path):
        """Comments that stand apart, before an element and its own comment."""
        where = self._at.get(path)
        return [_line(text) for text in where.leading_detached_comments] if where else []


def _line(comment):
    return " ".join(comment.split()).replace("|", "\\|")


def type_link(full_name):
    """The name of a type, as a link where this page has it."""
    name = full_name.lstrip(".")
    if not name.startswith(f"{PACKAGE}."):
        return f"`{name}`"
    short = name.removeprefix(f"{PACKAGE}.")
    return f"[{short}](#{short.lower()})"


def field_type(field):
    """A field's label and type."""
    if field.type_name:
        kind = type_link(field.type_name)
    else:
        kind = f"`{Field.Type.Name(field.type).removeprefix('TYPE_').lower()}`"
    if field.label == Field.LABEL_REPEATED:
        return f"repeated {kind}"
    return f"optional {kind}" if field.proto3_optional else kind


def service_lines(service, comments, index):
    yield f"### {service.name}\n\n{comments.of(SERVICES, index)}\n"
    yield "| call | request | reply | what it does |\n|---|---|---|---|"
    for i, method in enumerate(service.method):
        reply = type_link(method.output_type)
        if method.server_streaming:
            reply = f"stream of {reply}"
        text = comments.of(SERVICES, index, METHODS, i)
        yield f"| `{method.name}` | {type_link(method.input_type)} | {reply} | {text} |"
    yield ""


def message_lines(message, comments, index):
    yield f"### {message.name}\n\n{comments.of(MESSAGES, index)}\n"
    if not message.field:
        return
    yield "| field | type | what it is |\n|---|---|---|"
    told = set()
    for i, field in enumerate(message.field):
        name = f"`{field.name}`"
        if field.HasField("oneof_index") and not field.proto3_optional:
            group = message.oneof_decl[field.oneof_index].name
            if group not in told:
                told.add(group)
                text = comments.of(MESSAGES, index, ONEOFS, field.oneof_index)
                yield f"| `{group}` | one of the next | {text} |"
            name = f"- {name}"
        for text in comments.before(MESSAGES, index, FIELDS, i):
            yield f"| | | *{text}* |"
        text = comments.of(MESSAGES, index, FIELDS, i)
        yield f"| {name} | {field_type(field)} | {text} |"
    yield ""


def enum_lines(enum, comments, index):
    yield f"### {enum.name}\n\n{comments.of(ENUMS, index)}\n"
    yield "| value | number | what it means |\n|---|---:|---|"
    for i, value in enumerate(enum.value):
        text = comments.of(ENUMS, index, VALUES, i)
        yield f"| `{value.name}` | {value.number} | {text} |"
    yield ""


def page():
    """The text of docs/api.md."""
    files = read_protos()
    lines = ["## Services\n"]
    for file in files:
        for i, service in enumerate(file.service):
            lines += service_lines(service, Comments(file), i)
    for file in files:
        comments = Comments(file)
        if not file.message_type and not file.enum_type:
            continue
        lines.append(f"## {pathlib.Path(file.name).name}\n")
        lines += [comments.of(File.SYNTAX_FIELD_NUMBER) + "\n"]
        for i, message in enumerate(file.message_type):
            lines += message_lines(message, comments, i)
        for i, enum in enumerate(file.enum_type):
            lines += enum_lines(enum, comments, i)
    return HEAD + "\n".join(lines).rstrip() + "\n"


def main():
    if len(sys.argv) > 1:
        sys.exit(__doc__)
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(SOURCE_DIR)}")


if __name__ == "__main__":
    main()
