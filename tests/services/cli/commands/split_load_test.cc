// A model loaded in this process with its layers on several devices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <sstream>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "planner/layout/layer_split.h"
#include "services/cli/backends/embedded.h"
#include "services/cli/backends/embedded_generator.h"
#include "services/cli/terminal/failure.h"
#include "services/wire/model_parts.h"
#include "tests/worker/random_model.h"

namespace plimsoll::cli {
namespace {

using ::plimsoll::testing::RandomModelBytes;
using ::plimsoll::testing::TemporaryFile;
using ::plimsoll::testing::WideModel;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class SplitLoadTest : public ::testing::Test {
 protected:
  SplitLoadTest() {
    flags_.devices = {"one", "two"};
    flags_.n_ctx = {ContextFlag::Kind::kTokens, 4'096};
    flags_.threads = 1;
  }

  absl::StatusOr<LoadedModel> Load() {
    services::ComputeDevices devices;
    while (devices.size() < flags_.devices.size()) {
      devices.push_back(*worker::OpenComputeDevice("cpu"));
    }
    Streams streams{in_, out_, err_, {}, {}};
    return LoadOn(std::move(devices), file_.path(), {.flags = flags_}, streams);
  }

  // What the whole model takes on one device.
  int64_t WholeBytes() {
    const auto whole = Load();
    EXPECT_TRUE(whole.ok()) << whole.status();
    return whole->engine->plan().total_bytes;
  }

  static std::string Generate(LoadedModel model) {
    const auto generator = NewEmbeddedGenerator(std::move(model));
    v1::StreamGenerateRequest request;
    request.mutable_text()->set_raw_text("hello");
    request.mutable_sampling()->set_temperature(0);
    request.mutable_stopping()->set_max_tokens(24);
    request.mutable_stopping()->set_ignore_eos(true);
    const auto stream = generator->Start(request);
    EXPECT_TRUE(stream.ok()) << stream.status();
    std::string text;
    while (true) {
      const auto part = (*stream)->Next();
      EXPECT_TRUE(part.ok()) << part.status();
      if (!part.ok() || !part->has_value()) return text;
      text += (*part)->text();
    }
  }

  const TemporaryFile file_{RandomModelBytes(WideModel())};
  LoadFlags flags_;
  std::istringstream in_;
  std::ostringstream out_;
  std::ostringstream err_;
};

TEST_F(SplitLoadTest, LayersThatDoNotFitGoOnTheNextDevice) {
  const int64_t whole_bytes = WholeBytes();
  EXPECT_THAT(err_.str(), HasSubstr("note: layers 0-1 on one: "));
  const std::string text = Generate(*Load());
  EXPECT_FALSE(text.empty());
  flags_.device_memory = {whole_bytes - 1, whole_bytes};
  err_.str("");
  auto split = Load();
  ASSERT_TRUE(split.ok()) << split.status();
  EXPECT_EQ(split->engine->parts().size(), 2u);
  EXPECT_THAT(split->used_names, ElementsAre("one", "two"));
  EXPECT_THAT(err_.str(), AllOf(HasSubstr("note: layers 0-0 on one: "),
                                HasSubstr("note: layers 1-1 on two: ")));
  EXPECT_EQ(Generate(*std::move(split)), text);
}

TEST_F(SplitLoadTest, MemoryIsThatOfEachPart) {
  flags_.device_memory = {WholeBytes() - 1};
  const auto split = Load();
  ASSERT_TRUE(split.ok()) << split.status();
  const v1::GetMemoryResponse memory =
      services::MemoryToProto(*split->engine, split->used_names);
  ASSERT_EQ(memory.parts_size(), 2);
  EXPECT_EQ(memory.parts(1).device_id(), "two");
  EXPECT_EQ(memory.measured().allocated_bytes(),
            memory.parts(0).measured().allocated_bytes() +
                memory.parts(1).measured().allocated_bytes());
}

TEST_F(SplitLoadTest, WhatDoesNotFitSaysWhatEachDeviceHas) {
  flags_.device_memory = {WholeBytes() - 1, 1 << 20};
  const auto split = Load();
  EXPECT_EQ(ExitCodeOf(split.status()), kExitDoesNotFit);
  EXPECT_THAT(
      std::string(split.status().message()),
      AllOf(HasSubstr("one takes layers 0-0: "),
            HasSubstr("two takes no layers, there are 1.0 MiB"),
            HasSubstr("1 layer is left; two lacks "), HasSubstr("\n  try: ")));
}

TEST_F(SplitLoadTest, OneDeviceSaysNothing) {
  flags_.devices = {"one"};
  WholeBytes();
  EXPECT_THAT(err_.str(), Not(HasSubstr("note: ")));
}

}  // namespace
}  // namespace plimsoll::cli
