// The commands of ignition, one source file each.
#pragma once

#include <functional>

#include "common/command_line.h"

namespace flare::app {

std::function<int()> declare_build(CLI::App& app, const CommonFlags& common);
std::function<int()> declare_inspect(CLI::App& app, const CommonFlags& common);
std::function<int()> declare_verify(CLI::App& app, const CommonFlags& common);
std::function<int()> declare_reshard(CLI::App& app, const CommonFlags& common);
std::function<int()> declare_convert(CLI::App& app, const CommonFlags& common);
std::function<int()> declare_diff(CLI::App& app, const CommonFlags& common);
std::function<int()> declare_extract(CLI::App& app, const CommonFlags& common);
std::function<int()> declare_quantize(CLI::App& app, const CommonFlags& common);
std::function<int()> declare_recipes(CLI::App& app, const CommonFlags& common);
std::function<int()> declare_logits(CLI::App& app, const CommonFlags& common);
std::function<int()> declare_calibrate(CLI::App& app, const CommonFlags& common);
std::function<int()> declare_eval(CLI::App& app, const CommonFlags& common);
std::function<int()> declare_bench(CLI::App& app, const CommonFlags& common);

}  // namespace flare::app
