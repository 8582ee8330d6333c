// Flags of every command that runs a model here: its recipe, the workers and their CPU level.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace flare::app {

// `flags` has recipe, threads and isa, which hold the defaults and receive what was given.
template <typename Flags>
void add_run_flags(CLI::App& app, Flags& flags) {
  app.add_option("--recipe", flags.recipe, "format recipe of a checkpoint (keep)")
      ->type_name("NAME");
  app.add_option("--threads", flags.threads, "workers (all cores)")
      ->check(CLI::Range(1, 1024).description(""))
      ->type_name("N");
  app.add_option("--isa", flags.isa, "highest CPU level to use: v2, v3, v4, vnni, bf16, amx")
      ->type_name("LEVEL");
}

}  // namespace flare::app
