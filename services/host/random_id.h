// Makes names that nobody can guess.
#ifndef PLIMSOLL_SERVICES_HOST_RANDOM_ID_H_
#define PLIMSOLL_SERVICES_HOST_RANDOM_ID_H_

#include <string>

namespace plimsoll::services {

// 128 bits from the system's generator as 32 hexadecimal digits.
std::string RandomId();

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HOST_RANDOM_ID_H_
