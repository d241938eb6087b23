// Renders templates for tests/oracle: reads a JSON object of a template and its
// variables from each line of standard input, and writes what became of it.
#include <ctime>
#include <iostream>
#include <string>

#include "absl/time/time.h"
#include "base/json.h"
#include "worker/text/jinja/json_value.h"
#include "worker/text/jinja/syntax/template.h"

namespace plimsoll::worker::jinja {
namespace {

using Json = nlohmann::ordered_json;

// A fixed time, which the oracle has too.
constexpr int64_t kNow = 1'700'000'000;

double Seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// Renders one line; `seconds` is what the rendering alone takes.
absl::StatusOr<Text> RenderLine(const Json& line, double& seconds) {
  const auto parsed = Template::Parse(line["template"].get<std::string>());
  if (!parsed.ok()) return parsed.status();
  const auto variables =
      FromJson(line["variables"].dump(), line.value("is_tainted", false));
  if (!variables.ok()) return variables.status();
  Surroundings surroundings;
  surroundings.now = absl::FromUnixSeconds(kNow);
  const double begin = Seconds();
  auto text = parsed->Render(variables->dict(), surroundings);
  seconds = Seconds() - begin;
  return text;
}

int Run() {
  std::string bytes;
  while (std::getline(std::cin, bytes)) {
    const Json line = Json::parse(bytes);
    const double begin = Seconds();
    Json reply;
    double render_seconds = 0;
    const auto text = RenderLine(line, render_seconds);
    reply["seconds"] = Seconds() - begin;
    reply["render_seconds"] = render_seconds;
    if (!text.ok()) {
      reply["error"] = std::string(text.status().message());
    } else {
      reply["text"] = std::string(text->bytes());
      Json runs = Json::array();
      text->ForEachRun([&runs](absl::string_view run, bool is_tainted) {
        runs.push_back({std::string(run), is_tainted});
      });
      if (line.value("is_tainted", false)) reply["runs"] = runs;
    }
    std::cout << reply.dump(-1, ' ', /*ensure_ascii=*/true,
                            Json::error_handler_t::replace)
              << "\n";
    std::cout.flush();
  }
  return 0;
}

}  // namespace
}  // namespace plimsoll::worker::jinja

int main() { return plimsoll::worker::jinja::Run(); }
