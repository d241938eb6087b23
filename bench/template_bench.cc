// How long does a chat template take to render a long conversation? Prints, for
// each template, the milliseconds of this process's CPU: to parse it, and the
// median and the largest of many renderings.
//
// usage: template_bench TURNS TEMPLATE...
//
// A turn is a message of the user and its reply, of some 200 bytes each; one
// more message of the user follows.
// scripts/fetch_templates.sh fetches the templates of real models.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "bench/must.h"
#include "worker/text/jinja/json_value.h"
#include "worker/text/jinja/syntax/template.h"

namespace plimsoll::worker::jinja {
namespace {

constexpr int kRounds = 51;

double MillisecondsSince(std::clock_t begin) {
  return static_cast<double>(std::clock() - begin) * 1e3 / CLOCKS_PER_SEC;
}

// What a template gets.
Value Variables(int n_turns) {
  auto messages = nlohmann::json::array();
  for (int i = 0; i <= 2 * n_turns; ++i) {
    std::string text = absl::StrCat("Message ", i, ":");
    while (text.size() < 200) text += " the sea is salty, and rivers are not.";
    messages.push_back(
        {{"role", i % 2 == 0 ? "user" : "assistant"}, {"content", text}});
  }
  const nlohmann::json variables = {{"messages", messages},
                                    {"add_generation_prompt", true},
                                    {"bos_token", "<s>"},
                                    {"eos_token", "</s>"}};
  return bench::Must(FromJson(variables.dump(), /*is_tainted=*/true));
}

void Run(const std::string& path, const Value& variables) {
  const std::string name = path.substr(path.rfind('/') + 1);
  std::ifstream in(path, std::ios::binary);
  const std::string source(std::istreambuf_iterator<char>(in), {});
  const std::clock_t begin = std::clock();
  const Template parsed = bench::Must(Template::Parse(source));
  const double parse_ms = MillisecondsSince(begin);
  std::vector<double> times;
  for (int round = 0; round < kRounds; ++round) {
    const std::clock_t start = std::clock();
    const auto text = parsed.Render(variables.dict());
    times.push_back(MillisecondsSince(start));
    if (!text.ok()) {
      std::printf("%38s  %s: %s\n", "", name.c_str(),
                  std::string(text.status().message()).c_str());
      return;
    }
  }
  std::sort(times.begin(), times.end());
  std::printf("%10.3f %12.3f %12.3f   %s\n", parse_ms, times[kRounds / 2],
              times.back(), name.c_str());
}

int Main(int n_turns, const std::vector<std::string>& paths) {
  const Value variables = Variables(n_turns);
  std::printf("  parse ms    render ms   slowest ms   template\n");
  for (const std::string& path : paths) Run(path, variables);
  return 0;
}

}  // namespace
}  // namespace plimsoll::worker::jinja

int main(int argc, char** argv) {
  const int n_turns = argc > 2 ? std::atoi(argv[1]) : 0;
  if (n_turns > 0) {
    return plimsoll::worker::jinja::Main(n_turns, {argv + 2, argv + argc});
  }
  std::fprintf(stderr, "usage: template_bench TURNS TEMPLATE...\n");
  return 2;
}
