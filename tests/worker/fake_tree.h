// A folder that stands for "/", with files that look like the kernel's.
#ifndef PLIMSOLL_TESTS_WORKER_FAKE_TREE_H_
#define PLIMSOLL_TESTS_WORKER_FAKE_TREE_H_

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace plimsoll::testing {

class FakeTree {
 public:
  FakeTree() : root_(::testing::TempDir() + "plimsoll-tree-XXXXXX") {
    EXPECT_NE(mkdtemp(root_.data()), nullptr);
  }
  ~FakeTree() { std::filesystem::remove_all(root_); }
  FakeTree(const FakeTree&) = delete;
  FakeTree& operator=(const FakeTree&) = delete;

  // What is put in front of a path.
  const std::string& root() const { return root_; }

  // Writes the file at `path`, which begins with a slash, and its folders.
  void Write(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = root_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << "\n";
  }

  // Puts in the place of a file what can be opened, and not read, even by root.
  void MakeUnreadable(const std::string& path) const {
    std::filesystem::remove(root_ + path);
    std::filesystem::create_directories(root_ + path);
  }

 private:
  std::string root_;
};

}  // namespace plimsoll::testing

#endif  // PLIMSOLL_TESTS_WORKER_FAKE_TREE_H_
