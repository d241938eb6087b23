// Reads a file that a test looks at.
#ifndef PLIMSOLL_TESTS_READ_FILE_H_
#define PLIMSOLL_TESTS_READ_FILE_H_

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace plimsoll::testing {

// All bytes of the file; none if it cannot be read.
inline std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace plimsoll::testing

#endif  // PLIMSOLL_TESTS_READ_FILE_H_
