/* Storages that no root reaches.
 *
 * The collector's own arithmetic, read-only: among the objects that no root
 * reached, take from each reference count the references that come from
 * inside.  What is left is what the collector would spare.  Then take off
 * those that it can't see, of NumPy's arrays, of containers that it does not
 * track and of the autograd graph: what is left over now comes from C code,
 * from C++ or from the temporaries of a running call.
 */

#include "../base/compat.h"
#include "../base/array.h"
#include "../base/ndarray.h"
#include "crowds.h"
#include "unrooted.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    PyObject *op;        /* borrowed */
    Py_ssize_t outside;  /* references from outside the set */
    uint32_t before;     /* some member that refers to this one, or NONE */
    Py_ssize_t hidden;   /* of them, from the autograd graph */
    Py_ssize_t unseen;   /* references that the collector does not see */
    int of_graph;        /* C++'s hold on this tensor is taken off */
    int held;            /* by a node of what is spared */
    int spared;          /* the collector would not free it */
} orphan;

typedef struct {
    const ia_walk *w;
    orphan *items;
    uint32_t count, capacity, current;
    uint32_t listed; /* those that the collector knows come first */
    ia_ptrmap index;
    int failed;
} orphans;

typedef struct {
    const ia_walk *w;
    int leads; /* to something that no root reached */
} lead;

static int
look_for_lead(PyObject *op, void *arg)
{
    lead *l = arg;
    l->leads |= op != NULL && !ia_bitmap_has(l->w->seen, (uintptr_t)op) &&
               (PyType_IS_GC(Py_TYPE(op)) ||
                ia_kind_of(Py_TYPE(op)) != IA_KIND_PLAIN);
    return l->leads;
}

/* Most of what no root reaches is tuples of constants, which code alone has.
 * What leads to no other orphan is on no cycle, and takes nothing off. */
static int
leads_nowhere(const ia_walk *w, PyObject *op)
{
    lead l = {.w = w};
    if (ia_kind_of(Py_TYPE(op)) != IA_KIND_PLAIN || ia_is_generator(op))
        return 0;
    ia_walk_traverse(w, op, look_for_lead, &l);
    return !l.leads;
}

static void
gather(PyObject *op, void *arg)
{
    orphans *o = arg;
    if (o->failed || ia_bitmap_test(o->w->seen, (uintptr_t)op) ||
        (o->w->memory_alone && leads_nowhere(o->w, op)) ||
        ia_ptrmap_get(&o->index, (uintptr_t)op) != IA_PTRMAP_NONE)
        return;
    if (IA_ROOM(o->items, o->capacity, o->count + 1) < 0) {
        o->failed = 1;
        return;
    }
    if (ia_ptrmap_set(&o->index, (uintptr_t)op, o->count) < 0)
        o->failed = 1;
    else
        o->items[o->count++] =
            (orphan){.op = op,
                     .outside = Py_REFCNT(op),
                     .before = IA_PTRMAP_NONE};
}

static int
take_off(PyObject *op, void *arg)
{
    orphans *o = arg;
    uint32_t i = op ? ia_ptrmap_get(&o->index, (uintptr_t)op)
                    : IA_PTRMAP_NONE;
    if (i == IA_PTRMAP_NONE)
        return 0;
    o->items[i].outside--;
    if (o->items[i].before == IA_PTRMAP_NONE)
        o->items[i].before = o->current;
    return 0;
}

static void
take_off_all(orphans *o)
{
    for (o->current = 0; o->current < o->count; o->current++) {
        PyObject *op = o->items[o->current].op;
        ia_walk_traverse(o->w, op, take_off, o);
    }
}

/* Of the orphans from the first one on. */
static void
take_off_handed(orphans *o, const ia_handed *handed, uint32_t first)
{
    for (uint32_t i = 0; handed != NULL && i < handed->count; i++) {
        uint32_t at = ia_ptrmap_get(&o->index, (uintptr_t)handed->items[i]);
        if (at != IA_PTRMAP_NONE && at >= first)
            o->items[at].outside--;
    }
}

static int
is_tensor(PyObject *op)
{
    return ia_kind_of(Py_TYPE(op)) == IA_KIND_TENSOR;
}

static int
is_storage(PyObject *op)
{
    return ia_kind_of(Py_TYPE(op)) == IA_KIND_STORAGE;
}

/* -- what the collector would spare -------------------------------------- */

typedef struct {
    orphans *o;
    uint32_t *stack, depth;
} spared_walk;

static int
spare(PyObject *op, void *arg)
{
    spared_walk *s = arg;
    uint32_t i = op ? ia_ptrmap_get(&s->o->index, (uintptr_t)op)
                    : IA_PTRMAP_NONE;
    if (i != IA_PTRMAP_NONE && !s->o->items[i].spared) {
        s->o->items[i].spared = 1;
        s->stack[s->depth++] = i;
    }
    return 0;
}

/* Everything that hangs on what is kept from outside, as tp_traverse sees it;
 * how much that is, or UINT32_MAX when memory is short. */
static uint32_t
spare_from(orphans *o, int (*is_kept)(const orphan *))
{
    spared_walk s = {o, malloc((o->count + 1) * sizeof(uint32_t)), 0};
    uint32_t count = 0, kept = 0;
    if (s.stack == NULL)
        return UINT32_MAX;
    for (uint32_t i = 0; i < o->count; i++)
        if (is_kept(&o->items[i]))
            s.stack[kept++] = i;
    for (uint32_t i = 0; i < o->count; i++)
        o->items[i].spared = 0;
    for (uint32_t i = 0; i < kept; i++)
        o->items[s.stack[i]].spared = 1;
    for (s.depth = kept; s.depth > 0; count++) {
        PyObject *op = o->items[s.stack[--s.depth]].op;
        ia_walk_traverse(o->w, op, spare, &s);
    }
    free(s.stack);
    return count;
}

static int
is_seen_from_outside(const orphan *one)
{
    return one->unseen > 0;
}

/* What the collector would spare in its next run. */
static int
find_spared(orphans *o)
{
    for (uint32_t i = 0; i < o->count; i++)
        o->items[i].unseen = o->items[i].outside;
    return spare_from(o, is_seen_from_outside) == UINT32_MAX ? -1 : 0;
}

/* -- what the collector does not list ------------------------------------ */

static int
is_array(PyObject *op)
{
    return ia_kind_of(Py_TYPE(op)) == IA_KIND_NDARRAY;
}

static int
is_script(PyObject *op)
{
    return ia_kind_of(Py_TYPE(op)) == IA_KIND_SCRIPT;
}

static int
gather_unlisted(PyObject *op, void *arg)
{
    if (op != NULL && !(ia_is_gc(op) && ia_is_tracked(op)) &&
        (is_array(op) || is_script(op) || ia_can_traverse(op)))
        gather(op, arg);
    return 0;
}

static int
take_off_unlisted(PyObject *op, void *arg)
{
    const orphans *o = arg;
    uint32_t i = op ? ia_ptrmap_get(&o->index, (uintptr_t)op)
                    : IA_PTRMAP_NONE;
    return i != IA_PTRMAP_NONE && i >= o->listed ? take_off(op, arg) : 0;
}

static void
traverse_current(const orphans *o, visitproc shown, visitproc hidden)
{
    PyObject *op = o->items[o->current].op;
    if (is_array(op))
        ia_ndarray_traverse_hidden(op, hidden, (void *)o);
    if (ia_can_traverse(op))
        ia_walk_traverse(o->w, op, shown, (void *)o);
}

/* pybind11 keeps a script's object alive for its methods' sake, with a
 * reference that no object shows.  One that orphans hold is an orphan. */
static void
take_off_of_methods(orphans *o)
{
    for (uint32_t i = o->listed; i < o->count; i++)
        if (is_script(o->items[i].op))
            o->items[i].outside = 0;
}

/* Of arrays that own their memory: where that begins -> which orphan. */
static void
note_blocks(orphans *o, ia_ptrmap *at)
{
    for (uint32_t i = o->listed; i < o->count; i++) {
        ia_storage block;
        if (is_array(o->items[i].op) &&
            ia_ndarray_block(o->items[i].op, &block) && block.data != 0 &&
            ia_ptrmap_set(at, block.data, i) < 0)
            o->failed = 1;
    }
}

/* torch.from_numpy: each storage on an array's memory has one reference to it,
 * which C++ alone knows of. */
static void
take_off_of_storages(orphans *o)
{
    ia_ptrmap at = {0}, seen = {0};
    note_blocks(o, &at);
    for (o->current = 0; o->current < o->count; o->current++) {
        PyObject *op = o->items[o->current].op;
        ia_storage memory;
        if (!is_tensor(op) || !ia_the_framework->storage_of(op, &memory) ||
            memory.impl == 0 || memory.data == 0)
            continue;
        uint32_t i = ia_ptrmap_get(&at, memory.data);
        if (i == IA_PTRMAP_NONE ||
            ia_ptrmap_get(&seen, memory.impl) != IA_PTRMAP_NONE)
            continue;
        if (ia_ptrmap_set(&seen, memory.impl, 0) < 0)
            o->failed = 1;
        take_off(o->items[i].op, o);
    }
    ia_ptrmap_free(&at);
    ia_ptrmap_free(&seen);
}

/* Arrays, scripts' objects, and dicts and tuples that are not tracked, as far
 * as orphans or the question's own references lead to them; and what those
 * hold. */
static void
take_off_of_unlisted(orphans *o, const ia_handed *handed)
{
    o->listed = o->count;
    for (uint32_t i = 0; handed != NULL && i < handed->objects; i++)
        gather_unlisted(handed->items[i], o);
    for (o->current = 0; o->current < o->count && !o->failed; o->current++)
        traverse_current(o, gather_unlisted, gather_unlisted);
    take_off_handed(o, handed, o->listed);
    for (o->current = 0; o->current < o->count; o->current++)
        traverse_current(
            o, o->current < o->listed ? take_off_unlisted : take_off,
            take_off);
    if (ia_the_framework != NULL)
        take_off_of_storages(o);
    take_off_of_methods(o);
}

/* -- the autograd graph's references ------------------------------------- */

typedef struct {
    ia_sink sink; /* first */
    orphans *o;
    struct {
        void *node;
        uint32_t owner; /* the orphan that leads to it, a tensor if one does */
        int shared;     /* another node leads to it */
    } *nodes;
    uint32_t count, capacity;
    uint32_t at; /* the node that is being expanded, or NONE */
    int again;   /* all nodes are known */
    ia_ptrmap seen;
} graph_walk;

/* All of C++ together holds one reference to a tensor's Python object, and to
 * a storage's. */
static int
take_off_of_graph(ia_sink *sink, PyObject *op, ia_edge_kind kind,
                  const char *name, Py_ssize_t index)
{
    orphans *o = ((graph_walk *)sink)->o;
    uint32_t i = ia_ptrmap_get(&o->index, (uintptr_t)op);
    (void)kind, (void)name, (void)index;
    if (i == IA_PTRMAP_NONE || o->items[i].of_graph)
        return 0;
    o->items[i].of_graph = is_tensor(op) || is_storage(op);
    o->items[i].hidden++;
    return take_off(op, o);
}

static PyObject *
current_of(const orphans *o)
{
    return o->items[o->current].op;
}

static int
add_node(ia_sink *sink, void *node, ia_edge_kind kind, const char *name,
         Py_ssize_t index)
{
    graph_walk *g = (graph_walk *)sink;
    (void)kind, (void)name, (void)index;
    if (node == NULL || g->o->failed ||
        ia_bitmap_test(g->o->w->seen, (uintptr_t)node))
        return 0;
    uint32_t known = ia_ptrmap_get(&g->seen, (uintptr_t)node);
    if (known != IA_PTRMAP_NONE) {
        g->nodes[known].shared |= g->at != IA_PTRMAP_NONE;
        if (g->at == IA_PTRMAP_NONE && is_tensor(current_of(g->o)))
            g->nodes[known].owner = g->o->current;
        return 0;
    }
    if (IA_ROOM(g->nodes, g->capacity, g->count + 1) < 0) {
        g->o->failed = 1;
        return 0;
    }
    if (ia_ptrmap_set(&g->seen, (uintptr_t)node, g->count) < 0)
        g->o->failed = 1;
    g->nodes[g->count].node = node;
    g->nodes[g->count].shared = g->at != IA_PTRMAP_NONE;
    g->nodes[g->count++].owner = g->o->current;
    return 0;
}

typedef int (*object_visitor)(ia_sink *, PyObject *, ia_edge_kind,
                              const char *, Py_ssize_t);

/* The graphs behind all orphans, or behind those that are spared; `twice`:
 * what the nodes hold is told once more when all of them are known. */
static void
walk_graphs(orphans *o, int spared_only, object_visitor visit, int twice)
{
    graph_walk g = {.sink = {visit, add_node, ia_pass_storage, NULL},
                    .o = o,
                    .at = IA_PTRMAP_NONE};
    for (o->current = 0; o->current < o->count; o->current++) {
        PyObject *op = o->items[o->current].op;
        int kind = ia_kind_of(Py_TYPE(op));
        if (kind != IA_KIND_PLAIN && kind < IA_KIND_NDARRAY &&
            (o->items[o->current].spared || !spared_only))
            ia_the_framework->expand_object(op, (ia_kind)kind, &g.sink);
    }
    for (g.at = 0; g.at < g.count && !o->failed; g.at++) {
        o->current = g.nodes[g.at].owner;
        ia_the_framework->expand_node(g.nodes[g.at].node, &g.sink);
    }
    g.again = 1;
    for (g.at = 0; twice && g.at < g.count && !o->failed; g.at++)
        ia_the_framework->expand_node(g.nodes[g.at].node, &g.sink);
    free(g.nodes);
    ia_ptrmap_free(&g.seen);
}

static void
take_off_graph(orphans *o)
{
    walk_graphs(o, 0, take_off_of_graph, 0);
}

/* -- what the collector never frees --------------------------------------- */

/* Runs of the collector that are thought through: custom Functions one behind
 * another go one at each. */
#define MOST_RUNS 64

/* The collector sees through a custom Function's node to its ctx where one
 * tensor alone leads to the node, and nothing in C++ to that tensor. */
static int
is_seen_through(const graph_walk *g, PyObject *op)
{
    return g->at != IA_PTRMAP_NONE &&
           ia_kind_of(Py_TYPE(op)) == IA_KIND_FUNCTION &&
           (!g->again || (!g->nodes[g->at].shared &&
                          !g->o->items[g->nodes[g->at].owner].held));
}

static int
note_held(ia_sink *sink, PyObject *op, ia_edge_kind kind, const char *name,
          Py_ssize_t index)
{
    graph_walk *g = (graph_walk *)sink;
    uint32_t i = ia_ptrmap_get(&g->o->index, (uintptr_t)op);
    (void)kind, (void)name, (void)index;
    if (i != IA_PTRMAP_NONE && !is_seen_through(g, op))
        g->o->items[i].held = 1;
    return 0;
}

static int
is_still_kept(const orphan *one)
{
    return one->spared &&
           (one->unseen > one->hidden || (one->held && one->unseen > 0));
}

/* What is spared because a graph holds it that goes in this run is freed by one
 * of the next.  For ever stays what holds itself through C++, and what hangs on
 * it; where that is not known, nothing does. */
static int
find_forever(orphans *o)
{
    uint32_t before = UINT32_MAX, now = o->count;
    for (int run = 0; o->w->graph && run < MOST_RUNS; run++) {
        for (uint32_t i = 0; i < o->count; i++)
            o->items[i].held = 0;
        walk_graphs(o, 1, note_held, 1);
        before = now;
        now = spare_from(o, is_still_kept);
        if (o->failed || now == UINT32_MAX)
            return -1;
        if (now == before)
            return 0;
    }
    for (uint32_t i = 0; i < o->count; i++)
        o->items[i].spared = 0;
    return 0;
}

/* -- from outside, and on cycles ----------------------------------------- */

static int
seed_outside(ia_walk *w, ia_roots *roots, const orphans *o, int tensors)
{
    ia_object_list list = {0};
    int result = 0;
    for (uint32_t i = 0; result == 0 && i < o->count; i++) {
        PyObject *op = o->items[i].op;
        if (o->items[i].outside > 0 && is_tensor(op) == tensors &&
            !ia_bitmap_test(w->seen, (uintptr_t)op))
            result = ia_object_list_add(&list, op);
    }
    if (result == 0)
        result = ia_walk_seed_crowds(
            w, roots, &list, tensors ? IA_ROOT_NATIVE : IA_ROOT_OUTSIDE);
    free(list.items);
    return result;
}

#define UNSEEN (UINT32_MAX - 1)
#define ON_THE_WAY (UINT32_MAX - 2)

/* How much a member says as the name of its cycle: a call has variables, an
 * object of a class that source makes says more than what it is built of, and
 * more than a tensor. */
static int
says(PyObject *op)
{
    PyTypeObject *type = Py_TYPE(op);
    if (PyFrame_Check(op))
        return 2;
    return !is_tensor(op) && PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) &&
           strchr(type->tp_name, '.') == NULL;
}

/* Whether a cycle goes by the one rather than by the other: not by which the
 * collector lists first, as that changes with its runs, unless they are of one
 * type. */
static int
stands_before(const orphan *one, const orphan *other)
{
    int more = says(one->op) - says(other->op);
    if (more == 0)
        more = strcmp(Py_TYPE(other->op)->tp_name, Py_TYPE(one->op)->tp_name);
    return more != 0 ? more > 0 : one < other;
}

/* The member that the cycle that an orphan is on goes by. */
static uint32_t
first_of_cycle(const orphans *o, uint32_t member)
{
    uint32_t chosen = member;
    for (uint32_t i = o->items[member].before; i != member;
         i = o->items[i].before)
        if (stands_before(&o->items[i], &o->items[chosen]))
            chosen = i;
    return chosen;
}

/* Going back along referrers from an object whose references all come from
 * inside must meet some object twice: that one is on a cycle, and one member
 * stands for it.  NONE where the way back ends at
 * something that only the caller of ours holds.  Each way is followed once:
 * garbage may be one chain.  Owned array, or NULL when memory is short. */
static uint32_t *
find_cycles(const orphans *o)
{
    uint32_t *of = malloc((o->count + 1) * sizeof *of);
    for (uint32_t i = 0; of != NULL && i < o->count; i++)
        of[i] = UNSEEN;
    for (uint32_t start = 0; of != NULL && start < o->count; start++) {
        uint32_t i = start, found = IA_PTRMAP_NONE;
        for (; i != IA_PTRMAP_NONE && of[i] == UNSEEN; i = o->items[i].before)
            of[i] = ON_THE_WAY;
        if (i != IA_PTRMAP_NONE)
            found = of[i] == ON_THE_WAY ? first_of_cycle(o, i) : of[i];
        for (i = start; i != IA_PTRMAP_NONE && of[i] == ON_THE_WAY;
             i = o->items[i].before)
            of[i] = found;
    }
    return of;
}

static int
list_cycles(const ia_walk *w, const orphans *o, const uint32_t *cycle_of,
            int spared, ia_object_list *list)
{
    uint8_t *listed = calloc(o->count + 1, 1);
    int result = listed == NULL ? -1 : 0;
    for (uint32_t i = 0; result == 0 && i < o->count; i++) {
        uint32_t at = cycle_of[i];
        if (at == IA_PTRMAP_NONE || listed[at] ||
            o->items[at].spared != spared ||
            ia_bitmap_test(w->seen, (uintptr_t)o->items[i].op))
            continue;
        listed[at] = 1;
        result = ia_object_list_add(list, o->items[at].op);
    }
    free(listed);
    return result;
}

/* First those that stay for ever: they may hold the others. */
static int
seed_cycles(ia_walk *w, ia_roots *roots, const orphans *o)
{
    uint32_t *cycle_of = find_cycles(o);
    int result = cycle_of == NULL ? -1 : 0;
    for (int spared = 1; result == 0 && spared >= 0; spared--) {
        ia_object_list list = {0};
        uint32_t first = roots->count;
        result = list_cycles(w, o, cycle_of, spared, &list);
        if (result == 0)
            result = ia_walk_seed_crowds(w, roots, &list, IA_ROOT_CYCLE);
        for (; first < roots->count; first++)
            roots->items[first].forever = spared;
        free(list.items);
    }
    free(cycle_of);
    return result;
}

/* What nobody else has is in the caller's hands, and what hangs on it. */
static int
seed_handed(ia_walk *w, ia_roots *roots, const orphans *o,
            const ia_handed *handed)
{
    ia_object_list list = {0};
    int result = 0;
    w->claimed_entries = w->count;
    for (uint32_t i = 0; handed && result == 0 && i < handed->count; i++) {
        PyObject *op = handed->items[i];
        if (ia_ptrmap_get(&o->index, (uintptr_t)op) != IA_PTRMAP_NONE &&
            !ia_bitmap_test(w->seen, (uintptr_t)op))
            result = ia_object_list_add(&list, op);
    }
    if (result == 0)
        result = ia_walk_seed_crowds(w, roots, &list, IA_ROOT_CALLER);
    free(list.items);
    return result;
}

int
ia_walk_unrooted(ia_walk *w, ia_roots *roots, const ia_handed *handed)
{
    orphans o = {.w = w};
    int result = -1;
    ia_each_gc_object(gather, &o);
    if (o.failed)
        goto done;
    take_off_all(&o);
    take_off_handed(&o, handed, 0);
    if (find_spared(&o) < 0)
        goto done;
    take_off_of_unlisted(&o, handed);
    if (w->graph)
        take_off_graph(&o);
    if (o.failed || find_forever(&o) < 0 ||
        seed_outside(w, roots, &o, 0) < 0 ||
        seed_outside(w, roots, &o, 1) < 0 || seed_cycles(w, roots, &o) < 0 ||
        seed_handed(w, roots, &o, handed) < 0)
        goto done;
    result = w->failed ? -1 : 0;
done:
    free(o.items);
    ia_ptrmap_free(&o.index);
    return result;
}
