/* Frames and code without an interpreter, for src/core/ledger run alone.
 *
 * What sites.c reads of a code object is laid out as Python's headers have
 * it; the chain of frames behind frames.h is the calling thread's own.
 */

#include "fake_frames.h"

#include "frames.h"

#include <stdio.h>
#include <string.h>

#define MOST_CODES 64
#define MOST_TEXT 48

typedef struct {
    PyASCIIObject head;
    char text[MOST_TEXT];
} fake_text;

static PyTypeObject text_type, bytes_type;
static PyCodeObject codes[MOST_CODES];
static fake_text files[MOST_CODES], functions[MOST_CODES];
static union {
    PyBytesObject bytes;
    char room[sizeof(PyBytesObject) + 16];
} lines;

/* Of the calling thread, the outermost first. */
static _Thread_local ia_raw_frame chain[IA_MAX_FRAMES + 8];
static _Thread_local int depth;

static PyObject *
make_text(fake_text *t, const char *name, int number)
{
    snprintf(t->text, sizeof t->text, "%s%d", name, number);
    t->head.length = (Py_ssize_t)strlen(t->text);
    t->head.state.compact = 1;
    t->head.state.ascii = 1;
    t->head.state.kind = PyUnicode_1BYTE_KIND;
#if PY_VERSION_HEX < 0x030C0000
    t->head.state.ready = 1;
#endif
    Py_SET_TYPE((PyObject *)t, &text_type);
    return (PyObject *)t;
}

void
fake_init(void)
{
    text_type.tp_flags = Py_TPFLAGS_UNICODE_SUBCLASS;
    bytes_type.tp_flags = Py_TPFLAGS_BYTES_SUBCLASS;
    Py_SET_TYPE((PyObject *)&lines, &bytes_type);
    Py_SET_SIZE((PyVarObject *)&lines, 8);
    for (int i = 0; i < MOST_CODES; i++) {
        codes[i].co_filename = make_text(&files[i], "/home/me/file", i % 9);
        codes[i].co_qualname = make_text(&functions[i], "f", i);
        codes[i].co_linetable = (PyObject *)&lines;
        codes[i].co_firstlineno = i;
        codes[i].co_flags = i % 3 ? CO_NEWLOCALS : 0;
    }
}

void
fake_call(int code, int instr)
{
    if (depth == IA_MAX_FRAMES + 8)
        return;
    chain[depth++] = (ia_raw_frame){&codes[code % MOST_CODES], instr};
}

void
fake_return(void)
{
    depth -= depth > 0;
}

void
fake_end_of_code(int code)
{
    uintptr_t at = (uintptr_t)&codes[code % MOST_CODES];
    atomic_fetch_add(&ia_code_ends[(at >> 5) % IA_CODE_LIVES], 1);
}

/* -- what frames.h and Python offer --------------------------------------- */

atomic_uint ia_code_ends[IA_CODE_LIVES];

static _Thread_local ia_raw_stack last;

int
ia_stack_is_at_its_end(void)
{
    const ia_raw_frame *end = last.count ? ia_raw_frame_at(&last, 0) : NULL;
    return end != NULL && depth > 0 && chain[depth - 1].code == end->code &&
           chain[depth - 1].instr == end->instr;
}

ia_raw_stack *
ia_stack_capture(void)
{
    uint64_t hash = 3;
    int count = 0;
    for (int i = depth > IA_MAX_FRAMES ? depth - IA_MAX_FRAMES : 0; i < depth;
         i++) {
        const ia_raw_frame *f = &chain[i];
        last.frames[count++].raw = *f;
        hash = (hash ^ (uintptr_t)f->code ^ (uint64_t)f->instr << 48 ^
                ia_code_life(f->code)) *
               UINT64_C(0x9E3779B97F4A7C15);
    }
    if (count != last.count || (hash | 1) != last.hash)
        last.stack = 0;
    last.count = count;
    last.hash = hash | 1;
    return &last;
}

int
ia_code_line(PyCodeObject *code, int instr)
{
    return code->co_firstlineno * 100 + instr;
}
