// How much of a stream waits for a client that does not read.
#include "services/worker/calls/pending_messages.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "plimsoll/v1/generation.pb.h"
#include "tests/services/worker/worker_fixture.h"

namespace plimsoll::services {
namespace {

using Response = v1::StreamGenerateResponse;
using Pending = PendingMessages<Response>;

// A message of `bytes` bytes on the wire, of which its frame has three.
Response MessageOf(int64_t bytes) {
  Response message;
  message.set_text(std::string(static_cast<size_t>(bytes - 3), 'a'));
  EXPECT_EQ(static_cast<int64_t>(message.ByteSizeLong()), bytes);
  return message;
}

TEST(PendingMessagesTest, TakesItsBytesAndNoMore) {
  Pending pending;
  pending.Push(MessageOf(kMaxPendingBytes - 1'000));
  EXPECT_TRUE(pending.HasRoom(1'000));
  EXPECT_FALSE(pending.HasRoom(1'001));
  pending.Push(MessageOf(1'000));
  EXPECT_EQ(pending.bytes(), kMaxPendingBytes);
  EXPECT_FALSE(pending.HasRoom(1));
  pending.PopFront();
  EXPECT_EQ(pending.bytes(), 1'000);
  EXPECT_TRUE(pending.HasRoom(kMaxPendingBytes - 1'000));
  EXPECT_FALSE(pending.HasRoom(kMaxPendingBytes - 999));
}

TEST(PendingMessagesTest, TakesSoManyMessagesAndNoMore) {
  Pending pending;
  for (size_t i = 0; i < Pending::kMaxMessages; ++i) {
    EXPECT_TRUE(pending.HasRoom(0)) << i;
    pending.Push({});
  }
  EXPECT_EQ(pending.bytes(), 0);
  EXPECT_FALSE(pending.HasRoom(0));
  pending.PopFront();
  EXPECT_TRUE(pending.HasRoom(0));
}

TEST(PendingMessagesTest, AMessageOfAnySizeMayBeTheFront) {
  Pending pending;
  EXPECT_TRUE(pending.HasRoom(10 * kMaxPendingBytes));
  pending.Push(MessageOf(10'000));
  EXPECT_FALSE(pending.HasRoom(1));
  pending.PopFront();
  EXPECT_TRUE(pending.empty());
  EXPECT_EQ(pending.bytes(), 0);
}

TEST(PendingMessagesTest, KeepsTheOrder) {
  Pending pending;
  pending.Push(MessageOf(200));
  const Response* const front = &pending.front();
  for (int64_t bytes = 201; bytes < 210; ++bytes) {
    pending.Push(MessageOf(bytes));
  }
  EXPECT_EQ(&pending.front(), front) << "it is being sent";
  for (int64_t bytes = 200; bytes < 205; ++bytes, pending.PopFront()) {
    EXPECT_EQ(static_cast<int64_t>(pending.front().ByteSizeLong()), bytes);
  }
  pending.Clear();
  EXPECT_TRUE(pending.empty());
  EXPECT_EQ(pending.bytes(), 0);
}

// A channel that takes little of a stream that its client does not read.
std::unique_ptr<v1::GenerationService::Stub> StubWithSmallWindow(
    const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 16 << 10);
  return v1::GenerationService::NewStub(grpc::CreateCustomChannel(
      address, grpc::InsecureChannelCredentials(), arguments));
}

// Whether one of the worker's streams waits for its reader.
bool IsParked(TestWorker& worker) {
  grpc::ClientContext context;
  v1::GetLoadResponse load;
  EXPECT_TRUE(worker.admin->GetLoad(&context, {}, &load).ok());
  for (const v1::ModelActivity& model : load.models()) {
    for (const v1::ActiveRequest& request : model.requests()) {
      if (request.state() == v1::REQUEST_STATE_PARKED) return true;
    }
  }
  return false;
}

TEST(PendingMessagesTest, AStreamThatNobodyReadsHoldsNoMore) {
  TestWorker worker;
  ASSERT_TRUE(worker.Load("a").ok());
  const auto stub = StubWithSmallWindow(worker.server->address());
  const v1::StreamGenerateRequest request = EndlessRequest();
  grpc::ClientContext context;
  const auto reader = stub->StreamGenerate(&context, request);
  Response message;
  ASSERT_TRUE(reader->Read(&message));
  // One more of its messages would not be taken. A stream is parked for a
  // moment, too, while the server has not sent what it could.
  const auto one = static_cast<int64_t>(message.ByteSizeLong());
  int64_t held = 0;
  while (held < kReplyPerByte * (kMaxPendingBytes - 2 * one) ||
         !IsParked(worker)) {
    held = worker.registry->messages().traffic().held_bytes;
    ASSERT_LE(held, 1'024 + kReplyPerByte * kMaxPendingBytes);
  }
  context.TryCancel();
  reader->Finish();
  worker.AwaitNothingHeld();
}

}  // namespace
}  // namespace plimsoll::services
