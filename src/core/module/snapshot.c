/* The ledger as a NumPy structured array: one copy, no object per row. */

#include "../base/compat.h"
#include "../ledger/arrays.h"
#include "../ledger/ledger.h"
#include "../ledger/sites.h"
#include "constants.h"
#include "snapshot.h"

#define PY_ARRAY_UNIQUE_SYMBOL impactarbiter_ARRAY_API
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

int
ia_snapshot_init(void)
{
    import_array1(-1);
    return 0;
}

static PyArray_Descr *
row_dtype(void)
{
    PyArray_Descr *dtype = NULL;
    PyObject *spec = IA_COLUMNS_BUILD(live_columns);
    if (spec != NULL && PyArray_DescrConverter(spec, &dtype) != NPY_SUCCEED)
        dtype = NULL;
    Py_XDECREF(spec);
    return dtype;
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
    PyArray_Descr *dtype = row_dtype();
    if (dtype == NULL)
        return NULL;
    ia_arrays_set_own(1);
    PyObject *array = PyArray_SimpleNewFromDescr(1, &n, dtype);
    ia_arrays_set_own(0);
    if (array == NULL)
        return NULL;
    ia_ledger_lock();
    npy_intp used = copy_rows(PyArray_DATA((PyArrayObject *)array), n);
    ia_ledger_unlock();
    PyObject *cut = PySequence_GetSlice(array, 0, used);
    Py_DECREF(array);
    return cut;
}
