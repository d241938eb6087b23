// A file that is truncated while it is mapped ends the process with a reason.
#include "services/host/crash/bus_error.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/worker/random_model.h"
#include "worker/device/model_file.h"

namespace plimsoll::services {
namespace {

using ::plimsoll::testing::FindRandomModel;
using ::plimsoll::testing::RandomModelBytes;
using ::plimsoll::testing::TemporaryFile;

// Reads a weight of a model whose file was cut after it was mapped.
void ReadWhatWasCut() {
  EndOnBusError();
  const TemporaryFile file(RandomModelBytes(FindRandomModel("gemma_q5_0")));
  const auto model = worker::ModelFile::Open(file.path());
  const auto mapping = (*model)->Map();
  const auto& weight = (*model)->shape().weights.back();
  std::filesystem::resize_file(file.path(), 0);
  const volatile std::byte* const bytes =
      mapping->Bytes(weight.file_offset, weight.file_bytes).data();
  (void)bytes[0];
}

TEST(BusErrorDeathTest, APageThatIsGoneEndsTheProcessWithAReason) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(ReadWhatWasCut(), ::testing::ExitedWithCode(kBusErrorStatus),
              "a page of a mapped model file cannot be read");
}

}  // namespace
}  // namespace plimsoll::services
