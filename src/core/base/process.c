/* Resident memory and malloc's heap, read without allocating any. */

#include "process.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* Bytes of /proc/self/status: it has some 1,500. */
#define STATUS_ROOM 4096

/* glibc's struct mallinfo2; headers before 2.33 have none. */
typedef struct {
    size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks,
        fordblks, keepcost;
} heap_info;

static uint64_t
number_at(const char *at)
{
    uint64_t number = 0;
    while (*at == ' ' || *at == '\t')
        at++;
    for (; *at >= '0' && *at <= '9'; at++)
        number = 10 * number + (uint64_t)(*at - '0');
    return number;
}

/* The second number of a line of text; 0 where there is none. */
static uint64_t
second_number(const char *at)
{
    while (*at >= '0' && *at <= '9')
        at++;
    return number_at(at);
}

/* Bytes read; the text ends with 0 in any case. */
static ssize_t
read_text(const char *path, char *text, size_t room)
{
    ssize_t n = -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        n = read(fd, text, room - 1);
        close(fd);
    }
    text[n > 0 ? n : 0] = 0;
    return n;
}

uint64_t
ia_process_resident(void)
{
    char text[128];
    if (read_text("/proc/self/statm", text, sizeof text) <= 0)
        return 0;
    return second_number(text) * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t
status_field(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    return at == NULL ? 0 : number_at(at + strlen(name)) * 1024;
}

/* In use, with what is free but kept where that is wanted. */
static uint64_t
read_heap(uint64_t *heap_free)
{
    static heap_info (*ask)(void);
    static int asked;
    if (!asked) {
        *(void **)&ask = dlsym(RTLD_DEFAULT, "mallinfo2");
        asked = 1;
    }
    heap_info info = {0};
    if (ask != NULL)
        info = ask();
    /* Nothing was ever asked of it: another allocator serves. */
    int unknown = info.uordblks + info.hblkhd == 0;
    if (heap_free != NULL)
        *heap_free = unknown ? IA_HEAP_UNKNOWN : info.fordblks;
    return unknown ? IA_HEAP_UNKNOWN : info.uordblks + info.hblkhd;
}

uint64_t
ia_process_heap(void)
{
    return read_heap(NULL);
}

void
ia_process_read(ia_process_memory *out)
{
    char text[STATUS_ROOM];
    read_text("/proc/self/status", text, sizeof text);
    out->files = status_field(text, "\nRssFile:");
    out->shared = status_field(text, "\nRssShmem:");
    out->resident =
        status_field(text, "\nRssAnon:") + out->files + out->shared;
    out->heap_used = read_heap(&out->heap_free);
}
