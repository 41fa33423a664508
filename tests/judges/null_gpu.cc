// SPDX-License-Identifier: Apache-2.0
// A GPU of which nothing exists but its memory's addresses, for PyTorch without
// one.
//
// Loaded before PyTorch (LD_PRELOAD), it answers for the CUDA runtime and
// cuBLAS as an H100 would: memory is addresses that nobody may read, kernels do
// nothing, copies to the host give zeros. PyTorch does the rest itself, its
// dispatcher, autograd, choice of attention kernels and caching allocator
// included: what it says is allocated and reserved is what it would say on the
// card. torch_memory.py builds and loads it; entry points that only have to
// succeed are listed there and made of `return 0`.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <sys/mman.h>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr size_t kAddresses = size_t{1} << 46;  // bytes
constexpr size_t kPage = size_t{2} << 20;       // what cudaMalloc aligns to

struct Memory {
  std::mutex mutex;
  char* base = nullptr;
  size_t next = 0;
  size_t used = 0;
  size_t total = 0;
  std::map<char*, size_t> blocks;
};

Memory& memory() {
  static Memory* one = [] {
    auto* made = new Memory;
    made->base = static_cast<char*>(
        mmap(nullptr, kAddresses, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    const char* total = std::getenv("NULL_GPU_BYTES");
    made->total = total ? std::strtoull(total, nullptr, 10) : size_t{139} << 30;
    return made;
  }();
  return *one;
}

bool on_device(const void* address) {
  const auto* at = static_cast<const char*>(address);
  return at >= memory().base && at < memory().base + kAddresses;
}

int succeed() { return 0; }

int primary_context(int, unsigned* flags, int* active) {
  *flags = 0;
  *active = 1;
  return 0;
}

cudaError_t copy(void* to, const void* from, size_t bytes) {
  if (on_device(to)) return cudaSuccess;
  if (on_device(from)) {
    std::memset(to, 0, bytes);
  } else {
    std::memcpy(to, from, bytes);
  }
  return cudaSuccess;
}

}  // namespace

EXPORT cudaError_t cudaMalloc(void** address, size_t bytes) {
  Memory& all = memory();
  const std::lock_guard lock(all.mutex);
  const size_t taken = (bytes + kPage - 1) / kPage * kPage;
  if (all.used + taken > all.total) return cudaErrorMemoryAllocation;
  char* at = all.base + all.next;
  all.next += taken;
  all.used += taken;
  all.blocks[at] = taken;
  *address = at;
  return cudaSuccess;
}
EXPORT cudaError_t cudaFree(void* address) {
  Memory& all = memory();
  const std::lock_guard lock(all.mutex);
  const auto found = all.blocks.find(static_cast<char*>(address));
  if (found == all.blocks.end()) return cudaSuccess;
  all.used -= found->second;
  all.blocks.erase(found);
  return cudaSuccess;
}
EXPORT cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *total = memory().total;
  *free = memory().total - memory().used;
  return cudaSuccess;
}
EXPORT cudaError_t cudaHostAlloc(void** address, size_t bytes, unsigned) {
  *address = std::calloc(1, bytes ? bytes : 1);
  return cudaSuccess;
}
EXPORT cudaError_t cudaMallocHost(void** address, size_t bytes) {
  return cudaHostAlloc(address, bytes, 0);
}
EXPORT cudaError_t cudaFreeHost(void* address) {
  std::free(address);
  return cudaSuccess;
}
EXPORT cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes,
                              cudaMemcpyKind) {
  return copy(to, from, bytes);
}
EXPORT cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes,
                                   cudaMemcpyKind, cudaStream_t) {
  return copy(to, from, bytes);
}
EXPORT cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* out,
                                            const void* address) {
  std::memset(out, 0, sizeof *out);
  out->type =
      on_device(address) ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered;
  out->devicePointer =
      out->type == cudaMemoryTypeDevice ? const_cast<void*>(address) : nullptr;
  return cudaSuccess;
}
EXPORT cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
EXPORT cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
EXPORT cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
EXPORT cudaError_t cudaRuntimeGetVersion(int* version) {
  return cudaDriverGetVersion(version);
}
EXPORT cudaError_t cudaGetDeviceProperties(cudaDeviceProp* out, int) {
  std::memset(out, 0, sizeof *out);
  std::strcpy(out->name, "no GPU");
  out->totalGlobalMem = memory().total;
  out->major = 9;
  out->multiProcessorCount = 132;
  out->warpSize = 32;
  out->maxThreadsPerBlock = 1024;
  out->maxThreadsPerMultiProcessor = 2048;
  out->maxBlocksPerMultiProcessor = 32;
  for (int dimension = 0; dimension < 3; ++dimension) {
    out->maxThreadsDim[dimension] = dimension == 2 ? 64 : 1024;
    out->maxGridSize[dimension] = dimension == 0 ? 2147483647 : 65535;
  }
  out->sharedMemPerBlock = 49152;
  out->sharedMemPerBlockOptin = 232448;
  out->sharedMemPerMultiprocessor = 233472;
  out->regsPerBlock = out->regsPerMultiprocessor = 65536;
  out->l2CacheSize = 50 << 20;
  out->memoryBusWidth = 5120;
  out->textureAlignment = 512;
  return cudaSuccess;
}
EXPORT cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute,
                                          int) {
  cudaDeviceProp all;
  cudaGetDeviceProperties(&all, 0);
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
      *value = 9;
      break;
    case cudaDevAttrMultiProcessorCount:
      *value = all.multiProcessorCount;
      break;
    case cudaDevAttrWarpSize:
      *value = all.warpSize;
      break;
    case cudaDevAttrMaxThreadsPerBlock:
      *value = all.maxThreadsPerBlock;
      break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = all.maxThreadsPerMultiProcessor;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = static_cast<int>(all.sharedMemPerBlock);
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(all.sharedMemPerBlockOptin);
      break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = static_cast<int>(all.sharedMemPerMultiprocessor);
      break;
    case cudaDevAttrMaxGridDimX:
      *value = all.maxGridSize[0];
      break;
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ:
      *value = all.maxGridSize[1];
      break;
    case cudaDevAttrL2CacheSize:
      *value = all.l2CacheSize;
      break;
    default:
      *value = 0;
  }
  return cudaSuccess;
}
EXPORT cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* most) {
  *least = *most = 0;
  return cudaSuccess;
}
EXPORT cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  *can = 0;
  return cudaSuccess;
}
EXPORT cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* out, const void*) {
  std::memset(out, 0, sizeof *out);
  out->maxThreadsPerBlock = 1024;
  out->numRegs = 32;
  out->ptxVersion = out->binaryVersion = 90;
  return cudaSuccess;
}
EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks,
                                                                 const void*,
                                                                 int, size_t) {
  *blocks = 2;
  return cudaSuccess;
}
EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* blocks, const void*, int, size_t, unsigned) {
  *blocks = 2;
  return cudaSuccess;
}
EXPORT cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned,
                                                int) {
  static intptr_t next = 0x1000;
  *stream = reinterpret_cast<cudaStream_t>(next += 16);
  return cudaSuccess;
}
EXPORT cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  return cudaStreamCreateWithPriority(stream, 0, 0);
}
EXPORT cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithPriority(stream, 0, 0);
}
EXPORT cudaError_t cudaStreamGetPriority(cudaStream_t, int* priority) {
  *priority = 0;
  return cudaSuccess;
}
EXPORT cudaError_t cudaStreamIsCapturing(cudaStream_t,
                                         cudaStreamCaptureStatus* status) {
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
EXPORT cudaError_t cudaStreamGetCaptureInfo(
    cudaStream_t, cudaStreamCaptureStatus* status, unsigned long long* id,
    cudaGraph_t*, const cudaGraphNode_t**, const cudaGraphEdgeData**, size_t*) {
  *status = cudaStreamCaptureStatusNone;
  if (id) *id = 0;
  return cudaSuccess;
}
EXPORT cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = reinterpret_cast<cudaEvent_t>(0x10);
  return cudaSuccess;
}
EXPORT cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, 0);
}
EXPORT cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t,
                                        cudaEvent_t) {
  *milliseconds = 1;
  return cudaSuccess;
}
EXPORT cudaError_t cudaGetSymbolAddress(void** address, const void*) {
  *address = memory().base;
  return cudaSuccess;
}
EXPORT const char* cudaGetErrorString(cudaError_t) {
  return "an error of the GPU that is not there";
}
EXPORT const char* cudaGetErrorName(cudaError_t) { return "error"; }
EXPORT cudaError_t cudaGetDriverEntryPointByVersion(
    const char* name, void** function, unsigned, unsigned long long,
    cudaDriverEntryPointQueryResult* result) {
  const bool is_context = std::strcmp(name, "cuDevicePrimaryCtxGetState") == 0;
  *function = is_context ? reinterpret_cast<void*>(&primary_context)
                         : reinterpret_cast<void*>(&succeed);
  if (result) *result = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}
// What Triton asks the driver.
EXPORT int cuDeviceGetAttribute(int* value, int attribute, int device) {
  return cudaDeviceGetAttribute(value, static_cast<cudaDeviceAttr>(attribute),
                                device);
}
EXPORT int cuFuncGetAttribute(int* value, int attribute, void*) {
  constexpr int kMaxThreadsPerBlock = 0;
  *value = attribute == kMaxThreadsPerBlock ? 1024 : 0;
  return 0;
}
EXPORT int cuModuleLoadData(void** module, const void*) {
  *module = memory().base;
  return 0;
}
EXPORT int cuModuleGetFunction(void** function, void*, const char*) {
  *function = memory().base;
  return 0;
}
EXPORT int cuCtxGetCurrent(void** context) {
  *context = memory().base;
  return 0;
}
EXPORT cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  *handle = reinterpret_cast<cublasHandle_t>(0x20);
  return CUBLAS_STATUS_SUCCESS;
}
EXPORT cublasStatus_t cublasGetMathMode(cublasHandle_t, cublasMath_t* mode) {
  *mode = CUBLAS_DEFAULT_MATH;
  return CUBLAS_STATUS_SUCCESS;
}
EXPORT cublasStatus_t cublasGetPointerMode_v2(cublasHandle_t,
                                              cublasPointerMode_t* mode) {
  *mode = CUBLAS_POINTER_MODE_HOST;
  return CUBLAS_STATUS_SUCCESS;
}
EXPORT size_t cublasLtGetVersion() { return CUBLAS_VERSION; }
EXPORT cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
    cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
    cublasLtMatmulPreference_t, int, cublasLtMatmulHeuristicResult_t results[],
    int* count) {
  std::memset(results, 0, sizeof *results);
  *count = 1;
  return CUBLAS_STATUS_SUCCESS;
}
