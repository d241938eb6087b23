// A message as JSON, to see which of its fields are there.
#ifndef PLIMSOLL_TESTS_SERVICES_WIRE_MESSAGE_JSON_H_
#define PLIMSOLL_TESTS_SERVICES_WIRE_MESSAGE_JSON_H_

#include <google/protobuf/message.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <string>

namespace plimsoll::services::testing {

inline std::string JsonOf(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string json;
  EXPECT_TRUE(
      google::protobuf::util::MessageToJsonString(message, &json, options)
          .ok());
  return json;
}

}  // namespace plimsoll::services::testing

#endif  // PLIMSOLL_TESTS_SERVICES_WIRE_MESSAGE_JSON_H_
