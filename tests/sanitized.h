// What decides how many cases a test runs: sanitizers, which take memory and
// time of their own, and the long run of `.ci/run nightly`. GCC tells of
// sanitizers by macros, Clang by features.
#ifndef PLIMSOLL_TESTS_SANITIZED_H_
#define PLIMSOLL_TESTS_SANITIZED_H_

namespace plimsoll::testing {

#if defined(__has_feature)
inline constexpr bool kSeesThreads = __has_feature(thread_sanitizer);
inline constexpr bool kIsSanitized =
    kSeesThreads || __has_feature(address_sanitizer);
#elif defined(__SANITIZE_THREAD__)
inline constexpr bool kSeesThreads = true;
inline constexpr bool kIsSanitized = true;
#elif defined(__SANITIZE_ADDRESS__)
inline constexpr bool kSeesThreads = false;
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kSeesThreads = false;
inline constexpr bool kIsSanitized = false;
#endif

#ifdef PLIMSOLL_LONG_TESTS
inline constexpr bool kIsLong = true;
#else
inline constexpr bool kIsLong = false;
#endif

}  // namespace plimsoll::testing

#endif  // PLIMSOLL_TESTS_SANITIZED_H_
