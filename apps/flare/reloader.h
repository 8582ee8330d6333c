// SIGHUP: what of a running server is read again (serving.md S15.3).
#pragma once

#include <memory>
#include <utility>

#include "flare/run_flags.h"
#include "server/app.h"

namespace flare::app {

// Reads the configuration and the files that it or the command line names: log level, keys,
// origins, hosts, certificate. A part that cannot be read keeps its old value and stands in no
// other's way; a flag that needs a restart is named. One thread.
class Reloader {
 public:
  struct Setup {
    RunFlags running;                              // what the server runs with
    OptionValues given;                            // by the command line
    OptionValues values;                           // by it and the configuration
    std::shared_ptr<const server::Access> access;  // in use
  };
  // common, app and http outlive this.
  Reloader(Setup setup, const CommonFlags& common, server::App& app, server::http::Server& http)
      : running_(std::move(setup.running)),
        given_(std::move(setup.given)),
        started_with_(std::move(setup.values)),
        access_(std::move(setup.access)),
        common_(common),
        app_(app),
        http_(http) {}

  void reload();

 private:
  // What is wanted now; what runs where the configuration cannot be read.
  bool read_flags(RunFlags* wanted) const;
  bool reload_access(const RunFlags& wanted);
  bool reload_certificate(const RunFlags& wanted);
  void name_what_needs_a_restart(const OptionValues& values) const;

  RunFlags running_;
  const OptionValues given_, started_with_;
  std::shared_ptr<const server::Access> access_;
  const CommonFlags& common_;
  server::App& app_;
  server::http::Server& http_;
};

}  // namespace flare::app
