// `plimsoll models describe`: shows what decides a model's memory.
#include <filesystem>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/dtype.h"
#include "base/status_macros.h"
#include "plimsoll/v1/planner.grpc.pb.h"
#include "services/cli/backends/remote.h"
#include "services/cli/commands/commands.h"
#include "services/cli/flags/model_path.h"
#include "services/cli/terminal/bytes.h"
#include "services/cli/terminal/failure.h"
#include "services/cli/terminal/json.h"
#include "services/cli/terminal/table.h"
#include "services/wire/to_proto.h"

namespace plimsoll::cli {
namespace {

constexpr char kDescribeDescription[] =
    "Describe a model: layers, heads, context, weights by type\n"
    "Reads the file's header only; with --planner a model that the planner was "
    "configured with.";

constexpr char kDescribeFooter[] =
    "Examples:\n"
    "  plimsoll models describe model.gguf\n"
    "  plimsoll models describe model.gguf -o json\n"
    "  plimsoll models describe gemma --planner localhost:7070";

absl::StatusOr<v1::DescribeModelResponse> DescribeHere(
    const std::string& model) {
  ASSIGN_OR_RETURN(const services::PlanSource source, OpenPlannable(model));
  return services::ToProto(source.shape);
}

absl::StatusOr<v1::DescribeModelResponse> DescribeThere(
    const std::string& model, const Endpoint& address) {
  v1::DescribeModelRequest request;
  request.mutable_source()->set_model(model);
  v1::DescribeModelResponse response;
  const auto stub = v1::PlannerService::NewStub(Connect(address));
  RETURN_IF_ERROR(Call(
      [&](grpc::ClientContext* context,
          std::function<void(grpc::Status)> done) {
        stub->async()->DescribeModel(context, &request, &response,
                                     std::move(done));
      },
      address));
  return response;
}

std::string TypeName(v1::ElementType type) {
  const DTypeInfo* info = FindDType(static_cast<uint32_t>(type) - 1);
  return info == nullptr ? "?" : std::string(info->name);
}

std::string Layers(const v1::DescribeModelResponse& model) {
  if (model.n_window_layers() == 0) {
    return absl::StrCat(model.n_layers(), ", all with full attention");
  }
  return absl::StrCat(model.n_layers(), ", ", model.n_window_layers(),
                      " of them see a window of ", FormatCount(model.window()),
                      " tokens");
}

std::string Page(const v1::DescribeModelResponse& model,
                 const std::string& title, const Style& style) {
  Table facts({{"model"}, {Printable(title)}});
  facts.AddRow(
      {"name", Printable(model.display_name().empty() ? "(the file has none)"
                                                      : model.display_name())});
  facts.AddRow({"architecture", Printable(model.architecture())});
  facts.AddRow({"layers", Layers(model)});
  facts.AddRow({"width", FormatCount(model.model_dim())});
  facts.AddRow({"heads", absl::StrCat(model.n_heads(), ", ", model.n_kv_heads(),
                                      " for keys and values, of ",
                                      model.head_dim(), " elements")});
  facts.AddRow(
      {"vocabulary", absl::StrCat(FormatCount(model.vocab_size()), " tokens")});
  facts.AddRow({"trained for", absl::StrCat(FormatCount(model.n_ctx_train()),
                                            " tokens of context")});
  facts.AddRow({"output", model.tied_output() ? "the embedding table itself"
                                              : "a table of its own"});
  Table weights({{"weights"},
                 {"tensors", Align::kRight},
                 {"bytes", Align::kRight},
                 {"size", Align::kRight}});
  const auto add = [&weights](const std::string& name, uint32_t n_tensors,
                              uint64_t bytes) {
    const auto size = static_cast<int64_t>(bytes);
    weights.AddRow(
        {name, FormatCount(n_tensors), FormatCount(size), FormatBytes(size)});
  };
  uint32_t n_tensors = 0;
  for (const v1::WeightSummary& summary : model.weights()) {
    add(TypeName(summary.type()), summary.n_tensors(), summary.bytes());
    n_tensors += summary.n_tensors();
  }
  add("total", n_tensors, model.weight_bytes());
  return absl::StrCat(facts.Render(style), "\n", weights.Render(style));
}

absl::Status RunDescribe(const std::string& model, const std::string& output,
                         const Commands& commands) {
  const GlobalFlags& globals = commands.globals;
  if (model.empty()) {
    return UsageError(
        "there is no model; name a file: plimsoll models describe FILE");
  }
  if (globals.planner.empty() && !globals.address.empty()) {
    return UsageError(
        "a worker does not describe models; give --planner HOST:PORT, or no "
        "address for a file");
  }
  ASSIGN_OR_RETURN(const v1::DescribeModelResponse described,
                   globals.planner.empty()
                       ? DescribeHere(model)
                       : DescribeThere(model, globals.planner));
  Streams& streams = commands.streams;
  if (output == "json") return PrintJson(described, streams.out);
  streams.out << Page(described,
                      std::filesystem::path(model).filename().string(),
                      streams.out_style);
  return absl::OkStatus();
}

}  // namespace

void AddDescribe(CLI::App& models, Commands& commands) {
  CLI::App* command = models.add_subcommand("describe", kDescribeDescription);
  command->footer(kDescribeFooter);
  auto model = std::make_shared<std::string>();
  auto output = std::make_shared<std::string>();
  command
      ->add_option("FILE,--model", *model,
                   "A GGUF file, a name in the cache, or with --planner a "
                   "configured model")
      ->type_name("FILE");
  AddOutput(*command, output.get(), {"table", "json"});
  command->callback([model, output, &commands] {
    commands.run = [model, output, &commands] {
      return RunDescribe(*model, *output, commands);
    };
  });
}

}  // namespace plimsoll::cli
