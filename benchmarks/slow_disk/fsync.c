/* A disk that takes at least SLOW_DISK_US microseconds for every fsync and fdatasync, for the program that this is
 * preloaded into (LD_PRELOAD). A disk that is slower than that by itself stays as it is. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <time.h>

static int slowly(const char *name, int fd)
{
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    const char *least = getenv("SLOW_DISK_US");
    long us = least ? atol(least) : 0;
    end.tv_sec += us / 1000000;
    end.tv_nsec += us % 1000000 * 1000;
    if (end.tv_nsec >= 1000000000) {
        end.tv_sec++;
        end.tv_nsec -= 1000000000;
    }

    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    int result = real(fd), error = errno;
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) == EINTR)
        ;
    errno = error;
    return result;
}

int fsync(int fd)
{
    return slowly("fsync", fd);
}

int fdatasync(int fd)
{
    return slowly("fdatasync", fd);
}
