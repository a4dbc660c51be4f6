/* A libcuda.so.1 that holds nothing but counts: the bytes taken stand, as 64 bits, in
   the file named by LOADGEN_FAKE_CUDA, where the fake NVML finds them. */
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BLOCKS = 1 << 16 };
static int64_t *taken;
static size_t size_of[BLOCKS];
static unsigned next_block;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

int cuInit(unsigned flags) {
  const char *path = getenv("LOADGEN_FAKE_CUDA");
  int file = path ? open(path, O_RDWR) : -1;
  if (flags || file < 0) return 100;
  taken = mmap(NULL, 8, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  return taken == MAP_FAILED ? 100 : 0;
}

int cuDeviceGet(int *device, int ordinal) {
  *device = 0;
  return ordinal ? 101 : 0;
}

int cuDevicePrimaryCtxRetain(void **context, int device) {
  *context = &size_of;
  return device ? 101 : 0;
}

int cuCtxSetCurrent(void *context) { return context == &size_of ? 0 : 201; }
int cuCtxSynchronize(void) { return 0; }

int cuMemAlloc_v2(uint64_t *block, size_t size) {
  pthread_mutex_lock(&lock);
  unsigned number = next_block++ % BLOCKS;
  size_of[number] = size;
  *taken += (int64_t)size;
  pthread_mutex_unlock(&lock);
  *block = ((uint64_t)1 << 40) + number;
  return 0;
}

int cuMemFree_v2(uint64_t block) {
  pthread_mutex_lock(&lock);
  *taken -= (int64_t)size_of[block - ((uint64_t)1 << 40)];
  pthread_mutex_unlock(&lock);
  return 0;
}

int cuMemsetD32_v2(uint64_t block, unsigned value, size_t words) {
  (void)value;
  return words * 4 == size_of[block - ((uint64_t)1 << 40)] ? 0 : 1;
}
