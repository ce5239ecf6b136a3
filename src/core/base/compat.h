/* Everything that differs between CPython versions, but for frames.c.
 *
 * Include this before any other header: it opens CPython's internal headers,
 * which must see Py_BUILD_CORE_MODULE first.  Every function here only reads.
 */
#ifndef IA_COMPAT_H
#define IA_COMPAT_H

/* A module's share of them: what Python itself has beyond that is not there
 * to be linked with, such as a thread's state from 3.12 on. */
#ifndef Py_BUILD_CORE_MODULE
#define Py_BUILD_CORE_MODULE 1
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#ifdef Py_GIL_DISABLED
#error "impactarbiter needs a CPython build with the GIL"
#endif

#include "internal/pycore_gc.h"
#include "internal/pycore_interp.h"
#include "internal/pycore_dict.h"
#include "internal/pycore_object.h"
#include "internal/pycore_pystate.h"

/* Is op on one of the collector's lists?  An object that is not may be half
 * built and must not be traversed. */
static inline int
ia_is_tracked(PyObject *op)
{
    return _PyObject_GC_IS_TRACKED(op);
}

/* Is this thread inside the deallocation of a container?  What was put off
 * for its depth is destroyed at its end, when what led to it is gone.  From
 * 3.13 on nothing is put off before the C stack is nearly used up. */
static inline int
ia_is_deallocating(PyThreadState *thread)
{
#if PY_VERSION_HEX < 0x030C0000
    return thread->trash_delete_nesting != 0;
#elif PY_VERSION_HEX < 0x030D0000
    return thread->trash.delete_nesting != 0;
#else
    (void)thread;
    return 0;
#endif
}

/* Gives every thread that has the trace function `from` (NULL: none) another
 * (NULL: none); code that runs already is traced from its next line on.  From
 * 3.12 on only the calling thread where others have one of their own.  0, or
 * -1 with an exception set. */
static inline int
ia_trace_threads(Py_tracefunc from, Py_tracefunc to)
{
    PyThreadState *here = PyThreadState_Get();
    PyThreadState *t = PyInterpreterState_ThreadHead(here->interp);
#if PY_VERSION_HEX >= 0x030C0000
    for (; t != NULL; t = PyThreadState_Next(t))
        if (t->c_tracefunc != from && t->c_tracefunc != to)
            break;
    if (t == NULL)
        PyEval_SetTraceAllThreads(to, NULL);
    else if (here->c_tracefunc == from)
        PyEval_SetTrace(to, NULL);
    return PyErr_Occurred() ? -1 : 0;
#else
    int result = 0;
    for (; t != NULL && result == 0; t = PyThreadState_Next(t))
        if (t->c_tracefunc == from)
            result = _PyEval_SetTrace(t, to, NULL);
    return result;
#endif
}

/* Python calls that this thread is in, as its limit counts them, and where it
 * counts calls of C's too with those; so many of them count no more, or again
 * where `n` is below zero. */
static inline int
ia_depth_of_calls(void)
{
    PyThreadState *t = PyThreadState_Get();
#if PY_VERSION_HEX >= 0x030C0000
    return t->py_recursion_limit - t->py_recursion_remaining;
#else
    return t->recursion_limit - t->recursion_remaining;
#endif
}

static inline void
ia_lend_calls(int n)
{
    PyThreadState *t = PyThreadState_Get();
#if PY_VERSION_HEX >= 0x030C0000
    t->py_recursion_remaining += n;
#else
    t->recursion_remaining += n;
#endif
}

/* Does this thread run Python code, or C code that such code has called? */
static inline int
ia_has_frames(PyThreadState *thread)
{
#if PY_VERSION_HEX >= 0x030D0000
    return thread->current_frame != NULL;
#else
    return thread->cframe != NULL && thread->cframe->current_frame != NULL;
#endif
}

/* Does op carry a collector header? */
static inline int
ia_is_gc(PyObject *op)
{
    PyTypeObject *type = Py_TYPE(op);
    return (type->tp_flags & Py_TPFLAGS_HAVE_GC) &&
           (type->tp_is_gc == NULL || type->tp_is_gc(op));
}

/* Does the collector take dicts off its lists, where all that they hold needs
 * no collecting?  From 3.14 on they stay. */
#define IA_DICTS_LEAVE_LISTS (PY_VERSION_HEX < 0x030E0000)

/* May its tp_traverse be called?  What is on no list of the collector's may be
 * half built.  A dict or tuple is not, once something refers to it: the
 * collector takes it off its lists where all that it holds is untracked too,
 * and what it holds may still lead on.  A structseq that C code has made, such
 * as what torch.max() returns, was never put on them. */
static inline int
ia_can_traverse(PyObject *op)
{
    return ia_is_gc(op) &&
           (ia_is_tracked(op) ||
            ((PyDict_CheckExact(op) || PyTuple_Check(op)) &&
             Py_REFCNT(op) > 0));
}

/* The collector's lists, the youngest first and the frozen one last.  From
 * 3.14 on they stand side by side, under names that change from one patch
 * release to the next: the first has two fields where the later ones have an
 * array, at the same place. */
enum { IA_GC_LISTS = 4 };

static inline PyGC_Head *
ia_gc_list(size_t which)
{
    struct _gc_runtime_state *gc = &PyInterpreterState_Get()->gc;
#if PY_VERSION_HEX >= 0x030E0000
    size_t before = (IA_GC_LISTS - 1 - which) * sizeof(struct gc_generation);
    size_t last = offsetof(struct _gc_runtime_state, permanent_generation);
    return &((struct gc_generation *)((char *)gc + last - before))->head;
#else
    return which == IA_GC_LISTS - 1 ? &gc->permanent_generation.head
                                    : &gc->generations[which].head;
#endif
}

/* The first releases of 3.14 keep flags in the low bits of this pointer. The
 * headers that we are built with may be of a later one, which masks none. */
static inline PyGC_Head *
ia_gc_next(const PyGC_Head *g)
{
    return (PyGC_Head *)(g->_gc_next & _PyGC_PREV_MASK);
}

/* Calls visit for each object on every list of the collector, the frozen ones
 * included.  visit must not create or free anything. */
static inline void
ia_each_gc_object(void (*visit)(PyObject *, void *), void *arg)
{
    for (size_t i = 0; i < IA_GC_LISTS; i++) {
        PyGC_Head *head = ia_gc_list(i);
        PyGC_Head *g = ia_gc_next(head);
        for (; g != head; g = ia_gc_next(g))
            visit((PyObject *)(g + 1), arg);
    }
}

/* Calls visit for each object that no collection has met, the newest first, not
 * in the middle of one.  visit must not create or free anything. */
static inline void
ia_each_young_object(void (*visit)(PyObject *, void *), void *arg)
{
    PyGC_Head *head = ia_gc_list(0);
    PyGC_Head *g = _PyGCHead_PREV(head);
    for (; g != head; g = _PyGCHead_PREV(g))
        visit((PyObject *)(g + 1), arg);
}

static inline PyObject *
ia_interp_modules(void)
{
#if PY_VERSION_HEX >= 0x030C0000
    return PyInterpreterState_Get()->imports.modules;
#else
    return PyInterpreterState_Get()->modules;
#endif
}

/* An instance's attributes that live in the object itself, with the keys that
 * name them; 0 where it has none (no dict, or a dict with its own). */
typedef struct {
    PyDictKeysObject *keys;
    PyObject **values;
    Py_ssize_t count;
} ia_inline_values;

static inline int
ia_get_inline_values(PyObject *op, ia_inline_values *out)
{
    PyTypeObject *type = Py_TYPE(op);
    PyDictValues *values;
    if (!(type->tp_flags & Py_TPFLAGS_MANAGED_DICT))
        return 0;
#if PY_VERSION_HEX >= 0x030D0000
    if (!(type->tp_flags & Py_TPFLAGS_INLINE_VALUES))
        return 0;
    /* A dict that was made since shares them as long as they are valid. */
    values = _PyObject_InlineValues(op);
    if (!values->valid)
        return 0;
#elif PY_VERSION_HEX >= 0x030C0000
    PyDictOrValues dorv = *_PyObject_DictOrValuesPointer(op);
    if (!_PyDictOrValues_IsValues(dorv))
        return 0;
    values = _PyDictOrValues_GetValues(dorv);
#else
    values = *_PyObject_ValuesPointer(op);
#endif
    out->keys = ((PyHeapTypeObject *)type)->ht_cached_keys;
    if (values == NULL || out->keys == NULL)
        return 0;
    out->values = values->values;
    out->count = out->keys->dk_nentries;
    return 1;
}

/* Bytes before an object: the collector's header, and where its dict and weak
 * references hang. */
static inline size_t
ia_header_size(PyTypeObject *type)
{
    unsigned long before = Py_TPFLAGS_MANAGED_DICT;
#if PY_VERSION_HEX >= 0x030C0000
    before |= Py_TPFLAGS_MANAGED_WEAKREF;
#endif
    return (PyType_IS_GC(type) ? sizeof(PyGC_Head) : 0) +
           (type->tp_flags & before ? 2 * sizeof(PyObject *) : 0);
}

/* Bytes of the attributes' table of an instance that has them without a dict:
 * behind the object from 3.13 on, a block of its own before. */
static inline size_t
ia_values_size(const PyDictKeysObject *keys)
{
    size_t room = (size_t)(keys->dk_nentries + keys->dk_usable);
#if PY_VERSION_HEX >= 0x030D0000
    size_t before = room + sizeof(PyObject *);
#else
    size_t before = room + 2;
#endif
    before = (before + sizeof(PyObject *) - 1) & ~(sizeof(PyObject *) - 1);
    return before + room * sizeof(PyObject *);
}

/* Of a table that came with the object itself: 3.13 and later. */
static inline size_t
ia_values_behind(PyTypeObject *type)
{
#if PY_VERSION_HEX >= 0x030D0000
    PyDictKeysObject *keys = type->tp_flags & Py_TPFLAGS_INLINE_VALUES
                                 ? ((PyHeapTypeObject *)type)->ht_cached_keys
                                 : NULL;
    return keys != NULL ? ia_values_size(keys) : 0;
#else
    (void)type;
    return 0;
#endif
}

/* Of a table in a block of its own, of an instance or of the dict that took it
 * over; 0 where there is none. */
static inline size_t
ia_values_apart(PyObject *op)
{
    if (PyDict_Check(op)) {
        PyDictObject *dict = (PyDictObject *)op;
#if PY_VERSION_HEX >= 0x030D0000
        if (dict->ma_values != NULL && dict->ma_values->embedded)
            return 0;
#endif
        return dict->ma_values ? ia_values_size(dict->ma_keys) : 0;
    }
#if PY_VERSION_HEX < 0x030D0000
    ia_inline_values v;
    if (ia_get_inline_values(op, &v))
        return ia_values_size(v.keys);
#endif
    return 0;
}

/* A dict's table of keys, with its values where they stand beside; 0 where
 * instances share it, or all empty dicts do. */
static inline size_t
ia_keys_size(PyObject *op)
{
    const PyDictKeysObject *keys = ((PyDictObject *)op)->ma_keys;
    size_t room = (size_t)(keys->dk_nentries + keys->dk_usable);
    if (((PyDictObject *)op)->ma_values != NULL || room == 0)
        return 0;
    return sizeof *keys + ((size_t)1 << keys->dk_log2_index_bytes) +
           room * (DK_IS_UNICODE(keys) ? sizeof(PyDictUnicodeEntry)
                                       : sizeof(PyDictKeyEntry));
}

/* The instance's real dict, borrowed, or NULL; never makes one. */
static inline PyObject *
ia_get_instance_dict(PyObject *op)
{
    PyTypeObject *type = Py_TYPE(op);
    if (type->tp_flags & Py_TPFLAGS_MANAGED_DICT) {
#if PY_VERSION_HEX >= 0x030D0000
        return (PyObject *)_PyObject_GetManagedDict(op);
#elif PY_VERSION_HEX >= 0x030C0000
        PyDictOrValues dorv = *_PyObject_DictOrValuesPointer(op);
        return _PyDictOrValues_IsValues(dorv)
                   ? NULL
                   : _PyDictOrValues_GetDict(dorv);
#else
        return *_PyObject_ValuesPointer(op) != NULL
                   ? NULL
                   : *_PyObject_ManagedDictPointer(op);
#endif
    }
    Py_ssize_t offset = type->tp_dictoffset;
    if (offset == 0)
        return NULL;
    if (offset < 0) {
        Py_ssize_t size = Py_SIZE(op) < 0 ? -Py_SIZE(op) : Py_SIZE(op);
        size_t total = _PyObject_VAR_SIZE(type, size);
        offset += (Py_ssize_t)total;
    }
    return *(PyObject **)((char *)op + offset);
}

/* A type's dict, borrowed, or NULL: from 3.12 on each interpreter has its own
 * for the built-in types. */
static inline PyObject *
ia_type_dict(PyTypeObject *type)
{
#if PY_VERSION_HEX >= 0x030C0000
    PyObject *dict = PyType_GetDict(type);
    Py_XDECREF(dict);
    return dict;
#else
    return type->tp_dict;
#endif
}

/* Digits of an int, in the base that CPython stores it in. */
static inline Py_ssize_t
ia_int_digits(PyObject *op)
{
#if PY_VERSION_HEX >= 0x030C0000
    uintptr_t tag = ((PyLongObject *)op)->long_value.lv_tag;
    return (Py_ssize_t)(tag >> _PyLong_NON_SIZE_BITS);
#else
    return Py_SIZE(op) < 0 ? -Py_SIZE(op) : Py_SIZE(op);
#endif
}

/* What stands for a thread in every threading.local, borrowed; NULL up to
 * 3.12, where each of them has its own in the thread's dict. */
static inline PyObject *
ia_local_key(const PyThreadState *t)
{
#if PY_VERSION_HEX >= 0x030D0000
    return t->threading_local_key;
#else
    (void)t;
    return NULL;
#endif
}

/* The name of the i-th inline attribute, borrowed, or NULL. */
static inline PyObject *
ia_inline_name(const ia_inline_values *v, Py_ssize_t i)
{
    return DK_IS_UNICODE(v->keys) ? DK_UNICODE_ENTRIES(v->keys)[i].me_key
                                  : NULL;
}

#endif /* IA_COMPAT_H */
