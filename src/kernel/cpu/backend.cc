// The CPU back end: every member of the team walks the launch list and meets the others after each.
#include "kernel/backend.h"

#include <algorithm>
#include <chrono>
#include <string>

#include "base/buffer.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/team.h"
#include "kernel/check_plan.h"
#include "kernel/cpu/level.h"
#include "kernel/cpu/range.h"
#include "kernel/kernels.h"

namespace flare::kernel {
namespace {

using graph::Space;

constexpr uint64_t kAlignment = 64;

// One launch ready to run: its function and where its operands and immediates stand.
struct Step {
  KernelFn run = nullptr;
  uint32_t first_operand = 0;
  uint32_t n_operands = 0;
  std::span<const graph::Immediate> immediates;
  uint64_t workspace_bytes = 0;
};

class CpuInstance final : public PlanInstance {
 public:
  explicit CpuInstance(graph::Plan plan) : plan_(std::move(plan)) {}
  const graph::Plan& plan() const override { return plan_; }

  const graph::Plan plan_;
  // Everything of an operand that no step changes; what changes is filled in by live_view.
  std::vector<OperandView> views_;
  std::vector<Step> steps_;
};

template <typename T>
std::byte* address(const T* p) {
  return reinterpret_cast<std::byte*>(const_cast<T*>(p));
}

// Operand o without addresses of the step.
OperandView fixed_view(const graph::Operand& o, const graph::PlanCapacity& capacity,
                       const PlanBindings& bindings) {
  OperandView v;
  v.space = o.space;
  v.dtype = o.dtype;
  v.rows = rows_of(o.extent, capacity);
  v.cols = o.cols;
  v.stride = o.stride;
  v.offset = o.offset;
  if (o.space == Space::kWeight) {
    v.weight = &bindings.weights[o.index];
    v.rows = static_cast<int64_t>(v.weight->rows);
    v.cols = v.stride = static_cast<int64_t>(v.weight->cols);
  } else if (o.space == Space::kConst) {
    const Constant& c = bindings.constants[o.index];
    v.dtype = c.dtype();
    v.rows = c.rows;
    v.cols = v.stride = c.cols;
    // Kernels only read constants; one view type serves inputs and outputs.
    v.data = v.dtype == graph::DType::kI32 ? address(c.indices.data()) : address(c.values.data());
  }
  return v;
}

// Points an input or output of the step at the caller's arrays.
void fill_io(OperandView& v, uint32_t index, const StepInputs& in) {
  switch (static_cast<graph::Io>(std::min(index, static_cast<uint32_t>(graph::Io::kTaps)))) {
    case graph::Io::kTokenIds:
      v.data = address(in.token_ids);
      return;
    case graph::Io::kPositions:
      v.data = address(in.positions);
      v.rows = 3;
      v.cols = v.stride = in.n_rows;
      return;
    case graph::Io::kLogitsRows:
      v.data = address(in.logits_rows);
      return;
    case graph::Io::kLogits:
      v.data = address(in.logits);
      v.stride = in.logits_stride;
      return;
    case graph::Io::kSampling:
      v.data = address(in.sampling);
      return;
    case graph::Io::kSampled:
      v.data = address(in.sampled);
      return;
    case graph::Io::kAccepted:
      v.data = address(in.accepted);
      v.rows = in.n_sequences;
      return;
    case graph::Io::kTaps:
      v.stride = v.cols;
      v.data = in.taps == nullptr
                   ? nullptr
                   : address(in.taps[index - static_cast<uint32_t>(graph::Io::kTaps)]);
      return;
  }
}

class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(const CpuOptions& options)
      : isa_(options.isa),
        name_("cpu " + std::string(isa_name(options.isa))),
        team_(options.threads > 0 ? options.threads : static_cast<int>(usable_cores().size())),
        work_([this](Member& member) { walk(member); }) {}

  std::string_view name() const override { return name_; }
  int n_members() const override { return team_.size(); }
  void pin_members() override { team_.pin(); }
  std::unique_ptr<Range> reserve(uint64_t bytes) override { return reserve_range(bytes); }

  uint64_t scratch_bytes(const graph::Plan& plan, const PlanBindings& bindings) override {
    check_plan(plan, bindings);
    uint64_t workspace = 0;
    for (const graph::Launch& launch : plan.launches)
      workspace = std::max(workspace, workspace_bytes(plan, bindings, launch));
    return checked_add(checked_align_up(plan.arena_bytes, kAlignment), workspace, "scratch");
  }

  std::unique_ptr<PlanInstance> instantiate(graph::Plan plan,
                                            const PlanBindings& bindings) override {
    const uint64_t scratch = scratch_bytes(plan, bindings);
    auto instance = std::make_unique<CpuInstance>(std::move(plan));
    const graph::Plan& p = instance->plan();
    for (const graph::Operand& o : p.operands)
      instance->views_.push_back(is_bound(o, bindings) ? fixed_view(o, p.capacity, bindings)
                                                       : OperandView{});
    for (const graph::Launch& launch : p.launches) {
      Step step;
      const auto id = static_cast<KernelId>(launch.kernel);
      step.run = kernel_function(id, level_of(id, isa_, slow_bf16_products_));
      step.first_operand = launch.first_operand;
      step.n_operands = launch.n_operands;
      step.immediates =
          std::span(p.immediates).subspan(launch.first_immediate, launch.n_immediates);
      step.workspace_bytes = workspace_bytes(p, bindings, launch);
      instance->steps_.push_back(step);
    }
    if (scratch > scratch_.bytes()) {
      scratch_ = Buffer();  // first: the two together may not fit
      scratch_ = Buffer(scratch, "step memory");
    }
    return instance;
  }

  void replay(PlanInstance& instance, const StepInputs& inputs) override {
    current_ = static_cast<const CpuInstance*>(&instance);
    inputs_ = &inputs;
    team_.run(work_);
  }

  void replay_timed(PlanInstance& instance, const StepInputs& inputs,
                    std::span<double> seconds) override {
    FLARE_ASSERT(seconds.size() == instance.plan().launches.size());
    ends_.resize(seconds.size());
    times_ = true;
    Clock::time_point begin = Clock::now();
    replay(instance, inputs);
    times_ = false;
    if (!ends_.empty()) ends_.back() = Clock::now();
    for (size_t i = 0; i < seconds.size(); ++i) {
      seconds[i] = std::chrono::duration<double>(ends_[i] - begin).count();
      begin = ends_[i];
    }
  }

 private:
  using Clock = std::chrono::steady_clock;

  // Operands that no launch names are not checked either.
  static bool is_bound(const graph::Operand& o, const PlanBindings& bindings) {
    return (o.space != Space::kWeight || o.index < bindings.weights.size()) &&
           (o.space != Space::kConst || o.index < bindings.constants.size());
  }

  uint64_t workspace_bytes(const graph::Plan& plan, const PlanBindings& bindings,
                           const graph::Launch& launch) const {
    const KernelInfo& info = kernel_info(static_cast<KernelId>(launch.kernel));
    if (info.workspace_bytes == nullptr) return 0;
    OperandView views[kMaxOperands];
    for (uint32_t i = 0; i < launch.n_operands; ++i)
      views[i] = fixed_view(plan.operands[launch.first_operand + i], plan.capacity, bindings);
    StepInputs capacity;
    capacity.n_rows = plan.capacity.rows;
    capacity.n_sequences = plan.capacity.sequences;
    capacity.n_logits = plan.capacity.logits;
    const LaunchArgs args{
        .operands = std::span<const OperandView>(views, launch.n_operands),
        .immediates =
            std::span(plan.immediates).subspan(launch.first_immediate, launch.n_immediates),
        .step = &capacity};
    return info.workspace_bytes(args, team_.size());
  }

  int64_t live_rows(graph::Extent extent) const {
    return extent == graph::Extent::kRows     ? inputs_->n_rows
           : extent == graph::Extent::kLogits ? inputs_->n_logits
                                              : 1;
  }

  void walk(Member& member) {
    const CpuInstance& instance = *current_;
    const graph::Plan& plan = instance.plan_;
    std::byte* arena = scratch_.data();
    std::byte* workspace = arena + (plan.arena_bytes + kAlignment - 1) / kAlignment * kAlignment;
    const bool times = times_ && member.index() == 0;
    for (size_t launch = 0; launch < instance.steps_.size(); ++launch) {
      const Step& step = instance.steps_[launch];
      if (launch > 0) {
        member.barrier();  // the last one is the end of the run
        if (times) ends_[launch - 1] = Clock::now();
      }
      OperandView views[kMaxOperands];
      bool wanted = true;
      for (uint32_t i = 0; i < step.n_operands; ++i) {
        OperandView& v = views[i];
        v = instance.views_[step.first_operand + i];
        const graph::Operand& o = plan.operands[step.first_operand + i];
        if (v.space == Space::kArena) {
          v.data = arena + v.offset;
          v.rows = live_rows(o.extent);
        } else if (v.space == Space::kIo) {
          v.rows = live_rows(o.extent);
          fill_io(v, o.index, *inputs_);
          wanted =
              wanted && (v.data != nullptr || o.index < static_cast<uint32_t>(graph::Io::kTaps));
        }
      }
      if (!wanted) continue;  // a tap that nobody asked for
      const LaunchArgs args{.operands = std::span<const OperandView>(views, step.n_operands),
                            .immediates = step.immediates,
                            .step = inputs_,
                            .workspace = MutableBytes(workspace, step.workspace_bytes)};
      step.run(args, member);
    }
  }

  const Isa isa_;
  const bool slow_bf16_products_ = has_slow_bf16_products();
  const std::string name_;
  Buffer scratch_;
  Team team_;
  const std::function<void(Member&)> work_;  // made once: a replay allocates nothing
  const CpuInstance* current_ = nullptr;     // during a replay
  const StepInputs* inputs_ = nullptr;
  bool times_ = false;                   // this replay is timed
  std::vector<Clock::time_point> ends_;  // of its launches
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(const CpuOptions& options) {
  return std::make_unique<CpuBackend>(options);
}

}  // namespace flare::kernel
