#include "services/host/timed_writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <string>

#include "tests/read_file.h"

namespace plimsoll::services {
namespace {

using ::plimsoll::testing::ReadFile;

constexpr absl::Duration kShort = absl::Milliseconds(20);
constexpr absl::Duration kLong = absl::Minutes(1);

// A pipe or a pair of sockets: [0] is read, [1] is written.
class Channel {
 public:
  enum class Kind { kPipe, kSocket };
  explicit Channel(Kind kind) {
    std::signal(SIGPIPE, SIG_IGN);
    const int failed =
        kind == Kind::kPipe
            ? pipe2(ends_.data(), O_CLOEXEC)
            : socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends_.data());
    EXPECT_EQ(failed, 0);
  }
  ~Channel() {
    CloseReader();
    close(ends_[1]);
  }

  int write_end() const { return ends_[1]; }
  void CloseReader() {
    if (ends_[0] >= 0) close(ends_[0]);
    ends_[0] = -1;
  }
  // Reads until what was read ends in `end`.
  std::string ReadUntil(const std::string& end) {
    std::string all;
    std::array<char, 4'096> buffer;
    while (!all.ends_with(end)) {
      const ssize_t n = read(ends_[0], buffer.data(), buffer.size());
      if (n <= 0) break;
      all.append(buffer.data(), static_cast<size_t>(n));
    }
    return all;
  }

 private:
  std::array<int, 2> ends_ = {-1, -1};
};

class TimedWriterTest : public ::testing::TestWithParam<Channel::Kind> {
 protected:
  Channel channel_{GetParam()};
};

TEST_P(TimedWriterTest, WritesLines) {
  TimedWriter writer(channel_.write_end());
  EXPECT_TRUE(writer.Write("one", kLong));
  EXPECT_TRUE(writer.Write("two", kLong));
  EXPECT_EQ(channel_.ReadUntil("two\n"), "one\ntwo\n");
}

TEST_P(TimedWriterTest, AReaderThatReadsNothingMakesAWriteFail) {
  TimedWriter writer(channel_.write_end());
  const std::string line(1'000, 'x');
  int n_written = 0;
  while (writer.Write(line, kShort)) ASSERT_LT(++n_written, 10'000);
  EXPECT_GT(n_written, 0);
  // Once there is room again, the line that was cut is ended first.
  EXPECT_FALSE(channel_.ReadUntil("x").empty());
  EXPECT_TRUE(writer.Write("the end", kLong));
  const std::string rest = channel_.ReadUntil("the end\n");
  EXPECT_TRUE(rest.ends_with("\nthe end\n")) << rest;
}

TEST_P(TimedWriterTest, AReaderThatIsGoneMakesAWriteFail) {
  channel_.CloseReader();
  TimedWriter writer(channel_.write_end());
  EXPECT_FALSE(writer.Write("one", kLong));
}

TEST_P(TimedWriterTest, TheFlagsOfTheFileStayAsTheyAre) {
  const int before = fcntl(channel_.write_end(), F_GETFL);
  TimedWriter writer(channel_.write_end());
  EXPECT_TRUE(writer.Write("one", kLong));
  EXPECT_EQ(fcntl(channel_.write_end(), F_GETFL), before);
}

INSTANTIATE_TEST_SUITE_P(Channels, TimedWriterTest,
                         ::testing::Values(Channel::Kind::kPipe,
                                           Channel::Kind::kSocket));

TEST(TimedWriterFileTest, AFileIsAppendedToWhereItsOffsetIs) {
  const std::string path = ::testing::TempDir() + "/timed_writer_test";
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ASSERT_GE(file, 0);
  ASSERT_EQ(write(file, "zero\n", 5), 5);
  EXPECT_TRUE(TimedWriter(file).Write("one", kLong));
  ASSERT_EQ(write(file, "two\n", 4), 4);
  close(file);
  EXPECT_EQ(ReadFile(path), "zero\none\ntwo\n");
}

TEST(TimedWriterFileTest, AFileThatIsNotOpenMakesAWriteFail) {
  EXPECT_FALSE(TimedWriter(-1).Write("one", kLong));
}

}  // namespace
}  // namespace plimsoll::services
