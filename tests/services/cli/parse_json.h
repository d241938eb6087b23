// Parses the JSON that a command prints.
#ifndef PLIMSOLL_TESTS_SERVICES_CLI_PARSE_JSON_H_
#define PLIMSOLL_TESTS_SERVICES_CLI_PARSE_JSON_H_

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <string>

namespace plimsoll::cli {

// Parses an object the strict way. A text that is none fails the test.
inline google::protobuf::Struct ParseJson(const std::string& text) {
  google::protobuf::Struct object;
  const auto status =
      google::protobuf::util::JsonStringToMessage(text, &object);
  EXPECT_TRUE(status.ok()) << status.ToString() << "\n" << text;
  return object;
}

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_TESTS_SERVICES_CLI_PARSE_JSON_H_
