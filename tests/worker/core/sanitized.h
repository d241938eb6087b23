// Whether a test runs under a sanitizer.
#ifndef PLIMSOLL_TESTS_WORKER_CORE_SANITIZED_H_
#define PLIMSOLL_TESTS_WORKER_CORE_SANITIZED_H_

namespace plimsoll::testing {

// A sanitizer takes memory and time of its own.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kIsSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif
#else
inline constexpr bool kIsSanitized = false;
#endif

}  // namespace plimsoll::testing

#endif  // PLIMSOLL_TESTS_WORKER_CORE_SANITIZED_H_
