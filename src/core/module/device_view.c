/* Devices as Python sees them: events in as a NumPy structured array, totals
 * out as dicts. */

#include "../base/compat.h"
#include "../base/build.h"
#include "../base/ndarray.h"
#include "../ledger/journal.h"
#include "../ledger/devices.h"
#include "../answers/describe.h"
#include "api.h"
#include "constants.h"
#include "device_view.h"

#define PY_ARRAY_UNIQUE_SYMBOL impactarbiter_ARRAY_API
#define NO_IMPORT_ARRAY
#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <numpy/arrayobject.h>

static const ia_column columns[] = {IA_DEVICE_COLUMNS(IA_ROW_COLUMN)};

static PyArray_Descr *
event_dtype(void)
{
    PyArray_Descr *dtype = NULL;
    if (ia_ndarray_bind() < 0)
        return NULL;
    PyObject *spec = IA_COLUMNS_BUILD(columns);
    if (spec != NULL && PyArray_DescrConverter(spec, &dtype) != NPY_SUCCEED)
        dtype = NULL;
    Py_XDECREF(spec);
    return dtype;
}

/* A contiguous array of events with the fields in their order; new. */
static PyArrayObject *
read_events(PyObject *object)
{
    PyArray_Descr *dtype = event_dtype();
    if (dtype == NULL)
        return NULL;
    /* Steals the dtype. */
    return (PyArrayObject *)PyArray_FromAny(object, dtype, 1, 1,
                                            NPY_ARRAY_CARRAY_RO, NULL);
}

PyObject *
ia_device_events_method(PyObject *self, PyObject *arg)
{
    (void)self;
    PyArrayObject *array = read_events(arg);
    if (array == NULL)
        return NULL;
    const ia_device_event *events = PyArray_DATA(array);
    npy_intp count = PyArray_SIZE(array);
    Py_BEGIN_ALLOW_THREADS
    for (npy_intp i = 0; i < count; i++)
        ia_api.device_event(&events[i]);
    Py_END_ALLOW_THREADS
    Py_DECREF(array);
    Py_RETURN_NONE;
}

PyObject *
ia_device_follow_method(PyObject *self, PyObject *args)
{
    unsigned short device;
    unsigned long long seen;
    PyObject *snapshot;
    (void)self;
    if (!PyArg_ParseTuple(args, "HOK:device_follow", &device, &snapshot,
                          &seen))
        return NULL;
    PyArrayObject *array = read_events(snapshot);
    if (array == NULL)
        return NULL;
    int followed = ia_devices_follow(device, PyArray_DATA(array),
                                     (size_t)PyArray_SIZE(array), seen);
    Py_DECREF(array);
    return followed < 0 ? PyErr_NoMemory() : PyBool_FromLong(followed);
}

PyObject *
ia_device_rules_method(PyObject *self, PyObject *args)
{
    unsigned long long max_split;
    PyObject *divisions;
    ia_block_rules rules = {0};
    (void)self;
    if (!PyArg_ParseTuple(args, "KO!:device_rules", &max_split, &PyTuple_Type,
                          &divisions))
        return NULL;
    Py_ssize_t count = PyTuple_GET_SIZE(divisions);
    rules.max_split = max_split;
    for (int i = 0; count > 0 && i < IA_DIVISIONS; i++) {
        /* The last one counts for all that is larger. */
        PyObject *item =
            PyTuple_GET_ITEM(divisions, i < count ? i : count - 1);
        unsigned long parts = PyLong_AsUnsignedLong(item);
        if (PyErr_Occurred())
            return NULL;
        rules.divisions[i] = (uint32_t)parts;
    }
    ia_ledger_lock();
    ia_devices_set_rules(&rules);
    ia_ledger_unlock();
    Py_RETURN_NONE;
}

/* -- totals -------------------------------------------------------------- */

typedef struct {
    uint16_t device;
    int followed, broken;
    uint64_t seen;
    ia_block_totals totals;
    ia_free_space space;
    ia_stream_totals streams[IA_MAX_STREAMS];
    int nstreams;
} device_copy;

static int
copy_devices(device_copy *out)
{
    const ia_followed *devices;
    ia_ledger_lock();
    int n = ia_devices_all(&devices);
    for (int i = 0; i < n; i++) {
        const ia_stream_totals *streams;
        const ia_blocks *blocks = devices[i].blocks;
        out[i] = (device_copy){
            .device = devices[i].device,
            .seen = devices[i].seen,
            .followed = blocks != NULL,
        };
        if (blocks == NULL)
            continue;
        out[i].broken = ia_blocks_broken(blocks);
        out[i].totals = *ia_blocks_totals(blocks);
        out[i].space = ia_blocks_free_space(blocks);
        out[i].nstreams = ia_blocks_streams(blocks, &streams);
        memcpy(out[i].streams, streams, sizeof out[i].streams);
    }
    ia_ledger_unlock();
    return n;
}

static PyObject *
build_streams(const device_copy *d)
{
    PyObject *dict = PyDict_New();
    for (int i = 0; dict && i < d->nstreams; i++) {
        const ia_stream_totals *s = &d->streams[i];
        ia_dict_add(&dict, PyLong_FromUnsignedLongLong(s->stream),
                    Py_BuildValue("(KKK)",
                                  (unsigned long long)s->allocated_bytes,
                                  (unsigned long long)s->pending_bytes,
                                  (unsigned long long)s->reserved_bytes));
    }
    return dict;
}

static PyObject *
build_device(const device_copy *d)
{
    const ia_block_totals *t = &d->totals;
    const struct {
        const char *name;
        uint64_t value;
    } numbers[] = {
        {"code", d->device},
        {"seen", d->seen},
        {"allocated_bytes", t->allocated_bytes},
        {"peak_allocated_bytes", t->peak_allocated_bytes},
        {"requested_bytes", t->requested_bytes},
        {"pending_bytes", t->pending_bytes},
        {"reserved_bytes", t->reserved_bytes},
        {"peak_reserved_bytes", t->peak_reserved_bytes},
        {"mapped_bytes", t->mapped_bytes},
        {"private_bytes", t->private_bytes},
        {"inactive_split_bytes", d->space.inactive_split_bytes},
        {"largest_free_bytes", d->space.largest},
        {"allocated_count", t->allocated_count},
        {"pending_count", t->pending_count},
        {"segments", t->segments},
        {"ooms", t->ooms},
        {"drift", t->drift},
    };
    PyObject *dict = Py_BuildValue(
        "{s:N,s:O,s:N}", "device", ia_device_build(d->device), "followed",
        d->followed && !d->broken ? Py_True : Py_False, "streams",
        build_streams(d));
    for (size_t i = 0; dict && i < sizeof numbers / sizeof *numbers; i++)
        ia_dict_add(&dict, PyUnicode_FromString(numbers[i].name),
                    PyLong_FromUnsignedLongLong(numbers[i].value));
    return dict;
}

PyObject *
ia_devices_method(PyObject *self, PyObject *unused)
{
    /* On the heap and not static: making objects may run the collector, and
     * what that runs may come here again. */
    device_copy *copy = PyMem_Calloc(IA_MAX_DEVICES, sizeof *copy);
    (void)self, (void)unused;
    if (copy == NULL)
        return PyErr_NoMemory();
    int n = copy_devices(copy);
    PyObject *list = PyList_New(0);
    for (int i = 0; list && i < n; i++)
        ia_list_add(&list, build_device(&copy[i]));
    PyMem_Free(copy);
    return list;
}
