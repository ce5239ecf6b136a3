/* Whose code runs, and what this package's own objects weigh.
 *
 * They hang on its modules and on the frames that run its code, and are no
 * growth of the program's: neither its classes' instances nor what these have
 * in plain containers.  Nothing else is followed, for it is the program's.
 */

#include "../base/compat.h"
#include "../base/array.h"
#include "../base/read.h"
#include "../ledger/ledger.h"
#include "../ledger/libraries.h"
#include "own.h"

#include <stdlib.h>
#include <string.h>

static char prefix[IA_FILE_NAME];

int
ia_own_set_prefix(const char *path)
{
    if (strlen(path) >= sizeof prefix)
        return -1;
    strcpy(prefix, path);
    return 0;
}

int
ia_file_is_own(const char *file)
{
    return prefix[0] && strncmp(file, prefix, strlen(prefix)) == 0;
}

static const char *
file_of(ia_frame *frame, char buf[IA_FILE_NAME])
{
    return ia_text(ia_frame_code(frame)->co_filename, buf, IA_FILE_NAME);
}

int
ia_frame_is_own(ia_frame *frame)
{
    char buf[IA_FILE_NAME];
    return ia_file_is_own(file_of(frame, buf));
}

int
ia_file_is_library(const char *file)
{
    ia_ledger_lock();
    int library = ia_library_has(file);
    ia_ledger_unlock();
    return library;
}

int
ia_frame_is_library(ia_frame *frame)
{
    char buf[IA_FILE_NAME];
    return ia_file_is_library(file_of(frame, buf));
}

int
ia_module_is_own(const char *name)
{
    return strcmp(name, "impactarbiter") == 0 ||
           strncmp(name, "impactarbiter.", 14) == 0;
}

typedef struct {
    ia_tally *tally;
    const ia_walk *w;
    PyObject **found; /* owned array of borrowed references */
    uint32_t count, capacity;
} search;

static int
is_plain_container(PyObject *op)
{
    return PyDict_CheckExact(op) || PyList_CheckExact(op) ||
           PyTuple_CheckExact(op) || PyAnySet_CheckExact(op) ||
           strcmp(Py_TYPE(op)->tp_name, "collections.deque") == 0;
}

static int
is_plain_value(PyObject *op)
{
    return PyLong_CheckExact(op) || PyFloat_CheckExact(op) ||
           PyUnicode_CheckExact(op) || PyBytes_CheckExact(op);
}

static int
is_of_own_class(PyObject *op)
{
    PyTypeObject *type = Py_TYPE(op);
    if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE))
        return 0;
    PyObject *home = ia_dict_value(ia_type_dict(type), "__module__");
    return home != NULL && ia_module_is_own(ia_utf8(home));
}

static int
meet(PyObject *op, void *arg)
{
    search *s = arg;
    if (op == NULL || ia_bitmap_test(s->w->seen, (uintptr_t)op))
        return 0; /* a module's names */
    int leads_on = is_plain_container(op) || is_of_own_class(op);
    if (!(leads_on || is_plain_value(op)) || !ia_tally_add_own(s->tally, op) ||
        !leads_on)
        return 0;
    if (IA_ROOM(s->found, s->capacity, s->count + 1) < 0)
        s->tally->failed = 1;
    else
        s->found[s->count++] = op;
    return 0;
}

static void
meet_modules(search *s)
{
    PyObject *modules = ia_interp_modules(), *name, *module;
    Py_ssize_t pos = 0;
    if (modules == NULL || !PyDict_Check(modules))
        return;
    while (PyDict_Next(modules, &pos, &name, &module))
        if (PyModule_Check(module) && ia_module_is_own(ia_utf8(name)))
            ia_walk_traverse(s->w, PyModule_GetDict(module), meet, s);
}

static void
meet_frames(search *s)
{
    PyThreadState *t =
        PyInterpreterState_ThreadHead(PyThreadState_Get()->interp);
    for (; t != NULL; t = PyThreadState_Next(t)) {
        for (ia_frame *f = ia_frame_top(t); f != NULL; f = ia_frame_back(f)) {
            int slots = ia_frame_is_own(f) ? ia_frame_slots(f) : 0;
            for (int i = 0; i < slots; i++)
                meet(ia_frame_slot(f, i), s);
        }
    }
}

void
ia_weigh_own(ia_tally *tally, const ia_walk *w)
{
    search s = {.tally = tally, .w = w};
    meet_modules(&s);
    meet_frames(&s);
    while (s.count > 0)
        ia_walk_traverse(w, s.found[--s.count], meet, &s);
    free(s.found);
}
