// A driver for the OpenCL loader that misbehaves as HOW says: cc -shared -fPIC -DHOW=HANGS_AT_LOAD.
// It has no devices. tests/python/package/test_drivers.py builds it.
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HANGS_AT_LOAD 1
#define HANGS_IN_LIST 2
#define HANGS_AND_BLOCKS_SIGNALS 3
#define CRASHES 4
#define ABORTS 5
#define EXITS 6
#define PRINTS_A_NUMBER 7
#define PRINTS_A_LINE 8
#define LEAVES_A_DAEMON 9
#define CLOSES_STREAMS 10
#define IGNORES_SIGNALS 11
#define WAITS 12  // in programs of this name, for a file: DRIVER_WAITS_IN, DRIVER_GOES_ON

static void hang(void) {
  for (;;) pause();
}

static void wait_for_file(void) {
  if (strncmp(program_invocation_short_name, getenv("DRIVER_WAITS_IN"), 6) != 0) return;
  fclose(fopen(getenv("DRIVER_WAITS"), "w"));
  while (access(getenv("DRIVER_GOES_ON"), F_OK) != 0) usleep(1000);
}

__attribute__((constructor)) static void load(void) {
  if (HOW == HANGS_AT_LOAD) hang();
  if (HOW == EXITS) exit(7);
  if (HOW == PRINTS_A_NUMBER) puts("42 is the answer");
  if (HOW == PRINTS_A_LINE) puts("driver 1.0 was loaded");
  fflush(stdout);
  if (HOW == LEAVES_A_DAEMON) {
    const pid_t daemon = fork();
    if (daemon == 0) hang();
    FILE* const file = fopen(getenv("DRIVER_DAEMONS"), "a");
    fprintf(file, "%d\n", daemon);
    fclose(file);
  }
  if (HOW == CLOSES_STREAMS) {
    for (int stream = 0; stream < 3; ++stream) close(stream);
  }
  if (HOW == WAITS) wait_for_file();
  if (HOW == IGNORES_SIGNALS) {
    signal(SIGINT, SIG_IGN);
    signal(SIGCHLD, SIG_IGN);
    signal(SIGALRM, SIG_IGN);
  }
}

static int list(unsigned size, void** platforms, unsigned* count) {
  (void)size;
  (void)platforms;
  if (HOW == HANGS_IN_LIST) hang();
  if (HOW == HANGS_AND_BLOCKS_SIGNALS) {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    hang();
  }
  if (HOW == CRASHES) *(volatile int*)0 = 1;
  if (HOW == ABORTS) abort();
  if (count) *count = 0;
  return -1001;  // CL_PLATFORM_NOT_FOUND_KHR
}

void* clGetExtensionFunctionAddress(const char* name) {
  return strcmp(name, "clIcdGetPlatformIDsKHR") == 0 ? (void*)&list : NULL;
}
int clIcdGetPlatformIDsKHR(unsigned size, void** platforms, unsigned* count) {
  return list(size, platforms, count);
}
int clGetPlatformInfo(void* platform, unsigned name, size_t size, void* value, size_t* needed) {
  (void)platform;
  (void)name;
  (void)size;
  (void)value;
  (void)needed;
  return -30;  // CL_INVALID_VALUE
}
