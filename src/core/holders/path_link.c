/* Whether a link of a path holds, and what it leads to by now. */

#include "../base/compat.h"
#include "path_link.h"

#include "../base/kinds.h"
#include "../base/read.h"
#include "leads.h"

/* Is its class a class statement's, or is it a container or a function?  Of
 * a class written in C nobody knows whether it keeps weak references in order:
 * one that does not would take us down with it. */
static int
is_sure_to_clear(PyObject *op)
{
    PyTypeObject *type = Py_TYPE(op);
    return ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) &&
            ((PyHeapTypeObject *)type)->ht_cached_keys != NULL) ||
           ia_container_length(op) >= 0 || PyFunction_Check(op);
}

/* What else is made where it lay is told by that: of lists, dicts and what has
 * slots alone none is to be had, and of what a framework or NumPy makes anew
 * each time none is asked. */
static void
note_life(ia_link *l)
{
    Py_CLEAR(l->life);
    if (IA_TAG(l->ref) != IA_TAG_OBJECT)
        return;
    PyObject *op = (PyObject *)l->ref;
    int kind = ia_kind_of(Py_TYPE(op));
    if (!PyType_SUPPORTS_WEAKREFS(Py_TYPE(op)) ||
        (kind != IA_KIND_PLAIN && kind != IA_KIND_MODULE) ||
        !is_sure_to_clear(op))
        return;
    l->life = PyWeakref_NewRef(op, NULL);
    if (l->life == NULL)
        PyErr_Clear();
}

int
ia_link_is_alive(const ia_link *l)
{
    const PyWeakReference *life = (const PyWeakReference *)l->life;
    return life == NULL || (uintptr_t)life->wr_object == l->ref;
}

ia_link
ia_link_to(uintptr_t ref)
{
    PyTypeObject *type =
        IA_TAG(ref) == IA_TAG_OBJECT ? Py_TYPE((PyObject *)ref) : NULL;
    return (ia_link){ref, type, NULL, -1, 0};
}

void
ia_link_set(ia_link *l, PyObject *op)
{
    l->ref = (uintptr_t)op;
    note_life(l);
}

int
ia_link_is_of_type(const ia_link *l, PyObject *op)
{
    return op != NULL && Py_TYPE(op) == l->type;
}

static ia_search
search(const ia_link *l, uintptr_t parent, int still)
{
    ia_search s = {.wanted = l->ref, .place = l->place, .key = l->key};
    ia_search_in(parent, &s, still);
    return s;
}

static PyObject *
object_there(const ia_search *s)
{
    return s->there != 0 && IA_TAG(s->there) == IA_TAG_OBJECT
               ? (PyObject *)s->there
               : NULL;
}

int
ia_link_place(ia_link *l, uintptr_t parent, int still)
{
    ia_search s = search(l, parent, still);
    if (s.found < 0)
        return 0;
    l->place = s.found;
    l->key = s.found_key;
    note_life(l);
    return 1;
}

/* Mostly all is where it was: no need to pass what comes before. */
static int
is_where_it_was(const ia_link *l, uintptr_t parent)
{
    PyObject *op = (PyObject *)parent, *key, *value;
    ia_inline_values v;
    Py_ssize_t at = l->place - 1;
    if (IA_TAG(parent) != IA_TAG_OBJECT || l->place < 0 ||
        !ia_link_is_alive(l))
        return 0;
    if (PyList_CheckExact(op) || PyTuple_CheckExact(op))
        return l->place < Py_SIZE(op) &&
               (uintptr_t)PySequence_Fast_GET_ITEM(op, l->place) == l->ref;
    if (l->key != 0 && ia_get_inline_values(op, &v))
        return l->place < v.count &&
               (uintptr_t)v.values[l->place] == l->ref;
    return l->key != 0 && PyDict_CheckExact(op) &&
           PyDict_Next(op, &at, &key, &value) && (uintptr_t)value == l->ref &&
           ia_key_mark(key) == l->key;
}

/* Whether what was found at the address of what it led to is that.  A name that
 * another of its type goes by has been given that, though the old one lives on
 * under another: `self.last = self.state; self.state = State(...)`. */
static int
is_it(const ia_link *l, uintptr_t parent, const ia_search *s, ia_bearing how)
{
    if (!ia_link_is_alive(l))
        return 0;
    if (how == IA_BY_ADDRESS || s->there == l->ref ||
        !ia_link_is_of_type(l, object_there(s)))
        return 1;
    return l->life != NULL ? !ia_has_names(parent) : !ia_has_places(parent);
}

int
ia_link_follow(ia_link *l, uintptr_t parent, ia_bearing how, int still)
{
    if (is_where_it_was(l, parent))
        return 1;
    ia_search s = search(l, parent, still);
    if (s.found < 0 || !is_it(l, parent, &s, how))
        return 0;
    l->place = s.found;
    l->key = s.found_key;
    return 1;
}

PyObject *
ia_link_at(const ia_link *l, uintptr_t parent, int still)
{
    ia_search s = search(l, parent, still);
    return object_there(&s);
}

int
ia_link_move_on(ia_link *l, uintptr_t parent, int still)
{
    PyObject *now = ia_link_at(l, parent, still);
    if (!ia_link_is_of_type(l, now))
        return 0;
    int goes_on = l->life != NULL && ia_link_is_alive(l) &&
                  ia_leads_to(now, (PyObject *)l->ref, parent);
    ia_link_set(l, now);
    return goes_on ? IA_IN_FRONT : IA_INSTEAD;
}
