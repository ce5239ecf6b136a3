/* Symbol tables, read from a library's file.
 *
 * By pread(), never mapped: a file that is cut short while it is read must
 * not end the process.
 */

#include "../base/memory.h"
#include "symbols.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Symbols that are read at a time. */
#define MANY 1024
/* Bytes that are compared at a time. */
#define PIECE 512
/* Bytes of a mangled name. */
#define MANGLED 1024

typedef struct {
    int fd;
    ElfW(Shdr) table, names; /* sections */
} symbol_file;

static int
read_at(int fd, void *to, size_t size, uint64_t offset)
{
    return pread(fd, to, size, (off_t)offset) == (ssize_t)size ? 0 : -1;
}

/* The whole table where there is one, else that of what is exported. */
static int
find_table(symbol_file *f, const ElfW(Ehdr) *head)
{
    ElfW(Shdr) one;
    int found = 0;
    if (head->e_shentsize != sizeof one)
        return -1;
    for (unsigned i = 0; i < head->e_shnum; i++) {
        uint64_t at = head->e_shoff + (uint64_t)i * sizeof one;
        if (read_at(f->fd, &one, sizeof one, at) < 0)
            return -1;
        if (one.sh_entsize != sizeof(ElfW(Sym)) ||
            one.sh_link >= head->e_shnum ||
            !(one.sh_type == SHT_SYMTAB ||
              (one.sh_type == SHT_DYNSYM && !found)))
            continue;
        f->table = one;
        at = head->e_shoff + (uint64_t)one.sh_link * sizeof one;
        if (read_at(f->fd, &f->names, sizeof one, at) < 0)
            return -1;
        found = 1;
    }
    return found ? 0 : -1;
}

/* Are these bytes of the file what was loaded of it? */
static int
is_as_loaded(int fd, uintptr_t loaded, uint64_t offset, size_t size)
{
    unsigned char there[PIECE], here[PIECE];
    for (size_t n; size > 0; size -= n, loaded += n, offset += n) {
        n = size < PIECE ? size : PIECE;
        if (read_at(fd, there, n, offset) < 0 ||
            ia_memory_read(here, loaded, n) != n || memcmp(there, here, n) != 0)
            return 0;
    }
    return 1;
}

/* A library may have been built anew since: its headers and notes, of which
 * the build's number is one, tell. */
static int
is_same_build(int fd, const ElfW(Ehdr) *head, const ia_segment *segment)
{
    ElfW(Phdr) one;
    if (head->e_phnum != segment->nheaders ||
        head->e_phentsize != sizeof one ||
        !is_as_loaded(fd, segment->headers, head->e_phoff,
                      head->e_phnum * sizeof one))
        return 0;
    for (unsigned i = 0; i < head->e_phnum; i++) {
        uint64_t at = head->e_phoff + (uint64_t)i * sizeof one;
        if (read_at(fd, &one, sizeof one, at) < 0 ||
            (one.p_type == PT_NOTE &&
             !is_as_loaded(fd, segment->load + one.p_vaddr, one.p_offset,
                           one.p_filesz)))
            return 0;
    }
    return 1;
}

static int
open_file(symbol_file *f, const ia_segment *segment)
{
    ElfW(Ehdr) head;
    f->fd = open(segment->path, O_RDONLY | O_CLOEXEC);
    return f->fd >= 0 && read_at(f->fd, &head, sizeof head, 0) == 0 &&
                   memcmp(head.e_ident, ELFMAG, SELFMAG) == 0 &&
                   is_same_build(f->fd, &head, segment) &&
                   find_table(f, &head) == 0
               ? 0
               : -1;
}

static int
covers(const ElfW(Sym) *s, const ia_segment *segment, uintptr_t value)
{
    unsigned type = ELF64_ST_TYPE(s->st_info); /* the same in both classes */
    unsigned wanted = segment->is_code           ? STT_FUNC
                      : segment->is_thread_local ? STT_TLS
                                                 : STT_OBJECT;
    return type == wanted &&
           s->st_shndx != SHN_UNDEF && value >= s->st_value &&
           value - s->st_value < s->st_size;
}

/* The smallest variable, or function, that the value lies in: 1, or 0. */
static int
find_symbol(const symbol_file *f, const ia_segment *segment, uintptr_t value,
            ElfW(Sym) *best)
{
    ElfW(Sym) read[MANY];
    uint64_t count = f->table.sh_size / sizeof *read;
    int found = 0;
    for (uint64_t at = 0; at < count; at += MANY) {
        size_t n = count - at < MANY ? (size_t)(count - at) : MANY;
        if (read_at(f->fd, read, n * sizeof *read,
                    f->table.sh_offset + at * sizeof *read) < 0)
            break;
        for (size_t i = 0; i < n; i++)
            if (covers(&read[i], segment, value) &&
                (!found || read[i].st_size < best->st_size)) {
                *best = read[i];
                found = 1;
            }
    }
    return found;
}

/* Library tags, as in std::map<...>[abi:cxx11], are no part of the name. */
static void
drop_tags(char *name)
{
    char *tag, *end;
    while ((tag = strstr(name, "[abi:")) != NULL &&
           (end = strchr(tag, ']')) != NULL)
        memmove(tag, end + 1, strlen(end + 1) + 1);
}

/* The runtime of C++ is there where something in C++ is. */
static void
write_name(const char *mangled, char *name, size_t size)
{
    typedef char *(*demangler)(const char *, char *, size_t *, int *);
    demangler demangle = NULL;
    int bad = 1;
    void *runtime = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_NOLOAD);
    if (runtime != NULL)
        *(void **)&demangle = dlsym(runtime, "__cxa_demangle");
    char *text = demangle ? demangle(mangled, NULL, NULL, &bad) : NULL;
    snprintf(name, size, "%s", text != NULL && bad == 0 ? text : mangled);
    drop_tags(name);
    free(text);
    if (runtime != NULL)
        dlclose(runtime);
}

int
ia_symbol_name(const ia_segment *segment, uintptr_t address, char *name,
               size_t size)
{
    char mangled[MANGLED] = "";
    ElfW(Sym) best;
    symbol_file f;
    int found =
        open_file(&f, segment) == 0 &&
        find_symbol(&f, segment, address - segment->base, &best) &&
        pread(f.fd, mangled, sizeof mangled - 1,
              (off_t)(f.names.sh_offset + best.st_name)) > 0 &&
        mangled[0] != 0;
    if (f.fd >= 0)
        close(f.fd);
    if (found)
        write_name(mangled, name, size);
    return found;
}
