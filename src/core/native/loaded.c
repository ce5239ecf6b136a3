/* Libraries by the addresses of their instructions, as the loader lists them. */

#include "../base/compat.h"
#include "loaded.h"

#include <link.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    uintptr_t address;
    uintptr_t index; /* of the unwind tables, 0: none */
    ia_segment *found; /* NULL where the index is all that is asked for */
    int done;
} search;

static const ElfW(Phdr) *
header_of(const struct dl_phdr_info *info, uintptr_t address)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t begin = info->dlpi_addr + p->p_vaddr;
        if (p->p_type == PT_LOAD && address >= begin &&
            address - begin < p->p_memsz)
            return p;
    }
    return NULL;
}

static void
note(ia_segment *found, const struct dl_phdr_info *info)
{
    *found = (ia_segment){
        .base = info->dlpi_addr,
        .load = info->dlpi_addr,
        .headers = (uintptr_t)info->dlpi_phdr,
        .nheaders = info->dlpi_phnum,
        .is_code = 1,
        .path = strdup(info->dlpi_name),
    };
}

static int
ask(struct dl_phdr_info *info, size_t size, void *arg)
{
    search *s = arg;
    (void)size;
    const ElfW(Phdr) *load = header_of(info, s->address);
    if (load == NULL)
        return 0;
    if (!(load->p_flags & PF_X) || header_of(info, (uintptr_t)&PyType_Type))
        return 1;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_GNU_EH_FRAME)
            s->index = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
    if (s->found != NULL)
        note(s->found, info);
    s->done = 1;
    return 1;
}

uintptr_t
ia_loaded_index(uintptr_t address)
{
    search s = {.address = address};
    dl_iterate_phdr(ask, &s);
    return s.index;
}

int
ia_loaded_library(uintptr_t address, ia_segment *found)
{
    search s = {.address = address, .found = found};
    found->path = NULL;
    dl_iterate_phdr(ask, &s);
    return s.done && found->path != NULL;
}
