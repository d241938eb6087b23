// Memory of a device: one owning buffer, and views into it.
#ifndef PLIMSOLL_KERNELS_BUFFER_H_
#define PLIMSOLL_KERNELS_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

namespace plimsoll::kernels {

// A range of device memory that somebody else owns. For the CPU, `data` is an
// ordinary pointer; for CUDA a device pointer that the host must not follow.
struct BufferView {
  std::byte* data = nullptr;
  int64_t bytes = 0;

  // The sub-range [offset, offset + length). The caller stays inside.
  BufferView Slice(int64_t offset, int64_t length) const {
    return {data + offset, length};
  }
};

// Owns one allocation and frees it. Movable, not copyable.
class Buffer {
 public:
  using Free = std::function<void(std::byte* data, int64_t bytes)>;
  Buffer() = default;
  Buffer(std::byte* data, int64_t bytes, Free free)
      : data_(data), bytes_(bytes), free_(std::move(free)) {}
  Buffer(Buffer&& other) noexcept { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(free_, other.free_);
    return *this;
  }
  ~Buffer() {
    if (data_ != nullptr) free_(data_, bytes_);
  }

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }  // bytes that were taken
  BufferView view() const { return {data_, bytes_}; }

 private:
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
  Free free_;
};

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_KERNELS_BUFFER_H_
