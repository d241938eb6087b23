// Tiny models of many families, rebuilt by a script, and what a correct engine
// says with them.
#ifndef PLIMSOLL_TESTS_WORKER_GOLDEN_FAMILY_MODELS_H_
#define PLIMSOLL_TESTS_WORKER_GOLDEN_FAMILY_MODELS_H_

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/worker/engine/engine_harness.h"
#include "tests/worker/json.h"

namespace plimsoll::testing {

// The Python that the tests call: what PLIMSOLL_TEST_PYTHON names, or python3.
inline std::string TestPython() {
  const char* name = std::getenv("PLIMSOLL_TEST_PYTHON");
  return name != nullptr && *name != '\0' ? name : "python3";
}

inline std::string FindWhyNoFamilyModels() {
  if (!ReadJson("../shared/golden/families/llama.public.json")) {
    return "there is no shared data beside this checkout";
  }
  const std::string command = TestPython() + " -c 'import numpy' 2> /dev/null";
  if (std::system(command.c_str()) == 0) return "";
  return absl::StrCat(TestPython(),
                      " has no numpy, which writes the models "
                      "(PLIMSOLL_TEST_PYTHON names another Python)");
}

// Why the models cannot be built here; empty if they can.
inline const std::string& WhyNoFamilyModels() {
  static const std::string why = FindWhyNoFamilyModels();
  return why;
}

// The golden of a case: one of this repository, or a shared one.
inline std::string GoldenPath(const std::string& name) {
  const std::string own =
      absl::StrCat("tests/testdata/families/", name, ".json");
  if (access(own.c_str(), R_OK) == 0) return own;
  return absl::StrCat("../shared/golden/families/", name, ".public.json");
}

// The files of the models that this process has built. Many tests load the same
// model, so each file is built once and removed when the process ends.
class FamilyFiles {
 public:
  static FamilyFiles& OfThisProcess() {
    static FamilyFiles files;
    return files;
  }
  ~FamilyFiles() {
    for (const auto& [name, path] : paths_) std::remove(path.c_str());
  }
  FamilyFiles(const FamilyFiles&) = delete;
  FamilyFiles& operator=(const FamilyFiles&) = delete;

  // Weights of another type than the golden's, if `type` names one.
  const std::string& Path(const std::string& name, const std::string& type) {
    const auto [it, is_new] = paths_.try_emplace(
        absl::StrCat(name, type),
        absl::StrCat(::testing::TempDir(), "plimsoll_family_", getpid(), "_",
                     name, type, ".gguf"));
    if (is_new) {
      const std::string command = absl::StrCat(
          TestPython(), " tests/testdata/families/golden_families.py --params ",
          GoldenPath(name), type.empty() ? "" : absl::StrCat(" --type ", type),
          " '", it->second, "'");
      EXPECT_EQ(std::system(command.c_str()), 0) << command;
    }
    return it->second;
  }

 private:
  FamilyFiles() = default;

  std::map<std::string, std::string> paths_;  // by name and type
};

// The model of one case and its golden.
class FamilyModel {
 public:
  explicit FamilyModel(const std::string& name) : FamilyModel(name, "") {}
  // With weights of another type than the golden's, which give other answers.
  FamilyModel(const std::string& name, const std::string& type)
      : path_(FamilyFiles::OfThisProcess().Path(name, type)),
        golden_(ReadJson(GoldenPath(name)).value_or(Json())) {}

  const std::string& path() const { return path_; }
  const Json& golden() const { return golden_; }

 private:
  std::string path_;
  Json golden_;
};

// A test's name of a case.
inline std::string NameOfFamily(
    const ::testing::TestParamInfo<const char*>& test) {
  return absl::StrReplaceAll(test.param, {{"-", "_"}});
}

}  // namespace plimsoll::testing

#endif  // PLIMSOLL_TESTS_WORKER_GOLDEN_FAMILY_MODELS_H_
