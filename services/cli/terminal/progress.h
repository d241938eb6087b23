// Shows the progress of a load, or of another reading of a file, on standard
// error: a bar on a terminal, else a line at every quarter.
#ifndef PLIMSOLL_SERVICES_CLI_TERMINAL_PROGRESS_H_
#define PLIMSOLL_SERVICES_CLI_TERMINAL_PROGRESS_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "services/cli/terminal/streams.h"

namespace plimsoll::cli {

// The work whose progress is shown. A line says the verb and the name.
struct Work {
  std::string name;
  std::string verb = "loading";
  int64_t bytes_before = 0;  // existed already; the rate does not count them
};

class Progress {
 public:
  // `now` is the time of the beginning, on a monotonic clock.
  Progress(Work work, absl::Time now, Streams& streams)
      : work_(std::move(work)), start_(now), streams_(streams) {}
  // Ends the line of an unfinished bar.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Prints if something has changed.
  void Update(int64_t bytes_done, int64_t bytes_total, absl::Time now);

 private:
  void Draw(int64_t percent, int64_t bytes_done, absl::Duration elapsed);

  const Work work_;
  const absl::Time start_;
  Streams& streams_;
  int64_t last_percent_ = -1;
  bool line_is_open_ = false;
};

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_TERMINAL_PROGRESS_H_
