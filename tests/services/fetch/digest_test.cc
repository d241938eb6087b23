#include "services/fetch/digest.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "tests/services/temporary_folder.h"

namespace plimsoll::fetch {
namespace {

// The standard's own examples (FIPS 180-4).
constexpr char kOfNothing[] =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
constexpr char kOfAbc[] =
    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

TEST(FetchDigestTest, TextsHaveTheStandardsDigests) {
  EXPECT_EQ(TextDigest(""), kOfNothing);
  EXPECT_EQ(TextDigest("abc"), kOfAbc);
}

TEST(FetchDigestTest, PiecesAreAsGoodAsTheWhole) {
  Sha256 hash;
  hash.Update("a");
  EXPECT_NE(hash.Hex(), kOfAbc);  // and it goes on
  hash.Update("bc");
  EXPECT_EQ(hash.Hex(), kOfAbc);
  hash.Reset();
  EXPECT_EQ(hash.Hex(), kOfNothing);
}

TEST(FetchDigestTest, FilesAreReadToTheirEnd) {
  const services::testing::TemporaryFolder folder;
  const std::string text((3 << 20) + 5, 'x');
  std::ofstream(folder.File("m")) << text;
  int n_checks = 0;
  const auto digest = FileDigest(folder.File("m"), [&] {
    ++n_checks;
    return absl::OkStatus();
  });
  EXPECT_EQ(*digest, TextDigest(text));
  EXPECT_GE(n_checks, 4);
  EXPECT_TRUE(absl::IsCancelled(FileDigest(folder.File("m"), [] {
                                  return absl::CancelledError("");
                                }).status()));
  EXPECT_TRUE(absl::IsNotFound(
      FileDigest(folder.File("n"), [] { return absl::OkStatus(); }).status()));
}

}  // namespace
}  // namespace plimsoll::fetch
