/* Whether what stands at an address is still the object that was noted. */

#include "compat.h"
#include "array.h"
#include "ptrmap.h"
#include "same.h"

typedef struct {
    uintptr_t address; /* 0: free */
    /* Owned, NULL once a collection has begun: what follows it among the young
     * was made after the object was noted. */
    PyObject *marker;
    int is_behind; /* the walk has not come to the marker yet */
    int is_other;  /* another object stands there */
    /* One that the collector took off its lists comes back behind all
     * others. */
    int is_dict, may_come_back;
} noted;

static struct {
    noted *items;
    uint32_t count, capacity;
    ia_ptrmap index; /* addresses and markers -> place in items */
} all;

static void
drop_marker(noted *n)
{
    if (n->marker != NULL)
        ia_ptrmap_pop(&all.index, (uintptr_t)n->marker);
    Py_CLEAR(n->marker);
}

static void
forget(noted *n)
{
    drop_marker(n);
    ia_ptrmap_pop(&all.index, n->address);
    *n = (noted){0};
}

/* -- noting ---------------------------------------------------------------- */

/* NULL when memory is short. */
static noted *
free_place(void)
{
    uint32_t i = 0;
    while (i < all.count && all.items[i].address != 0)
        i++;
    if (i == all.count) {
        if (IA_ROOM(all.items, all.capacity, (uint64_t)i + 1) < 0)
            return NULL;
        all.count++;
        all.items[i] = (noted){0};
    }
    return &all.items[i];
}

static void
forget_at(uintptr_t address)
{
    uint32_t place = ia_ptrmap_get(&all.index, address);
    if (place != IA_PTRMAP_NONE)
        forget(&all.items[place]);
}

int
ia_same_note(PyObject *op)
{
    PyObject *marker = PyList_New(0);
    forget_at((uintptr_t)op);
    /* One that died may have left its place to the marker. */
    forget_at((uintptr_t)marker);
    noted *n = marker != NULL ? free_place() : NULL;
    int is_dict = IA_DICTS_LEAVE_LISTS && PyDict_CheckExact(op);
    if (n == NULL) {
        PyErr_Clear();
        Py_XDECREF(marker);
        return -1;
    }
    uint32_t place = (uint32_t)(n - all.items);
    *n = (noted){.address = (uintptr_t)op,
                 .marker = marker,
                 .is_dict = is_dict,
                 .may_come_back = is_dict && !ia_is_tracked(op)};
    if (ia_ptrmap_set(&all.index, n->address, place) < 0 ||
        ia_ptrmap_set(&all.index, (uintptr_t)marker, place) < 0) {
        forget(n);
        return -1;
    }
    return 0;
}

/* -- asking ---------------------------------------------------------------- */

static void
meet(PyObject *op, void *arg)
{
    const int *collecting = arg;
    uint32_t place = ia_ptrmap_get(&all.index, (uintptr_t)op);
    if (place == IA_PTRMAP_NONE)
        return;
    noted *n = &all.items[place];
    if (op == n->marker)
        n->is_behind = 0;
    else if (n->is_behind && !n->may_come_back)
        n->is_other = 1;
    else if (n->is_behind && *collecting)
        n->may_come_back = 0;
}

/* Newest first.  Nothing may be freed before the end. */
static void
look_among_young(int collecting)
{
    for (uint32_t i = 0; i < all.count; i++)
        all.items[i].is_behind = 1;
    ia_each_young_object(meet, &collecting);
    for (uint32_t i = 0; i < all.count; i++)
        if (all.items[i].is_other)
            forget(&all.items[i]);
}

int
ia_same_stands(uintptr_t address)
{
    if (ia_ptrmap_get(&all.index, address) == IA_PTRMAP_NONE)
        return 0;
    look_among_young(0);
    return ia_ptrmap_get(&all.index, address) != IA_PTRMAP_NONE;
}

void
ia_same_collecting(int whole)
{
    if (all.index.used == 0)
        return;
    look_among_young(1);
    for (uint32_t i = 0; i < all.count; i++) {
        drop_marker(&all.items[i]);
        all.items[i].may_come_back |= whole && all.items[i].is_dict;
    }
}
