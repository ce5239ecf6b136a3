/* Constants of impactarbiter._core: rows, kinds and limits that Python needs
 * as C has them. */

#include "../base/compat.h"
#include "../base/build.h"
#include "../answers/explain.h"
#include "../answers/question.h"
#include "../base/device_event.h"
#include "../base/device_name.h"
#include "../heap/roots.h"
#include "../ledger/ring.h"
#include "../recorder/bundle.h"
#include "../recorder/recorder.h"
#include "../steps/criterion.h"
#include "../steps/graphs.h"
#include "constants.h"

PyObject *
ia_columns_build(const ia_column *columns, size_t count)
{
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < count; i++) {
        ia_list_add(&list, Py_BuildValue("(ss)", columns[i].name,
                                         columns[i].type));
    }
    return list;
}

static const ia_column event_columns[] = {IA_RING_COLUMNS(IA_ROW_COLUMN)};
static const ia_column site_columns[] = {IA_SITE_COLUMNS(IA_ROW_COLUMN)};
static const ia_column device_columns[] = {IA_DEVICE_COLUMNS(IA_ROW_COLUMN)};

static const char *const event_kinds[IA_RING_KINDS] = {
    [0] = "",
    [IA_RING_BIRTH] = "birth",
    [IA_RING_DEATH] = "death",
    [IA_RING_MARK] = "mark",
};

static const char *const device_actions[IA_DEVICE_ACTIONS] = {
    [IA_DEVICE_ALLOC] = "alloc",
    [IA_DEVICE_FREE_REQUESTED] = "free_requested",
    [IA_DEVICE_FREE_COMPLETED] = "free_completed",
    [IA_DEVICE_SEGMENT_ALLOC] = "segment_alloc",
    [IA_DEVICE_SEGMENT_FREE] = "segment_free",
    [IA_DEVICE_SEGMENT_MAP] = "segment_map",
    [IA_DEVICE_SEGMENT_UNMAP] = "segment_unmap",
    [IA_DEVICE_OOM] = "oom",
    [IA_DEVICE_KNOWN_ALLOCATED] = "known_allocated",
    [IA_DEVICE_KNOWN_PENDING] = "known_pending",
    [IA_DEVICE_KNOWN_FREE] = "known_free",
};

/* A tuple of words, each at its number. */
static PyObject *
build_words(const char *const *words, Py_ssize_t count)
{
    PyObject *tuple = PyTuple_New(count);
    for (Py_ssize_t i = 0; tuple && i < count; i++) {
        PyObject *word = PyUnicode_FromString(words[i]);
        if (word == NULL)
            Py_CLEAR(tuple);
        else
            PyTuple_SET_ITEM(tuple, i, word);
    }
    return tuple;
}

/* Steals the value; NULL stands for a failure. */
static int
add(PyObject *module, const char *name, PyObject *value)
{
    int bad = value == NULL || PyModule_AddObjectRef(module, name, value) < 0;
    Py_XDECREF(value);
    return bad ? -1 : 0;
}

int
ia_constants_add(PyObject *module)
{
    if (add(module, "EVENT_COLUMNS", IA_COLUMNS_BUILD(event_columns)) < 0 ||
        add(module, "SITE_COLUMNS", IA_COLUMNS_BUILD(site_columns)) < 0 ||
        add(module, "DEVICE_COLUMNS", IA_COLUMNS_BUILD(device_columns)) < 0 ||
        add(module, "EVENT_KINDS", build_words(event_kinds, IA_RING_KINDS)) <
            0 ||
        add(module, "DEVICE_ACTIONS",
            build_words(device_actions, IA_DEVICE_ACTIONS)) < 0 ||
        add(module, "DEVICE_TYPES",
            build_words(ia_device_types, IA_DEVICE_TYPES)) < 0)
        return -1;
    if (PyModule_AddIntConstant(module, "GROWS_COUNT", IA_GROWS_COUNT) < 0 ||
        PyModule_AddIntConstant(module, "GROWS_BYTES", IA_GROWS_BYTES) < 0 ||
        PyModule_AddIntConstant(module, "GROWS_GRAPH", IA_GROWS_GRAPH) < 0 ||
        PyModule_AddIntConstant(module, "GROWS_ANEW", IA_GROWS_ANEW) < 0 ||
        PyModule_AddIntConstant(module, "GROWS_STEADILY",
                                IA_GROWS_STEADILY) < 0 ||
        PyModule_AddIntConstant(module, "AGE_FOR_REPORT", IA_AGE_FOR_REPORT) <
            0 ||
        PyModule_AddIntConstant(module, "AGE_TO_TELL", IA_AGE_TO_TELL) < 0 ||
        PyModule_AddIntConstant(module, "PROBES_PER_DOUBLING",
                                IA_PROBES_PER_DOUBLING) < 0 ||
        PyModule_AddIntConstant(module, "USUAL_WINDOW", IA_USUAL_WINDOW) < 0)
        return -1;
    if (PyModule_AddIntConstant(module, "MOST_BUNDLES", IA_MAX_KEPT) < 0 ||
        PyModule_AddIntConstant(module, "MOST_PATHS", IA_MAX_REFERRERS) < 0 ||
        PyModule_AddIntConstant(module, "LONGEST_ROOT", IA_ROOT_NAME - 1) <
            0)
        return -1;
    return PyModule_AddStringConstant(module, "BUNDLE_SCHEMA",
                                      IA_BUNDLE_SCHEMA);
}
