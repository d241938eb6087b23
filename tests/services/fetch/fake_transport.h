// A transport whose replies a test writes.
#ifndef PLIMSOLL_TESTS_SERVICES_FETCH_FAKE_TRANSPORT_H_
#define PLIMSOLL_TESTS_SERVICES_FETCH_FAKE_TRANSPORT_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "services/fetch/transport.h"

namespace plimsoll::fetch::testing {

struct FakeRequest {
  std::string url;
  std::vector<std::string> fields;

  // The value of a field, or nothing.
  std::string Field(const std::string& name) const {
    for (const std::string& field : fields) {
      if (field.starts_with(name + ": ")) return field.substr(name.size() + 2);
    }
    return "";
  }
};

struct FakeReply {
  ReplyHead head;
  std::string body = "";
  absl::Status end = absl::OkStatus();  // how the transfer ends
};

class FakeTransport final : public Transport {
 public:
  using Answer = std::function<FakeReply(const FakeRequest&)>;

  // `requests` outlives it.
  FakeTransport(std::vector<FakeRequest>& requests, Answer answer)
      : requests_(requests), answer_(std::move(answer)) {}

  absl::Status Get(const Url& url, const std::vector<std::string>& fields,
                   absl::Duration /*limit*/, ReplySink& sink) override {
    requests_.push_back({url.Text(), fields});
    const FakeReply reply = answer_(requests_.back());
    if (reply.head.status == 0) return reply.end;
    if (absl::Status status = sink.OnHead(reply.head); !status.ok()) {
      return status;
    }
    if (!reply.body.empty()) {
      if (absl::Status status = sink.OnBody(reply.body); !status.ok()) {
        return status;
      }
    }
    return reply.end;
  }

 private:
  std::vector<FakeRequest>& requests_;
  const Answer answer_;
};

}  // namespace plimsoll::fetch::testing

#endif  // PLIMSOLL_TESTS_SERVICES_FETCH_FAKE_TRANSPORT_H_
