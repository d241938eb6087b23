// A client of HTTP made of a bare socket, so that tests can send anything.
#ifndef PLIMSOLL_TESTS_SERVICES_HTTP_HTTP_CLIENT_H_
#define PLIMSOLL_TESTS_SERVICES_HTTP_HTTP_CLIENT_H_

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace plimsoll::services {

struct ClientReply {
  int status = 0;
  std::string head;  // lower-case
  std::string body;  // without the marks of chunks
};

// What a request has besides its method and its target.
struct ClientContent {
  std::string body = "";
  std::string headers = "";  // whole lines
};

// One connection. Reads wait for 20 s at most.
class HttpClient {
 public:
  // `address` is an IPv4 address with a port.
  explicit HttpClient(const std::string& address)
      : HttpClient(address, std::nullopt) {}
  // One whose socket holds few bytes that were not read.
  static HttpClient WithSmallBuffer(const std::string& address) {
    return HttpClient(address, 4'096);
  }
  virtual ~HttpClient() { Close(); }
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  void Close() {
    if (socket_ >= 0) close(socket_);
    socket_ = -1;
  }

  void Send(const std::string& bytes) {
    size_t sent = 0;
    while (sent < bytes.size()) {
      const ssize_t n = Transmit(bytes.data() + sent, bytes.size() - sent);
      if (n <= 0) return;  // the server has closed; the reply says why
      sent += static_cast<size_t>(n);
    }
  }

  // The bytes of a request.
  std::string Request(const std::string& method, const std::string& target,
                      const ClientContent& content) const {
    const auto& [body, headers] = content;
    const std::string host = absl::StrContains(headers, "Host:")
                                 ? ""
                                 : absl::StrCat("Host: ", address_, "\r\n");
    return absl::StrCat(method, " ", target, " HTTP/1.1\r\n", host, headers,
                        "Content-Length: ", body.size(), "\r\n\r\n", body);
  }
  ClientReply Get(const std::string& target) {
    Send(Request("GET", target, {}));
    return Read();
  }
  ClientReply Post(const std::string& target, const std::string& body) {
    return PostContent(target, {.body = body});
  }
  ClientReply PostContent(const std::string& target,
                          const ClientContent& content) {
    Send(Request("POST", target, content));
    return Read();
  }

  // Reads the head of a reply. Its status is 0 if the connection ends before.
  ClientReply ReadHead() {
    ClientReply reply;
    const std::optional<std::string> head = ReadTo("\r\n\r\n");
    if (!head.has_value()) return reply;
    reply.head = absl::AsciiStrToLower(*head);
    reply.status = std::atoi(reply.head.c_str() + sizeof("http/1.1 ") - 1);
    return reply;
  }
  // Reads one reply, or as ReadHead if the connection ends before.
  ClientReply Read() {
    ClientReply reply = ReadHead();
    if (reply.status == 100) return reply;
    if (absl::StrContains(reply.head, "transfer-encoding: chunked")) {
      while (ReadChunk(reply.body)) continue;
      return reply;
    }
    const size_t at = reply.head.find("content-length: ");
    if (at == std::string::npos) return reply;
    const int n = std::atoi(reply.head.c_str() + at + 16);
    reply.body = ReadBytes(static_cast<size_t>(n)).value_or("");
    return reply;
  }

  // Appends the next chunk to `body`; false after the last one.
  bool ReadChunk(std::string& body) {
    const std::optional<std::string> size = ReadTo("\r\n");
    uint32_t n = 0;
    if (!size || !absl::SimpleHexAtoi(size->substr(0, size->size() - 2), &n)) {
      return false;
    }
    const std::optional<std::string> bytes = ReadBytes(n + 2);
    if (!bytes.has_value() || n == 0) return false;
    body += bytes->substr(0, n);
    return true;
  }

  // Whether the server closes the connection, without another byte.
  bool IsClosed() { return !ReadBytes(1).has_value(); }

 protected:
  // What the connection sends and receives: 0 or less if it has ended.
  virtual ssize_t Transmit(const char* bytes, size_t n) {
    return send(socket_, bytes, n, MSG_NOSIGNAL);
  }
  virtual ssize_t Receive(char* bytes, size_t n) {
    return recv(socket_, bytes, n, 0);
  }
  int socket() const { return socket_; }

 private:
  HttpClient(const std::string& address, std::optional<int> receive_bytes)
      : address_(address), socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    const size_t colon = address.rfind(':');
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port =
        htons(static_cast<uint16_t>(std::atoi(address.c_str() + colon + 1)));
    inet_pton(AF_INET, address.substr(0, colon).c_str(), &to.sin_addr);
    const timeval limit = {20, 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    if (receive_bytes.has_value()) {
      setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &*receive_bytes,
                 sizeof(*receive_bytes));
    }
    EXPECT_EQ(connect(socket_, reinterpret_cast<sockaddr*>(&to), sizeof(to)),
              0);
  }

  bool Fill() {
    char bytes[4096];
    const ssize_t n = Receive(bytes, sizeof(bytes));
    if (n <= 0) return false;
    buffer_.append(bytes, static_cast<size_t>(n));
    return true;
  }
  std::optional<std::string> ReadBytes(size_t n) {
    while (buffer_.size() < n) {
      if (!Fill()) return std::nullopt;
    }
    std::string bytes = buffer_.substr(0, n);
    buffer_.erase(0, n);
    return bytes;
  }
  std::optional<std::string> ReadTo(const std::string& end) {
    size_t at = buffer_.find(end);
    while (at == std::string::npos) {
      if (!Fill()) return std::nullopt;
      at = buffer_.find(end);
    }
    return ReadBytes(at + end.size());
  }

  const std::string address_;
  int socket_;
  std::string buffer_;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_TESTS_SERVICES_HTTP_HTTP_CLIENT_H_
