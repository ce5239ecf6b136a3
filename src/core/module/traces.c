/* Functions of _core: what others recorded is read and judged. */

#include "../base/errors.h"
#include "../base/plain_pickle.h"
#include "../steps/replay.h"
#include "methods.h"

static PyObject *
plain_pickle(PyObject *self, PyObject *arg)
{
    Py_buffer bytes;
    (void)self;
    if (PyObject_GetBuffer(arg, &bytes, PyBUF_SIMPLE) < 0)
        return NULL;
    PyObject *made = ia_plain_pickle_read(bytes.buf, (size_t)bytes.len);
    PyBuffer_Release(&bytes);
    return made;
}

static PyObject *
build_sites(const ia_suspect *found, uint32_t sites)
{
    PyObject *list = PyList_New(sites);
    for (uint32_t i = 0; list && i < sites; i++) {
        const ia_suspect *s = &found[i];
        PyObject *one = Py_BuildValue(
            "(IIIIIK)", s->kinds, s->since, s->life, s->survivors,
            s->live_count, (unsigned long long)s->live_bytes);
        if (one == NULL)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, i, one);
    }
    return list;
}

static PyObject *
replay(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"events", "sites",  "end", "age",
                            "warmup", "window", NULL};
    ia_trace_rules rules;
    Py_buffer events;
    (void)self;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "y*IIIII:replay", names,
                                     &events, &rules.sites, &rules.end,
                                     &rules.age, &rules.warmup, &rules.window))
        return NULL;
    PyObject *list = NULL;
    size_t n = (size_t)events.len / sizeof(ia_trace_event);
    ia_suspect *found = PyMem_Calloc((size_t)rules.sites + 1, sizeof *found);
    int bad = found == NULL ? -1 : ia_replay(events.buf, n, &rules, found);
    if (bad < 0)
        PyErr_NoMemory();
    else if (bad)
        PyErr_SetString(PyExc_ValueError,
                        "the rows are no events in order: expected (site,"
                        " position, position at birth, bytes)");
    else
        list = build_sites(found, rules.sites);
    PyMem_Free(found);
    PyBuffer_Release(&events);
    return list;
}

DOC(plain_pickle, "(bytes)",
    "What a pickle of plain data holds.  Nothing is imported or called:\n"
    "ValueError where it wants more.");
DOC(replay, "(events, sites, end, age, warmup, window)",
    "The criterion on rows of four int64 (site, position, position at birth\n"
    "or -1, bytes; a death's negative), in order: for each site (kinds,\n"
    "since, longest lifetime that ended, survivors of the stretch, live\n"
    "blocks, live bytes).");

PyMethodDef ia_traces_methods[] = {
    {"plain_pickle", plain_pickle, METH_O, plain_pickle_doc},
    {"replay", FAST(replay), METH_VARARGS | METH_KEYWORDS, replay_doc},
    {NULL, NULL, 0, NULL},
};
