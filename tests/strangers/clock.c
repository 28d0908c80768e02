/* A clock for the reference node, which has no option for one: what the system says, and what tests add to it.

   The file `clock` has two numbers of seconds: for the time of day, and for the time since the machine started. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *added;

__attribute__((constructor)) static void begin(void) {
    int file = open("/srv/clock", O_RDONLY);
    added = mmap(0, 2 * sizeof *added, PROT_READ, MAP_SHARED, file, 0);
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    long failed = syscall(SYS_clock_gettime, clock, now);
    if (!failed && added)
        now->tv_sec += added[clock != CLOCK_REALTIME];
    return failed;
}
