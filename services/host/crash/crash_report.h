// The last lines of a process that crashes.
#ifndef PLIMSOLL_SERVICES_HOST_CRASH_CRASH_REPORT_H_
#define PLIMSOLL_SERVICES_HOST_CRASH_CRASH_REPORT_H_

namespace plimsoll::services {

// From now on a process that ends by SIGABRT, SIGSEGV, SIGILL or SIGFPE writes
// on stderr which signal it was and which calls led there, unless its stack is
// full. gRPC calls abort() without a message if it gets no memory. A signal
// that somebody handles already, such as a sanitizer, is left alone. Call it
// first in main().
void ReportCrashes();

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HOST_CRASH_CRASH_REPORT_H_
