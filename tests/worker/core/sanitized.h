// Whether a test runs under a sanitizer, which takes memory and time of its
// own.
#ifndef PLIMSOLL_TESTS_WORKER_CORE_SANITIZED_H_
#define PLIMSOLL_TESTS_WORKER_CORE_SANITIZED_H_

namespace plimsoll::testing {

#if defined(__SANITIZE_THREAD__)
inline constexpr bool kSeesThreads = true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
inline constexpr bool kSeesThreads = true;
#else
inline constexpr bool kSeesThreads = false;
#endif
#else
inline constexpr bool kSeesThreads = false;
#endif

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kIsSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = kSeesThreads;
#endif
#else
inline constexpr bool kIsSanitized = kSeesThreads;
#endif

}  // namespace plimsoll::testing

#endif  // PLIMSOLL_TESTS_WORKER_CORE_SANITIZED_H_
