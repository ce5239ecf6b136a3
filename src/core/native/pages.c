/* /proc/self/pagemap: a word for each page. */

#include "pages.h"

#include <fcntl.h>
#include <stddef.h>
#include <unistd.h>

#define IN_MEMORY (UINT64_C(1) << 63)
/* Pages that are told in all: a look at each takes some two microseconds. */
#define MOST_PAGES (UINT32_C(1) << 20)
#define MANY 4096

static struct {
    int file; /* or -1 where it may not be read: all pages are told */
    uint32_t told;
    uintptr_t page, first; /* bytes of one; number of the first that is known */
    size_t count;
    uint64_t known[MANY];
} p;

void
ia_pages_begin(void)
{
    p.file = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    p.told = 0;
    p.count = 0;
    p.page = (uintptr_t)sysconf(_SC_PAGESIZE);
}

int
ia_pages_end(void)
{
    if (p.file >= 0)
        close(p.file);
    return p.told == MOST_PAGES;
}

uint64_t
ia_pages_memory(void)
{
    return (uint64_t)sysconf(_SC_PHYS_PAGES) * p.page;
}

static int
is_in_memory(uintptr_t number, uintptr_t limit)
{
    if (number - p.first >= p.count) {
        uintptr_t many = limit - number < MANY ? limit - number : MANY;
        ssize_t n = pread(p.file, p.known, many * sizeof *p.known,
                          (off_t)(number * sizeof *p.known));
        p.first = number;
        p.count = n > 0 ? (size_t)n / sizeof *p.known : 0;
    }
    return p.count == 0 || (p.known[number - p.first] & IN_MEMORY);
}

uintptr_t
ia_pages_next(uintptr_t at, uintptr_t limit)
{
    if (p.told == MOST_PAGES)
        return limit;
    while (at < limit && !is_in_memory(at / p.page, limit / p.page))
        at += p.page;
    p.told++;
    return at;
}
