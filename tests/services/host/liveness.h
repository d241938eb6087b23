// A listener of a watch over hangs.
#ifndef PLIMSOLL_TESTS_SERVICES_HOST_LIVENESS_H_
#define PLIMSOLL_TESTS_SERVICES_HOST_LIVENESS_H_

#include <condition_variable>
#include <mutex>

namespace plimsoll::testing {

// What a watch has told last.
class Liveness {
 public:
  void Set(bool is_alive) {
    const std::lock_guard lock(mu_);
    is_alive_ = is_alive;
    ++n_changes_;
    changed_.notify_all();
  }
  // Waits until it was told so.
  void Await(bool is_alive) {
    std::unique_lock lock(mu_);
    changed_.wait(lock, [&] { return is_alive_ == is_alive; });
  }
  int n_changes() {
    const std::lock_guard lock(mu_);
    return n_changes_;
  }

 private:
  std::mutex mu_;
  std::condition_variable changed_;
  bool is_alive_ = true;
  int n_changes_ = 0;
};

}  // namespace plimsoll::testing

#endif  // PLIMSOLL_TESTS_SERVICES_HOST_LIVENESS_H_
