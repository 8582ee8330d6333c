// A calibration: second moments of projection inputs by column, as `ignition calibrate` measured
// them, and what they weigh (docs/calibration.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "prepare/import/imported_model.h"

namespace flare::prepare {

inline constexpr std::string_view kCalibrationFormat = "flare-calibration-1";

struct Calibration {
  std::string model;        // it was measured on
  std::string text_sha256;  // of the text
  uint64_t tokens = 0;
  // By mathematical input, such as "text/layers/0/mixer_input": mean of x² of every column, in the
  // order of the parameter's columns. Finite, not negative.
  std::map<std::string, std::vector<float>, std::less<>> moments;

  // Weights of a parameter's columns: the moments of its inputs and of those that share its data,
  // added up. Empty if there are none. kInvalid if another number of columns was measured.
  std::vector<float> importance(const ImportedModel& model,
                                const ImportedParameter& parameter) const;
};

// Errors: kNotFound, those of SafetensorsFile::open, kInvalid (no calibration, illegal numbers).
Calibration read_calibration(const std::filesystem::path& path);
void write_calibration(const std::filesystem::path& path, const Calibration& calibration);

}  // namespace flare::prepare
