"""Makes the Python stubs of proto/ in a temporary folder and imports them.

The client knows nothing of the project but these protos.
"""

import atexit
import pathlib
import shutil
import sys
import tempfile
import types

import grpc_tools
from grpc_tools import protoc

SOURCE_DIR = pathlib.Path(__file__).resolve().parents[2]


def _generate():
    """Compiles every proto and puts the result on sys.path."""
    folder = tempfile.mkdtemp(prefix="plimsoll-stubs-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    protos = SOURCE_DIR / "proto"
    well_known = pathlib.Path(grpc_tools.__file__).parent / "_proto"
    files = sorted(str(path) for path in protos.glob("plimsoll/v1/*.proto"))
    arguments = ["protoc", f"-I{protos}", f"-I{well_known}"]
    arguments += [f"--python_out={folder}", f"--grpc_python_out={folder}"]
    if not files or protoc.main(arguments + files) != 0:
        raise RuntimeError(f"no stubs from {protos}")
    # By its file name alone: there is another Python package named grpc.
    here = protos / "grpc" / "reflection" / "v1"
    arguments[1] = f"-I{here}"
    if protoc.main(arguments + [str(here / "reflection.proto")]) != 0:
        raise RuntimeError(f"no stubs from {here}")
    sys.path.insert(0, folder)


_generate()

# They exist from here on only.
from plimsoll.v1 import admin_pb2 as admin  # noqa: E402
from plimsoll.v1 import admin_pb2_grpc  # noqa: E402
from plimsoll.v1 import common_pb2 as common  # noqa: E402
from plimsoll.v1 import generation_pb2 as generation  # noqa: E402
from plimsoll.v1 import generation_pb2_grpc  # noqa: E402
from plimsoll.v1 import model_pb2 as model  # noqa: E402
from plimsoll.v1 import model_pb2_grpc  # noqa: E402
from plimsoll.v1 import device_pb2  # noqa: E402
from plimsoll.v1 import lease_pb2  # noqa: E402
from plimsoll.v1 import placement_pb2  # noqa: E402
from plimsoll.v1 import plan_pb2  # noqa: E402
from plimsoll.v1 import planner_pb2  # noqa: E402
from plimsoll.v1 import planner_pb2_grpc  # noqa: E402
from plimsoll.v1 import session_pb2 as session  # noqa: E402
from plimsoll.v1 import session_pb2_grpc  # noqa: E402
from plimsoll.v1 import tokenizer_pb2 as tokenizer  # noqa: E402
from plimsoll.v1 import tokenizer_pb2_grpc  # noqa: E402
import reflection_pb2 as reflection  # noqa: E402
import reflection_pb2_grpc  # noqa: E402

# All that the planner's service speaks, whichever file says it.
planner = types.SimpleNamespace()
for _module in (device_pb2, lease_pb2, placement_pb2, plan_pb2, planner_pb2):
    vars(planner).update(vars(_module))

AdminStub = admin_pb2_grpc.AdminServiceStub
PlannerStub = planner_pb2_grpc.PlannerServiceStub
ModelStub = model_pb2_grpc.ModelServiceStub
GenerationStub = generation_pb2_grpc.GenerationServiceStub
SessionStub = session_pb2_grpc.SessionServiceStub
TokenizerStub = tokenizer_pb2_grpc.TokenizerServiceStub
ReflectionStub = reflection_pb2_grpc.ServerReflectionStub

__all__ = ["admin", "common", "generation", "model", "planner", "tokenizer"]
__all__ += ["AdminStub", "PlannerStub", "ModelStub", "GenerationStub"]
__all__ += ["TokenizerStub", "ReflectionStub", "reflection"]
__all__ += ["SessionStub", "session"]
