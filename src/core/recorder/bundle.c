/* Writes a bundle: JSON and .npy files, by system calls alone. */

#include "../base/clock.h"
#include "../base/device_name.h"
#include "../base/letters.h"
#include "../base/size_limit.h"
#include "bundle.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What the first stage writes, and what the second may have added. */
static const char *const files[] = {"recorder.json", "events.npy",
                                    "sites.npy", "report.json",
                                    "holders.json"};

/* -- a file, with a buffer ----------------------------------------------- */

/* One bundle is written at a time: the recorder sees to it. */
static struct {
    int fd;
    int error; /* errno of the first failure */
    size_t used;
    char data[1 << 14];
} file;

static void
write_all(const char *data, size_t size)
{
    while (size > 0 && file.error == 0) {
        ssize_t n = write(file.fd, data, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            file.error = n < 0 ? errno : EIO;
            return;
        }
        data += n;
        size -= (size_t)n;
    }
}

static void
flush(void)
{
    write_all(file.data, file.used);
    file.used = 0;
}

static void
put(const char *data, size_t size)
{
    if (size > sizeof file.data - file.used)
        flush();
    if (size > sizeof file.data) {
        write_all(data, size);
        return;
    }
    memcpy(file.data + file.used, data, size);
    file.used += size;
}

static void
put_text(const char *text)
{
    put(text, strlen(text));
}

/* For numbers and short names: what is longer is cut. */
__attribute__((format(printf, 1, 2))) static void
put_format(const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    put(text, n < (int)sizeof text ? (size_t)n : sizeof text - 1);
}

/* A JSON string; the text is what ia_text() gives, but may be cut.  Lone
 * surrogates are no UTF-8. */
static void
put_string(const char *text)
{
    const char *end = text + ia_whole_length(text);
    put("\"", 1);
    for (; text < end; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            put("\\", 1);
        if (c < 0x20) {
            put_format("\\u%04x", c);
        } else if (c == 0xED && end - text > 2 && (text[1] & 0x20)) {
            put_format("\\ud%03x", (text[1] & 0x3F) << 6 | (text[2] & 0x3F));
            text += 2;
        } else {
            put(text, 1);
        }
    }
    put("\"", 1);
}

static void
open_file(int folder, const char *name)
{
    file.used = 0;
    file.fd = openat(folder, name,
                     O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file.fd < 0)
        file.error = errno;
}

static void
close_file(void)
{
    flush();
    if (file.fd < 0)
        return;
    if (file.error == 0 && fsync(file.fd) < 0 && errno != EINVAL)
        file.error = errno;
    if (close(file.fd) < 0 && file.error == 0)
        file.error = errno;
}

/* -- the three files ----------------------------------------------------- */

/* NumPy's format 1.0: magic, length of the header, header; the rows begin at
 * a multiple of 64. */
static void
put_npy(const char *dtype, uint64_t count, const void *rows, size_t size)
{
    char header[512] = "\x93NUMPY\x01\x00";
    int n = snprintf(header + 10, sizeof header - 10,
                     "{'descr': [%s], 'fortran_order': False, "
                     "'shape': (%" PRIu64 ",), }",
                     dtype, count);
    size_t whole = ((size_t)n + 10 + 1 + 63) / 64 * 64;
    memset(header + 10 + n, ' ', whole - (size_t)n - 11);
    header[whole - 1] = '\n';
    header[8] = (char)((whole - 10) & 0xFF);
    header[9] = (char)((whole - 10) >> 8);
    put(header, whole);
    put(rows, count * size);
}

static void
write_events(int folder, const ia_bundle *b)
{
    open_file(folder, "events.npy");
    put_npy(IA_RING_COLUMNS(IA_ROW_TEXT), b->nevents, b->events,
            sizeof *b->events);
    close_file();
}

static void
write_sites(int folder, const ia_bundle *b)
{
    open_file(folder, "sites.npy");
    put_npy(IA_SITE_COLUMNS(IA_ROW_TEXT), b->nsites, b->sites,
            sizeof *b->sites);
    close_file();
}

static void
put_devices(const ia_bundle *b)
{
    char name[32];
    put_text("{");
    for (int i = 0; i < b->ndevices; i++) {
        ia_device_name(b->devices[i].device, name, sizeof name);
        put_format("%s\"%s\": {\"live_bytes\": %" PRIu64
                   ", \"peak_bytes\": %" PRIu64 "}",
                   i ? ", " : "", name, b->devices[i].live_bytes,
                   b->devices[i].peak_bytes);
    }
    put_text("}");
}

static void
put_sources(const ia_bundle *b)
{
    put_text("[");
    for (uint32_t i = 0; i < b->nsites; i++) {
        const ia_source_frame *f = &b->sources[i];
        put_format("%s\n  {\"site\": %" PRIu32 ", \"file\": ", i ? "," : "",
                   b->sites[i].site);
        put_string(f->file ? f->file : "");
        put_format(", \"line\": %d, \"function\": ", f->line);
        put_string(f->function ? f->function : "");
        put_text("}");
    }
    put_text("]");
}

static void
put_clocks(void)
{
    uint64_t milliseconds = ia_clock_ns(CLOCK_REALTIME) / 1000000;
    put_format(" \"time\": %" PRIu64 ".%03" PRIu64 ",\n", milliseconds / 1000,
               milliseconds % 1000);
    put_format(" \"monotonic_ns\": %" PRIu64 ",\n",
               ia_clock_ns(CLOCK_MONOTONIC));
}

static void
write_json(int folder, const ia_bundle *b)
{
    char device[32];
    ia_device_name(b->device, device, sizeof device);
    open_file(folder, "recorder.json");
    put_text("{\"schema\": \"" IA_BUNDLE_SCHEMA "\",\n \"reason\": ");
    put_string(b->reason);
    put_format(",\n \"device\": \"%s\",\n \"asked_bytes\": %" PRIu64 ",\n",
               device, b->asked);
    put_clocks();
    put_format(" \"pid\": %ld,\n \"step\": %" PRIu32 ",\n", (long)getpid(),
               b->totals.position);
    put_format(" \"live_bytes\": %" PRIu64 ",\n \"peak_bytes\": %" PRIu64
               ",\n \"live_count\": %" PRIu32 ",\n",
               b->totals.live_bytes, b->totals.peak_bytes,
               b->totals.live_count);
    put_format(" \"resident_bytes\": %" PRIu64 ",\n \"devices\": ",
               b->resident);
    put_devices(b);
    put_format(",\n \"events\": %" PRIu32 ",\n \"all_events\": %" PRIu64
               ",\n \"sites_left_out\": %" PRIu32 ",\n \"sites\": ",
               b->nevents, b->all_events, b->left_out);
    put_sources(b);
    put_text("}\n");
    close_file();
}

/* -- the folder ---------------------------------------------------------- */

static void
remove_files(int parent, const char *name)
{
    int folder = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        unlinkat(folder, files[i], 0);
    close(folder);
    unlinkat(parent, name, AT_REMOVEDIR);
}

static void
partial_name(char *out, size_t size, const char *name)
{
    snprintf(out, size, ".%s.partial", name);
}

static int
fill_folder(const ia_bundle *b, int parent, const char *partial)
{
    file.error = 0;
    int folder = openat(parent, partial, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return errno;
    write_json(folder, b);
    if (file.error == 0)
        write_sites(folder, b);
    if (file.error == 0)
        write_events(folder, b);
    if (file.error == 0 && fsync(folder) < 0 && errno != EINVAL)
        file.error = errno;
    close(folder);
    return file.error;
}

int
ia_bundle_write(const ia_bundle *b, int parent, const char *name)
{
    char partial[IA_BUNDLE_NAME + 16];
    partial_name(partial, sizeof partial, name);
    if (mkdirat(parent, partial, 0700) < 0)
        return errno;
    ia_size_limit limit;
    ia_size_limit_begin(&limit);
    int error = fill_folder(b, parent, partial);
    ia_size_limit_end(&limit);
    if (error == 0 && renameat(parent, partial, parent, name) < 0)
        error = errno;
    if (error != 0)
        remove_files(parent, partial);
    else
        fsync(parent);
    return error;
}

void
ia_bundle_remove(int parent, const char *name)
{
    char partial[IA_BUNDLE_NAME + 16];
    partial_name(partial, sizeof partial, name);
    if (renameat(parent, name, parent, partial) == 0)
        remove_files(parent, partial);
}
