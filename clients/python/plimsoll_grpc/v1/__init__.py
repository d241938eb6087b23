"""The messages of plimsoll.v1, whichever file declares them.

docs/api.md of the repository describes all of them.
"""

from plimsoll_grpc.v1.admin_pb2 import *
from plimsoll_grpc.v1.common_pb2 import *
from plimsoll_grpc.v1.device_pb2 import *
from plimsoll_grpc.v1.generation_pb2 import *
from plimsoll_grpc.v1.lease_pb2 import *
from plimsoll_grpc.v1.model_pb2 import *
from plimsoll_grpc.v1.placement_pb2 import *
from plimsoll_grpc.v1.plan_pb2 import *
from plimsoll_grpc.v1.planner_pb2 import *
from plimsoll_grpc.v1.session_pb2 import *
from plimsoll_grpc.v1.tokenizer_pb2 import *
