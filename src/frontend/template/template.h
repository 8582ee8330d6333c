// Chat templates: the Jinja language of jinja2's sandbox as published templates use it.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

#include "base/json/json.h"
#include "frontend/marked_text.h"

namespace flare::frontend {

struct RenderLimits {
  uint64_t max_steps = 200'000;  // evaluated nodes
  uint64_t max_output_bytes = 8u << 20;
  int max_depth = 100;    // nested calls and expressions
  int timeout_ms = 1000;  // of processor time
};

// A parsed template. Immutable; render() may run on any thread.
class Template {
 public:
  // Errors: kInvalid "where: line N: …" naming the construct.
  static Template parse(std::string_view source, std::string_view where);
  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;
  ~Template();

  // Renders with `variables` (an object: messages, tools, add_generation_prompt, bos_token, …).
  // Strings inside variables are the caller's, except those whose top-level name is in
  // `trusted` (bos_token, eos_token), which count as the template's. `now_unix` is what
  // strftime_now sees (local time zone UTC). Errors: kInvalid "where: line N: …"; raise_exception's
  // text appears verbatim.
  MarkedText render(const Json& variables, std::initializer_list<std::string_view> trusted,
                    int64_t now_unix, const RenderLimits& limits = {}) const;

 private:
  struct Impl;
  explicit Template(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace flare::frontend
