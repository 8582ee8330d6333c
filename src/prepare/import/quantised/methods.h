// The methods of quantisation that the table of quantisation.cc names, one file each.
#pragma once

#include "prepare/import/quantised/quantisation.h"

namespace flare::prepare {

std::unique_ptr<Quantisation> read_compressed_tensors(const Json& config, const std::string& where);
std::unique_ptr<Quantisation> read_modelopt(const Json& config, const std::string& where);
std::unique_ptr<Quantisation> read_block_fp8(const Json& config, const std::string& where);
std::unique_ptr<Quantisation> read_gptq(const Json& config, const std::string& where);
std::unique_ptr<Quantisation> read_awq(const Json& config, const std::string& where);
std::unique_ptr<Quantisation> read_mxfp4_experts(const Json& config, const std::string& where);

}  // namespace flare::prepare
