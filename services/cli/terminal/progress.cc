// Shows on standard error how far a load is.
#include "services/cli/terminal/progress.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "services/cli/terminal/bytes.h"

namespace plimsoll::cli {
namespace {

constexpr int64_t kBarCells = 24;
constexpr int64_t kLinePercent = 25;

std::string Rate(int64_t bytes, absl::Duration elapsed) {
  const double seconds = absl::ToDoubleSeconds(elapsed);
  if (seconds <= 0) return "";
  const double rate = static_cast<double>(bytes) / seconds;
  // Networks are slower than disks.
  if (rate < 1e8) return absl::StrFormat(", %.1f MB/s", rate / 1e6);
  return absl::StrFormat(", %.1f GB/s", rate / 1e9);
}

}  // namespace

Progress::~Progress() {
  if (line_is_open_) streams_.err << "\n" << std::flush;
}

void Progress::Update(int64_t bytes_done, int64_t bytes_total, absl::Time now) {
  if (bytes_total <= 0) return;
  // The product is a double because an int64 could overflow.
  auto percent = static_cast<int64_t>(static_cast<double>(bytes_done) * 100 /
                                      static_cast<double>(bytes_total));
  if (!streams_.err_style.is_tty) percent -= percent % kLinePercent;
  if (percent <= last_percent_) return;
  last_percent_ = percent;
  Draw(percent, bytes_done, now - start_);
}

void Progress::Draw(int64_t percent, int64_t bytes_done,
                    absl::Duration elapsed) {
  const std::string state =
      absl::StrCat(percent, " %, ", FormatBytes(bytes_done),
                   Rate(bytes_done - work_.bytes_before, elapsed));
  if (!streams_.err_style.is_tty) {
    if (percent > 0) {
      streams_.err << work_.verb << " " << work_.name << ": " << state << "\n";
    }
    return;
  }
  std::string bar;
  for (int64_t i = 0; i < kBarCells; ++i) {
    const bool full = i * 100 < percent * kBarCells;
    if (streams_.err_style.utf8) {
      absl::StrAppend(&bar, full ? "█" : "·");
    } else {
      absl::StrAppend(&bar, full ? "#" : ".");
    }
  }
  line_is_open_ = percent < 100;
  // The finished bar disappears, because the text comes next.
  streams_.err << "\r\033[K";
  if (line_is_open_) streams_.err << "  [" << bar << "] " << state;
  streams_.err << std::flush;
}

}  // namespace plimsoll::cli
