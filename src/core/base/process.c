/* Resident memory, read without allocating any. */

#include "process.h"

#include <fcntl.h>
#include <unistd.h>

/* The second number of a line of text; 0 where there is none. */
static uint64_t
second_number(const char *at)
{
    uint64_t number = 0;
    while (*at >= '0' && *at <= '9')
        at++;
    while (*at == ' ')
        at++;
    for (; *at >= '0' && *at <= '9'; at++)
        number = 10 * number + (uint64_t)(*at - '0');
    return number;
}

uint64_t
ia_process_resident(void)
{
    char text[128];
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0)
        return 0;
    text[n] = 0;
    return second_number(text) * (uint64_t)sysconf(_SC_PAGESIZE);
}
