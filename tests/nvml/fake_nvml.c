/* A libnvidia-ml.so.1 that plays a scenario, for the real binding to load.

   The file named by LOADGEN_FAKE_NVML holds one "key value" a line. "gpu UUID" and
   "slice UUID OF" begin a device; what follows is of it. A value "!N" makes the call
   return NVML code N. "used" takes one value a look, the last one stays; "lost" in
   it is the end of the device. "used_file" names a file in which 64 bits are added
   to it. Built with -DNO_V2 it is a library of old. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OK = 0, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6,
       TOO_SMALL = 7, TIMED_OUT = 10, LOST = 15 };
enum { DEVICES = 32, LOOKS = 4096, PROCESSES = 64 };

typedef struct { long long value; int code; } field;

typedef struct {
  char uuid[96], name[96], of[96];
  field handle, total, reserved, v1, v2, power, clock, temperature, utilization;
  field throttle, mig, ecc, processes;
  long long used[LOOKS];
  int looks, look, lost, process_count;
  unsigned pid[PROCESSES];
  unsigned long long bytes[PROCESSES];
} device;

static device all[DEVICES];
static int count, init_code, initialized, xid, xid_at, rounds;
static long delay_us;
static char used_file[512];
static char driver[80] = "580.65.06", library[80] = "13.580.65.06";

static field parse(const char *text) {
  field f = {0, OK};
  if (*text == '!') f.code = atoi(text + 1);
  else f.value = atoll(text);
  return f;
}

static device *begin(const char *uuid, const char *of) {
  device *d = &all[count++];
  field no = {0, NOT_SUPPORTED};
  memset(d, 0, sizeof *d);
  snprintf(d->uuid, sizeof d->uuid, "%s", uuid);
  snprintf(d->of, sizeof d->of, "%s", of);
  snprintf(d->name, sizeof d->name, "Fake GPU");
  d->power = d->clock = d->temperature = d->utilization = no;
  d->throttle = d->mig = d->ecc = d->processes = no;
  return d;
}

static void read_used(device *d, char *rest) {
  for (char *word = strtok(rest, " "); word; word = strtok(NULL, " "))
    d->used[d->looks++] = strcmp(word, "lost") ? atoll(word) : -1;
}

static void read_processes(device *d, char *rest) {
  d->processes = parse(rest);
  if (d->processes.code) return;
  for (char *word = strtok(rest, " "); word; word = strtok(NULL, " "))
    if (sscanf(word, "%u:%llu", &d->pid[d->process_count],
               &d->bytes[d->process_count]) == 2)
      d->process_count++;
}

static void read_line(char *line) {
  static device *d;
  char *rest = strchr(line, ' ');
  if (!rest) return;
  *rest++ = 0;
  struct { const char *key; field *to; } fields[] = {
      {"handle", d ? &d->handle : 0},       {"total", d ? &d->total : 0},
      {"reserved", d ? &d->reserved : 0},   {"memory_v1", d ? &d->v1 : 0},
      {"memory_v2", d ? &d->v2 : 0},        {"power_mw", d ? &d->power : 0},
      {"sm_mhz", d ? &d->clock : 0},        {"temperature", d ? &d->temperature : 0},
      {"utilization", d ? &d->utilization : 0}, {"throttle", d ? &d->throttle : 0},
      {"mig", d ? &d->mig : 0},             {"ecc", d ? &d->ecc : 0}};
  if (!strcmp(line, "init")) init_code = atoi(rest);
  else if (!strcmp(line, "delay_ms")) delay_us = 1000 * atol(rest);
  else if (!strcmp(line, "driver")) snprintf(driver, sizeof driver, "%s", rest);
  else if (!strcmp(line, "used_file"))
    snprintf(used_file, sizeof used_file, "%s", rest);
  else if (!strcmp(line, "xid")) sscanf(rest, "%d %d", &xid, &xid_at);
  else if (!strcmp(line, "gpu")) d = begin(rest, "");
  else if (!strcmp(line, "slice")) {
    char uuid[96] = "", of[96] = "";
    sscanf(rest, "%95s %95s", uuid, of);
    d = begin(uuid, of);
  } else if (d && !strcmp(line, "name")) snprintf(d->name, sizeof d->name, "%s", rest);
  else if (d && !strcmp(line, "used")) read_used(d, rest);
  else if (d && !strcmp(line, "processes")) read_processes(d, rest);
  else if (d)
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
      if (!strcmp(line, fields[i].key)) *fields[i].to = parse(rest);
}

static int scalar(device *d, field f, unsigned *out) {
  if (delay_us) usleep(delay_us);
  if (d->lost) return LOST;
  if (f.code) return f.code;
  *out = (unsigned)f.value;
  return OK;
}

int nvmlInitWithFlags(unsigned flags) {
  (void)flags;
  const char *path = getenv("LOADGEN_FAKE_NVML");
  FILE *file = path ? fopen(path, "r") : NULL;
  static char line[1 << 16];
  if (!file) return 9;
  count = 0;
  while (fgets(line, sizeof line, file)) {
    line[strcspn(line, "\n")] = 0;
    read_line(line);
  }
  fclose(file);
  initialized = init_code == OK;
  return init_code;
}

int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int code) { (void)code; return "fake"; }

int nvmlSystemGetDriverVersion(char *out, unsigned size) {
  snprintf(out, size, "%s", driver);
  return OK;
}

int nvmlSystemGetNVMLVersion(char *out, unsigned size) {
  snprintf(out, size, "%s", library);
  return OK;
}

static device *whole(unsigned index) {
  for (int i = 0; i < count; i++)
    if (!*all[i].of && index-- == 0) return &all[i];
  return NULL;
}

int nvmlDeviceGetCount_v2(unsigned *out) {
  *out = 0;
  while (whole(*out)) ++*out;
  return initialized ? OK : UNINITIALIZED;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, device **out) {
  *out = whole(index);
  return *out ? (*out)->handle.code : INVALID;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, device **out) {
  for (int i = 0; i < count; i++)
    if (!strcmp(all[i].uuid, uuid)) { *out = &all[i]; return OK; }
  return NOT_FOUND;
}

int nvmlDeviceGetName(device *d, char *out, unsigned size) {
  snprintf(out, size, "%s", d->name);
  return OK;
}

int nvmlDeviceGetUUID(device *d, char *out, unsigned size) {
  snprintf(out, size, "%s", d->uuid);
  return OK;
}

static long long next_used(device *d) {
  if (!d->looks) return 0;
  long long used = d->used[d->look < d->looks ? d->look : d->looks - 1];
  d->look++;
  if (used < 0) d->lost = 1;
  long long more = 0;
  FILE *file = *used_file ? fopen(used_file, "r") : NULL;
  if (file) {
    if (fread(&more, sizeof more, 1, file) != 1) more = 0;
    fclose(file);
  }
  return used + more;
}

typedef struct { unsigned long long total, free, used; } memory;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } memory_v2;

int nvmlDeviceGetMemoryInfo(device *d, memory *out) {
  if (delay_us) usleep(delay_us);
  if (d->lost) return LOST;
  if (d->v1.code) return d->v1.code;
  long long used = next_used(d);
  if (d->lost) return LOST;
  out->total = d->total.value;
  out->used = used + d->reserved.value;
  out->free = out->total - out->used;
  return OK;
}

#ifndef NO_V2
int nvmlDeviceGetMemoryInfo_v2(device *d, memory_v2 *out) {
  if (delay_us) usleep(delay_us);
  if (d->lost) return LOST;
  if (d->v2.code) return d->v2.code;
  if (out->version != 0x02000028) return 25;
  long long used = next_used(d);
  if (d->lost) return LOST;
  out->total = d->total.value;
  out->reserved = d->reserved.value;
  out->used = used;
  out->free = out->total - out->used - out->reserved;
  return OK;
}

int nvmlDeviceGetCurrentClocksEventReasons(device *d, unsigned long long *out) {
  unsigned mask;
  int code = scalar(d, d->throttle, &mask);
  if (!code) *out = mask;
  return code;
}
#endif

int nvmlDeviceGetUtilizationRates(device *d, unsigned out[2]) {
  out[1] = 0;
  return scalar(d, d->utilization, out);
}

int nvmlDeviceGetPowerUsage(device *d, unsigned *out) {
  return scalar(d, d->power, out);
}

int nvmlDeviceGetClockInfo(device *d, int type, unsigned *out) {
  (void)type;
  return scalar(d, d->clock, out);
}

int nvmlDeviceGetTemperature(device *d, int sensor, unsigned *out) {
  (void)sensor;
  return scalar(d, d->temperature, out);
}

int nvmlDeviceGetMigMode(device *d, unsigned *now, unsigned *pending) {
  *pending = 0;
  return scalar(d, d->mig, now);
}

int nvmlDeviceGetMaxMigDeviceCount(device *d, unsigned *out) {
  *out = 0;
  for (int i = 0; i < count; i++) *out += !strcmp(all[i].of, d->uuid);
  return OK;
}

int nvmlDeviceGetMigDeviceHandleByIndex(device *d, unsigned index, device **out) {
  for (int i = 0; i < count; i++)
    if (!strcmp(all[i].of, d->uuid) && index-- == 0) { *out = &all[i]; return OK; }
  return NOT_FOUND;
}

typedef struct { unsigned pid; unsigned long long bytes; unsigned gpu, compute; } process;

int nvmlDeviceGetComputeRunningProcesses_v3(device *d, unsigned *n, process *out) {
  if (d->lost) return LOST;
  if (d->processes.code) return d->processes.code;
  unsigned room = *n;
  *n = d->process_count;
  if (!d->process_count) return OK;
  if (!out || room < *n) return TOO_SMALL;
  for (unsigned i = 0; i < *n; i++)
    out[i] = (process){d->pid[i], d->bytes[i], 0, 0};
  return OK;
}

int nvmlDeviceGetTotalEccErrors(device *d, int type, int counter, unsigned long long *out) {
  (void)type, (void)counter;
  unsigned errors;
  int code = scalar(d, d->ecc, &errors);
  if (!code) *out = errors;
  return code;
}

int nvmlEventSetCreate(void **out) {
  *out = &rounds;
  return xid ? OK : NOT_SUPPORTED;
}

int nvmlDeviceRegisterEvents(device *d, unsigned long long types, void *set) {
  (void)d, (void)types, (void)set;
  return OK;
}

typedef struct { device *d; unsigned long long type, data; unsigned gpu, compute; } event;

int nvmlEventSetWait_v2(void *set, event *out, unsigned timeout_ms) {
  (void)set, (void)timeout_ms;
  if (rounds++ != xid_at) return TIMED_OUT;
  *out = (event){&all[0], 8, (unsigned long long)xid, 0, 0};
  return OK;
}
