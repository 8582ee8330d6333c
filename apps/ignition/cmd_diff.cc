// `ignition diff`: what two artifacts say differently.
#include <CLI/CLI.hpp>
#include <cmath>
#include <memory>

#include "artifact/diff.h"
#include "ignition/commands.h"

namespace flare::app {
namespace {

struct Flags {
  std::string a, b;
  int threads = 0;
};

constexpr const char* kFooter = R"(
Examples:
  ignition diff nano.ninfer other.ninfer
  ignition diff whole.ninfer split.ninfer --quiet
  ignition diff q4.ninfer q6.ninfer --json

Exit codes: 0 the same, 1 different, 2 usage, 3 file missing, 4 artifact invalid)";

Json report_json(const artifact::DiffReport& report) {
  Json::Array differences, values;
  for (const artifact::Difference& one : report.differences)
    differences.push_back(Json::object({{"kind", one.kind},
                                        {"name", one.name},
                                        {"member", one.member},
                                        {"a", one.a},
                                        {"b", one.b}}));
  for (const artifact::ValueDifference& one : report.values) {
    Json item = Json::object(
        {{"parameter", one.parameter}, {"elements", one.elements}, {"different", one.different}});
    // JSON has no infinity.
    item.set("largest", std::isfinite(one.largest) ? Json(one.largest) : Json());
    item.set("relative", std::isfinite(one.relative) ? Json(one.relative) : Json());
    values.push_back(std::move(item));
  }
  return Json::object({{"same", report.same()},
                       {"differences", std::move(differences)},
                       {"values", std::move(values)}});
}

std::string report_text(const artifact::DiffReport& report) {
  std::string out;
  const auto shown = [](const std::string& text) {
    return text.empty() ? std::string("absent") : quote(text);
  };
  for (const artifact::Difference& one : report.differences)
    out += fmt::format("{} {}{}: {} | {}\n", one.kind, quote(one.name),
                       one.member.empty() ? "" : " " + one.member, shown(one.a), shown(one.b));
  for (const artifact::ValueDifference& one : report.values)
    out +=
        fmt::format("value {}: {} of {} differ, by {:.4g} at most, {:.4g} of their size\n",
                    quote(one.parameter), one.different, one.elements, one.largest, one.relative);
  return report.same() ? "the same\n" : out;
}

int run(const Flags& flags, const CommonFlags& common) {
  auto a = artifact::Reader::open(flags.a), b = artifact::Reader::open(flags.b);
  artifact::DiffReport report;
  {
    Progress progress("diff", artifact::diff_bytes(a), "B", common.progress);
    report = artifact::diff(a, b, thread_count(flags.threads), [&](uint64_t n) {
      check_interrupted();
      progress.advance(n);
    });
  }
  print_result(common, report_json(report), common.quiet ? "" : report_text(report));
  return report.same() ? 0 : 1;
}

}  // namespace

std::function<int()> declare_diff(CLI::App& app, const CommonFlags& common) {
  auto flags = std::make_shared<Flags>();
  app.add_option("A", flags->a, "artifact (.ninfer)")->required();
  app.add_option("B", flags->b, "artifact (.ninfer)")->required();
  app.add_option("--threads", flags->threads, "workers (cores of this process)")
      ->check(CLI::Range(1, 1024).description(""))
      ->type_name("N");
  app.footer(kFooter);
  return [flags, &common] { return run(*flags, common); };
}

}  // namespace flare::app
