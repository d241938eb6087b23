"""The asynchronous client: `Planner`, `Worker` and what they return."""

from plimsoll_grpc.aio.client import Replies
from plimsoll_grpc.aio.planner import HeldLease, Planner
from plimsoll_grpc.aio.worker import Session, Stream, Worker

__all__ = ["HeldLease", "Planner", "Replies", "Session", "Stream", "Worker"]
