/* A clock that is off: the time of day, and CLOCK_OFF_BY seconds more. Other clocks go as ever. */

#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now) {
    long failed = syscall(SYS_clock_gettime, clock, now);
    const char *off = getenv("CLOCK_OFF_BY");
    if (!failed && off && clock == CLOCK_REALTIME)
        now->tv_sec += atol(off);
    return failed;
}
