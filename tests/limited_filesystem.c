/* LD_PRELOAD: make system calls below a folder fail, as on file systems that lack them.
 *
 * LIMITED_DIR   the folder, an absolute path
 * LIMITED       rename=N,flock=N,fsyncdir=N,fsyncfile=N,fchmod=N,truncate=N,append=N with N the errno
 * LIMITED_AFTER a path: everything works until it exists
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int number(const char *call) {
    const char *calls = getenv("LIMITED"), *after = getenv("LIMITED_AFTER");
    const char *found = calls ? strstr(calls, call) : NULL;
    if (!found || (after && faccessat(AT_FDCWD, after, F_OK, 0) != 0)) return 0;
    return atoi(found + strlen(call) + 1);
}

static int below(const char *path) {
    const char *folder = getenv("LIMITED_DIR");
    char whole[8192];
    if (path[0] != '/' && getcwd(whole, 4096)) {
        strcat(whole, "/");
        strncat(whole, path, 4000);
        path = whole;
    }
    return folder && !strncmp(path, folder, strlen(folder));
}

static int is_below(int fd) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return below(path);
}

static int refuse(const char *call, int applies) {
    int saved = errno, wanted = applies ? number(call) : 0;
    errno = wanted ? wanted : saved;
    return wanted != 0;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

int rename(const char *from, const char *to) {
    return refuse("rename", below(from)) ? -1 : REAL(rename)(from, to);
}

int flock(int fd, int operation) {
    return refuse("flock", is_below(fd)) ? -1 : REAL(flock)(fd, operation);
}

int fsync(int fd) {
    struct stat status;
    int is_folder = !fstat(fd, &status) && S_ISDIR(status.st_mode);
    return refuse(is_folder ? "fsyncdir" : "fsyncfile", is_below(fd)) ? -1 : REAL(fsync)(fd);
}

int fchmod(int fd, mode_t mode) {
    return refuse("fchmod", is_below(fd)) ? -1 : REAL(fchmod)(fd, mode);
}

int ftruncate64(int fd, off64_t size) {
    return refuse("truncate", is_below(fd)) ? -1 : REAL(ftruncate64)(fd, size);
}

int ftruncate(int fd, off_t size) {
    return refuse("truncate", is_below(fd)) ? -1 : REAL(ftruncate)(fd, size);
}

int open64(const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    return refuse("append", (flags & O_APPEND) && below(path)) ? -1 : REAL(open64)(path, flags, mode);
}
