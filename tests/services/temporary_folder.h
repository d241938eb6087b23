// A folder for one test.
#ifndef PLIMSOLL_TESTS_SERVICES_TEMPORARY_FOLDER_H_
#define PLIMSOLL_TESTS_SERVICES_TEMPORARY_FOLDER_H_

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <vector>

namespace plimsoll::services::testing {

class TemporaryFolder {
 public:
  TemporaryFolder() : path_(::testing::TempDir() + "plimsoll-XXXXXX") {
    EXPECT_NE(mkdtemp(path_.data()), nullptr);
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string File(const std::string& name) const { return path_ + "/" + name; }

  // Names of its files that contain `part`.
  std::vector<std::string> Names(const std::string& part) const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      const std::string name = entry.path().filename();
      if (name.find(part) != std::string::npos) names.push_back(name);
    }
    return names;
  }

 private:
  std::string path_;
};

}  // namespace plimsoll::services::testing

#endif  // PLIMSOLL_TESTS_SERVICES_TEMPORARY_FOLDER_H_
