// `flare doctor`: what of this machine, the configuration and the files would keep a server from
// running well.
#include <CLI/CLI.hpp>
#include <memory>

#include "flare/commands.h"
#include "flare/doctor_checks.h"
#include "flare/run_flags.h"

namespace flare::app {
namespace {

struct DoctorFlags {
  std::string model;
  DoctorSubject subject;
};

std::string_view state_name(Finding::State state) {
  switch (state) {
    case Finding::State::kOk:
      return "ok";
    case Finding::State::kWarning:
      return "warning";
    case Finding::State::kProblem:
      return "problem";
  }
  return "";
}

int run(const DoctorFlags& flags, const CommonFlags& common, CLI::App& app) {
  DoctorSubject subject = flags.subject;
  std::vector<Finding> findings = {check_configuration([&] {
    CLI::App& run = *app.get_parent()->get_subcommand("run");
    const std::string path = apply_run_configuration(run, common, flags.model);
    const auto take = [&](const char* flag, auto* value) {
      if (app.get_option(flag)->count() == 0 && run.get_option(flag)->count() > 0)
        run.get_option(flag)->results(*value);
    };
    take("--host", &subject.host);
    take("--port", &subject.port);
    take("--api-key-file", &subject.api_key_file);
    take("--tls-cert", &subject.tls_certificate);
    take("--tls-key", &subject.tls_key);
    return path;
  })};
  subject.model = flags.model;
  for (Finding& finding : check_machine()) findings.push_back(std::move(finding));
  for (Finding& finding : check_server(subject)) findings.push_back(std::move(finding));

  Json list = Json::array();
  std::string text;
  bool has_problem = false;
  for (const Finding& finding : findings) {
    has_problem |= finding.state == Finding::State::kProblem;
    text += fmt::format("{:8} {:14} {}\n", state_name(finding.state), finding.what, finding.fact);
    Json one = Json::object(
        {{"check", finding.what}, {"state", state_name(finding.state)}, {"fact", finding.fact}});
    if (!finding.remedy.empty()) {
      text += fmt::format("{:24}{}\n", "", finding.remedy);
      one.set("remedy", finding.remedy);
    }
    list.push_back(std::move(one));
  }
  print_result(common, Json::object({{"checks", std::move(list)}}), text);
  return has_problem ? 1 : 0;
}

}  // namespace

std::function<int()> declare_doctor(CLI::App& app, const CommonFlags& common) {
  auto flags = std::make_shared<DoctorFlags>();
  app.add_option("MODEL", flags->model, "the model that would be served (the bundled nano)")
      ->type_name("");
  const auto add = [&](const char* name, auto& value, const char* text, const char* type) {
    return app.add_option(name, value, text)->type_name(type)->group("Server");
  };
  DoctorSubject& subject = flags->subject;
  add("--host", subject.host, "listen address (127.0.0.1)", "ADDR");
  add("--port", subject.port, "listen port (8000)", "N")
      ->check(CLI::Range(0, 65535).description(""));
  add("--api-key-file", subject.api_key_file, "file of keys (none)", "PATH");
  add("--tls-cert", subject.tls_certificate, "PEM certificate chain (none)", "PATH");
  add("--tls-key", subject.tls_key, "its PEM key (none)", "PATH");
  app.footer(
      "One line a check: ok, warning or problem; exit code 1 if there is a problem. Values that "
      "are "
      "not\ngiven come from the configuration's [serving].\n"
      "Examples:\n"
      "  flare doctor\n"
      "  flare doctor model.ninfer --port 8080 --api-key-file keys\n"
      "  flare doctor --json");
  return [flags, &common, &app] { return run(*flags, common, app); };
}

}  // namespace flare::app
