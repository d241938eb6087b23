// Whether a test runs under a sanitizer, which takes memory and time of its
// own. GCC says so by macros, Clang by features.
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

}  // namespace plimsoll::testing

#endif  // PLIMSOLL_TESTS_SANITIZED_H_
