// SPDX-License-Identifier: Apache-2.0
// The tables of accelerator types and machines. Each number names the document
// in which it was read; undocumented numbers are left out.
#include <string_view>
#include <vector>

#include "io/topologies.h"

namespace shardplan {
namespace {

constexpr std::string_view kDay = "2026-11-22";

}  // namespace

std::span<const TopologySource> topology_sources() {
  static const std::vector<TopologySource> kSources = {
      {"cloud-types", "Google Cloud documentation, TPU types and topologies",
       "https://cloud.google.com/tpu/docs/types-topologies", kDay},
      {"cloud-v2", "Google Cloud documentation, TPU v2",
       "https://cloud.google.com/tpu/docs/v2", kDay},
      {"cloud-v3", "Google Cloud documentation, TPU v3",
       "https://docs.cloud.google.com/tpu/docs/v3", kDay},
      {"cloud-v4", "Google Cloud documentation, TPU v4",
       "https://docs.cloud.google.com/tpu/docs/v4", "2026-11-21"},
      {"cloud-v5e", "Google Cloud documentation, TPU v5e",
       "https://cloud.google.com/tpu/docs/v5e", kDay},
      {"cloud-v5p", "Google Cloud documentation, TPU v5p",
       "https://cloud.google.com/tpu/docs/v5p", kDay},
      {"cloud-v6e", "Google Cloud documentation, TPU v6e",
       "https://cloud.google.com/tpu/docs/v6e", kDay},
      {"cloud-7x", "Google Cloud documentation, TPU7x (Ironwood)",
       "https://docs.cloud.google.com/tpu/docs/tpu7x", kDay},
      {"gke-7x", "Google Kubernetes Engine documentation, Ironwood (TPU7x)",
       "https://docs.cloud.google.com/kubernetes-engine/docs/concepts/"
       "tpu-ironwood",
       kDay},
      {"jax-chips",
       "JAX documentation, jax.experimental.pallas.tpu.ChipVersion",
       "https://docs.jax.dev/en/latest/_autosummary/"
       "jax.experimental.pallas.tpu.ChipVersion.html",
       kDay},
      {"jax-devices", "skye, running JAX processes on parts of a TPU VM (gist)",
       "https://gist.github.com/skye/f82ba45d2445bb19d53545538754f9a3", kDay},
      {"maxtext", "MaxText, accelerator_to_spec_map.py",
       "https://github.com/AI-Hypercomputer/maxtext/blob/main/src/maxtext/"
       "utils/"
       "accelerator_to_spec_map.py",
       kDay},
      {"gce-gpus", "Compute Engine documentation, GPU machine types",
       "https://cloud.google.com/compute/docs/gpus", kDay},
      {"rapids-aws", "RAPIDS deployment documentation, Amazon Web Services",
       "https://github.com/rapidsai/deployment/blob/main/source/cloud/aws/"
       "index.md",
       kDay},
      {"gpu-receipts", "Data receipts 109, prices of GPUs at the clouds",
       "https://github.com/datareceipts/data-receipts/blob/main/"
       "109-gpu-pricing/"
       "hyperscalers.json",
       kDay},
      {"dstack-4110", "dstack pull request 4110, AWS p5en.48xlarge",
       "https://github.com/dstackai/dstack/pull/4110", kDay},
      {"aws-types",
       "AWS documentation, EC2 accelerated computing instances (as quoted in a "
       "survey of 2026-08-01)",
       "https://docs.aws.amazon.com/ec2/latest/instancetypes/ac.html", kDay},
      {"azure-a100", "Azure documentation, ND-A100-v4 sizes series",
       "https://learn.microsoft.com/azure/virtual-machines/sizes/"
       "gpu-accelerated/ndasra100v4-series",
       kDay},
      {"azure-a100m", "Azure documentation, NDm-A100-v4 sizes series",
       "https://learn.microsoft.com/azure/virtual-machines/sizes/"
       "gpu-accelerated/ndma100v4-series",
       kDay},
      {"azure-h100", "Azure documentation, ND-H100-v5 sizes series",
       "https://learn.microsoft.com/azure/virtual-machines/sizes/"
       "gpu-accelerated/ndh100v5-series",
       kDay},
      {"azure-h200", "Azure documentation, ND-H200-v5 sizes series",
       "https://learn.microsoft.com/azure/virtual-machines/sizes/"
       "gpu-accelerated/nd-h200-v5-series",
       kDay},
      {"azure-gb200", "Azure documentation, ND GB200-v6 sizes series",
       "https://learn.microsoft.com/azure/virtual-machines/sizes/"
       "gpu-accelerated/nd-gb200-v6-series",
       kDay},
      {"azure-mi300x", "Azure documentation, ND-MI300X-v5 sizes series",
       "https://learn.microsoft.com/azure/virtual-machines/sizes/"
       "gpu-accelerated/ndmi300xv5-series",
       kDay},
  };
  return kSources;
}

// The two cores of a v4 or v5p chip work as one, so JAX shows one device.
std::span<const TpuFamily> tpu_families() {
  static const std::vector<TpuFamily> kFamilies = {
      {.names = {"v2"},
       .title = "Google TPU v2",
       .unit = TpuUnit::Cores,
       .unit_source = "cloud-v2",
       .cores_per_chip = {2, "jax-chips"},
       .devices_per_chip = {2, "jax-devices"},
       .chips_per_host = {4, "jax-devices"},
       .sizes = {8, 32, 128, 256, 512},
       .most = {512, "cloud-v2"},
       .hardware = {},
       .example = 8},
      {.names = {"v3"},
       .title = "Google TPU v3",
       .unit = TpuUnit::Cores,
       .unit_source = "cloud-v3",
       .cores_per_chip = {2, "cloud-v3"},
       .devices_per_chip = {2, "jax-devices"},
       .chips_per_host = {4, "jax-devices"},
       .sizes = {},
       .step = 8,
       .most = {2048, "cloud-v3"},
       .hardware = {},
       .example = 32},
      {.names = {"v4"},
       .title = "Google TPU v4",
       .unit = TpuUnit::Cores,
       .unit_source = "cloud-types",
       .cores_per_chip = {2, "jax-chips"},
       .devices_per_chip = {1, "maxtext"},
       .chips_per_host = {4, "maxtext"},
       .sizes = {},
       .step = 8,
       .most = {8192, "cloud-v4"},
       .hardware = "tpu-v4",
       .example = 64},
      {.names = {"v5e", "v5litepod"},
       .title = "Google TPU v5e",
       .unit = TpuUnit::Chips,
       .unit_source = "cloud-v5e",
       .cores_per_chip = {1, "cloud-v5e"},
       .devices_per_chip = {1, "maxtext"},
       .chips_per_host = {8, "cloud-v5e"},
       .sizes = {1, 4, 8, 16, 32, 64, 128, 256},
       .most = {256, "cloud-v5e"},
       .hardware = "tpu-v5e",
       .example = 256},
      {.names = {"v5p"},
       .title = "Google TPU v5p",
       .unit = TpuUnit::Cores,
       .unit_source = "cloud-v5p",
       .cores_per_chip = {2, "cloud-v5p"},
       .devices_per_chip = {1, "maxtext"},
       .chips_per_host = {4, "cloud-v5p"},
       .sizes = {},
       .step = 8,
       .most = {17920, "maxtext"},
       .hardware = "tpu-v5p",
       .example = 128},
      {.names = {"v6e"},
       .title = "Google TPU v6e (Trillium)",
       .unit = TpuUnit::Chips,
       .unit_source = "cloud-v6e",
       .cores_per_chip = {1, "cloud-v6e"},
       .devices_per_chip = {1, "maxtext"},
       .chips_per_host = {8, "cloud-v6e"},
       .sizes = {1, 4, 8, 16, 32, 64, 128, 256},
       .most = {256, "maxtext"},
       .hardware = "tpu-v6e",
       .example = 256},
      {.names = {"tpu7x"},
       .title = "Google TPU7x (Ironwood)",
       .unit = TpuUnit::Cores,
       .unit_source = "maxtext",
       .cores_per_chip = {2, "cloud-7x"},
       .devices_per_chip = {2, "maxtext"},
       .chips_per_host = {4, "gke-7x"},
       .sizes = {2},
       .step = 8,
       .most = {18432, "maxtext"},
       .hardware = "tpu-v7x",
       .example = 128},
  };
  return kFamilies;
}

std::span<const GpuMachine> gpu_machines() {
  static const std::vector<GpuMachine> kMachines = {
      {{"a2-highgpu-1g"}, "Google A2 Standard", {1, "gce-gpus"}, "a100-40"},
      {{"a2-highgpu-2g"}, "Google A2 Standard", {2, "gce-gpus"}, "a100-40"},
      {{"a2-highgpu-4g"}, "Google A2 Standard", {4, "gce-gpus"}, "a100-40"},
      {{"a2-highgpu-8g"}, "Google A2 Standard", {8, "gce-gpus"}, "a100-40"},
      {{"a2-megagpu-16g"}, "Google A2 Standard", {16, "gce-gpus"}, "a100-40"},
      {{"a2-ultragpu-1g"}, "Google A2 Ultra", {1, "gce-gpus"}, "a100-80"},
      {{"a2-ultragpu-2g"}, "Google A2 Ultra", {2, "gce-gpus"}, "a100-80"},
      {{"a2-ultragpu-4g"}, "Google A2 Ultra", {4, "gce-gpus"}, "a100-80"},
      {{"a2-ultragpu-8g"}, "Google A2 Ultra", {8, "gce-gpus"}, "a100-80"},
      {{"a3"}, "an A3 host (MaxText's name)", {8, "maxtext"}, "h100-sxm"},
      {{"a3-edgegpu-8g"}, "Google A3 Edge", {8, "gce-gpus"}, "h100-sxm"},
      {{"a3-highgpu-1g"}, "Google A3 High", {1, "gce-gpus"}, "h100-sxm"},
      {{"a3-highgpu-2g"}, "Google A3 High", {2, "gce-gpus"}, "h100-sxm"},
      {{"a3-highgpu-4g"}, "Google A3 High", {4, "gce-gpus"}, "h100-sxm"},
      {{"a3-highgpu-8g"}, "Google A3 High", {8, "gce-gpus"}, "h100-sxm"},
      {{"a3-megagpu-8g"}, "Google A3 Mega", {8, "gce-gpus"}, "h100-sxm"},
      {{"a3-ultragpu-8g"}, "Google A3 Ultra", {8, "gce-gpus"}, "h200"},
      {{"a4-highgpu-8g"}, "Google A4", {8, "gce-gpus"}, "b200"},
      {{"a4x-highgpu-4g"}, "Google A4X", {4, "gce-gpus"}, "gb200"},
      {{"g6e.12xlarge"}, "AWS G6e", {4, "aws-types"}, "l40s"},
      {{"g6e.24xlarge"}, "AWS G6e", {4, "aws-types"}, "l40s"},
      {{"g6e.48xlarge"}, "AWS G6e", {8, "aws-types"}, "l40s"},
      {{"p4d.24xlarge"}, "AWS P4d", {8, "rapids-aws"}, "a100-40"},
      {{"p4de.24xlarge"}, "AWS P4de", {8, "gpu-receipts"}, "a100-80"},
      {{"p5.4xlarge"}, "AWS P5", {1, "aws-types"}, "h100-sxm"},
      {{"p5.48xlarge"}, "AWS P5", {8, "rapids-aws"}, "h100-sxm"},
      {{"p5e.48xlarge"}, "AWS P5e", {8, "aws-types"}, "h200"},
      {{"p5en.48xlarge"}, "AWS P5en", {8, "dstack-4110"}, "h200"},
      {{"p6-b200.48xlarge"}, "AWS P6-B200", {8, "aws-types"}, "b200"},
      {{"p6e-gb200.36xlarge"}, "AWS P6e-GB200", {4, "aws-types"}, "gb200"},
      {{"Standard_ND96asr_v4", "ND96asr_v4", "ND-A100-v4"},
       "Azure ND A100 v4",
       {8, "azure-a100"},
       "a100-40"},
      {{"Standard_ND96amsr_A100_v4", "ND96amsr_A100_v4", "NDm-A100-v4"},
       "Azure NDm A100 v4",
       {8, "azure-a100m"},
       "a100-80"},
      {{"Standard_ND96isr_H100_v5", "ND96isr_H100_v5", "ND-H100-v5"},
       "Azure ND H100 v5",
       {8, "azure-h100"},
       "h100-sxm"},
      {{"Standard_ND96isr_H200_v5", "ND96isr_H200_v5", "ND-H200-v5"},
       "Azure ND H200 v5",
       {8, "azure-h200"},
       "h200"},
      {{"Standard_ND96isr_MI300X_v5", "ND96isr_MI300X_v5", "ND-MI300X-v5"},
       "Azure ND MI300X v5",
       {8, "azure-mi300x"},
       "mi300x"},
      {{"Standard_ND128isr_NDR_GB200_v6", "ND128isr_NDR_GB200_v6",
        "ND-GB200-v6"},
       "Azure ND GB200 v6",
       {4, "azure-gb200"},
       "gb200"},
  };
  return kMachines;
}

std::span<const PlainAccelerator> plain_accelerators() {
  static const std::vector<PlainAccelerator> kAccelerators = {
      {{"A100-40GB", "A100-SXM4-40GB", "a100-40"}, "a100-40"},
      {{"A100-80GB", "A100-SXM4-80GB", "a100-80"}, "a100-80"},
      {{"A800", "A800-80GB", "A800-SXM4-80GB"}, "a800"},
      {{"H100", "H100-80GB", "h100-sxm", "h100-sxm5", "H100-80GB-HBM3"},
       "h100-sxm"},
      {{"H100-NVL"}, "h100-nvl"},
      {{"H200", "H200-141GB", "h200-sxm"}, "h200"},
      {{"H20"}, "h20"},
      {{"H800"}, "h800"},
      {{"B200", "b200-sxm"}, "b200"},
      {{"B300", "b300-sxm"}, "b300"},
      {{"GB200"}, "gb200"},
      {{"GB300"}, "gb300"},
      {{"GH200"}, "gh200"},
      {{"L40S"}, "l40s"},
      {{"L20"}, "l20"},
      {{"L4"}, "l4"},
      {{"A10"}, "a10"},
      {{"A40"}, "a40"},
      {{"RTX-3090", "RTX3090", "3090"}, "rtx-3090"},
      {{"RTX-4090", "RTX4090", "4090"}, "rtx-4090"},
      {{"RTX-5090", "RTX5090", "5090"}, "rtx-5090"},
      {{"RTX-6000-Ada", "rtx6000-ada", "6000-ada"}, "rtx-6000-ada"},
      {{"RTX-PRO-6000", "rtx-pro-6000-blackwell"}, "rtx-pro-6000-blackwell"},
      {{"MI250X"}, "mi250x"},
      {{"MI300X"}, "mi300x"},
      {{"MI325X"}, "mi325x"},
      {{"MI355X"}, "mi355x"},
      // This follows MI300X, because `MI300` usually means MI300X.
      {{"MI300A"}, "mi300a"},
  };
  return kAccelerators;
}

std::span<const AmbiguousTopology> ambiguous_topologies() {
  static const std::vector<AmbiguousTopology> kAmbiguous = {
      {"v7x",
       "`v7x-16` may mean 16 cores on 8 chips, or 16 chips with 32 devices",
       "write `tpu7x-N`, which counts cores, each one a device: `tpu7x-16` is "
       "8 chips"},
      {"A100", "the A100 comes with 40 GB or 80 GB",
       "write `8xA100-40GB` or `8xA100-80GB`"},
  };
  return kAmbiguous;
}

}  // namespace shardplan
