#include "services/http/request_rules.h"

#include <gtest/gtest.h>

namespace plimsoll::services {
namespace {

TEST(RequestRulesTest, AddressesAndLocalhostAreAllowedHosts) {
  for (const char* host :
       {"127.0.0.1", "127.0.0.1:8080", "10.1.2.3:80", "[::1]", "[::1]:8080",
        "localhost", "LOCALHOST:1", "localhost:"}) {
    EXPECT_TRUE(IsAllowedHost(host, {})) << host;
  }
}

TEST(RequestRulesTest, NamesAreNoAllowedHosts) {
  for (const char* host :
       {"", "evil.example", "evil.example:8080", "127.0.0.1.evil.example",
        "localhost.evil.example", "127.0.0.1:80@evil", "[::1", "[::1]x",
        "127.1", "0x7f000001", "localhost:8o80", " localhost"}) {
    EXPECT_FALSE(IsAllowedHost(host, {})) << host;
  }
}

TEST(RequestRulesTest, OtherNamesAreAllowedByName) {
  EXPECT_TRUE(IsAllowedHost("models.lan:8080", {"models.lan"}));
  EXPECT_TRUE(IsAllowedHost("Models.LAN", {"models.lan"}));
  EXPECT_FALSE(IsAllowedHost("xmodels.lan", {"models.lan"}));
}

TEST(RequestRulesTest, PagesOfThisServerMaySend) {
  EXPECT_TRUE(IsAllowedOrigin("", "127.0.0.1:8080", {}));
  EXPECT_TRUE(IsAllowedOrigin("http://127.0.0.1:8080", "127.0.0.1:8080", {}));
  EXPECT_TRUE(IsAllowedOrigin("https://models.lan", "models.lan", {}));
}

TEST(RequestRulesTest, OtherPagesMayNot) {
  for (const char* origin :
       {"null", "http://evil.example", "http://127.0.0.1:8081",
        "http://127.0.0.1:8080.evil.example", "file://"}) {
    EXPECT_FALSE(IsAllowedOrigin(origin, "127.0.0.1:8080", {})) << origin;
  }
  EXPECT_TRUE(IsAllowedOrigin("https://chat.example", "127.0.0.1:8080",
                              {"https://chat.example"}));
}

}  // namespace
}  // namespace plimsoll::services
