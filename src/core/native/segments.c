/* Loaded libraries, as the loader lists them. */

#include "../base/compat.h"
#include "../base/array.h"
#include "segments.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

/* The program itself has no name in the loader's list. */
#define PROGRAM "/proc/self/exe"

/* What is asked of the loader before its list is gone through: it answers
 * dlsym() and dladdr() under a lock that another thread's dlopen() may have,
 * which waits for that of the list. */
typedef struct {
    ia_segments *found;
    const void *useless[3]; /* addresses in libraries that are left out */
    char folder[PATH_MAX];  /* ours, with its slash; empty: not known */
} search;

#define MOST_USELESS (sizeof((search *)0)->useless / sizeof(void *))

/* Through the interpreter everything can be reached; the allocator and the
 * loader know all memory. */
static void
begin(search *s, ia_segments *found)
{
    Dl_info us;
    *s = (search){.found = found,
                  .useless = {&PyType_Type, dlsym(RTLD_DEFAULT, "malloc"),
                              dlsym(RTLD_DEFAULT, "__tls_get_addr")}};
    if (!dladdr((const void *)(uintptr_t)ia_segments_find, &us) ||
        us.dli_fname == NULL)
        return;
    const char *slash = strrchr(us.dli_fname, '/');
    size_t length = slash ? (size_t)(slash - us.dli_fname) + 1 : 0;
    if (length < sizeof s->folder)
        memcpy(s->folder, us.dli_fname, length);
}

static int
has_address(const struct dl_phdr_info *info, const void *address)
{
    uintptr_t at = (uintptr_t)address;
    for (int i = 0; at != 0 && i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t begin = info->dlpi_addr + p->p_vaddr;
        if (p->p_type == PT_LOAD && at >= begin && at - begin < p->p_memsz)
            return 1;
    }
    return 0;
}

static int
is_beside_us(const search *s, const char *path)
{
    size_t length = strlen(s->folder);
    return length && strncmp(path, s->folder, length) == 0 &&
           strchr(path + length, '/') == NULL;
}

static int
is_of_no_use(const search *s, const struct dl_phdr_info *info)
{
    for (size_t i = 0; i < MOST_USELESS; i++)
        if (has_address(info, s->useless[i]))
            return 1;
    return 0;
}

static int
add(ia_segments *s, const struct dl_phdr_info *info, const ia_segment *one)
{
    const char *path = info->dlpi_name[0] ? info->dlpi_name : PROGRAM;
    if (IA_ROOM(s->items, s->capacity, s->count + 1) < 0)
        return -1;
    ia_segment *item = &s->items[s->count];
    *item = *one;
    item->load = info->dlpi_addr;
    item->headers = (uintptr_t)info->dlpi_phdr;
    item->nheaders = info->dlpi_phnum;
    item->path = strdup(path);
    if (item->path == NULL)
        return -1;
    s->count++;
    return 0;
}

static int
add_library(struct dl_phdr_info *info, size_t size, void *arg)
{
    search *s = arg;
    ia_segments *found = s->found;
    (void)size;
    if (is_of_no_use(s, info))
        return 0;
    for (int i = 0; i < info->dlpi_phnum && !found->failed; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        ia_segment one = {.base = info->dlpi_addr,
                          .is_own = is_beside_us(s, info->dlpi_name)};
        if (p->p_type == PT_LOAD && (p->p_flags & PF_W))
            one.begin = info->dlpi_addr + p->p_vaddr;
        else if (p->p_type == PT_TLS && info->dlpi_tls_data != NULL) {
            one.begin = one.base = (uintptr_t)info->dlpi_tls_data;
            one.is_thread_local = 1;
        }
        else
            continue;
        one.end = one.begin + p->p_memsz;
        found->failed = add(found, info, &one) < 0;
    }
    return found->failed;
}

int
ia_segments_find(ia_segments *s)
{
    search one;
    begin(&one, s);
    dl_iterate_phdr(add_library, &one);
    return s->failed ? -1 : 0;
}

void
ia_segments_free(ia_segments *s)
{
    for (uint32_t i = 0; i < s->count; i++)
        free(s->items[i].path);
    free(s->items);
    *s = (ia_segments){0};
}

const ia_segment *
ia_segments_at(const ia_segments *s, uintptr_t address)
{
    for (uint32_t i = 0; i < s->count; i++)
        if (address >= s->items[i].begin && address < s->items[i].end)
            return &s->items[i];
    return NULL;
}
