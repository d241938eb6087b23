// The one place where services make threads.
#ifndef PLIMSOLL_SERVICES_COMMON_BACKGROUND_H_
#define PLIMSOLL_SERVICES_COMMON_BACKGROUND_H_

#include <functional>
#include <thread>
#include <utility>

namespace plimsoll::services {

// Work on a thread of its own, which is joined at the end. Movable; not
// thread-safe.
class Background {
 public:
  Background() = default;
  explicit Background(std::function<void()> work) : thread_(std::move(work)) {}
  Background(Background&&) noexcept = default;
  // Only for one that is idle.
  Background& operator=(Background&&) noexcept = default;
  ~Background() { Join(); }

  // Waits until the work is done, if there is any.
  void Join() {
    if (thread_.joinable()) thread_.join();
  }

  // Lets the work go on whatever becomes of this; it must own all that it uses.
  void Detach() {
    if (thread_.joinable()) thread_.detach();
  }

 private:
  std::thread thread_;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_COMMON_BACKGROUND_H_
