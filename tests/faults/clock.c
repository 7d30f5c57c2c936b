/* For LD_PRELOAD: clocks that jump. Of CALLS_A_JUMP readings one, on the average, finds the time of day up to ten years before or
   after the true one, and the monotonic clock, which may not go back, up to FAULTS_FORWARD seconds ahead of what it was.
   FAULTS_SEED says which readings those are. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { CALLS_A_JUMP = 20, YEARS_10 = 315576000 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static uint64_t state;
static int64_t day_offset, steady_offset;

static uint64_t draw(void) { /* splitmix64 */
  uint64_t z = (state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

static int64_t number(const char* name) {
  const char* text = getenv(name);
  return text ? strtoll(text, NULL, 10) : 0;
}

/* By how many seconds a clock is off now. */
static int64_t offset(clockid_t clock) {
  pthread_mutex_lock(&mutex);
  if (state == 0) state = (uint64_t)number("FAULTS_SEED") * 2 + 1;
  if (draw() % CALLS_A_JUMP == 0) {
    const int64_t forward = number("FAULTS_FORWARD");
    day_offset = (int64_t)(draw() % (2 * (uint64_t)YEARS_10)) - YEARS_10;
    if (forward > 0) steady_offset += (int64_t)(draw() % (uint64_t)forward);
  }
  const int64_t result = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE ? day_offset : steady_offset;
  pthread_mutex_unlock(&mutex);
  return result;
}

int clock_gettime(clockid_t clock, struct timespec* now) {
  const long failed = syscall(SYS_clock_gettime, clock, now);
  if (failed == 0 && clock != CLOCK_PROCESS_CPUTIME_ID && clock != CLOCK_THREAD_CPUTIME_ID) now->tv_sec += offset(clock);
  return (int)failed;
}

int gettimeofday(struct timeval* restrict now, void* restrict zone) {
  struct timespec precise;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &precise);
  now->tv_sec = precise.tv_sec;
  now->tv_usec = precise.tv_nsec / 1000;
  return 0;
}

time_t time(time_t* result) {
  struct timespec precise;
  clock_gettime(CLOCK_REALTIME, &precise);
  if (result) *result = precise.tv_sec;
  return precise.tv_sec;
}
