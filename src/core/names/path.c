/* Names for the references on a reported path. */

#include "../base/compat.h"
#include "../base/build.h"
#include "../base/frameworks.h"
#include "../base/read.h"
#include "../heap/roots.h"
#include "code.h"
#include "containers.h"
#include "graph.h"
#include "library.h"
#include "path.h"
#include "text.h"

#include <string.h>

static void
name_by_type(uintptr_t child, ia_edge_text *out)
{
    char type[128];
    ia_ref_type_name(child, type, sizeof type);
    ia_edge_set(out, "reference", 0, ".<%s>", type);
}

/* Is it a wrapper whose content has been named by what led to it? */
static int
is_named_already(PyObject *parent, ia_reading reading)
{
    return Py_IS_TYPE(parent, &PyDictProxy_Type) ||
           (reading.how == IA_READ_CONTENTS &&
            (PyCell_Check(parent) ||
             Py_IS_TYPE(parent, &PyStaticMethod_Type) ||
             ia_is_plain_iterator(parent)));
}

static ia_reading
name_object_edge(PyObject *parent, uintptr_t child, ia_reading reading,
                 ia_edge_text *out)
{
    ia_reading next = (ia_reading){0};
    int kind = ia_kind_of(Py_TYPE(parent));
    if (kind != IA_KIND_PLAIN && kind < IA_KIND_NDARRAY &&
        ia_name_in_framework(parent, kind, child, out))
        return (ia_reading){0};
    if (IA_TAG(child) != IA_TAG_OBJECT) {
        name_by_type(child, out);
        return (ia_reading){0};
    }
    PyObject *op = (PyObject *)child;
    if (is_named_already(parent, reading))
        return ia_edge_pass(out, IA_READ_PLAIN, NULL);
    if (ia_name_in_code(parent, op, reading, out, &next) ||
        ia_name_in_library(parent, op, reading, out, &next) ||
        ia_name_in_container(parent, op, reading, out, &next))
        return next;
    name_by_type(child, out);
    return (ia_reading){0};
}

/* One step of the path: names parent -> child and tells how the child is to
 * be read when it is a parent in its turn. */
static ia_reading
name_step(uintptr_t parent, uintptr_t child, ia_reading reading,
          ia_edge_text *out)
{
    out->text[0] = 0;
    out->kind = "reference";
    out->python = 0;
    if (IA_TAG(parent) == IA_TAG_CROWD)
        return (ia_reading){0}; /* the root's name says it all */
    if (IA_TAG(parent) == IA_TAG_NODE)
        return ia_name_graph_edge(parent, child, out);
    if (IA_TAG(parent) == IA_TAG_FRAME)
        return ia_name_local((ia_frame *)IA_ADDRESS(parent),
                             (PyObject *)child, 0, out);
    return name_object_edge((PyObject *)parent, child, reading, out);
}

static int
append_step(PyObject *edges, const ia_edge_text *e, uintptr_t child)
{
    PyObject *type = ia_type_build(child);
    PyObject *text = ia_str(e->text);
    if (text == NULL || type == NULL) {
        Py_XDECREF(text);
        Py_XDECREF(type);
        return -1;
    }
    PyObject *item = Py_BuildValue("(sNNO)", e->kind, text, type,
                                   e->python ? Py_True : Py_False);
    if (item == NULL)
        return -1;
    int bad = PyList_Append(edges, item);
    Py_DECREF(item);
    return bad;
}

/* A wrapper that shows nothing of its own, such as a cell: what was named is
 * what is in it. */
static int
retype_last(PyObject *edges, uintptr_t child)
{
    Py_ssize_t last = PyList_GET_SIZE(edges) - 1;
    if (last < 0)
        return 0;
    PyObject *old = PyList_GET_ITEM(edges, last);
    PyObject *item = Py_BuildValue("(OONO)", PyTuple_GET_ITEM(old, 0),
                                   PyTuple_GET_ITEM(old, 1),
                                   ia_type_build(child),
                                   PyTuple_GET_ITEM(old, 3));
    return item == NULL ? -1 : PyList_SetItem(edges, last, item);
}

static int
append_elided(PyObject *edges, uint32_t count)
{
    PyObject *item = Py_BuildValue("(sNsO)", "elided",
                                   PyUnicode_FromFormat(" ...%u more... ",
                                                        count),
                                   "", Py_False);
    if (item == NULL)
        return -1;
    int bad = PyList_Append(edges, item);
    Py_DECREF(item);
    return bad;
}

/* Entries of the path from the root on, owned; *length counts them. */
static uint32_t *
collect(const ia_walk *w, uint32_t entry, uint32_t *length)
{
    uint32_t n = 0;
    for (uint32_t i = entry; i != IA_NO_ENTRY; i = w->queue[i].parent)
        n++;
    uint32_t *chain = PyMem_Malloc(n * sizeof *chain);
    if (chain == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    *length = n;
    for (uint32_t i = entry; i != IA_NO_ENTRY; i = w->queue[i].parent)
        chain[--n] = i;
    return chain;
}

static ia_reading
reading_of_root(const ia_root *root)
{
    int dict = root->kind == IA_ROOT_MODULE;
    return (ia_reading){dict ? IA_READ_ATTRIBUTES : IA_READ_PLAIN, NULL};
}

static const char *const root_kinds[] = {
    [IA_ROOT_MODULE] = "module",   [IA_ROOT_STATE] = "module state",
    [IA_ROOT_FRAME] = "frame",     [IA_ROOT_THREAD] = "thread",
    [IA_ROOT_INTERPRETER] = "interpreter", [IA_ROOT_OUTSIDE] = "outside",
    [IA_ROOT_NATIVE] = "native",   [IA_ROOT_CYCLE] = "cycle",
    [IA_ROOT_CALLER] = "caller",
};

/* A function that is one of several, a hook, is told by its name: `[19]`
 * alone says little, `[19]->scale.<closure>.h` where to look. */
static void
name_function(ia_edge_text *e, PyObject *function)
{
    char text[sizeof e->text], buf[sizeof e->text];
    PyObject *name = ((PyFunctionObject *)function)->func_name;
    memcpy(text, e->text, sizeof text);
    ia_edge_set(e, e->kind, 0, "\xE2\x86\x92%s%s",
                ia_text(name, buf, sizeof buf), text);
}

static int
is_item(const ia_edge_text *e)
{
    size_t length = strlen(e->text);
    return length > 0 && e->text[length - 1] == ']';
}

/* Where the name of what hangs on garbage begins: at the call whose frame a
 * traceback has kept, the one that is nearest to the holder; 0 without one. */
static uint32_t
nearest_call(const ia_walk *w, const uint32_t *chain, uint32_t n,
             uint32_t inner)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < n && chain[i] != inner; i++) {
        uintptr_t ref = w->queue[chain[i]].ref;
        if (IA_TAG(ref) == IA_TAG_OBJECT && PyFrame_Check((PyObject *)ref) &&
            ia_frame_of_object((PyObject *)ref) != NULL)
            found = i;
    }
    return found;
}

static uintptr_t
call_of(uintptr_t frame_object)
{
    return (uintptr_t)ia_frame_of_object((PyObject *)frame_object) |
           IA_TAG_FRAME;
}

/* What is wanted besides the edges, each NULL where it is not. */
typedef struct {
    uint32_t inner;
    Py_ssize_t *depth; /* edges down to `inner` */
    uint32_t *objects; /* that the edges lead to */
} places;

static void
note_object(const places *p, const PyObject *edges, uint32_t entry)
{
    if (p->objects != NULL && PyList_GET_SIZE(edges) > 0)
        p->objects[PyList_GET_SIZE(edges) - 1] = entry;
}

/* What a script holds in C++ is an attribute of the Python object around the
 * one that has it: `net.kept[3]`, not `net._c.kept[3]`. */
static int
is_inside_of_script(uintptr_t child, const ia_edge_text *e)
{
    return IA_TAG(child) == IA_TAG_OBJECT &&
           ia_kind_of(Py_TYPE((PyObject *)child)) == IA_KIND_SCRIPT &&
           strcmp(e->text, "._c") == 0;
}

static void
name_attribute(ia_edge_text *e)
{
    size_t prefix = strlen(IA_SCRIPT_PREFIX);
    if (strncmp(e->text, IA_SCRIPT_PREFIX, prefix) != 0)
        return;
    memmove(e->text, e->text + prefix, strlen(e->text + prefix) + 1);
    e->python = strchr(e->text, '>') == NULL;
}

static int
append_all(const ia_walk *w, const uint32_t *chain, uint32_t n, int call,
           ia_reading reading, PyObject *edges, const places *p)
{
    ia_edge_text e;
    int item = 0; /* the last reference that was named is one of several */
    int script = 0; /* the last one led to what a script has in C++ */
    for (uint32_t i = 1; i < n; i++) {
        uintptr_t parent = w->queue[chain[i - 1]].ref;
        uintptr_t child = w->queue[chain[i]].ref;
        if (i == 1 && call)
            parent = call_of(parent);
        if (n > IA_PATH_HEAD + IA_PATH_TAIL && i == IA_PATH_HEAD) {
            uint32_t skipped = n - IA_PATH_HEAD - IA_PATH_TAIL;
            if (append_elided(edges, skipped) < 0)
                return -1;
            note_object(p, edges, IA_NO_ENTRY);
            i += skipped - 1;
            reading = (ia_reading){0};
            continue;
        }
        int wrapped = reading.how == IA_READ_CONTENTS;
        PyObject *function =
            reading.how == IA_READ_CLOSURE && item ? reading.owner : NULL;
        reading = name_step(parent, child, reading, &e);
        if (function != NULL)
            name_function(&e, function);
        if (script)
            name_attribute(&e);
        script = i + 1 < n && is_inside_of_script(child, &e);
        if (script)
            e.text[0] = 0;
        if (e.text[0])
            item = is_item(&e);
        if (e.text[0] ? append_step(edges, &e, child) < 0
                      : wrapped && retype_last(edges, child) < 0)
            return -1;
        if (e.text[0] || wrapped)
            note_object(p, edges, chain[i]);
        if (p->depth != NULL && chain[i] == p->inner)
            *p->depth = PyList_GET_SIZE(edges);
    }
    return 0;
}

static PyObject *
name_of_call(uintptr_t frame_object)
{
    ia_frame *frame = ia_frame_of_object((PyObject *)frame_object);
    return PyUnicode_FromFormat("%U()", ia_frame_code(frame)->co_qualname);
}

PyObject *
ia_path_build(const ia_walk *w, uint32_t entry, uint32_t inner,
              Py_ssize_t *depth)
{
    return ia_path_trace(w, entry, inner, depth, NULL);
}

PyObject *
ia_path_trace(const ia_walk *w, uint32_t entry, uint32_t inner,
              Py_ssize_t *depth, uint32_t **objects)
{
    PyObject *result = NULL, *edges = PyList_New(0);
    uint32_t n, *chain = edges ? collect(w, entry, &n) : NULL;
    if (objects != NULL)
        *objects = chain ? PyMem_Calloc(n, sizeof **objects) : NULL;
    if (chain == NULL)
        goto done;
    if (objects != NULL && *objects == NULL) {
        PyErr_NoMemory();
        goto done;
    }
    places p = {inner, depth, objects ? *objects : NULL};
    const ia_root *root = &w->roots->items[w->queue[chain[0]].root];
    int of_holder = inner != IA_NO_ENTRY;
    uint32_t first = root->kind == IA_ROOT_CYCLE && of_holder
                         ? nearest_call(w, chain, n, inner)
                         : 0;
    if (depth != NULL)
        *depth = 0;
    if (append_all(w, chain + first, n - first, first > 0,
                   reading_of_root(root), edges, &p) < 0)
        goto done;
    PyObject *name =
        first > 0 ? name_of_call(w->queue[chain[first]].ref)
                  : ia_str(root->name);
    if (name == NULL)
        goto done;
    result = Py_BuildValue("(sNOO)", root_kinds[root->kind], name,
                           root->user ? Py_True : Py_False, edges);
done:
    PyMem_Free(chain);
    Py_XDECREF(edges);
    return result;
}

/* The shortest way from the root object back to itself: a list of edges, empty
 * where there is none.  `apart`: not by way of its own node. */
static PyObject *
way_back(uintptr_t root, int graph, const ia_bitmap *held, int apart)
{
    ia_storages storages = {0};
    ia_roots roots = {0};
    ia_walk w;
    PyObject *result = NULL;
    if (ia_roots_add(&roots, IA_ROOT_CYCLE, root, 0, "") == NULL)
        return PyErr_NoMemory();
    if (ia_walk_init(&w, &storages, &roots) < 0) {
        PyErr_NoMemory();
        goto done;
    }
    w.graph = graph;
    w.below = held;
    int (*to_node)(ia_sink *, void *, ia_edge_kind, const char *,
                   Py_ssize_t) = w.sink.node;
    if (apart)
        w.sink.node = ia_pass_node;
    /* Seeded without a mark: the walk stops where it meets the root again. */
    ia_walk_seed_unmarked(&w, root, 0);
    while (w.head < w.count && !w.failed) {
        if (w.head > 0 && w.queue[w.head].ref == root) {
            PyObject *path = ia_path_build(&w, w.head, IA_NO_ENTRY, NULL);
            if (path != NULL) {
                result = Py_NewRef(PyTuple_GET_ITEM(path, 3));
                Py_DECREF(path);
            }
            goto done;
        }
        ia_walk_step(&w);
        w.sink.node = to_node;
    }
    result = w.failed ? PyErr_NoMemory() : PyList_New(0);
done:
    ia_walk_free(&w);
    ia_storages_free(&storages);
    ia_roots_free(&roots);
    return result;
}

/* A custom Function's ctx and its node lead to one another as long as they
 * live: of cycles through them another one says more. */
PyObject *
ia_cycle_build(uintptr_t root, int graph, const ia_bitmap *held)
{
    PyTypeObject *type = Py_TYPE((PyObject *)root);
    PyObject *edges = NULL;
    if (ia_kind_of(type) == IA_KIND_FUNCTION)
        edges = way_back(root, graph, held, 1);
    if (edges != NULL && PyList_GET_SIZE(edges) > 0)
        return edges;
    Py_XDECREF(edges);
    return PyErr_Occurred() ? NULL : way_back(root, graph, held, 0);
}
