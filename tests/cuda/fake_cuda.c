/* A CUDA runtime for machines without a GPU, to be preloaded.
 *
 * torch's own allocator, streams and autograd threads run on it unchanged:
 * device memory is host memory, limited in size; kernels are not run, so that
 * tensors hold what lies there; streams do nothing.  What torch allocates,
 * frees and reports is real.  It counts what a watcher must never do.
 *
 * Environment: FAKE_CUDA_DEVICES (1), FAKE_CUDA_MIB of each (256).
 */
#define _GNU_SOURCE
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define EXPORT __attribute__((visibility("default")))
#define MAX_DEVICES 8
#define MAX_BLOCKS 65536
#define PAGE ((size_t)2 << 20)

/* Read and written by tests, through ctypes. */
EXPORT long fake_cuda_launches, fake_cuda_syncs, fake_cuda_mallocs;
EXPORT long fake_cuda_asked_in_capture;
EXPORT int fake_cuda_busy; /* events are not reached yet */
static int capturing;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local int current;
static _Thread_local cudaError_t last_error;
static size_t used[MAX_DEVICES];
static struct {
    void *start;
    size_t size;
    int device;
} blocks[MAX_BLOCKS];
static int nblocks;

static int
device_count(void)
{
    const char *text = getenv("FAKE_CUDA_DEVICES");
    return text ? atoi(text) : 1;
}

static size_t
device_bytes(void)
{
    const char *text = getenv("FAKE_CUDA_MIB");
    return (size_t)(text ? atol(text) : 256) << 20;
}

static cudaError_t
say(cudaError_t error)
{
    if (error != cudaSuccess)
        last_error = error;
    return error;
}

static void *
reserve(size_t size)
{
    char *p = mmap(NULL, size + PAGE, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    size_t skip = (PAGE - (uintptr_t)p % PAGE) % PAGE;
    if (skip)
        munmap(p, skip);
    if (PAGE - skip)
        munmap(p + skip + size, PAGE - skip);
    return p + skip;
}

static int
charge(size_t size)
{
    int fits;
    pthread_mutex_lock(&lock);
    fits = used[current] + size <= device_bytes();
    if (fits)
        used[current] += size;
    pthread_mutex_unlock(&lock);
    return fits;
}

static void
discharge(int device, size_t size)
{
    pthread_mutex_lock(&lock);
    used[device] -= size;
    pthread_mutex_unlock(&lock);
}

/* -- devices ------------------------------------------------------------- */

EXPORT cudaError_t cudaGetDeviceCount(int *n)
{
    *n = device_count();
    return cudaSuccess;
}

EXPORT cudaError_t cudaGetDevice(int *device)
{
    *device = current;
    return cudaSuccess;
}

EXPORT cudaError_t cudaSetDevice(int device)
{
    if (device < 0 || device >= device_count())
        return say(cudaErrorInvalidDevice);
    current = device;
    return cudaSuccess;
}

EXPORT cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device)
{
    (void)device;
    memset(p, 0, sizeof *p);
    strcpy(p->name, "Fake CUDA device");
    p->totalGlobalMem = device_bytes();
    p->major = 9;
    p->warpSize = 32;
    p->multiProcessorCount = 4;
    p->maxThreadsPerBlock = 1024;
    p->maxThreadsPerMultiProcessor = 2048;
    p->sharedMemPerBlock = p->sharedMemPerBlockOptin = 48 << 10;
    p->sharedMemPerMultiprocessor = 100 << 10;
    p->regsPerBlock = 65536;
    for (int i = 0; i < 3; i++)
        p->maxThreadsDim[i] = 1024, p->maxGridSize[i] = 65535;
    return cudaSuccess;
}

EXPORT cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr,
                                   int device)
{
    (void)device;
    *value = attr == cudaDevAttrComputeCapabilityMajor ? 9 : 0;
    return cudaSuccess;
}

EXPORT cudaError_t cudaDeviceGetPCIBusId(char *text, int length, int device)
{
    snprintf(text, (size_t)length, "0000:%02d:00.0", device);
    return cudaSuccess;
}

EXPORT cudaError_t cudaDriverGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

EXPORT cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0, *greatest = -1;
    return cudaSuccess;
}

EXPORT cudaError_t cudaDeviceCanAccessPeer(int *can, int a, int b)
{
    (void)a, (void)b;
    *can = 0;
    return cudaSuccess;
}

EXPORT cudaError_t cudaDeviceSynchronize(void)
{
    __atomic_add_fetch(&fake_cuda_syncs, 1, __ATOMIC_RELAXED);
    return cudaSuccess;
}

EXPORT cudaError_t cudaGetLastError(void)
{
    cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

EXPORT cudaError_t cudaPeekAtLastError(void)
{
    return last_error;
}

/* -- memory -------------------------------------------------------------- */

EXPORT cudaError_t cudaMalloc(void **out, size_t size)
{
    size_t whole = (size + PAGE - 1) / PAGE * PAGE;
    __atomic_add_fetch(&fake_cuda_mallocs, 1, __ATOMIC_RELAXED);
    if (!charge(whole))
        return say(cudaErrorMemoryAllocation);
    void *start = reserve(whole);
    pthread_mutex_lock(&lock);
    if (start == NULL || nblocks == MAX_BLOCKS)
        abort();
    blocks[nblocks].start = *out = start;
    blocks[nblocks].size = whole;
    blocks[nblocks++].device = current;
    pthread_mutex_unlock(&lock);
    return cudaSuccess;
}

EXPORT cudaError_t cudaFree(void *start)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; start != NULL && i < nblocks; i++) {
        if (blocks[i].start != start)
            continue;
        munmap(start, blocks[i].size);
        used[blocks[i].device] -= blocks[i].size;
        blocks[i] = blocks[--nblocks];
        break;
    }
    pthread_mutex_unlock(&lock);
    return cudaSuccess;
}

EXPORT cudaError_t cudaMemGetInfo(size_t *left, size_t *total)
{
    fake_cuda_asked_in_capture += capturing;
    *total = device_bytes();
    *left = *total - used[current];
    return cudaSuccess;
}

EXPORT cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n,
                            enum cudaMemcpyKind kind, cudaStream_t stream)
{
    (void)kind, (void)stream;
    memmove(to, from, n);
    return cudaSuccess;
}

EXPORT cudaError_t cudaMemcpy(void *to, const void *from, size_t n,
                       enum cudaMemcpyKind kind)
{
    return cudaMemcpyAsync(to, from, n, kind, NULL);
}

EXPORT cudaError_t cudaMemsetAsync(void *to, int byte, size_t n, cudaStream_t s)
{
    (void)s;
    memset(to, byte, n);
    return cudaSuccess;
}

EXPORT cudaError_t cudaHostAlloc(void **out, size_t size, unsigned flags)
{
    (void)flags;
    return posix_memalign(out, 4096, size) ? cudaErrorMemoryAllocation
                                           : cudaSuccess;
}

EXPORT cudaError_t cudaFreeHost(void *start)
{
    free(start);
    return cudaSuccess;
}

EXPORT cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *p,
                                     const void *pointer)
{
    memset(p, 0, sizeof *p);
    p->type = cudaMemoryTypeUnregistered;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < nblocks; i++)
        if ((const char *)pointer >= (const char *)blocks[i].start &&
            (const char *)pointer <
                (const char *)blocks[i].start + blocks[i].size)
            p->type = cudaMemoryTypeDevice, p->device = blocks[i].device;
    pthread_mutex_unlock(&lock);
    return cudaSuccess;
}

/* The allocator of the driver, torch's backend "cudaMallocAsync". */

EXPORT cudaError_t cudaMallocAsync(void **out, size_t size, cudaStream_t s)
{
    (void)s;
    return cudaMalloc(out, size);
}

EXPORT cudaError_t cudaFreeAsync(void *start, cudaStream_t s)
{
    (void)s;
    return cudaFree(start);
}

EXPORT cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device)
{
    (void)device;
    *pool = (cudaMemPool_t)&lock;
    return cudaSuccess;
}

EXPORT cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool,
                                           enum cudaMemPoolAttr attr, void *v)
{
    (void)pool, (void)attr, (void)v;
    return cudaSuccess;
}

EXPORT cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool,
                                           enum cudaMemPoolAttr attr, void *v)
{
    (void)pool, (void)attr;
    memset(v, 0, sizeof(uint64_t));
    return cudaSuccess;
}

/* -- graphs: captured and launched, never run ----------------------------- */

EXPORT cudaError_t cudaStreamBeginCapture(cudaStream_t s,
                                          enum cudaStreamCaptureMode mode)
{
    (void)s, (void)mode;
    capturing = 1;
    return cudaSuccess;
}

EXPORT cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *graph)
{
    (void)s;
    capturing = 0;
    *graph = (cudaGraph_t)&lock;
    return cudaSuccess;
}

EXPORT cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes,
                                     size_t *n)
{
    (void)graph, (void)nodes;
    *n = 1;
    return cudaSuccess;
}

EXPORT cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph,
                                        unsigned long long flags)
{
    (void)flags;
    *out = (cudaGraphExec_t)graph;
    return cudaSuccess;
}

EXPORT cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *out,
                                                 cudaGraph_t graph,
                                                 unsigned long long flags)
{
    return cudaGraphInstantiate(out, graph, flags);
}

EXPORT cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t s)
{
    (void)graph, (void)s;
    fake_cuda_launches++;
    return cudaSuccess;
}

EXPORT cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    (void)graph;
    return cudaSuccess;
}

EXPORT cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph)
{
    (void)graph;
    return cudaSuccess;
}

/* -- streams, events, kernels: nothing takes time ------------------------ */

EXPORT cudaError_t cudaStreamCreateWithPriority(cudaStream_t *s, unsigned f,
                                                int p)
{
    (void)f, (void)p;
    *s = malloc(16);
    return cudaSuccess;
}

EXPORT cudaError_t cudaStreamQuery(cudaStream_t s)
{
    (void)s;
    return cudaSuccess;
}

EXPORT cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
    (void)s;
    __atomic_add_fetch(&fake_cuda_syncs, 1, __ATOMIC_RELAXED);
    return cudaSuccess;
}

EXPORT cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned f)
{
    (void)s, (void)e, (void)f;
    return cudaSuccess;
}

EXPORT cudaError_t cudaStreamIsCapturing(cudaStream_t s,
                                         enum cudaStreamCaptureStatus *status)
{
    (void)s;
    *status = capturing ? cudaStreamCaptureStatusActive
                                  : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}

EXPORT cudaError_t
cudaStreamGetCaptureInfo(cudaStream_t s, enum cudaStreamCaptureStatus *status,
                         unsigned long long *id, cudaGraph_t *graph,
                         const cudaGraphNode_t **nodes,
                         const cudaGraphEdgeData **edges, size_t *n)
{
    (void)graph, (void)nodes, (void)edges;
    if (id)
        *id = 1;
    if (n)
        *n = 0;
    return cudaStreamIsCapturing(s, status);
}

EXPORT cudaError_t
cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
    (void)mode;
    return cudaSuccess;
}

EXPORT cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned flags)
{
    (void)flags;
    *e = malloc(16);
    return cudaSuccess;
}

EXPORT cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s)
{
    (void)e, (void)s;
    return cudaSuccess;
}

EXPORT cudaError_t cudaEventRecordWithFlags(cudaEvent_t e, cudaStream_t s,
                                            unsigned f)
{
    (void)e, (void)s, (void)f;
    return cudaSuccess;
}

EXPORT cudaError_t cudaEventQuery(cudaEvent_t e)
{
    (void)e;
    return fake_cuda_busy ? cudaErrorNotReady : cudaSuccess;
}

EXPORT cudaError_t cudaEventSynchronize(cudaEvent_t e)
{
    (void)e;
    __atomic_add_fetch(&fake_cuda_syncs, 1, __ATOMIC_RELAXED);
    return cudaSuccess;
}

EXPORT cudaError_t cudaEventDestroy(cudaEvent_t e)
{
    free(e);
    return cudaSuccess;
}

EXPORT cudaError_t cudaLaunchKernel(const void *f, dim3 grid, dim3 block,
                                    void **args, size_t shared, cudaStream_t s)
{
    (void)f, (void)grid, (void)block, (void)args, (void)shared, (void)s;
    __atomic_add_fetch(&fake_cuda_launches, 1, __ATOMIC_RELAXED);
    return cudaSuccess;
}

EXPORT cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config,
                                       const void *f, void **args)
{
    (void)config, (void)f, (void)args;
    __atomic_add_fetch(&fake_cuda_launches, 1, __ATOMIC_RELAXED);
    return cudaSuccess;
}

EXPORT cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *a,
                                         const void *f)
{
    (void)f;
    memset(a, 0, sizeof *a);
    a->maxThreadsPerBlock = 1024;
    return cudaSuccess;
}

EXPORT cudaError_t cudaFuncSetAttribute(const void *f, enum cudaFuncAttribute a,
                                        int value)
{
    (void)f, (void)a, (void)value;
    return cudaSuccess;
}

EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(
    int *n, const void *f, int block, size_t shared)
{
    (void)f, (void)block, (void)shared;
    *n = 2;
    return cudaSuccess;
}

EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int *n, const void *f, int block, size_t shared, unsigned flags)
{
    (void)f, (void)block, (void)shared, (void)flags;
    *n = 2;
    return cudaSuccess;
}

/* -- the driver itself: torch's compiler of kernels links against it ----- */

#define UNUSED_BY_US(name)                                                   \
    EXPORT CUresult fake_##name(void) __asm__(#name);                        \
    CUresult fake_##name(void) { return CUDA_SUCCESS; }

UNUSED_BY_US(cuCtxSetCurrent)
UNUSED_BY_US(cuDevicePrimaryCtxRetain)
UNUSED_BY_US(cuFuncGetAttribute)
UNUSED_BY_US(cuFuncSetAttribute)
UNUSED_BY_US(cuFuncSetCacheConfig)
UNUSED_BY_US(cuLaunchCooperativeKernel)
UNUSED_BY_US(cuLaunchKernel)
UNUSED_BY_US(cuLinkAddData_v2)
UNUSED_BY_US(cuLinkComplete)
UNUSED_BY_US(cuLinkCreate_v2)
UNUSED_BY_US(cuModuleGetFunction)
UNUSED_BY_US(cuModuleLoad)
UNUSED_BY_US(cuModuleLoadData)
UNUSED_BY_US(cuModuleLoadDataEx)
UNUSED_BY_US(cuModuleUnload)
UNUSED_BY_US(cuOccupancyMaxActiveBlocksPerMultiprocessor)
UNUSED_BY_US(cuPointerGetAttribute)
UNUSED_BY_US(cuTensorMapEncodeTiled)

EXPORT CUresult cuCtxGetCurrent(CUcontext *out)
{
    *out = (CUcontext)&lock;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags,
                                           int *active)
{
    (void)device;
    *flags = 0;
    *active = 1;
    return CUDA_SUCCESS;
}

/* -- NVML: the same library under another name ---------------------------- */

EXPORT int nvmlInit_v2(void)
{
    return 0;
}

EXPORT int nvmlDeviceGetCount_v2(int *count)
{
    *count = device_count();
    return 0;
}

EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **out)
{
    (void)id;
    *out = &lock;
    return 0;
}

EXPORT int nvmlDeviceGetComputeRunningProcesses(void *device, unsigned *count,
                                                void *out)
{
    (void)device, (void)out;
    *count = 0;
    return 0;
}

UNUSED_BY_US(nvmlDeviceGetNvLinkRemoteDeviceType)
UNUSED_BY_US(nvmlDeviceGetNvLinkRemotePciInfo_v2)

EXPORT int nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    *version = CUDART_VERSION;
    return 0;
}

EXPORT int nvmlDeviceGetGpuFabricInfoV(void *device, void *out)
{
    (void)device, (void)out;
    return 3; /* not supported */
}

/* -- the driver's functions for expandable segments ---------------------- */

static CUresult
do_nothing(void)
{
    return CUDA_SUCCESS;
}

EXPORT CUresult
cuDeviceGet(CUdevice *out, int ordinal)
{
    *out = ordinal;
    return CUDA_SUCCESS;
}

EXPORT CUresult
cuDeviceGetAttribute(int *out, CUdevice_attribute attribute, CUdevice device)
{
    (void)attribute, (void)device;
    *out = 0;
    return CUDA_SUCCESS;
}

static CUresult
granularity(size_t *out, const CUmemAllocationProp *prop,
            CUmemAllocationGranularity_flags flags)
{
    (void)prop, (void)flags;
    *out = PAGE;
    return CUDA_SUCCESS;
}

static CUresult
address_reserve(CUdeviceptr *out, size_t size, size_t alignment,
                CUdeviceptr wanted, unsigned long long flags)
{
    (void)alignment, (void)wanted, (void)flags;
    *out = (CUdeviceptr)reserve(size);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* A handle is the size and the device of the memory behind it. */
static CUresult
mem_create(CUmemGenericAllocationHandle *out, size_t size,
           const CUmemAllocationProp *prop, unsigned long long flags)
{
    (void)flags;
    __atomic_add_fetch(&fake_cuda_mallocs, 1, __ATOMIC_RELAXED);
    current = prop->location.id;
    if (!charge(size))
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = (unsigned long long)size << 8 | (unsigned)prop->location.id;
    return CUDA_SUCCESS;
}

static CUresult
mem_release(CUmemGenericAllocationHandle handle)
{
    discharge((int)(handle & 0xFF), (size_t)(handle >> 8));
    return CUDA_SUCCESS;
}

EXPORT CUresult
cuGetErrorString(CUresult error, const char **out)
{
    (void)error;
    *out = "fake";
    return CUDA_SUCCESS;
}

EXPORT cudaError_t
cudaGetDriverEntryPointByVersion(const char *name, void **out, unsigned version,
                                 unsigned long long flags,
                                 enum cudaDriverEntryPointQueryResult *result)
{
    static const struct {
        const char *name;
        void *function;
    } known[] = {
        {"cuDeviceGet", (void *)cuDeviceGet},
        {"cuDeviceGetAttribute", (void *)cuDeviceGetAttribute},
        {"cuMemGetAllocationGranularity", (void *)granularity},
        {"cuMemAddressReserve", (void *)address_reserve},
        {"cuMemCreate", (void *)mem_create},
        {"cuMemRelease", (void *)mem_release},
        {"cuGetErrorString", (void *)cuGetErrorString},
    };
    (void)version, (void)flags;
    *out = (void *)do_nothing;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, name) == 0)
            *out = known[i].function;
    if (result)
        *result = cudaDriverEntryPointSuccess;
    return cudaSuccess;
}
