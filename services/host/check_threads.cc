#include "services/host/check_threads.h"

#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "services/host/background.h"

namespace plimsoll::services {

absl::Status CheckThreads(int n) {
  absl::Notification end;
  std::vector<Background> threads;  // joined at the end
  // Before they are joined, also where an exception ends this.
  const absl::Cleanup end_threads = [&end] { end.Notify(); };
  absl::Status status;
  for (int i = 0; i < n && status.ok(); ++i) {
    auto thread = Background::Start([&end] { end.WaitForNotification(); });
    if (thread.ok()) {
      threads.push_back(*std::move(thread));
      continue;
    }
    status = absl::Status(
        thread.status().code(),
        absl::StrCat("this start needs ", n, " more threads and gets ", i, ": ",
                     thread.status().message()));
  }
  return status;
}

}  // namespace plimsoll::services
