/* Which threads of the pool are awake: torch says of none whether it has work,
 * the kernel does, by what they are called and whether they sleep.
 */
#include "pool_threads.h"

#ifdef __linux__

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char TASKS[] = "/proc/self/task";
/* As torch names them, and the state of one that waits for work.  One that
 * has not run yet has no name, either. */
static const char OF_POOL[] = "(PTThreadPool) ";
static const char ASLEEP = 'S';

/* As many as there are cores; with more it counts as busy. */
#define MOST 1024

/* Once there, they stay (GIL). */
static int pool[MOST];
static int count;
static nlink_t threads; /* of the process, when they were listed */

/* How the kernel tells of a thread that is in the pool: its state; 0 of
 * another one. */
static int
state_of(int thread)
{
    char path[sizeof TASKS + 32], text[64];
    snprintf(path, sizeof path, "%s/%d/stat", TASKS, thread);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return 0;
    ssize_t got = read(file, text, sizeof text - 1);
    close(file);
    text[got > 0 ? got : 0] = 0;
    const char *name = strchr(text, '(');
    size_t length = sizeof OF_POOL - 1;
    return name && strncmp(name, OF_POOL, length) == 0 ? name[length] : 0;
}

static void
list(void)
{
    DIR *tasks = opendir(TASKS);
    const struct dirent *task;

    count = 0;
    while (tasks != NULL && count < MOST && (task = readdir(tasks)) != NULL) {
        int thread = atoi(task->d_name);
        if (thread > 0 && state_of(thread) != 0)
            pool[count++] = thread;
    }
    if (tasks != NULL)
        closedir(tasks);
}

int
ia_pool_is_busy(int anew)
{
    struct stat now;
    int i = 0;

    if (stat(TASKS, &now) < 0)
        return 0;
    if (anew || now.st_nlink != threads) {
        list();
        threads = now.st_nlink;
    }
    if (count == MOST)
        return 1;
    for (; i < count; i++) {
        int state = state_of(pool[i]);
        if (state != 0 && state != ASLEEP)
            break;
    }
    return i < count;
}

#else

int
ia_pool_is_busy(int anew)
{
    (void)anew;
    return 0;
}

#endif
