#include "services/host/state_path.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>

namespace plimsoll::services {
namespace {

// Sets a variable, or unsets it if `value` is null.
void SetVariable(const char* name, const char* value) {
  if (value == nullptr) {
    unsetenv(name);
  } else {
    setenv(name, value, /*overwrite=*/1);
  }
}

// Gives the two variables their values back.
class StatePathTest : public ::testing::Test {
 protected:
  ~StatePathTest() override {
    SetVariable("XDG_STATE_HOME", state_ ? state_->c_str() : nullptr);
    SetVariable("HOME", home_ ? home_->c_str() : nullptr);
  }

 private:
  static std::optional<std::string> Get(const char* name) {
    const char* value = std::getenv(name);
    if (value == nullptr) return std::nullopt;
    return value;
  }

  const std::optional<std::string> state_ = Get("XDG_STATE_HOME");
  const std::optional<std::string> home_ = Get("HOME");
};

TEST_F(StatePathTest, IsBelowTheFirstAbsolutePath) {
  SetVariable("HOME", "/my/home");
  SetVariable("XDG_STATE_HOME", "/var/state");
  EXPECT_EQ(StatePath("file"), "/var/state/plimsoll/file");
  for (const char* state :
       {"relative", "", static_cast<const char*>(nullptr)}) {
    SetVariable("XDG_STATE_HOME", state);
    EXPECT_EQ(StatePath("file"), "/my/home/.local/state/plimsoll/file");
  }
}

TEST_F(StatePathTest, IsEmptyWithoutOne) {
  SetVariable("XDG_STATE_HOME", nullptr);
  for (const char* home : {"relative", "", static_cast<const char*>(nullptr)}) {
    SetVariable("HOME", home);
    EXPECT_EQ(StatePath("file"), "");
  }
}

}  // namespace
}  // namespace plimsoll::services
