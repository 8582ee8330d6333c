// The commands of flare.
#pragma once

#include <functional>
#include <string>

#include "common/command_line.h"

namespace flare::app {

std::function<int()> declare_doctor(CLI::App& app, const CommonFlags& common);
std::function<int()> declare_run(CLI::App& app, const CommonFlags& common);
std::function<int()> declare_chat(CLI::App& app, const CommonFlags& common);
std::function<int()> declare_generate(CLI::App& app, const CommonFlags& common);
std::function<int()> declare_tokenize(CLI::App& app, const CommonFlags& common);
std::function<int()> declare_detokenize(CLI::App& app, const CommonFlags& common);
std::function<int()> declare_render(CLI::App& app, const CommonFlags& common);
std::function<int()> declare_bench(CLI::App& app, const CommonFlags& common);

}  // namespace flare::app
