// Memory of vectors that are emptied and filled again and again.
#ifndef PLIMSOLL_WORKER_TEXT_GRAMMAR_FIT_VECTOR_H_
#define PLIMSOLL_WORKER_TEXT_GRAMMAR_FIT_VECTOR_H_

#include <cstddef>
#include <vector>

namespace plimsoll::worker {

template <typename T>
size_t VectorBytes(const std::vector<T>& vector) {
  return vector.capacity() * sizeof(T);
}

// Gives the vector room for `wanted` elements, but not for many more.
template <typename T>
void Fit(std::vector<T>& vector, size_t wanted) {
  if (vector.capacity() > 2 * wanted) {
    vector = std::vector<T>(vector.begin(), vector.end());
  }
  vector.reserve(wanted);
}

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_TEXT_GRAMMAR_FIT_VECTOR_H_
