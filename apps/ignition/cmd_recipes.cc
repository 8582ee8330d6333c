// `ignition recipes`: the format recipes, by name and in full.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "ignition/commands.h"
#include "prepare/recipe/recipe.h"

namespace flare::app {
namespace {

struct Flags {
  CLI::App* list = nullptr;
  CLI::App* show = nullptr;
  std::string name;
};

constexpr const char* kFooter = R"(
Examples:
  ignition recipes list
  ignition recipes show q4
  ignition recipes show default --json

Exit codes: 0 done, 2 usage)";

Json summary_json(const prepare::Recipe& recipe) {
  Json out = Json::object({{"name", recipe.name}, {"summary", recipe.summary}});
  if (!recipe.architecture.empty()) out.set("architecture", recipe.architecture);
  if (!recipe.needs.empty()) out.set("needs", recipe.needs);
  return out;
}

int list(const CommonFlags& common) {
  Json::Array recipes;
  size_t width = 0;
  for (const prepare::Recipe& recipe : prepare::all_recipes())
    width = std::max(width, recipe.name.size());
  std::string text = "format recipes (build --recipe)\n";
  for (const prepare::Recipe& recipe : prepare::all_recipes()) {
    recipes.push_back(summary_json(recipe));
    text += fmt::format("  {:<{}}  {}{}\n", recipe.name, width, recipe.summary,
                        recipe.needs.empty() ? "" : " *");
  }
  text += "  * parts of it wait for something: ignition recipes show NAME\n";
  print_result(common, Json::object({{"recipes", recipes}}), text);
  return 0;
}

int show(const std::string& name, const CommonFlags& common) {
  const prepare::Recipe& recipe = prepare::find_recipe(name);
  Json out = summary_json(recipe);
  Json::Array rules;
  for (const prepare::Rule& rule : recipe.rules) {
    Json one = Json::object({{"pattern", rule.pattern.text()}});
    for (const auto& [key, value] : prepare::rule_members(rule)) one.set(key, value);
    rules.push_back(std::move(one));
  }
  out.set("rules", std::move(rules));
  std::string text = fmt::format("# {}: {}\n", recipe.name, recipe.summary);
  if (!recipe.architecture.empty()) text += fmt::format("# for {}\n", recipe.architecture);
  if (!recipe.needs.empty()) text += fmt::format("# waits for {}\n", recipe.needs);
  text += "# the last rule that selects a parameter wins; what none selects is direct\n";
  if (!recipe.rules.empty()) text += "\n" + prepare::rules_text(recipe.rules);
  print_result(common, out, text);
  return 0;
}

}  // namespace

std::function<int()> declare_recipes(CLI::App& app, const CommonFlags& common) {
  auto flags = std::make_shared<Flags>();
  app.require_subcommand(1);
  flags->list = app.add_subcommand("list", "one line a recipe");
  flags->show = app.add_subcommand("show", "one recipe in full, as rules of --override");
  flags->show->add_option("NAME", flags->name, "recipe")->required();
  app.footer(kFooter);
  return
      [flags, &common] { return flags->show->parsed() ? show(flags->name, common) : list(common); };
}

}  // namespace flare::app
