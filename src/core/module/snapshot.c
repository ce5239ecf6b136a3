/* The ledger and the run's curves as NumPy arrays: one copy, no object per
 * row. */

#include "../base/compat.h"
#include "../base/build.h"
#include "../base/ndarray.h"
#include "../ledger/arrays.h"
#include "../ledger/ledger.h"
#include "../ledger/sites.h"
#include "../steps/curves.h"
#include "constants.h"
#include "snapshot.h"

#define PY_ARRAY_UNIQUE_SYMBOL impactarbiter_ARRAY_API
#define NO_IMPORT_ARRAY
#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <numpy/arrayobject.h>

/* Of site and stack their numbers. */
#define LIVE_COLUMNS(C)                                                      \
    C(u8, address)                                                           \
    C(u8, bytes)                                                             \
    C(u8, site)                                                              \
    C(u8, stack)                                                             \
    C(u4, generation)                                                        \
    C(u2, device)                                                            \
    C(u2, allowed)

typedef struct {
    LIVE_COLUMNS(IA_ROW_FIELD)
} live_row;

static const ia_column live_columns[] = {LIVE_COLUMNS(IA_ROW_COLUMN)};
static const ia_column point_columns[] = {IA_POINT_COLUMNS(IA_ROW_COLUMN)};

/* An array of such rows that is none of the program's; takes `spec`, a dtype
 * as NumPy's constructor takes it. */
static PyObject *
new_rows(npy_intp n, PyObject *spec)
{
    PyArray_Descr *dtype = NULL;
    if (spec == NULL || ia_ndarray_bind() < 0) {
        Py_XDECREF(spec);
        return NULL;
    }
    int is_dtype = PyArray_DescrConverter(spec, &dtype) == NPY_SUCCEED;
    Py_DECREF(spec);
    if (!is_dtype)
        return NULL;
    ia_arrays_set_own(1);
    PyObject *array = PyArray_SimpleNewFromDescr(1, &n, dtype);
    ia_arrays_set_own(0);
    return array;
}

static void *
rows_of(PyObject *array)
{
    return PyArray_DATA((PyArrayObject *)array);
}

/* The first rows; takes `array`. */
static PyObject *
cut_to(PyObject *array, npy_intp n)
{
    PyObject *cut = PySequence_GetSlice(array, 0, n);
    Py_DECREF(array);
    return cut;
}

static npy_intp
copy_rows(live_row *out, npy_intp room)
{
    uint32_t count;
    npy_intp n = 0;
    const ia_row *rows = ia_ledger_rows(&count);
    for (uint32_t i = 0; i < count && n < room; i++) {
        if (rows[i].key == 0)
            continue;
        out[n++] = (live_row){
            .address = rows[i].key,
            .bytes = rows[i].bytes,
            .site = ia_site_number(ia_stack_site(rows[i].stack)),
            .stack = ia_stack_number(rows[i].stack),
            .generation = rows[i].generation,
            .device = rows[i].device,
            .allowed = rows[i].allowed,
        };
    }
    return n;
}

/* The array is made before the lock is taken: other threads may allocate
 * meanwhile, so it has some room to spare and is cut to what was copied. */
PyObject *
ia_snapshot_rows(void)
{
    ia_ledger_lock();
    npy_intp n = ia_ledger_totals_now()->live_count;
    ia_ledger_unlock();
    n += n / 16 + 64;
    PyObject *array = new_rows(n, IA_COLUMNS_BUILD(live_columns));
    if (array == NULL)
        return NULL;
    ia_ledger_lock();
    npy_intp used = copy_rows(rows_of(array), n);
    ia_ledger_unlock();
    return cut_to(array, used);
}

/* -- curves ---------------------------------------------------------------- */

static PyObject *
build_lines(const ia_curve_line *lines, int n)
{
    PyObject *list = PyList_New(0);
    for (int i = 0; list && i < n; i++)
        ia_list_add(&list,
                    Py_BuildValue("(KII)", (unsigned long long)lines[i].site,
                                  lines[i].since, lines[i].column));
    return list;
}

static PyObject *
build_nodes(void)
{
    const ia_curve_nodes *nodes;
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list && i < ia_curves_nodes(&nodes); i++)
        ia_list_add(&list, Py_BuildValue("(NKK)",
                                         ia_counts_build(nodes[i].counts),
                                         (unsigned long long)nodes[i].nodes,
                                         (unsigned long long)nodes[i].bytes));
    return list;
}

/* Making objects may run the collector, and that the program, which may note
 * points meanwhile: the arrays are made first, and all is copied at once. */
PyObject *
ia_snapshot_curves(void)
{
    ia_curve_line lines[IA_CURVE_LINES];
    uint32_t room = ia_curves_count();
    npy_intp bytes = (npy_intp)room * IA_CURVE_LINES;
    PyObject *points = new_rows(room, IA_COLUMNS_BUILD(point_columns));
    PyObject *sizes = new_rows(bytes, PyUnicode_FromString("<u8"));
    if (points == NULL || sizes == NULL) {
        Py_XDECREF(points);
        Py_XDECREF(sizes);
        return NULL;
    }
    uint32_t n = ia_curves_copy(rows_of(points), rows_of(sizes), room);
    int nlines = ia_curves_lines(lines);
    return Py_BuildValue("(NNNN)", cut_to(points, n),
                         build_lines(lines, nlines),
                         cut_to(sizes, (npy_intp)n * IA_CURVE_LINES),
                         build_nodes());
}
