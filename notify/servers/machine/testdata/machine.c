// A library to preload into redis-server: a clock that can be set while it runs, and a
// record of what the disk would hold after a power cut.
//
// MACHINE_CLOCK names a file that holds, as a native 64-bit number, how many microseconds
// the clock is ahead. The monotonic clock does not change.
//
// MACHINE_SYNCS names a file to which this library appends a line "SIZE PATH" for each
// synchronised file, with its size before the call, and "> OLD\tNEW" for each rename.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *ahead; // µs
static int syncs = -1;

__attribute__((constructor)) static void begin(void) {
	const char *clock = getenv("MACHINE_CLOCK"), *path = getenv("MACHINE_SYNCS");
	int fd = clock ? open(clock, O_RDONLY | O_CLOEXEC) : -1;
	if (fd >= 0) {
		void *mapped = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);
		if (mapped != MAP_FAILED) ahead = mapped;
		close(fd);
	}
	if (path) syncs = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
	if ((clock && !ahead) || (path && syncs < 0)) {
		fprintf(stderr, "machine.c: MACHINE_CLOCK and MACHINE_SYNCS: %s\n", strerror(errno));
		_exit(1);
	}
}

int clock_gettime(clockid_t id, struct timespec *t) {
	int failed = syscall(SYS_clock_gettime, id, t);
	if (failed || !ahead || (id != CLOCK_REALTIME && id != CLOCK_REALTIME_COARSE)) return failed;
	int64_t us = (int64_t)t->tv_sec * 1000000 + t->tv_nsec / 1000 + *ahead;
	t->tv_sec = us / 1000000;
	t->tv_nsec = us % 1000000 * 1000;
	return 0;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone) {
	(void)zone;
	struct timespec now;
	if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
	t->tv_sec = now.tv_sec;
	t->tv_usec = now.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *t) {
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	if (t) *t = now.tv_sec;
	return now.tv_sec;
}

static void note(const char *line, int size) {
	if (syncs >= 0 && write(syncs, line, size) != size) abort();
}

// Synchronises a file, and notes its size before: what is written meanwhile may not be on the disk.
static int sync_with(int number, int fd) {
	struct stat before;
	char link[64], path[PATH_MAX], line[PATH_MAX + 32];
	int known = syncs >= 0 && fstat(fd, &before) == 0 && S_ISREG(before.st_mode);
	int failed = syscall(number, fd);
	if (failed || !known) return failed;
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t n = readlink(link, path, sizeof path - 1);
	if (n < 0) abort();
	path[n] = 0;
	note(line, snprintf(line, sizeof line, "%lld %s\n", (long long)before.st_size, path));
	return 0;
}

int fsync(int fd) { return sync_with(SYS_fsync, fd); }

int fdatasync(int fd) { return sync_with(SYS_fdatasync, fd); }

int rename(const char *from, const char *to) {
	char was[PATH_MAX], is[PATH_MAX], line[2 * PATH_MAX + 8];
	int known = syncs >= 0 && realpath(from, was);
	int failed = syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
	if (failed || !known || !realpath(to, is)) return failed;
	note(line, snprintf(line, sizeof line, "> %s\t%s\n", was, is));
	return 0;
}
